package schemas

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder fills a Policy from YAML nodes. It goes on after a mistake, so that
// all are reported together.
type decoder struct {
	doc     *Document
	errs    PolicyErrors
	given   map[string]bool // paths of scalars that the file has, zero or not
	aliases map[*yaml.Node]bool
	values  int
}

func (d *decoder) fail(p Position, path, message string) {
	d.errs = append(d.errs, PolicyError{File: d.doc.Name, Line: max(1, p.Line), Column: max(1, p.Column), Path: path, Message: message})
}

// value decodes n into v, which is settable.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	n, done, ok := d.follow(n, path)
	if !ok {
		return
	}
	defer done()
	if n.Kind == yaml.ScalarNode {
		d.given[path] = true
		if n.ShortTag() == "!!null" {
			d.fail(d.doc.Position(path), path, "has no value: leave it out, or give it "+wanted(v))
			return
		}
	}
	switch p := v.Addr().Interface().(type) {
	case *Duration:
		d.text(n, path, v, p.UnmarshalText)
		return
	case *Window:
		d.text(n, path, v, p.UnmarshalText)
		return
	case *Millis:
		d.text(n, path, v, func(b []byte) (err error) {
			*p, err = ParseMillis(string(b))
			return err
		})
		return
	case *Decimal:
		switch n.ShortTag() {
		case "!!str", "!!int", "!!float":
			*p = Decimal(n.Value)
			if err := p.check(); err != nil {
				d.fail(at(n), path, err.Error())
			}
		default:
			d.wrongType(n, v, path)
		}
		return
	case *Match:
		d.match(n, p, path)
		return
	case *Target:
		p.Weight = DefaultWeight
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	case reflect.Interface:
		if free, ok := d.free(n, path, 0); ok && free != nil {
			v.Set(reflect.ValueOf(free))
		}
	case reflect.String:
		d.text(n, path, v, func(b []byte) error {
			v.SetString(string(b))
			if len(b) == 0 {
				return errors.New("is empty: leave it out, or give it " + wanted(v))
			}
			return nil
		})
	case reflect.Bool:
		b, ok := boolean(n)
		if !ok {
			d.wrongType(n, v, path)
			return
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int32, reflect.Int64:
		i, err := strconv.ParseInt(n.Value, 10, v.Type().Bits())
		switch {
		case n.ShortTag() != "!!int":
			d.wrongType(n, v, path)
		case err != nil || !plainNumber.MatchString(n.Value):
			d.fail(at(n), path, fmt.Sprintf("%s is not a whole number Weir can hold: write decimal digits, such as 64", quote(n.Value)))
		default:
			v.SetInt(i)
		}
	default:
		panic("schemas: a policy has a field of kind " + v.Kind().String())
	}
}

