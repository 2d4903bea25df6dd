package schemas

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func parsed(t *testing.T, text string) *Policy {
	t.Helper()
	doc, err := ParsePolicy("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &doc.Policy
}

func TestDiffPolicy(t *testing.T) {
	const providers = "providers:\n  - {name: a, type: simulated, channels: [sms], settings: {latency: 1ms, x: {deep: 1}}}\n  - {name: b, type: simulated, channels: [sms]}\n"
	for _, c := range []struct {
		name, old, next string
		want            []string
	}{
		{"the same", providers, providers, nil},
		{"from nothing", "", providers, []string{"+ provider a", "+ provider b"}},
		{"to nothing", providers, "", []string{"- provider a", "- provider b"}},
		{"order that means nothing", "classes: [{name: a}, {name: b}]", "classes: [{name: b}, {name: a}]", nil},
		{"a window", "limits: [{name: verify, per: [recipient], allow: [1/60s]}]", "limits: [{name: verify, per: [recipient], allow: [2/1m]}]",
			[]string{"~ limit verify  allow: 1/60s → 2/60s"}},
		{"another spelling", "limits: [{name: verify, per: [recipient], allow: [1/60s]}]", "limits: [{name: verify, per: [recipient], allow: [1/1m]}]", nil},
		{"several fields", "limits: [{name: v, per: [recipient], match: {class: a}, allow: [1/60s]}]",
			"limits: [{name: v, per: [recipient, class], match: {class: [a, b]}, allow: [1/60s, 5/1h], mode: off}]",
			[]string{"~ limit v  allow: 1/60s → [1/60s, 5/1h], match.class: a → [a, b], mode: unset → off, per: recipient → [recipient, class]"}},
		{"no retries is not the default", "classes: [{name: a}]", "classes: [{name: a, retries: []}]", []string{"~ class a  retries: unset → []"}},
		{"a setting", providers, strings.Replace(providers, "deep: 1", "deep: 2", 1), []string{"~ provider a  settings.x.deep: 1 → 2"}},
		{"text that could be taken for more", "tenants: [{name: a}]\ntemplates: [{name: t, channel: sms, body: \"a, b\"}]", "tenants: [{name: a}]\ntemplates: [{name: t, channel: sms, body: \"unset\"}]",
			[]string{`~ template t  body: "a, b" → "unset"`}},
		{"kinds in order, what goes last", "limits: [{name: x, per: [recipient], allow: [1/1s]}]\nclasses: [{name: a}]", "limits: [{name: y, per: [recipient], allow: [1/1s]}]\nclasses: [{name: b}]",
			[]string{"+ limit y", "- limit x", "+ class b", "- class a"}},
		{"one route moves", providers + "routes: [{name: x, to: [{provider: a}]}, {name: y, to: [{provider: a}]}, {name: z, to: [{provider: a}]}]",
			providers + "routes: [{name: z, to: [{provider: a}]}, {name: x, to: [{provider: a}]}, {name: y, to: [{provider: b}]}]",
			[]string{"~ route z  position: 3 → 1", "~ route y  to: [{provider: a, weight: 1}] → [{provider: b, weight: 1}]"}},
		{"a route before others moves none", providers + "routes: [{name: x, to: [{provider: a}]}]", providers + "routes: [{name: w, to: [{provider: a}]}, {name: x, to: [{provider: a}]}]",
			[]string{"+ route w"}},
		{"mailboxes", "", "mailboxes: [{domains: [gmail.com], ignore: [dots]}]", []string{"~ setting mailboxes  mailboxes: unset → [{domains: gmail.com, ignore: dots}]"}},
		{"the same mailboxes", "mailboxes: [{domains: [gmail.com], ignore: [dots]}]", "mailboxes: [{domains: [gmail.com], ignore: [dots]}]", nil},
		{"no mailboxes any more", "mailboxes: [{domains: [gmail.com], ignore: [dots]}]", "mailboxes: []", []string{"~ setting mailboxes  mailboxes: [{domains: gmail.com, ignore: dots}] → unset"}},
		{"rates", "tenants: [{name: a, rates: {write: 5/1s, query: 9/1s}}]", "tenants: [{name: a, rates: {write: 5/1000ms, query: 9/2s, batch: 'bucket 1 refill 1/m'}, smooth: true}]",
			[]string{"~ tenant a  rates.batch: unset → bucket 1 refill 1/m, rates.query: 9/1s → 9/2s, smooth: unset → true"}},
	} {
		changes := DiffPolicy(parsed(t, c.old), parsed(t, c.next))
		var got []string
		for _, change := range changes {
			got = append(got, change.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

func TestChangeAsJSON(t *testing.T) {
	got, err := json.Marshal(DiffPolicy(parsed(t, "limits: [{name: v, per: [recipient], allow: [1/60s]}]"), parsed(t, "limits: [{name: v, per: [recipient], allow: [2/60s]}]\nclasses: [{name: a}]")))
	const want = `[{"op":"change","kind":"limit","name":"v","fields":[{"field":"allow","old":["1/60s"],"new":["2/60s"]}]},{"op":"add","kind":"class","name":"a"}]`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

// The kinds name Policy's fields, and each resource begins with its name.
func TestResourceKindsAreThePolicysFields(t *testing.T) {
	var p Policy
	if b, err := json.Marshal(p); err != nil || string(b) != "{}" {
		t.Fatal(string(b), err)
	}
	for _, k := range ResourceKinds {
		list := p.section(k)
		if tag := list.Type().Elem().Field(0).Tag.Get("json"); tag != "name" && tag != "topic" {
			t.Errorf("%s: the first field is %s", k, tag)
		}
		for _, word := range []string{string(k), k.Plural()} {
			if got, ok := ParseResourceKind(word); !ok || got != k {
				t.Errorf("%s reads as %q", word, got)
			}
		}
	}
	if got := fieldNames(reflect.TypeFor[Policy]())[:len(ResourceKinds)]; !slices.EqualFunc(got, ResourceKinds, func(a string, k ResourceKind) bool { return a == k.Plural() }) {
		t.Errorf("the sections are %v", got)
	}
	if _, ok := ParseResourceKind("things"); ok {
		t.Error("there is a kind things")
	}
}

func TestMerge(t *testing.T) {
	base := parsed(t, "classes: [{name: a, priority: urgent}, {name: b}, {name: c}]\ntenants: [{name: x}]")
	over := parsed(t, "classes: [{name: d}, {name: b, priority: bulk}]")
	got := base.Merge(over)
	want := parsed(t, "classes: [{name: d}, {name: b, priority: bulk}, {name: a, priority: urgent}, {name: c}]\ntenants: [{name: x}]")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(over.Classes) != 2 || len(base.Classes) != 3 || base.Classes[1].Priority != "" {
		t.Error("a policy was changed")
	}
	less, found := got.Without(ResourceClass, "b")
	if !found || !slices.Equal(less.Names(ResourceClass), []string{"d", "a", "c"}) || len(got.Classes) != 4 {
		t.Errorf("without b: %v, %v", found, less.Classes)
	}
	if _, found := got.Without(ResourceTenant, "b"); found {
		t.Error("a tenant b was removed")
	}
	if one := got.Only(ResourceClass, "a"); len(one.Classes) != 1 || one.Classes[0].Priority != PriorityUrgent || one.Tenants != nil {
		t.Errorf("only a: %+v", one)
	}
}

func TestMergeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genPolicy(t), genPolicy(t)
		both := a.Merge(b)
		for _, c := range DiffPolicy(b, both) {
			if c.Op != ChangeAdd || slices.Contains(b.Names(c.Kind), c.Name) || !slices.Contains(a.Names(c.Kind), c.Name) {
				t.Fatalf("of what is merged over, the merge makes %s", c)
			}
		}
		for _, c := range DiffPolicy(a, both) {
			if c.Op == ChangeRemove {
				t.Fatalf("the merge loses %s", c)
			}
		}
		if changes := DiffPolicy(both, a.Merge(both)); len(changes) > 0 {
			t.Fatalf("a second merge changes %v", changes)
		}
		if changes := DiffPolicy(a, a); len(changes) > 0 {
			t.Fatalf("a policy differs from itself: %v", changes)
		}
	})
}

func TestParsePolicyOver(t *testing.T) {
	base := parsed(t, `
providers:
  - {name: a, type: simulated, channels: [sms]}
routes:
  - {name: old, match: {channel: sms}, to: [{provider: a}]}
`)
	for _, c := range []struct{ name, text, want string }{
		{"refers to what is in force", "routes: [{name: new, to: [{provider: a}]}]", ""},
		{"a mistake in the file has its place", "routes:\n  - {name: new, to: [{provider: a}, {provider: z}]}", "p.yaml:2:"},
		{"a mistake elsewhere has its name", "providers: [{name: a, type: simulated, channels: [email]}]", "route old: to[0].provider (in force, not in p.yaml): "},
		{"two of a name", "routes: [{name: new, to: [{provider: a}]}, {name: new, to: [{provider: a}]}]", "also the name of routes[0]"},
		{"an unknown field", "route: []", "p.yaml:1:1"},
	} {
		doc, err := ParsePolicyOver("p.yaml", []byte(c.text), base)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case c.want != "":
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case !slices.Equal(doc.Policy.Names(ResourceRoute), []string{"new", "old"}) || !slices.Equal(doc.Kept(), []string{"provider a", "route old"}):
			t.Errorf("%s: %v, kept %v", c.name, doc.Policy.Names(ResourceRoute), doc.Kept())
		}
	}
	if _, err := ParsePolicy("p.yaml", []byte("routes: [{name: new, to: [{provider: a}]}]")); err == nil {
		t.Error("a whole file may refer to what it lacks")
	}
}

func TestPolicyYAMLRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPolicy(t)
		out, err := PolicyYAML(p)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := ParsePolicy("p.yaml", out)
		if err != nil {
			t.Fatalf("%s\n%v", out, err)
		}
		if diff := cmp.Diff(*p, doc.Policy); diff != "" {
			t.Fatalf("%s\n%s", out, diff)
		}
	})
}

