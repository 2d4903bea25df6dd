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

// Resource returns p's resource of a kind and name as JSON writes it; the same
// bytes for the same content. A key is without its hashes.
func (p *Policy) Resource(k ResourceKind, name string) (value json.RawMessage, ok bool) {
	i := slices.Index(p.Names(k), name)
	if i < 0 {
		return nil, false
	}
	v := p.section(k).Index(i).Interface()
	if key, isKey := v.(Key); isKey {
		v = key.WithoutHashes()
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("schemas: a valid resource cannot be written: " + err.Error())
	}
	return b, true
}

// ResourceTag returns a text that is another when the resource is: of its whole
// content, a key's hashes too, not of where it stands. Empty if there is none.
func (p *Policy) ResourceTag(k ResourceKind, name string) string {
	i := slices.Index(p.Names(k), name)
	if i < 0 {
		return ""
	}
	b, err := json.Marshal(p.section(k).Index(i).Interface())
	if err != nil {
		panic("schemas: a valid resource cannot be written: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
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
// leave the name out. What it is to the rest is not checked: see Check.
//
// Its error is a PolicyErrors, with paths as in the policy that it would have
// made: limits[2].allow[0]. With an error too, the result's Within tells what is
// the resource's own.
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
	d.value(root, item, path)
	e.given = d.given
	switch has := item.Field(0).String(); {
	case has != "" && has != name:
		field, _, _ := strings.Cut(item.Type().Field(0).Tag.Get("json"), ",")
		d.fail(Position{}, childPath(path, field), "is another name than the address has: leave it out, or write "+name)
	default:
		item.Field(0).SetString(name)
	}
	if len(d.errs) > 0 {
		for i := range d.errs {
			d.errs[i].Line, d.errs[i].Column = 0, 0
		}
		return e, d.errs.sorted()
	}
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
}

// Key is the key that was put; nil if the resource is of another kind. What is
// done to it is done to the policy.
func (e *Edited) Key() *Key {
	if e.Kind != ResourceKey {
		return nil
	}
	return &e.Policy.Keys[e.Item]
}

// Check validates the policy, and asks whether this version acts on all that
// the resource says. Its error is a PolicyErrors.
func (e *Edited) Check() error {
	var errs PolicyErrors
	c := checker{policy: e.Policy, given: e.given, report: func(path, message string) {
		errs = append(errs, PolicyError{Path: path, Message: message})
	}}
	c.check()
	e.Policy.eachNotInForce(func(path, message string) {
		if _, ok := e.Within(path); ok {
			errs = append(errs, PolicyError{Path: path, Message: message})
		}
	})
	return errs.sorted()
}

// Within reports whether a path is of the resource itself, and returns it as a
// JSON pointer (RFC 6901) into the resource.
func (e *Edited) Within(path string) (pointer string, ok bool) {
	outer := itemPath(e.Kind.Plural(), e.Item)
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

// jsonNode reads exactly one JSON value.
func jsonNode(text []byte) (*yaml.Node, error) {
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return yamlNode(dec)
}
