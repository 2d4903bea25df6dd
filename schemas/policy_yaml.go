package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// PolicyYAML writes p as a file that ParsePolicy reads back to the same policy,
// fields in the order of the documentation; nothing for the empty policy.
func PolicyYAML(p *Policy) ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write policy: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	root, err := yamlNode(dec)
	if err != nil {
		return nil, fmt.Errorf("write policy: %w", err)
	}
	if len(root.Content) == 0 {
		return nil, nil
	}
	root.Style = 0
	for i, list := range root.Content {
		if i%2 == 0 {
			continue
		}
		list.Style = 0
		for _, resource := range list.Content {
			resource.Style = 0 // one field a line
		}
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("write policy: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("write policy: %w", err)
	}
	return out.Bytes(), nil
}

// yamlNode reads one JSON value, in its order. It does not go through YAML's
// own reader, which refuses characters that JSON holds raw.
func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
		if v == '[' {
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		}
		for dec.More() {
			child, err := yamlNode(dec)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		if _, err := dec.Token(); err != nil {
			return nil, err
		}
		return n, nil
	case string:
		return yamlText(v), nil
	case json.Number:
		tag := "!!int"
		if strings.ContainsAny(v.String(), ".eE") {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: v.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}, nil
	case nil: // a policy has none; the decoder says so
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
	return nil, io.ErrUnexpectedEOF // no JSON
}

// yamlText writes a text with lines as lines. The encoder itself puts into
// quotes what would be read back as something else; it misses the merge key, and
// lines of white space around a text.
func yamlText(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	body := strings.TrimSuffix(s, "\n")
	switch {
	case s == "<<", body != strings.TrimSpace(body):
		n.Style = yaml.DoubleQuotedStyle
	case strings.Contains(s, "\n"):
		n.Style = yaml.LiteralStyle
	}
	return n
}
