package ingest

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirhq/weir/schemas"
)

// Fields that the parts of an OpenAPI 3.1 document may have, of those that ours uses.
var openAPI = map[string]string{
	"document":   "openapi info servers tags security paths components",
	"info":       "title version summary description license",
	"license":    "name identifier",
	"server":     "url description",
	"tag":        "name description",
	"path":       "get put post delete patch parameters",
	"operation":  "operationId security tags summary description parameters requestBody responses deprecated",
	"parameter":  "$ref name in required description schema example style explode",
	"body":       "$ref required description content",
	"media":      "schema example examples x-line",
	"response":   "$ref description headers content",
	"header":     "$ref description required schema example",
	"components": "parameters requestBodies headers securitySchemes responses schemas",
	"security":   "type scheme description",
	"schema":     "$ref description type format enum const default examples example properties patternProperties required additionalProperties propertyNames items minItems maxItems uniqueItems minLength maxLength pattern minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minProperties maxProperties oneOf anyOf allOf not if then else contains readOnly dependentRequired prefixItems contentMediaType title unevaluatedProperties x-line",
}

// The document has no field that OpenAPI does not know: a comma in a text without quotes
// makes one.
func TestDocumentIsOpenAPI(t *testing.T) {
	var doc yaml.Node
	if err := yaml.Unmarshal(schemas.OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	l := &linter{t: t}
	root := doc.Content[0]
	l.fields("", root, "document")
	l.fields("info", get(root, "info"), "info")
	l.fields("info.license", get(get(root, "info"), "license"), "license")
	l.list("servers", get(root, "servers"), func(at string, n *yaml.Node) { l.fields(at, n, "server") })
	tags := make(map[string]bool)
	l.list("tags", get(root, "tags"), func(at string, n *yaml.Node) {
		l.fields(at, n, "tag")
		tags[text(n, "name")] = true
		if text(n, "description") == "" {
			t.Errorf("%s has no description", at)
		}
	})
	ids := make(map[string]bool)
	for path, item := range pairs(get(root, "paths")) {
		l.fields(path, item, "path")
		for method, op := range pairs(item) {
			at := strings.ToUpper(method) + " " + path
			l.fields(at, op, "operation")
			if id := text(op, "operationId"); id == "" || ids[id] {
				t.Errorf("%s: the operationId %q is none, or another's", at, id)
			} else {
				ids[id] = true
			}
			if of := get(op, "tags"); of == nil || len(of.Content) != 1 || !tags[of.Content[0].Value] {
				t.Errorf("%s has no tag that there is", at)
			}
			inPath := make(map[string]bool)
			l.list(at+" parameters", get(op, "parameters"), func(at string, n *yaml.Node) {
				l.parameter(at, n)
				if one := (&page{root: root}).follow(n); text(one, "in") == "path" {
					inPath[text(one, "name")] = true
					if text(one, "required") != "true" {
						t.Errorf("%s is in the path and not required", at)
					}
				}
			})
			for _, name := range regexp.MustCompile(`{(\w+)}`).FindAllStringSubmatch(path, -1) {
				if !inPath[name[1]] {
					t.Errorf("%s: %s is not described", at, name[1])
				}
				delete(inPath, name[1])
			}
			if len(inPath) > 0 {
				t.Errorf("%s: %v are not in the path", at, slices.Collect(maps.Keys(inPath)))
			}
			l.body(at+" body", get(op, "requestBody"))
			for status, n := range pairs(get(op, "responses")) {
				l.response(at+" "+status, n)
			}
		}
	}
	parts := get(root, "components")
	l.fields("components", parts, "components")
	each := func(kind string, fn func(string, *yaml.Node)) {
		for name, n := range pairs(get(parts, kind)) {
			fn(kind+"."+name, n)
		}
	}
	each("parameters", l.parameter)
	each("requestBodies", l.body)
	each("headers", l.header)
	each("responses", l.response)
	each("schemas", l.schema)
	each("securitySchemes", func(at string, n *yaml.Node) { l.fields(at, n, "security") })
	if l.n < 2000 {
		t.Errorf("only %d fields were looked at", l.n)
	}
}

type linter struct {
	t *testing.T
	n int
}

func (l *linter) fields(at string, n *yaml.Node, kind string) {
	known := strings.Fields(openAPI[kind])
	seen := make(map[string]bool)
	for name := range pairs(n) {
		l.n++
		if !slices.Contains(known, name) || seen[name] {
			l.t.Errorf("%s: a %s has no field %q, or has it twice", at, kind, name)
		}
		seen[name] = true
	}
}

func (l *linter) list(at string, n *yaml.Node, fn func(string, *yaml.Node)) {
	if n == nil {
		return
	}
	for i, one := range n.Content {
		fn(fmt.Sprint(at, " ", i), one)
	}
}

func (l *linter) parameter(at string, n *yaml.Node) {
	l.fields(at, n, "parameter")
	l.schema(at, get(n, "schema"))
}

func (l *linter) header(at string, n *yaml.Node) {
	l.fields(at, n, "header")
	l.schema(at, get(n, "schema"))
}

func (l *linter) body(at string, n *yaml.Node) {
	l.fields(at, n, "body")
	l.content(at, get(n, "content"))
}

func (l *linter) response(at string, n *yaml.Node) {
	l.fields(at, n, "response")
	for name, h := range pairs(get(n, "headers")) {
		l.header(at+" "+name, h)
	}
	l.content(at, get(n, "content"))
}

func (l *linter) content(at string, n *yaml.Node) {
	for media, one := range pairs(n) {
		l.fields(at+" "+media, one, "media")
		l.schema(at+" "+media, get(one, "schema"))
	}
}

func (l *linter) schema(at string, n *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return // true, false, or none
	}
	l.fields(at, n, "schema")
	for name, one := range pairs(get(n, "properties")) {
		l.schema(at+"."+name, one)
	}
	for name, one := range pairs(get(n, "patternProperties")) {
		l.schema(at+"."+name, one)
	}
	for _, name := range []string{"items", "additionalProperties", "propertyNames", "not", "if", "then", "else", "contains"} {
		l.schema(at+" "+name, get(n, name))
	}
	for _, name := range []string{"oneOf", "anyOf", "allOf", "prefixItems"} {
		l.list(at+" "+name, get(n, name), l.schema)
	}
}

