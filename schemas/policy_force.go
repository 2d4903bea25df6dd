package schemas

import (
	"fmt"
	"reflect"
	"strings"
)

// notInForce is a part of the grammar that this version reads and does not act
// on. Delete its row when it acts.
type notInForce struct {
	path  string         // without indexes: limits[].mode
	value func(any) bool // which values; nil is every value that is set
	say   string         // what is not in force, and what is
}

// The only list of what does not act yet. apply refuses a policy that uses any
// of it, at its line: never silently do nothing.
var notYetInForce = []notInForce{}

// NotYetInForce reports, with positions, everything in the file that this
// version does not act on. Its error is a PolicyErrors.
func (d *Document) NotYetInForce() error {
	var errs PolicyErrors
	d.Policy.eachNotInForce(func(path, message string) {
		errs = append(errs, d.mistake(path, message))
	})
	return errs.sorted()
}

// NotYetInForce is Document.NotYetInForce for a policy without a file.
func (p *Policy) NotYetInForce() error {
	var errs PolicyErrors
	p.eachNotInForce(func(path, message string) {
		errs = append(errs, PolicyError{Path: path, Message: message})
	})
	return errs.sorted()
}

func (p *Policy) eachNotInForce(report func(path, message string)) {
	eachValue(reflect.ValueOf(p).Elem(), "", "", func(path, general string, v any) {
		for _, row := range notYetInForce {
			if row.path == general && (row.value == nil || row.value(v)) {
				report(path, fmt.Sprintf("not yet in force: %s", row.say))
			}
		}
	})
}

// eachValue calls f on every value that is set under v. A list that is empty
// but not nil is set: per: [] says something. general is path without indexes.
func eachValue(v reflect.Value, path, general string, f func(path, general string, v any)) {
	if path != "" {
		f(path, general, v.Interface())
	}
	switch v.Interface().(type) {
	case Window, Match, map[string]any: // nothing under them is a field of its own
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		eachField(v.Elem(), path, general, f)
	case reflect.Struct:
		eachField(v, path, general, f)
	case reflect.Slice:
		for i := range v.Len() {
			eachValue(v.Index(i), itemPath(path, i), general+"[]", f)
		}
	}
}

func eachField(v reflect.Value, path, general string, f func(path, general string, v any)) {
	for i, name := range fieldNames(v.Type()) {
		if fv := v.Field(i); !fv.IsZero() {
			eachValue(fv, childPath(path, name), strings.TrimPrefix(general+"."+name, "."), f)
		}
	}
}
