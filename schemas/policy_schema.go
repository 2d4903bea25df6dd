package schemas

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// PolicySchema is the JSON Schema 2020-12 of a policy, in YAML and in JSON.
//
//go:embed policy.schema.json
var PolicySchema []byte

// policyField is what ExplainField reads of a JSON Schema.
type policyField struct {
	Ref         string                  `json:"$ref"`
	Description string                  `json:"description"`
	Type        string                  `json:"type"`
	Enum        []any                   `json:"enum"`
	Default     json.RawMessage         `json:"default"`
	Examples    []json.RawMessage       `json:"examples"`
	Minimum     *json.Number            `json:"minimum"`
	Maximum     *json.Number            `json:"maximum"`
	Pattern     string                  `json:"pattern"`
	Properties  map[string]*policyField `json:"properties"`
	Patterns    map[string]*policyField `json:"patternProperties"`
	Required    []string                `json:"required"`
	Items       *policyField            `json:"items"`
	AnyOf       []*policyField          `json:"anyOf"`
	OneOf       []*policyField          `json:"oneOf"`
	Defs        map[string]*policyField `json:"$defs"`
}

var policySchemaTree = sync.OnceValues(func() (*policyField, error) {
	root := new(policyField)
	if err := json.Unmarshal(PolicySchema, root); err != nil {
		return nil, fmt.Errorf("read policy schema: %w", err)
	}
	return root, nil
})

// resolve returns what a reference stands for, with the reference's own
// description, default and examples before those of its target.
func (s *policyField) resolve(root *policyField) *policyField {
	name, ok := strings.CutPrefix(s.Ref, "#/$defs/")
	if !ok {
		return s
	}
	target := *root.Defs[name]
	if s.Description != "" {
		target.Description = strings.TrimSuffix(s.Description, " ") + " " + target.Description
	}
	if s.Default != nil {
		target.Default = s.Default
	}
	if s.Examples != nil {
		target.Examples = s.Examples
	}
	return &target
}

// child returns a field of s, or of what s lists; field is its name in the
// schema, metadata.X for any metadata field.
func (s *policyField) child(root *policyField, name string) *policyField {
	if c, ok := s.Properties[name]; ok {
		return c.resolve(root)
	}
	for pattern, c := range s.Patterns {
		if re, err := regexp.Compile(pattern); err == nil && re.MatchString(name) {
			return c.resolve(root)
		}
	}
	return nil
}

var pathIndex = regexp.MustCompile(`\[[0-9]*\]`)

// ExplainField says what a field of a policy is: its description, what it
// takes, whether it must be there, its default, an example, and what stands under
// it. path is limits.allow or
// limits[0].allow; the empty path is the whole policy.
func ExplainField(path string) (string, error) {
	root, err := policySchemaTree()
	if err != nil {
		return "", err
	}
	at, required := root, false
	rest := pathIndex.ReplaceAllString(path, "")
	for walked := ""; rest != ""; {
		fields := at
		if at.Items != nil {
			fields = at.Items.resolve(root)
		}
		name, after, _ := strings.Cut(rest, ".")
		if name == "metadata" && after != "" { // a metadata field's own name may have dots
			name, after = rest, ""
		}
		next := fields.child(root, name)
		if next == nil {
			known := slices.Sorted(maps.Keys(fields.Properties))
			where := "a policy"
			if walked != "" {
				where = walked
			}
			if len(known) == 0 {
				return "", fmt.Errorf("%s has no fields to explain", where)
			}
			return "", fmt.Errorf("%s has no field %s%s Known: %s", where, quote(name), DidYouMean(name, known), strings.Join(known, ", "))
		}
		required = slices.Contains(fields.Required, name)
		at, rest = next, after
		walked = strings.TrimPrefix(walked+"."+name, ".")
	}
	return explanation(root, at, path, required), nil
}

func explanation(root, at *policyField, path string, required bool) string {
	var b strings.Builder
	if path == "" {
		path = "policy"
	}
	fmt.Fprintf(&b, "%s\n\n%s\n", path, at.Description)
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n%-10s %s", label, text)
		}
	}
	line("Type:", at.kind(root))
	if required {
		line("Required:", "yes")
	}
	line("Default:", compact(at.Default))
	line("Allowed:", at.allowed(root))
	if len(at.Examples) > 0 {
		texts := make([]string, len(at.Examples))
		for i, e := range at.Examples {
			texts[i] = compact(e)
		}
		line("Example:", strings.Join(texts, ", "))
	}
	fields := at
	if at.Items != nil {
		fields = at.Items.resolve(root)
	}
	if len(fields.Properties) > 0 {
		names := slices.Sorted(maps.Keys(fields.Properties))
		if len(fields.Patterns) > 0 {
			names = append(names, metadataPrefix+"X")
		}
		line("Fields:", strings.Join(names, ", "))
	}
	b.WriteByte('\n')
	return b.String()
}

// compact writes a value of the schema on one line.
func compact(value json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, value); err != nil {
		return string(value)
	}
	return b.String()
}

// kind names what a field takes.
func (s *policyField) kind(root *policyField) string {
	switch {
	case s.Items != nil:
		return "list of " + cmpKind(s.Items.resolve(root).kind(root))
	case s.Type != "":
		return map[string]string{"object": "mapping", "string": "text", "integer": "whole number", "boolean": "true or false"}[s.Type]
	case len(s.Enum) > 0:
		return "one word"
	case len(s.OneOf) > 0:
		kinds := make([]string, len(s.OneOf))
		for i, o := range s.OneOf {
			kinds[i] = cmpKind(o.kind(root))
		}
		return strings.Join(kinds, ", or ")
	}
	return ""
}

// cmpKind is a kind that may be missing, as a number's is.
func cmpKind(kind string) string {
	if kind == "" {
		return "number"
	}
	return kind
}

// allowed lists the words that a field takes, or its range.
func (s *policyField) allowed(root *policyField) string {
	var words []string
	for _, v := range s.Enum {
		words = append(words, fmt.Sprint(v))
	}
	alternatives := append(slices.Clone(s.AnyOf), s.OneOf...)
	if s.Items != nil {
		items := s.Items.resolve(root)
		switch text := items.allowed(root); {
		case items.Type == "object":
		case s.Items.Ref != "": // the target says it in words
			words = append(words, items.Description)
		case text != "":
			words = append(words, text)
		}
	}
	for _, o := range alternatives {
		if text := o.resolve(root).allowed(root); text != "" && !slices.Contains(words, text) {
			words = append(words, text)
		}
	}
	if s.Minimum != nil {
		r := s.Minimum.String() + " or more"
		if s.Maximum != nil {
			r = s.Minimum.String() + " to " + s.Maximum.String()
		}
		words = append(words, r)
	}
	// A long pattern is for machines; the description says it in words.
	if s.Pattern != "" && len(s.Pattern) <= 40 {
		words = append(words, "/"+s.Pattern+"/")
	}
	return strings.Join(words, ", ")
}