// Every text of up to four characters that mean something to YAML, or that it
// may not hold.
func TestPolicyYAMLKeepsTexts(t *testing.T) {
	texts := []string{"22:00", "2026-11-22", "no", "null", "~", "- x", "0x1f", "1_000", "1e3", "<<", "!a", "&a", "*a", "@a", "%a", "|", ">", "? a", "[", "---", "...", "a\n---\nb", "a\n...\n"}
	const alphabet = "a \n\t\r#:'\u0085\u00a0\u2028\ufeff\x7f\U0001F600"
	for last, i := []string{""}, 0; i < 4; i++ {
		var longer []string
		for _, s := range last {
			for _, r := range alphabet {
				longer = append(longer, s+string(r))
			}
		}
		texts, last = append(texts, longer...), longer
	}
	p := &Policy{}
	for _, text := range texts {
		p.Templates = append(p.Templates, Template{Name: "a", Channel: ChannelEmail, Subject: "a", Body: text})
	}
	// One file for many: a policy is at most 4 MiB.
	for some := range slices.Chunk(p.Templates, 5000) {
		for i := range some {
			some[i].Name = fmt.Sprintf("t-%d", i)
		}
		out, err := PolicyYAML(&Policy{Templates: some})
		if err != nil {
			t.Fatal(err)
		}
		doc, err := ParsePolicy("p.yaml", out)
		if err != nil {
			lines := strings.SplitN(err.Error(), "\n", 4)
			t.Fatal(strings.Join(lines[:min(3, len(lines))], "\n"))
		}
		for i := range some {
			if got := doc.Policy.Templates[i].Body; got != some[i].Body {
				t.Fatalf("%q reads back as %q", some[i].Body, got)
			}
		}
	}
}