// plainNumber is a number that YAML, JSON and strconv read alike: 017 and 0x1f
// are not.
var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$`)

func boolean(n *yaml.Node) (value, ok bool) {
	value = strings.EqualFold(n.Value, "true")
	return value, n.ShortTag() == "!!bool" && (value || strings.EqualFold(n.Value, "false"))
}

// text reads a scalar that YAML takes for text, or for a time, which it writes
// without quotes.
func (d *decoder) text(n *yaml.Node, path string, v reflect.Value, read func([]byte) error) {
	if tag := n.ShortTag(); n.Kind != yaml.ScalarNode || tag != "!!str" && tag != "!!timestamp" {
		d.wrongType(n, v, path)
		return
	}
	if err := read([]byte(n.Value)); err != nil {
		d.fail(at(n), path, err.Error())
	}
}

func (d *decoder) wrongType(n *yaml.Node, v reflect.Value, path string) {
	message := fmt.Sprintf("is %s: give it %s", found(n), wanted(v))
	if v.Kind() == reflect.String && n.Kind == yaml.ScalarNode {
		message = fmt.Sprintf("is %s: put it in quotes, to make it %s", found(n), wanted(v))
	}
	d.fail(d.doc.Position(path), path, message)
}

// found names what a node is.
func found(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "a boolean"
	case "!!null":
		return "nothing"
	case "!!str", "!!timestamp":
		return "text"
	}
	return "a value tagged " + quote(n.ShortTag())
}

// wanted names what a field takes, with an example.
func wanted(v reflect.Value) string {
	switch v.Interface().(type) {
	case Duration:
		return "a duration, such as 60s"
	case Window:
		return "a window, such as 5/60s"
	case Millis:
		return "a time, such as 2026-11-22T01:00:00Z"
	case Decimal:
		return "an amount, such as 0.045"
	}
	switch v.Kind() {
	case reflect.Pointer:
		return wanted(reflect.Zero(v.Type().Elem()))
	case reflect.Struct:
		return "a mapping, such as {" + strings.Join(fieldNames(v.Type())[:1], "") + ": …}"
	case reflect.Map:
		return "a mapping, such as {key: value}"
	case reflect.Slice:
		_, example, _ := strings.Cut(wanted(reflect.Zero(v.Type().Elem())), "such as ")
		return "a list, such as [" + example + "]"
	case reflect.String:
		return `text, such as "abc"`
	case reflect.Bool:
		return "true or false"
	case reflect.Interface:
		return "a value"
	}
	return "a whole number, such as 64"
}

// fieldNames are the names of a policy struct's fields in a file.
func fieldNames(t reflect.Type) []string {
	if t == reflect.TypeFor[Match]() {
		var names []string
		for _, f := range (&Match{}).matchFields() {
			names = append(names, f.name)
		}
		return append(names, metadataPrefix+"X")
	}
	names := make([]string, t.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return names
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, v, path)
		return
	}
	names := fieldNames(v.Type())
	for _, f := range d.fields(n, path) {
		child := childPath(path, f.key.Value)
		i := slices.Index(names, f.key.Value)
		if i < 0 {
			d.unknown(f.key, child, names)
			continue
		}
		d.place(child, f.key, f.value)
		fv := v.Field(i)
		d.value(f.value, fv, child)
		// What encoding/json would leave out is absent here too, so that a policy
		// reads back from weir.config as it was.
		if k := fv.Kind(); (k == reflect.Slice || k == reflect.Map) && fv.Len() == 0 && strings.HasSuffix(v.Type().Field(i).Tag.Get("json"), ",omitempty") {
			fv.SetZero()
		}
	}
}

func (d *decoder) unknown(key *yaml.Node, path string, names []string) {
	d.fail(at(key), path, fmt.Sprintf("there is no field %s here%s Known: %s", quote(key.Value), DidYouMean(key.Value, names), strings.Join(names, ", ")))
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.wrongType(n, v, path)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		child := itemPath(path, i)
		d.place(child, nil, item)
		d.value(item, v.Index(i), child)
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, v, path)
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, f := range d.fields(n, path) {
		child := childPath(path, f.key.Value)
		d.place(child, f.key, f.value)
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(f.value, item, child)
		v.SetMapIndex(reflect.ValueOf(f.key.Value), item)
	}
}

// match reads fields that are a value or a list of values.
func (d *decoder) match(n *yaml.Node, m *Match, path string) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, reflect.ValueOf(m).Elem(), path)
		return
	}
	names := fieldNames(reflect.TypeFor[Match]())
	for _, f := range d.fields(n, path) {
		child := childPath(path, f.key.Value)
		values, key, ok := m.field(f.key.Value)
		if !ok {
			d.unknown(f.key, child, names)
			continue
		}
		d.place(child, f.key, f.value)
		var list []string
		target, done, ok := d.follow(f.value, child)
		if !ok {
			continue
		}
		if target.Kind == yaml.SequenceNode {
			d.list(target, reflect.ValueOf(&list).Elem(), child)
		} else {
			list = make([]string, 1)
			d.value(target, reflect.ValueOf(list).Index(0), child)
		}
		done()
		if values != nil {
			*values = list
			continue
		}
		if m.Metadata == nil {
			m.Metadata = map[string][]string{}
		}
		m.Metadata[key] = list
	}
}

// free reads a value of settings into what encoding/json would make of it.
func (d *decoder) free(n *yaml.Node, path string, depth int) (any, bool) {
	n, done, ok := d.follow(n, path)
	if !ok {
		return nil, false
	}
	defer done()
	if depth > maxFreeDepth {
		d.fail(at(n), path, "settings are nested more than 32 deep")
		return nil, false
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for _, f := range d.fields(n, path) {
			child := childPath(path, f.key.Value)
			d.place(child, f.key, f.value)
			if v, ok := d.free(f.value, child, depth+1); ok {
				out[f.key.Value] = v
			}
		}
		return out, true
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for i, item := range n.Content {
			child := itemPath(path, i)
			d.place(child, nil, item)
			if v, ok := d.free(item, child, depth+1); ok {
				out = append(out, v)
			}
		}
		return out, true
	}
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return n.Value, true
	case "!!bool":
		if b, ok := boolean(n); ok {
			return b, true
		}
	case "!!int", "!!float":
		// JSON's numbers are binary floats; an account number must not lose digits.
		f, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || math.IsInf(f, 0) || !plainNumber.MatchString(n.Value) || n.ShortTag() == "!!int" && math.Abs(f) > maxExact {
			d.fail(at(n), path, "is a number that Weir cannot keep exactly: put it in quotes to keep its text")
			return nil, false
		}
		return f, true
	case "!!null":
		d.fail(d.doc.Position(path), path, "has no value: leave it out, or give it one")
		return nil, false
	}
	d.fail(at(n), path, fmt.Sprintf("is %s: give it text, a number, true or false, a list or a mapping", found(n)))
	return nil, false
}
