package schemas

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Document is a policy with where each of its values stands in its file.
type Document struct {
	Name      string // of the file, as given
	Policy    Policy
	positions map[string]Position
	own       map[ResourceKind]int // how many of each kind the file has; the policy's others come from elsewhere
}

// Position returns where the value at path (limits[0].allow[1]) stands; of a
// path that is not in the file, where the value around it stands.
func (d *Document) Position(path string) Position {
	for path != "" {
		if p, ok := d.positions[path]; ok {
			return p
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return Position{Line: 1, Column: 1}
}

// mistake is one at path: with its position, or by the resource's name where
// the file does not have it.
func (d *Document) mistake(path, message string) PolicyError {
	if k, item, _, ok := d.Policy.splitPath(path); ok && d.own != nil && item >= d.own[k] {
		e := PolicyErrors{{Path: path, Message: message}}.Named(&d.Policy)[0]
		e.Path += " (in force, not in " + d.Name + ")"
		return e
	}
	p := d.Position(path)
	return PolicyError{File: d.Name, Line: p.Line, Column: p.Column, Path: path, Message: message}
}

// Located gives the mistakes of a PolicyErrors, which were found in d.Policy
// without its file, their positions. It returns other errors as they are.
func (d *Document) Located(err error) error {
	found, ok := errors.AsType[PolicyErrors](err)
	if !ok {
		return err
	}
	out := make(PolicyErrors, len(found))
	for i, e := range found {
		out[i] = d.mistake(e.Path, e.Message)
	}
	return out.sorted()
}

// Bounds against files that are small and grow: aliases of aliases, and values
// nested without end.
const (
	maxPolicyValues = 1_000_000
	maxFreeDepth    = 32
)

// ParsePolicy reads a policy's YAML (or JSON, which is YAML) strictly and
// checks all of it; name is what errors call the file. Its error is a
// PolicyErrors with every mistake, by position. An empty file is the empty
// policy.
func ParsePolicy(name string, text []byte) (*Document, error) {
	return ParsePolicyOver(name, text, nil)
}

// ParsePolicyOver is ParsePolicy for a file that need not be whole: what it
// lacks is taken from base, as Policy.Merge does, and the result is checked as
// a whole. Mistakes in what the file does not have are reported by name.
func ParsePolicyOver(name string, text []byte, base *Policy) (*Document, error) {
	d := &decoder{
		doc:     &Document{Name: name, positions: map[string]Position{}},
		aliases: map[*yaml.Node]bool{},
		given:   map[string]bool{},
	}
	if len(text) > MaxPolicyBytes {
		d.fail(Position{1, 1}, "", fmt.Sprintf("the file has %d bytes; a policy has at most 4 MiB", len(text)))
		return nil, d.errs.sorted()
	}
	root := d.load(text)
	if root != nil {
		d.value(root, reflect.ValueOf(&d.doc.Policy).Elem(), "")
	}
	if base != nil {
		d.doc.own = map[ResourceKind]int{}
		for _, k := range ResourceKinds {
			d.doc.own[k] = d.doc.Policy.section(k).Len()
		}
		d.doc.Policy = *base.Merge(&d.doc.Policy)
	}
	broken := slices.Clone(d.errs)
	c := checker{policy: &d.doc.Policy, given: d.given, report: func(path, message string) {
		if !broken.covers(path) {
			d.errs = append(d.errs, d.doc.mistake(path, message))
		}
	}}
	if len(d.errs) < maxPolicyErrors {
		c.check()
	}
	if err := d.errs.sorted(); err != nil {
		return nil, err
	}
	return d.doc, nil
}
