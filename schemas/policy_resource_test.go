package schemas

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

const resourcesPolicy = `
limits:
  - {name: a, per: [recipient], allow: [1/60s]}
  - {name: b, per: [recipient], allow: [2/60s]}
  - {name: c, per: [recipient], allow: [3/60s]}
providers: [{name: p, type: simulated, channels: [sms, email]}]
routes: [{name: r, match: {channel: sms}, to: [{provider: p}]}]
keys: [{name: k, tenant: default, scopes: [send], hash: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}]
`

func TestWithResourceStands(t *testing.T) {
	const body = `{"per": ["recipient"], "allow": ["9/60s"]}`
	for _, c := range []struct {
		name, put, before string
		want              string
	}{
		{"a new one comes last", "d", "", "a b c d"},
		{"one that is there stays", "b", "", "a b c"},
		{"a new one before another", "d", "b", "a d b c"},
		{"one that is there goes back", "a", "c", "b a c"},
		{"one that is there goes forward", "c", "a", "c a b"},
		{"before itself it stays", "b", "b", "a b c"},
	} {
		p := parsed(t, resourcesPolicy)
		before, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		e, err := p.WithResource(ResourceLimit, c.put, []byte(body), c.before)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := strings.Join(e.Policy.Names(ResourceLimit), " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		l := e.Policy.Limits[e.Item]
		if l.Name != c.put || l.Allow[0].N != 9 {
			t.Errorf("%s: %+v at %d", c.name, l, e.Item)
		}
		if after, _ := json.Marshal(p); string(after) != string(before) {
			t.Errorf("%s: the policy itself was changed", c.name)
		}
	}
}

func TestWithResourcePointers(t *testing.T) {
	const limit = `"per": ["recipient"], "allow": ["1/60s"]`
	for _, c := range []struct {
		name string
		kind ResourceKind
		body string
		want []string // pointer and code; a pointer of "-" is of another resource
	}{
		{"good", ResourceLimit, `{` + limit + `}`, nil},
		{"tabs and other white space", ResourceLimit, "{\n\t" + limit + "\r\n}\n", nil},
		{"with its name", ResourceLimit, `{"name": "b", ` + limit + `}`, nil},
		{"with an empty name", ResourceLimit, `{"name": "", ` + limit + `}`, nil},
		{"another's name", ResourceLimit, `{"name": "x", ` + limit + `}`, []string{"/name bad_value"}},
		{"unknown field", ResourceLimit, `{"alow": 1, ` + limit + `}`, []string{"/alow unknown_field"}},
		{"what a pointer escapes", ResourceLimit, `{"a/b~c.d": 1, ` + limit + `}`, []string{"/a~1b~0c.d unknown_field"}},
		{"quotes in a name", ResourceLimit, `{"a\"]b": 1, ` + limit + `}`, []string{`/a"]b unknown_field`}},
		{"missing", ResourceLimit, `{}`, []string{"/allow required", "/per required"}},
		{"in a list", ResourceLimit, `{"per": [], "allow": ["1/60s", "0/1h"]}`, []string{"/allow/1 bad_value"}},
		{"twice", ResourceLimit, `{` + limit + `, "per": []}`, []string{"/per bad_value"}},
		{"null", ResourceLimit, `{"mode": null, ` + limit + `}`, []string{"/mode bad_value"}},
		{"another type", ResourceLimit, `{"exempt": {"a": 1}, ` + limit + `}`, []string{"/exempt bad_value"}},
		{"metadata", ResourceLimit, `{"match": {"metadata.a.b": []}, ` + limit + `}`, []string{"/match/metadata.a.b bad_value"}},
		{"an item of metadata", ResourceLimit, `{"match": {"metadata.a.b": [""]}, ` + limit + `}`, []string{"/match/metadata.a.b/0 bad_value"}},
		{"a merge key is a name", ResourceLimit, `{"<<": {}, ` + limit + `}`, []string{"/<< unknown_field"}},
		{"settings", ResourceProvider, `{"type": "http", "channels": ["sms"], "settings": {"url": "https://a.example", "x": {"api_token": "hunter2"}}}`, []string{"/settings/x/api_token bad_value"}},
		{"a callback that nobody signs", ResourceTenant, `{"callback": {"url": "https://a.example/hook"}}`, []string{"/callback/secret required"}},
		{"what another needs", ResourceProvider, `{"type": "simulated", "channels": ["email"]}`, []string{"- bad_value"}},
		{"no object", ResourceLimit, `[1]`, []string{" bad_value"}},
		{"no JSON", ResourceLimit, `per: []`, []string{" bad_value"}},
		{"two values", ResourceLimit, `{} {}`, []string{" bad_value"}},
		{"nothing", ResourceLimit, ``, []string{" bad_value"}},
		{"YAML's anchors", ResourceLimit, `{"exempt": &a []}`, []string{" bad_value"}},
		{"a pair of surrogates", ResourceTemplate, `{"channel": "sms", "body": "\ud83d\ude00"}`, nil},
	} {
		p := parsed(t, resourcesPolicy)
		name := map[ResourceKind]string{ResourceLimit: "b", ResourceProvider: "p", ResourceTemplate: "t", ResourceTenant: "acme"}[c.kind]
		e, err := p.WithResource(c.kind, name, []byte(c.body), "")
		if err == nil {
			err = e.Check()
		}
		var got []string
		errs, _ := errors.AsType[PolicyErrors](err)
		for _, one := range errs {
			pointer, ok := e.Within(one.Path)
			if !ok {
				pointer = "-"
			}
			got = append(got, pointer+" "+one.Code())
			if strings.Contains(one.Error(), "hunter2") {
				t.Errorf("%s: a secret is told: %v", c.name, one)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q (%v)", c.name, got, c.want, err)
		}
		if c.name == "a pair of surrogates" && e.Policy.Templates[0].Body != "😀" {
			t.Errorf("%q", e.Policy.Templates[0].Body)
		}
	}
	p := parsed(t, resourcesPolicy)
	if _, err := p.WithResource(ResourceLimit, "d", []byte(`{`+limit+`}`), "x"); err == nil || !strings.Contains(err.Error(), `no limit "x"`) {
		t.Errorf("before nothing: %v", err)
	}
}

func TestResourceShowsNoHash(t *testing.T) {
	p := parsed(t, resourcesPolicy)
	p.Keys[0].Previous = &PreviousKey{Hash: HashSecret("x"), ExpiresAt: MillisOf(time.Unix(1e9, 0))}
	r, ok := p.Resource(ResourceKey, "k")
	if want := `{"name":"k","tenant":"default","scopes":["send"],"previous":{"expires_at":"2001-09-09T01:46:40.000Z"}}`; !ok || string(r.Value) != want {
		t.Errorf("%s", r.Value)
	}
	if p.Keys[0].Hash == "" || p.Keys[0].Previous.Hash == "" {
		t.Error("the policy's own key lost its hash")
	}
	if _, ok := p.Resource(ResourceKey, "x"); ok {
		t.Error("there is none")
	}
	p.Keys[0].Hash = HashSecret("y")
	if all := p.Resources(ResourceKey); len(all) != 1 || all[0].Tag == r.Tag || len(r.Tag) != 32 || string(all[0].Value) != string(r.Value) {
		t.Errorf("tag %q does not tell one hash from another: %+v", r.Tag, all)
	}
	next := parsed(t, resourcesPolicy)
	changes := DiffPolicy(p, next)
	if len(changes) != 1 || strings.Contains(changes[0].String(), "sha256") || !strings.Contains(changes[0].String(), "hash: another") {
		t.Errorf("%v", changes)
	}
}
