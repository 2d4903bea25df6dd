package ingest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/ingest/legacy"
	"github.com/weirhq/weir/processor/backtest"
	"github.com/weirhq/weir/processor/dlq"
	"github.com/weirhq/weir/schemas"
)

var rewrite = flag.Bool("rewrite", false, "write what the tests compare with")

// document is the OpenAPI document as JSON values, and its schemas compiled.
type document struct {
	root     map[string]any
	compiler *jsonschema.Compiler
}

var theDocument = sync.OnceValues(func() (*document, error) {
	var root map[string]any
	if err := yaml.Unmarshal(schemas.OpenAPI, &root); err != nil {
		return nil, err
	}
	text, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("openapi.json", v); err != nil {
		return nil, err
	}
	return &document{v.(map[string]any), c}, nil
})

func openDocument(t testing.TB) *document {
	t.Helper()
	d, err := theDocument()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// at returns the value at the path, and follows references; nil when there is
// none.
func (d *document) at(path ...string) map[string]any {
	cur := d.root
	for _, p := range path {
		next, _ := cur[p].(map[string]any)
		if ref, ok := next["$ref"].(string); ok {
			next = d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		if cur = next; cur == nil {
			return nil
		}
	}
	return cur
}

func (d *document) compile(t testing.TB, schema map[string]any) *jsonschema.Schema {
	t.Helper()
	ref, ok := schema["$ref"].(string)
	if !ok {
		t.Fatalf("%v is no reference", schema)
	}
	s, err := d.compiler.Compile("openapi.json" + ref)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// operation finds what the document says of a request: of the path itself, if it
// has the method, before one with parameters.
func (d *document) operation(method, path string) map[string]any {
	best := ""
	for template := range d.at("paths") {
		if pathMatches(template, path) && d.at("paths", template, strings.ToLower(method)) != nil && (best == "" || strings.Count(template, "{") < strings.Count(best, "{")) {
			best = template
		}
	}
	if best == "" {
		return nil
	}
	return d.at("paths", best, strings.ToLower(method))
}

func pathMatches(template, path string) bool {
	return slices.EqualFunc(strings.Split(template, "/"), strings.Split(path, "/"), func(t, p string) bool {
		return t == p || strings.HasPrefix(t, "{")
	})
}

// check holds one answer to the document: its status, headers, type and body.
// What no operation describes is a problem.
func (d *document) check(t testing.TB, method, path string, resp *http.Response, body []byte) {
	t.Helper()
	ofLegacy := strings.HasPrefix(strings.ToLower(path), legacyRoot)
	if ofLegacy { // whose paths are read in any case
		path = strings.TrimSuffix(strings.ToLower(path), "/")
	}
	where := fmt.Sprintf("%s %s: %d", method, path, resp.StatusCode)
	if resp.StatusCode == http.StatusNoContent || method == http.MethodHead {
		if len(body) > 0 {
			t.Errorf("%s has a body", where)
		}
		return
	}
	status := fmt.Sprint(resp.StatusCode)
	described := d.at("components", "responses", "Problem")
	if ofLegacy {
		described = d.at("components", "responses", "LegacyProblem")
	}
	if op := d.operation(method, path); op != nil {
		responses := op["responses"].(map[string]any)
		if _, ok := responses[status]; !ok {
			status = "default"
			if resp.StatusCode < 400 {
				t.Errorf("%s is not documented", where)
			}
		}
		response, _ := responses[status].(map[string]any)
		if ref, ok := response["$ref"].(string); ok {
			response = d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		described = response
	}
	for name, h := range d.in(described, "headers") {
		h := h.(map[string]any)
		if v := resp.Header.Get(name); h["required"] == true && v == "" {
			t.Errorf("%s has no %s", where, name)
		}
	}
	if resp.StatusCode == http.StatusNotModified {
		if len(body) > 0 {
			t.Errorf("%s has a body", where)
		}
		return
	}
	mediaType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	content, ok := d.in(described, "content")[mediaType].(map[string]any)
	if _, any := d.in(described, "content")["*/*"]; any && !ok {
		return // whatever a provider expects
	}
	if !ok {
		t.Errorf("%s is %q, which is not documented", where, mediaType)
		return
	}
	if line, ok := content["x-line"].(map[string]any); ok {
		for text := range bytes.Lines(body) {
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			if err == nil {
				err = d.compile(t, line).Validate(v)
			}
			if err != nil {
				t.Errorf("%s: %v\n%s", where, err, text)
			}
		}
		return
	}
	if !strings.HasSuffix(mediaType, "json") {
		return
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Errorf("%s: %v: %s", where, err, body)
		return
	}
	if code, ok := v.(map[string]any); ok && resp.StatusCode >= 400 {
		if text, ok := code["code"].(string); ok {
			seenCodes.Store(text, true)
		}
	}
	if err := d.compile(t, content["schema"].(map[string]any)).Validate(v); err != nil {
		t.Errorf("%s: %v\n%s", where, err, body)
	}
}

func (d *document) in(m map[string]any, key string) map[string]any {
	v, _ := m[key].(map[string]any)
	return v
}

// Every route is in the document, and every operation of the document is a
// route.
func TestDocumentHasTheRoutes(t *testing.T) {
	d := openDocument(t)
	want := make(map[string]bool)
	for path, item := range d.at("paths") {
		for method := range item.(map[string]any) {
			want[strings.ToUpper(method)+" "+path] = true
		}
	}
	have := make(map[string]bool)
	s := &Server{registry: prometheus.NewRegistry()}
	if err := chi.Walk(s.routes(), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		have[method+" "+route] = true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(have) < 6 {
		t.Fatalf("only %v", have)
	}
	for _, rt := range s.table() {
		says, _ := d.operation(rt.method, rt.path)["security"].([]any)
		var has []any
		switch rt.scope {
		case scopeNone:
			has = []any{}
		case scopeAny:
			has = []any{map[string]any{"key": []any{}}}
		case scopeSend, scopeRead, scopePolicy, scopeKeys, scopeOperate:
			has = []any{map[string]any{"key": []any{string(rt.scope)}}}
		}
		responses, _ := d.operation(rt.method, rt.path)["responses"].(map[string]any)
		if _, ok := responses["429"]; !ok && rt.pace != paceNone {
			t.Errorf("%s %s is counted as %s, and the document has no 429", rt.method, rt.path, rt.pace)
		}
		if !reflect.DeepEqual(says, has) {
			t.Errorf("%s %s: security is %v in the document, and %v in the code", rt.method, rt.path, says, has)
		}
	}
	for r := range have {
		if !want[r] {
			t.Errorf("%s is a route and not in the document", r)
		}
	}
	for r := range want {
		if !have[r] {
			t.Errorf("%s is in the document and no route", r)
		}
	}
}

// Every field of the types that are answered is in the document with a
// description, and the other way round; and whatever is required is always
// there.
func TestDocumentHasTheFields(t *testing.T) {
	d := openDocument(t)
	for name, typ := range map[string]reflect.Type{
		"Sent":        reflect.TypeFor[client.Sent](),
		"Suppression": reflect.TypeFor[schemas.Suppression](),

		"SuppressionPage":   reflect.TypeFor[client.SuppressionPage](),
		"ListedSuppression": reflect.TypeFor[client.Suppression](),
		"SuppressRequest":   reflect.TypeFor[client.SuppressRequest](),
		"SuppressionDone":   reflect.TypeFor[client.SuppressionDone](),
		"Imported":          reflect.TypeFor[client.Imported](),
		"ImportResult":      reflect.TypeFor[client.ImportResult](),

		"Quota":          reflect.TypeFor[client.Quota](),
		"Session":        reflect.TypeFor[session](),
		"Done":           reflect.TypeFor[client.Done](),
		"BatchResult":    reflect.TypeFor[client.BatchResult](),
		"BatchResults":   reflect.TypeFor[client.BatchResults](),
		"Message":        reflect.TypeFor[client.Message](),
		"Problem":        reflect.TypeFor[client.Problem](),
		"FieldError":     reflect.TypeFor[client.FieldError](),
		"LimitState":     reflect.TypeFor[client.LimitState](),
		"Resource":       reflect.TypeFor[client.RawResource](),
		"Change":         reflect.TypeFor[schemas.Change](),
		"FieldChange":    reflect.TypeFor[schemas.FieldChange](),
		"State":          reflect.TypeFor[state](),
		"Loss":           reflect.TypeFor[client.Loss](),
		"Warming":        reflect.TypeFor[client.Warming](),
		"Removal":        reflect.TypeFor[client.Removal](),
		"RevisionPage":   reflect.TypeFor[client.RevisionPage](),
		"Revision":       reflect.TypeFor[client.Revision](),
		"PolicyRevision": reflect.TypeFor[client.PolicyRevision](),
		"LimitList":      reflect.TypeFor[client.ResourceList[schemas.Limit]](),

		"MessagePage": reflect.TypeFor[client.MessagePage](),
		"Stats":       reflect.TypeFor[client.Stats](),
		"StatsCount":  reflect.TypeFor[client.StatsCount](),
		"StatsLimit":  reflect.TypeFor[client.StatsLimit](),
		"StatsDay":    reflect.TypeFor[client.StatsDay](),

		"Errors":            reflect.TypeFor[client.Errors](),
		"ErrorCount":        reflect.TypeFor[client.ErrorCount](),
		"Refused":           reflect.TypeFor[client.Refused](),
		"RefusedCount":      reflect.TypeFor[client.RefusedCount](),
		"ProvidersHealth":   reflect.TypeFor[client.ProvidersHealth](),
		"ProviderHealth":    reflect.TypeFor[client.ProviderHealth](),
		"LaneHealth":        reflect.TypeFor[client.LaneHealth](),
		"Proof":             reflect.TypeFor[client.Proof](),
		"Report":            reflect.TypeFor[schemas.Report](),
		"SinkReport":        reflect.TypeFor[schemas.SinkReport](),
		"ClockReport":       reflect.TypeFor[schemas.ClockReport](),
		"AuditReport":       reflect.TypeFor[schemas.AuditReport](),
		"Delays":            reflect.TypeFor[client.Delays](),
		"DelayTier":         reflect.TypeFor[client.DelayTier](),
		"Backlog":           reflect.TypeFor[client.Backlog](),
		"QueueBacklog":      reflect.TypeFor[client.QueueBacklog](),
		"Summary":           reflect.TypeFor[client.Summary](),
		"SummaryCount":      reflect.TypeFor[client.SummaryCount](),
		"LimitTry":          reflect.TypeFor[client.LimitTry](),
		"Backtest":          reflect.TypeFor[backtest.Result](),
		"BacktestTally":     reflect.TypeFor[backtest.Tally](),
		"BacktestLimit":     reflect.TypeFor[backtest.LimitCount](),
		"BacktestClass":     reflect.TypeFor[backtest.ClassCount](),
		"BacktestHour":      reflect.TypeFor[backtest.HourCount](),
		"BacktestRecipient": reflect.TypeFor[backtest.Recipient](),

		"LegacySubmitted":    reflect.TypeFor[legacy.Submitted](),
		"LegacyBatchResults": reflect.TypeFor[legacy.BatchResults](),
		"LegacyTask":         reflect.TypeFor[legacy.Task](),
		"LegacyQueue":        reflect.TypeFor[legacy.Queue](),
		"LegacyRateLimit":    reflect.TypeFor[legacy.RateLimit](),
		"LegacyProblem":      reflect.TypeFor[legacy.Envelope](),

		"DeadLetter":  reflect.TypeFor[dlq.Entry](),
		"DeadLetters": reflect.TypeFor[dlq.Page](),
		"Redriven":    reflect.TypeFor[dlq.Summary](),
	} {
		schema := d.at("components", "schemas", name)
		properties := d.in(schema, "properties")
		required, _ := schema["required"].([]any)
		fields := make(map[string]bool)
		for f := range typ.Fields() {
			field, option, _ := strings.Cut(f.Tag.Get("json"), ",")
			if field == "-" {
				continue
			}
			fields[field] = true
			if d.in(properties, field)["description"] == nil {
				t.Errorf("%s.%s: not in the document, or without a description", name, field)
			}
			// instance is always set, though a client may read a problem without it.
			if always := option == "" || field == "instance"; slices.Contains(required, any(field)) != always {
				t.Errorf("%s.%s: required is %v in the document", name, field, !always)
			}
		}
		for field := range properties {
			if !fields[field] {
				t.Errorf("%s.%s: in the document only", name, field)
			}
		}
	}
	enum := func(path ...string) (out []string) {
		for _, v := range d.at(path...)["enum"].([]any) {
			out = append(out, v.(string))
		}
		return out
	}
	var codes, statuses []string
	for _, k := range kinds {
		codes = append(codes, k.code)
	}
	for _, s := range schemas.Statuses {
		statuses = append(statuses, string(s))
	}
	slices.Sort(codes)
	if got := slices.Sorted(slices.Values(enum("components", "schemas", "Problem", "properties", "code"))); !slices.Equal(got, codes) {
		t.Errorf("the document's codes are %v, the code's %v", got, codes)
	}
	if got := enum("components", "schemas", "Message", "properties", "status"); !slices.Equal(got, statuses) {
		t.Errorf("the document's statuses are %v, the code's %v", got, statuses)
	}
}

// madeFrom stands before the part of the document that is made from the JSON
// Schemas.
const madeFrom = "    # Made from "

// The document is whole in itself, and its request, its event and the entries of
// its policy are those of the JSON Schemas.
func TestDocumentHasTheSchemas(t *testing.T) {
	request, event := readNode(t, "../schemas/request.schema.json"), readNode(t, "../schemas/event.schema.json")
	out := &yaml.Node{Kind: yaml.MappingNode}
	put(out, "SendRequest", overHTTP(request))
	defs := take(event, "$defs")
	put(out, "Event", event)
	for i := 0; i < len(defs.Content); i += 2 {
		put(out, defs.Content[i].Value, defs.Content[i+1])
	}
	policyParts(t, out)
	plain(out)
	var made bytes.Buffer
	enc := yaml.NewEncoder(&made)
	enc.SetIndent(2)
	if err := enc.Encode(out); err != nil {
		t.Fatal(err)
	}
	text := string(schemas.OpenAPI)
	head := strings.Index(text, madeFrom)
	head += strings.Index(text[head:], "\n") + 1
	want := text[:head]
	for line := range strings.Lines(made.String()) {
		want += "    " + line
	}
	if want == text {
		return
	}
	if !*rewrite {
		t.Fatal("openapi.yaml differs from the JSON Schemas: run this test with -rewrite")
	}
	if err := os.WriteFile("../schemas/openapi.yaml", []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// policyParts adds the policy, its entries one by one, and how each is answered.
func policyParts(t *testing.T, out *yaml.Node) {
	t.Helper()
	policy := readNode(t, "../schemas/policy.schema.json")
	take(policy, "$id")
	defs := take(policy, "$defs")
	for _, kind := range schemas.ResourceKinds {
		section := get(get(policy, "properties"), kind.Plural())
		entry := take(section, "items")
		title := strings.ToUpper(string(kind[:1])) + string(kind[1:])
		// The path has the name, and nobody sees a hash.
		drop(entry, get(entry, "properties").Content[0].Value)
		if kind == schemas.ResourceKey {
			drop(entry, "hash")
			drop(get(get(entry, "properties"), "previous"), "hash")
		}
		put(out, title, entry)
		put(section, "items", parse(t, `{$ref: "#/components/schemas/`+title+`"}`))
		put(out, title+"Resource", parse(t, `{description: "`+title+` with its version.", allOf: [{$ref: "#/components/schemas/Resource"}], properties: {value: {$ref: "#/components/schemas/`+title+`"}}}`))
		put(out, title+"List", parse(t, `{description: "All in the policy's order.", type: object, required: [revision, items], properties: {
			revision: {description: "The policy's revision in force.", type: integer, minimum: 0},
			items: {description: "All of them.", type: array, items: {$ref: "#/components/schemas/`+title+`Resource"}}}}`))
	}
	put(out, "Policy", policy)
	for i := 0; i < len(defs.Content); i += 2 {
		if get(out, defs.Content[i].Value) != nil {
			t.Fatalf("two schemas define %s", defs.Content[i].Value)
		}
		put(out, defs.Content[i].Value, defs.Content[i+1])
	}
}

// drop takes a field off the required ones.
func drop(n *yaml.Node, field string) {
	required := get(n, "required")
	before := len(required.Content)
	required.Content = slices.DeleteFunc(required.Content, func(v *yaml.Node) bool { return v.Value == field })
	if len(required.Content) == before {
		panic("not required: " + field)
	}
	if len(required.Content) == 0 {
		take(n, "required")
	}
}

func parse(t *testing.T, text string) *yaml.Node {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "\t", " ")), &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Content[0]
}

func readNode(t *testing.T, file string) *yaml.Node {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	take(doc.Content[0], "$schema")
	take(doc.Content[0], "title")
	take(doc.Content[0], "examples")
	return doc.Content[0]
}

// overHTTP leaves of a request what may stand in a body: it sends, and Weir
// makes the id.
func overHTTP(n *yaml.Node) *yaml.Node {
	take(n, "description")
	take(n, "oneOf")
	put(n, "description", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "A message to send. null means absent; so does empty text."})
	properties := get(n, "properties")
	for _, name := range []string{"action", "id", "at"} {
		take(properties, name)
	}
	required := &yaml.Node{Kind: yaml.SequenceNode}
	for _, name := range []string{"channel", "to"} {
		required.Content = append(required.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name})
		typ := get(get(properties, name), "type")
		*typ = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "string"}
		if enum := get(get(properties, name), "enum"); enum != nil {
			enum.Content = slices.DeleteFunc(enum.Content, func(v *yaml.Node) bool { return v.Tag == "!!null" })
		}
	}
	put(n, "required", required)
	return n
}

func get(n *yaml.Node, key string) *yaml.Node {
	if n == nil {
		return nil
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func take(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			v := n.Content[i+1]
			n.Content = slices.Delete(n.Content, i, i+2)
			return v
		}
	}
	return nil
}

func put(n *yaml.Node, key string, v *yaml.Node) {
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, v)
}

// plain drops JSON's quotes, and points references into the document.
func plain(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.SequenceNode && !slices.ContainsFunc(n.Content, func(v *yaml.Node) bool { return v.Kind != yaml.ScalarNode }) {
		n.Style = yaml.FlowStyle
	}
	if n.Kind == yaml.ScalarNode {
		n.Value = strings.Replace(n.Value, "#/$defs/", "#/components/schemas/", 1)
	}
	for _, c := range n.Content {
		plain(c)
	}
}

// Every reference of the document leads somewhere.
func TestDocumentReferences(t *testing.T) {
	d := openDocument(t)
	n := 0
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				n++
				if d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...) == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, c := range v {
				walk(c)
			}
		case []any:
			for _, c := range v {
				walk(c)
			}
		}
	}
	walk(d.root)
	if n < 20 {
		t.Errorf("only %d references", n)
	}
}
