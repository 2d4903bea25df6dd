package schemas

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

var (
	yamlLine      = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	missingAnchor = regexp.MustCompile(`^unknown anchor '([^']+)' referenced$`)
)

// load returns the root of the only document, or nil if there is none.
func (d *decoder) load(text []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		d.syntax(err, text)
		return nil
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.syntax(err, text)
		return nil
	default:
		d.fail(at(&second), "", "a second document begins here: a policy is one document, so remove the --- and put all under one limits:, classes: and so on")
		return nil
	}
	if len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" {
		return nil
	}
	return doc.Content[0]
}

func (d *decoder) syntax(err error, text []byte) {
	m := yamlLine.FindStringSubmatch(err.Error())
	p := Position{1, 1}
	message := err.Error()
	if m != nil {
		message = message[len(m[0]):]
		if line, err := strconv.Atoi(m[1]); err == nil {
			p.Line = line
		}
	}
	// The parser does not say where an anchor is missing.
	if m := missingAnchor.FindStringSubmatch(message); m != nil {
		if i := bytes.Index(text, []byte("*"+m[1])); i >= 0 {
			p.Line = 1 + bytes.Count(text[:i], []byte("\n"))
			p.Column = 1 + utf8.RuneCount(text[bytes.LastIndexByte(text[:i], '\n')+1:i])
		}
	}
	d.fail(p, "", "not YAML: "+message)
}

// spend counts n values, and reports once that there are too many.
func (d *decoder) spend(n int, where *yaml.Node, path string) bool {
	before := d.values
	d.values += n
	if before <= maxPolicyValues && d.values > maxPolicyValues {
		d.fail(at(where), path, "the policy has more than 1000000 values, counting each use of an anchor: make it smaller")
	}
	return d.values <= maxPolicyValues
}

// follow returns what an alias stands for. It reports an alias that contains
// itself, and too many values; done undoes its bookkeeping.
func (d *decoder) follow(n *yaml.Node, path string) (target *yaml.Node, done func(), ok bool) {
	if !d.spend(1, n, path) {
		return nil, nil, false
	}
	if n.Kind != yaml.AliasNode {
		return n, func() {}, true
	}
	if d.aliases[n.Alias] {
		d.fail(at(n), path, fmt.Sprintf("the anchor %s contains itself", quote(n.Value)))
		return nil, nil, false
	}
	d.aliases[n.Alias] = true
	return n.Alias, func() { delete(d.aliases, n.Alias) }, true
}

func at(n *yaml.Node) Position { return Position{n.Line, n.Column} }

// place remembers where path stands: at its value, or at its key when a list or
// mapping begins on a later line.
func (d *decoder) place(path string, key, value *yaml.Node) {
	p := at(value)
	if key != nil && value.Line > key.Line {
		p = at(key)
	}
	d.doc.positions[path] = p
}

type field struct {
	key, value *yaml.Node
}

// fields returns a mapping's fields in order. Merge keys (<<) give what the
// mapping itself does not have. Duplicates are reported.
func (d *decoder) fields(n *yaml.Node, path string) []field {
	if !d.spend(len(n.Content)/2, n, path) {
		return nil
	}
	var own, merged []field
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.ShortTag() == "!!merge" {
			merged = append(merged, d.merge(value, path)...)
			continue
		}
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			d.fail(at(n.Content[i]), path, "a field's name is text, such as name")
			continue
		}
		if seen[key.Value] {
			d.fail(at(n.Content[i]), childPath(path, key.Value), fmt.Sprintf("%s is there twice: keep one", quote(key.Value)))
			continue
		}
		seen[key.Value] = true
		own = append(own, field{key, value})
	}
	for _, f := range merged {
		if !seen[f.key.Value] {
			seen[f.key.Value] = true
			own = append(own, f)
		}
	}
	return own
}

func (d *decoder) merge(n *yaml.Node, path string) []field {
	target, done, ok := d.follow(n, path)
	if !ok {
		return nil
	}
	defer done()
	switch target.Kind {
	case yaml.MappingNode:
		return d.fields(target, path)
	case yaml.SequenceNode:
		var out []field
		for _, item := range target.Content {
			if item.Kind == yaml.SequenceNode {
				break
			}
			out = append(out, d.merge(item, path)...)
		}
		return out
	}
	d.fail(at(n), path, "<< takes an alias of a mapping, such as <<: *base")
	return nil
}
