package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/weirhq/weir/ingest/throttle"
	"github.com/weirhq/weir/schemas"
)

// docs/http.md is made from the document, the routes and the problems: this test holds
// it to them, and with -rewrite writes it.
func TestDocsPage(t *testing.T) {
	const file = "../docs/http.md"
	var doc yaml.Node
	if err := yaml.Unmarshal(schemas.OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	p := &page{root: doc.Content[0], routes: make(map[string]route)}
	for _, rt := range (&Server{registry: prometheus.NewRegistry()}).table() {
		p.routes[rt.method+" "+rt.path] = rt
	}
	want := p.render()
	for _, rt := range p.routes {
		if !strings.Contains(want, "### `"+rt.method+" "+rt.path+"`\n") {
			t.Errorf("%s %s is not on the page", rt.method, rt.path)
		}
	}
	for _, k := range kinds {
		if !strings.Contains(want, "| `"+k.code+"` | "+fmt.Sprint(k.status)+" |") {
			t.Errorf("%s is not on the page", k.code)
		}
	}
	if links := strings.Count(want, "](#"); links < 200 {
		t.Errorf("only %d links", links)
	}
	have, err := os.ReadFile(file)
	if err == nil && string(have) == want {
		return
	}
	if !*rewrite {
		t.Fatalf("%s is not as openapi.yaml has it: go test ./ingest -run TestDocsPage -rewrite (%v)", file, err)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// page renders the document as Markdown, in its order.
type page struct {
	root   *yaml.Node
	routes map[string]route
	out    strings.Builder
}

func (p *page) printf(format string, args ...any) { fmt.Fprintf(&p.out, format, args...) }

func (p *page) render() string {
	info := get(p.root, "info")
	p.printf("# The HTTP API\n\n%s\n\n%s\n", text(info, "summary"), text(info, "description"))
	p.printf("This page is made from [schemas/openapi.yaml](../schemas/openapi.yaml), which every server has at `/openapi.yaml`, and a test holds all three to one another. " +
		"How to wait for a decision, what a 429 says and how to repeat a call: [clients.md](clients.md). How often a caller may call: [api-limits.md](api-limits.md).\n")
	tags := get(p.root, "tags")
	for _, tag := range tags.Content {
		name := text(tag, "name")
		p.printf("\n**%s**: %s\n\n| | needs | counted as | |\n|---|---|---|---|\n", name, text(tag, "description"))
		p.operations(name, func(method, path string, op *yaml.Node) {
			rt := p.routes[method+" "+path]
			p.printf("| [`%s %s`](#%s) | %s | %s | %s |\n", method, path, anchor(method+" "+path), scopeText(rt.scope), paceText(rt.pace), text(op, "summary"))
		})
	}
	p.printf("\nA key has one or more of the scopes `send`, `read`, `policy`, `keys` and `operate`; `admin` is the last three. A key acts on its own tenant only. A key of the tenant `default` is the operator's: with `policy`, `keys` and `operate` it acts on all tenants, and with `operate` and `read` it reads the messages of whichever tenant it names ([policy-api.md](policy-api.md#what-a-key-may-do)).\n")
	for _, tag := range tags.Content {
		p.printf("\n## %s\n", strings.ToUpper(text(tag, "name")[:1])+text(tag, "name")[1:])
		p.operations(text(tag, "name"), p.operation)
	}
	p.problems()
	p.types()
	return p.out.String()
}

func scopeText(s scope) string {
	switch s {
	case scopeNone:
		return "no key"
	case scopeAny:
		return "any key"
	case scopeSend, scopeRead, scopePolicy, scopeKeys, scopeOperate:
	}
	return "`" + string(s) + "`"
}

func paceText(k throttle.Kind) string {
	if k == paceNone {
		return ""
	}
	return string(k)
}

func (p *page) operations(tag string, fn func(method, path string, op *yaml.Node)) {
	for path, item := range pairs(get(p.root, "paths")) {
		for method, op := range pairs(item) {
			if get(op, "tags").Content[0].Value == tag {
				fn(strings.ToUpper(method), path, op)
			}
		}
	}
}

func (p *page) operation(method, path string, op *yaml.Node) {
	rt := p.routes[method+" "+path]
	p.printf("\n### `%s %s`\n\n**%s.** ", method, path, text(op, "summary"))
	switch rt.scope {
	case scopeNone:
		p.printf("Needs no key")
	case scopeAny:
		p.printf("Needs a key")
	case scopeSend, scopeRead, scopePolicy, scopeKeys, scopeOperate:
		p.printf("Needs the scope `%s`", rt.scope)
	}
	if rt.pace != paceNone {
		p.printf("; counted as `%s`", rt.pace)
	}
	p.printf(".\n")
	if d := text(op, "description"); d != "" {
		p.printf("\n%s\n", d)
	}
	if params := get(op, "parameters"); params != nil && len(params.Content) > 0 {
		p.printf("\n| parameter | in | type | |\n|---|---|---|---|\n")
		for _, one := range params.Content {
			one = p.follow(one)
			name := "`" + text(one, "name") + "`"
			if text(one, "required") == "true" {
				name += ", required"
			}
			p.printf("| %s | %s | %s | %s |\n", name, text(one, "in"), p.typ(get(one, "schema")), cell(text(one, "description")))
		}
	}
	if body := get(op, "requestBody"); body != nil {
		body = p.follow(body)
		var kinds []string
		for media, content := range pairs(get(body, "content")) {
			kinds = append(kinds, p.typ(get(content, "schema"))+" as `"+media+"`")
		}
		p.printf("\nBody")
		if text(body, "required") != "true" {
			p.printf(", which may be left out")
		}
		p.printf(": %s. %s\n", strings.Join(kinds, ", or "), text(body, "description"))
		for media, content := range pairs(get(body, "content")) {
			if example := get(content, "example"); example != nil && strings.HasSuffix(media, "json") {
				p.printf("\n```json\n%s\n```\n", exampleText(example))
			}
		}
	}
	p.printf("\n| answer | | |\n|---|---|---|\n")
	var order []string
	same := make(map[string][]string) // statuses that are answered alike
	for status, response := range pairs(get(op, "responses")) {
		if status == "default" {
			continue
		}
		response = p.follow(response)
		var bodies, headers []string
		for media, content := range pairs(get(response, "content")) {
			b := p.typ(get(content, "schema"))
			if media != "application/json" && media != "application/problem+json" {
				b = "`" + media + "`: " + b
			}
			bodies = append(bodies, b)
		}
		for name := range pairs(get(response, "headers")) {
			headers = append(headers, "`"+name+"`")
		}
		what := cell(text(response, "description"))
		if len(headers) > 0 {
			what += " Headers: " + strings.Join(headers, ", ") + "."
		}
		row := strings.Join(bodies, "; ") + " | " + what
		if same[row] == nil {
			order = append(order, row)
		}
		same[row] = append(same[row], status)
	}
	for _, row := range order {
		p.printf("| %s | %s |\n", strings.Join(same[row], ", "), row)
	}
}

func (p *page) problems() {
	p.printf("\n## Problems\n\nEvery refusal is a [Problem](#problem), under `/api/` a [LegacyProblem](#legacyproblem). Any call may be answered with any of these that its route's answers allow; "+
		"those of 4xx are not worth repeating as they are, but for 408, 409 and 429; those of 503 are, after `Retry-After`. A problem's `type` is `%s` and the code with hyphens.\n\n| code | status | |\n|---|---|---|\n", problemType)
	all := slices.Clone(kinds)
	slices.SortStableFunc(all, func(a, b kind) int { return a.status - b.status })
	for _, k := range all {
		p.printf("| `%s` | %d | %s |\n", k.code, k.status, k.title)
	}
}

func (p *page) types() {
	p.printf("\n## Types\n\nFields that are not required may be absent.\n")
	for name, schema := range pairs(get(get(p.root, "components"), "schemas")) {
		p.printf("\n### %s\n\n", name)
		if d := text(schema, "description"); d != "" {
			p.printf("%s\n", d)
		}
		if get(schema, "properties") == nil {
			p.printf("\n%s\n", p.typ(schema))
			continue
		}
		p.printf("\n| field | type | |\n|---|---|---|\n")
		p.fields("", schema)
	}
}

// fields writes a line a field; those of objects that have no name follow.
func (p *page) fields(prefix string, schema *yaml.Node) {
	var required []string
	if r := get(schema, "required"); r != nil {
		for _, v := range r.Content {
			required = append(required, v.Value)
		}
	}
	for name, field := range pairs(get(schema, "properties")) {
		label := "`" + prefix + name + "`"
		if slices.Contains(required, name) {
			label += ", required"
		}
		p.printf("| %s | %s | %s |\n", label, p.typ(field), cell(text(field, "description")))
		if get(field, "$ref") != nil {
			continue
		}
		if get(field, "properties") != nil {
			p.fields(prefix+name+".", field)
		}
		if items := get(field, "items"); items != nil && get(items, "properties") != nil {
			p.fields(prefix+name+"[].", items)
		}
	}
}

// follow returns what a reference refers to.
func (p *page) follow(n *yaml.Node) *yaml.Node {
	for get(n, "$ref") != nil {
		at := p.root
		for name := range strings.SplitSeq(strings.TrimPrefix(text(n, "$ref"), "#/"), "/") {
			at = get(at, name)
		}
		n = at
	}
	return n
}

// typ says in a few words what a schema lets pass.
func (p *page) typ(n *yaml.Node) string {
	if n == nil {
		return "anything"
	}
	if ref := text(n, "$ref"); ref != "" {
		parts := strings.Split(strings.TrimPrefix(ref, "#/components/schemas/"), "/")
		if len(parts) > 1 { // a field of another type
			return p.typ(p.follow(n))
		}
		return "[" + parts[0] + "](#" + strings.ToLower(parts[0]) + ")"
	}
	var names []string
	switch t := get(n, "type"); {
	case t == nil:
	case t.Kind == yaml.SequenceNode:
		for _, v := range t.Content {
			names = append(names, v.Value)
		}
	default:
		names = append(names, t.Value)
	}
	out := strings.Join(names, " or ")
	if enum := get(n, "enum"); enum != nil {
		var values []string
		for _, v := range enum.Content {
			values = append(values, "`"+v.Value+"`")
		}
		out = strings.Join(values, " ")
	}
	if c := get(n, "const"); c != nil {
		out = "`" + c.Value + "`"
	}
	if items := get(n, "items"); items != nil {
		out = strings.Replace(out, "array", "list of "+p.typ(items), 1)
	}
	if more := get(n, "additionalProperties"); more != nil && more.Kind == yaml.MappingNode {
		out = strings.Replace(out, "object", "map of "+p.typ(more), 1)
	}
	for _, of := range []string{"oneOf", "anyOf"} {
		if alternatives := get(n, of); alternatives != nil {
			var all []string
			for _, a := range alternatives.Content {
				if t := p.typ(a); !slices.Contains(all, t) && t != "anything" {
					all = append(all, t)
				}
			}
			if out == "" {
				out = strings.Join(all, " or ")
			}
		}
	}
	if out == "" {
		out = "anything"
	}
	for _, k := range []struct{ key, format string }{
		{"format", "%s"}, {"minimum", "from %s"}, {"exclusiveMinimum", "above %s"}, {"maximum", "to %s"}, {"maxLength", "at most %s characters"}, {"maxItems", "at most %s"},
		{"maxProperties", "at most %s"}, {"default", "default `%s`"},
	} {
		if v := get(n, k.key); v != nil && v.Kind == yaml.ScalarNode && v.Value != "" {
			out += ", " + fmt.Sprintf(k.format, v.Value)
		}
	}
	return cell(out)
}

// pairs are a mapping's keys and values in their order.
func pairs(n *yaml.Node) func(yield func(string, *yaml.Node) bool) {
	return func(yield func(string, *yaml.Node) bool) {
		if n == nil {
			return
		}
		for i := 0; i < len(n.Content); i += 2 {
			if !yield(n.Content[i].Value, n.Content[i+1]) {
				return
			}
		}
	}
}

func text(n *yaml.Node, key string) string {
	if v := get(n, key); v != nil && v.Kind == yaml.ScalarNode {
		return strings.TrimSpace(v.Value)
	}
	return ""
}

// cell is a text in a table.
func cell(text string) string {
	return strings.NewReplacer("\n", " ", "|", `\|`).Replace(text)
}

// anchor is where a heading stands, as GitHub has it.
func anchor(heading string) string {
	var out strings.Builder
	for _, c := range strings.ToLower(heading) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			out.WriteRune(c)
		case c == ' ':
			out.WriteByte('-')
		}
	}
	return out.String()
}

func exampleText(n *yaml.Node) string {
	var v any
	if err := n.Decode(&v); err != nil {
		return err.Error()
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	var out bytes.Buffer
	if len(b) < 110 {
		return string(b)
	}
	json.Indent(&out, b, "", "  ")
	return out.String()
}
