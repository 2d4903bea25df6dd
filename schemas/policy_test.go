package schemas

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the goldens of testdata anew")

func policyFiles(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata/policy", dir, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in testdata/policy/%s: %v", dir, err)
	}
	out := map[string][]byte{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(p)] = b
	}
	return out
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestGoodPolicies(t *testing.T) {
	for name, text := range policyFiles(t, "good") {
		t.Run(name, func(t *testing.T) {
			doc, err := ParsePolicy(name, text)
			if err != nil {
				t.Fatal(err)
			}
			reread(t, &doc.Policy)
		})
	}
}

// reread holds a policy to what weir.config makes of it.
func reread(t testing.TB, p *Policy) {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	var again Policy
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatalf("unmarshal %s: %v", b, err)
	}
	if !reflect.DeepEqual(*p, again) {
		t.Fatalf("from JSON it differs (-was +is):\n%s", cmp.Diff(*p, again))
	}
	if err := again.Validate(); err != nil {
		t.Fatalf("validate: %v", err)
	}
	// JSON is YAML: the API's form of a policy is the file's form.
	doc, err := ParsePolicy("again.json", yamlSafe(b))
	if err != nil {
		t.Fatalf("as YAML: %v", err)
	}
	if !reflect.DeepEqual(*p, doc.Policy) {
		t.Fatalf("JSON as YAML differs (-was +is):\n%s", cmp.Diff(*p, doc.Policy))
	}
}

// yamlSafe escapes what JSON may hold raw and YAML may not: DEL, the C1 controls
// with the line break U+0085, and byte order marks.
func yamlSafe(b []byte) []byte {
	var out []byte
	for _, r := range string(b) {
		if r >= 0x7f && r <= 0x9f || r == 0xfeff || r == 0xfffe || r == 0xffff {
			out = fmt.Appendf(out, "\\u%04x", r)
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// One broken file a mistake; its golden is what the user reads.
func TestBadPolicies(t *testing.T) {
	for name, text := range policyFiles(t, "bad") {
		t.Run(name, func(t *testing.T) {
			doc, err := ParsePolicy("policy.yaml", text)
			if err == nil {
				t.Fatalf("it parses: %+v", doc.Policy)
			}
			errs, ok := err.(PolicyErrors)
			if !ok {
				t.Fatalf("%T, want PolicyErrors", err)
			}
			last := Position{}
			for _, e := range errs {
				if e.Line < last.Line || e.Line == last.Line && e.Column < last.Column {
					t.Errorf("%v stands after %v", e, last)
				}
				last = Position{e.Line, e.Column}
				if e.Line < 1 || e.Column < 1 {
					t.Errorf("%v has no position", e)
				}
				if strings.Contains(e.Message, "hunter2") {
					t.Errorf("%v shows a secret", e)
				}
			}
			golden(t, filepath.Join("testdata/policy/bad", strings.TrimSuffix(name, ".yaml")+".golden"), err.Error()+"\n")
		})
	}
}

// A value is found at itself, a block at its key, what is absent at what is
// around it.
func TestPositions(t *testing.T) {
	doc, err := ParsePolicy("p.yaml", []byte("classes:\n  - name: a\n    retries:\n      - 5s\n      - 30s\n    expires_after: 5m\n"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]Position{
		"":                         {1, 1},
		"classes":                  {1, 1},
		"classes[0]":               {2, 5},
		"classes[0].name":          {2, 11},
		"classes[0].retries":       {3, 5},
		"classes[0].retries[1]":    {5, 9},
		"classes[0].expires_after": {6, 20},
		"classes[0].stale_after":   {2, 5},
		"classes[7].name":          {1, 1},
	} {
		if got := doc.Position(path); got != want {
			t.Errorf("%q is at %v, want %v", path, got, want)
		}
	}
	if err := doc.Located(PolicyErrors{{Path: "classes[0].retries[1]", Message: "no topic"}}); err.Error() != "p.yaml:5:9: classes[0].retries[1]: no topic" {
		t.Error(err)
	}
}

// TestAnswersAreNoSecrets: what settings.map of type http names are words of
// a provider's answers, which may sound like secrets.
func TestAnswersAreNoSecrets(t *testing.T) {
	const text = `providers:
  - name: a
    type: http
    channels: [sms]
    settings: {url: "http://x", map: {409: accepted, 2xx: {field: code, values: {0: accepted, true: accepted, invalid_token: transient}}}}
`
	d, err := ParsePolicy("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	values := d.Policy.Providers[0].Settings["map"].(map[string]any)["2xx"].(map[string]any)["values"].(map[string]any)
	for _, k := range []string{"0", "true", "invalid_token"} {
		if values[k] == nil {
			t.Errorf("%q is lost: %v", k, values)
		}
	}
	if _, err := ParsePolicy("p.yaml", []byte(strings.Replace(text, "map:", "token_uri: \"https://a.example/token\", map:", 1))); err != nil {
		t.Errorf("the address that gives tokens out is taken for one: %v", err)
	}
	if _, err := ParsePolicy("p.yaml", []byte(strings.Replace(text, "map:", "headers: {X-Token: abc}, map:", 1))); err == nil {
		t.Error("a secret in plain text is taken")
	}
}