func TestPolicyYAML(t *testing.T) {
	const want = `limits:
  - name: verify
    match: {class: [verify]}
    per: [recipient]
    allow: [1/60s, 5/1h]
providers:
  - name: a
    type: http
    channels: [sms]
    price: {currency: CNY, per_segment: "0.045"}
    settings: {token: '${TOKEN}', url: 'https://a.example/x'}
templates:
  - name: t
    channel: email
    subject: "2026-11-22"
    body: |
      <p>
        {{code}}
      </p>
`
	got, err := PolicyYAML(parsed(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if got, err := PolicyYAML(&Policy{}); err != nil || len(got) != 0 {
		t.Errorf("the empty policy: %q, %v", got, err)
	}
}

// A file without mailboxes keeps those in force, and one with an empty list has none,
// through the JSON of weir.config too.
func TestMergeMailboxes(t *testing.T) {
	base := parsed(t, "mailboxes: [{domains: [gmail.com], ignore: [dots]}]")
	for text, want := range map[string]int{"": 1, "mailboxes: []": 0, "mailboxes: [{domains: [a.example, b.example]}, {domains: [c.example], ignore: [tag]}]": 2} {
		doc, err := ParsePolicyOver("p.yaml", []byte(text), base)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(&doc.Policy)
		if err != nil {
			t.Fatal(err)
		}
		var back Policy
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if len(doc.Policy.Mailboxes) != want || !reflect.DeepEqual(back.Mailboxes, doc.Policy.Mailboxes) {
			t.Errorf("%q over one entry: %v, through JSON %v, want %d entries", text, doc.Policy.Mailboxes, back.Mailboxes, want)
		}
	}
}
