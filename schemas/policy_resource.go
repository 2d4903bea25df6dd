package schemas

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Resource is one entry of a policy, as JSON.
type Resource struct {
	Name string
	// Tag is another text when the entry is another: by its whole content, a key's
	// hashes too, and not by where it stands.
	Tag   string
	Value json.RawMessage // the same bytes for the same content; a key's without its hashes
}

// Resources returns p's entries of a kind in the policy's order.
func (p *Policy) Resources(k ResourceKind) []Resource {
	list := p.section(k)
	out := make([]Resource, list.Len())
	for i := range out {
		out[i] = resourceOf(list.Index(i))
	}
	return out
}

// Resource returns p's entry of a kind and name, and whether there is one.
func (p *Policy) Resource(k ResourceKind, name string) (Resource, bool) {
	list := p.section(k)
	for i := range list.Len() {
		if resourceName(list.Index(i)) == name {
			return resourceOf(list.Index(i)), true
		}
	}
	return Resource{}, false
}

func resourceOf(v reflect.Value) Resource {
	whole := mustJSON(v.Interface())
	sum := sha256.Sum256(whole)
	r := Resource{Name: resourceName(v), Tag: hex.EncodeToString(sum[:16]), Value: whole}
	if key, ok := v.Interface().(Key); ok {
		r.Value = mustJSON(key.WithoutHashes())
	}
	return r
}

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		// Only an impossible window or duration, which Validate refuses.
		panic("schemas: a valid resource cannot be written: " + err.Error())
	}
	return b
}

// WithoutHashes returns k as those may see it who may not make another key of
// it.
func (k Key) WithoutHashes() Key {
	k.Hash = ""
	if k.Previous != nil {
		k.Previous = &PreviousKey{ExpiresAt: k.Previous.ExpiresAt}
	}
	return k
}

// WithResource returns p with one resource read from JSON, under the name, in
// place of the one that has it, or else behind all others of its kind; before,
// if it is not empty, names the one that it is to stand before. The body may
// leave the name out, or empty. What it is to the rest is not checked: see Check.
//
// What cannot be read at all is an error here, a PolicyErrors; all else, such as
// an unknown field, is Check's, so that all mistakes are told together.
func (p *Policy) WithResource(k ResourceKind, name string, body []byte, before string) (*Edited, error) {
	e := &Edited{Policy: new(Policy), Kind: k}
	*e.Policy = *p
	list := e.Policy.section(k)
	rest := reflect.Zero(list.Type())
	at := -1
	for i := range list.Len() {
		if resourceName(list.Index(i)) == name {
			at = i
			continue
		}
		rest = reflect.Append(rest, list.Index(i))
	}
	switch {
	case before != "" && before != name:
		names := slices.DeleteFunc(p.Names(k), func(n string) bool { return n == name })
		if at = slices.Index(names, before); at < 0 {
			return e, PolicyErrors{{Path: "", Message: fmt.Sprintf("there is no %s %s to stand before", k, quote(before))}}
		}
	case at < 0:
		at = rest.Len()
	}
	e.Item = at
	path := itemPath(k.Plural(), at)
	d := &decoder{doc: &Document{positions: map[string]Position{}}, aliases: map[*yaml.Node]bool{}, given: map[string]bool{}}
	item := reflect.New(list.Type().Elem()).Elem()
	root, err := jsonNode(body)
	switch {
	case err != nil:
		return e, PolicyErrors{{Path: path, Message: "is not JSON: " + err.Error()}}
	case root.Kind != yaml.MappingNode:
		return e, PolicyErrors{{Path: path, Message: "is no JSON object: write the fields of one " + string(k)}}
	}
	field, _, _ := strings.Cut(item.Type().Field(0).Tag.Get("json"), ",")
	leaveOut(root, field)
	d.value(root, item, path)
	e.given = d.given
	switch has := item.Field(0).String(); {
	case has != "" && has != name:
		d.fail(Position{}, childPath(path, field), "is another name than the address has: leave it out, or write "+name)
	default:
		item.Field(0).SetString(name)
	}
	for i := range d.errs {
		d.errs[i].Line, d.errs[i].Column = 0, 0
	}
	e.unread = d.errs
	out := reflect.AppendSlice(reflect.MakeSlice(list.Type(), 0, rest.Len()+1), rest.Slice(0, at))
	out = reflect.AppendSlice(reflect.Append(out, item), rest.Slice(at, rest.Len()))
	list.Set(out)
	return e, nil
}

// Edited is a policy with one resource put into it.
type Edited struct {
	Policy *Policy
	Kind   ResourceKind
	Item   int // where it stands among its kind
	given  map[string]bool
	unread PolicyErrors // what of the body could not be read
}

// Check tells what of the body could not be read, and validates the policy. Its
// error is a PolicyErrors, with paths as in the policy: limits[2].allow[0].
func (e *Edited) Check() error {
	errs := slices.Clone(e.unread)
	c := checker{policy: e.Policy, given: e.given, report: func(path, message string) {
		if !e.unread.covers(path) {
			errs = append(errs, PolicyError{Path: path, Message: message})
		}
	}}
	c.check()
	return errs.sorted()
}

// Path is where the resource stands: limits[2].
func (e *Edited) Path() string { return itemPath(e.Kind.Plural(), e.Item) }

// Within reports whether a path is of the resource itself, and returns it as a
// JSON pointer (RFC 6901) into the resource.
func (e *Edited) Within(path string) (pointer string, ok bool) {
	outer := e.Path()
	if !within(path, outer) {
		return "", false
	}
	return pathPointer(path[len(outer):]), true
}

// pathPointer makes a JSON pointer of what childPath and itemPath write.
func pathPointer(path string) string {
	var out strings.Builder
	last := ""
	for path != "" {
		var word string
		switch {
		case strings.HasPrefix(path, `["`):
			quoted, err := strconv.QuotedPrefix(path[1:])
			if err != nil {
				return out.String() // of the value around it
			}
			word, _ = strconv.Unquote(quoted)
			path = strings.TrimPrefix(path[1+len(quoted):], "]")
		case path[0] == '[':
			word, path, _ = strings.Cut(path[1:], "]")
		default:
			path = path[1:]
			end := strings.IndexAny(path, ".[")
			// A match's metadata.X is one field, whatever dots X has.
			if last == "match" && strings.HasPrefix(path, metadataPrefix) {
				end = strings.IndexByte(path, '[')
			}
			if end < 0 {
				end = len(path)
			}
			word, path = path[:end], path[end:]
		}
		last = word
		out.WriteByte('/')
		out.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(word))
	}
	return out.String()
}

// leaveOut drops a field that is an empty text: typed clients write the name of
// an entry also where they have not set it.
func leaveOut(mapping *yaml.Node, field string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if v := mapping.Content[i+1]; mapping.Content[i].Value == field && v.ShortTag() == "!!str" && v.Value == "" {
			mapping.Content = slices.Delete(mapping.Content, i, i+2)
			return
		}
	}
}

// jsonNode reads exactly one JSON value.
func jsonNode(text []byte) (*yaml.Node, error) {
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return yamlNode(dec)
}