// Of every route that says which of a query's parameters it does not know, the document has
// those that it does, and no others.
func TestDocumentHasTheParameters(t *testing.T) {
	w := newWorld(t, settings{})
	w.srv.end() // nobody waits
	d := openDocument(t)
	documented := make(map[string][]string)
	all := map[string]bool{"nonsense": true}
	for path, item := range d.at("paths") {
		for method, op := range item.(map[string]any) {
			at := strings.ToUpper(method) + " " + path
			for _, one := range listAt(op, "parameters") {
				if p := d.resolve(one); p["in"] == "query" {
					documented[at] = append(documented[at], p["name"].(string))
					all[p["name"].(string)] = true
				}
			}
		}
	}
	if len(all) < 12 {
		t.Fatalf("only %v", all)
	}
	strict := 0
	for _, rt := range w.srv.table() {
		at := rt.method + " " + rt.path
		path := strings.NewReplacer("{id}", "0192f0c1-2a3b-7c4d-8e5f-60718293a4b5", "{name}", "nobody", "{revision}", "1").Replace(rt.path)
		body := ""
		if rt.method == http.MethodPut {
			body = "{}"
		}
		knows := func(name string) bool {
			c := &http.Client{Timeout: 20 * time.Second}
			req, err := http.NewRequestWithContext(t.Context(), rt.method, "http://"+w.addr+path+"?"+name+"=x", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.Do(req)
			if err != nil { // a stream
				return true
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusBadRequest {
				return true
			}
			text := make([]byte, 4<<10)
			n, _ := resp.Body.Read(text)
			return !strings.Contains(string(text[:n]), `parameter \"`+known(name)+`\" is unknown`)
		}
		if knows("nonsense") {
			if !slices.Contains(lenient, at) {
				t.Errorf("%s does not say that it does not know a parameter", at)
			}
			continue
		}
		if strict++; slices.Contains(lenient, at) {
			t.Errorf("%s is not lenient", at)
		}
		for name := range all {
			if knows(name) != slices.Contains(documented[at], name) {
				t.Errorf("%s: %s is documented: %v, and known: %v", at, name, slices.Contains(documented[at], name), knows(name))
			}
		}
	}
	if strict < 20 {
		t.Errorf("only %d routes say", strict)
	}
}

// lenient are the routes that ignore parameters that they do not know.
var lenient = []string{
	"POST /v1/messages", "POST /v1/messages/batch", "POST /v1/decisions", "GET /v1/session", "POST /v1/session", "DELETE /v1/session", "POST /v1/dlq/redrive",
	// What asks these may add what it likes.
	"GET /healthz", "GET /readyz", "GET /metrics", "GET /openapi.yaml",
	// Providers, too.
	"POST /v1/receipts/{provider}", "GET /v1/receipts/{provider}", "POST /v1/inbound/{provider}", "GET /v1/inbound/{provider}",
	// As the older system does.
	"POST /api/messages/send", "POST /api/messages/batch", "GET /api/messages", "GET /api/queue-monitor", "GET /api/rate-limits", "POST /api/rate-limits",
	"GET /api/rate-limits/{id}", "PUT /api/rate-limits/{id}", "DELETE /api/rate-limits/{id}",
}

func listAt(v any, key string) []any {
	m, _ := v.(map[string]any)
	out, _ := m[key].([]any)
	return out
}

// Every header that the code reads is in the document, and the other way round, but for
// those that HTTP itself, browsers and proxies speak with.
func TestDocumentHasTheHeaders(t *testing.T) {
	d := openDocument(t)
	documented := make(map[string]bool)
	for _, item := range d.at("paths") {
		for _, op := range item.(map[string]any) {
			for _, one := range listAt(op, "parameters") {
				if p := d.resolve(one); p["in"] == "header" {
					documented[http.CanonicalHeaderKey(p["name"].(string))] = true
				}
			}
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := make(map[string]string)
	of := regexp.MustCompile(`(?:r\.Header|\bh)(?:\.Get\(|\.Values\(|\[)"([A-Za-z-]+)"`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range of.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(strings.ToLower(m[1]), "ratelimit") { // these are said
				read[http.CanonicalHeaderKey(m[1])] = file
			}
		}
	}
	read[http.CanonicalHeaderKey(schemas.HeaderTraceParent)] = "produce.go"
	for _, name := range []string{"Authorization", "X-Api-Key", "Content-Type", "Content-Encoding", "Origin", "Sec-Fetch-Site", "X-Forwarded-Proto"} {
		if read[name] == "" {
			t.Errorf("%s is not read any more", name)
		}
		delete(read, name)
	}
	if len(read) < 4 {
		t.Errorf("only %v", read)
	}
	for name, file := range read {
		if !documented[name] {
			t.Errorf("%s reads %s, which is not in the document", file, name)
		}
	}
	for name := range documented {
		if read[name] == "" {
			t.Errorf("%s is in the document, and nothing reads it", name)
		}
	}
}

// seenCodes are the problems' codes that tests have seen in answers.
var seenCodes sync.Map

// unanswered are those that no test of this package sees, and why.
var unanswered = map[string]string{
	policyBusy.code: "each try of an edit must lose to another's: TestEditsOfDifferentEntriesRace is as near as it gets",
}

// TestMain holds the tests to the problems: each is an answer of one of them.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	whole := true
	for _, name := range []string{"test.run", "test.skip", "test.fuzz", "test.list"} {
		whole = whole && flag.Lookup(name).Value.String() == ""
	}
	if code == 0 && whole {
		for _, k := range kinds {
			if _, seen := seenCodes.Load(k.code); seen == (unanswered[k.code] != "") {
				fmt.Printf("FAIL: the problem %s is an answer that a test has seen: %v\n", k.code, seen)
				code = 1
			}
		}
	}
	os.Exit(code)
}
