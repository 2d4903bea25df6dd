package schemas

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// No text makes the parser panic, every mistake has a position, and what parses
// is the same policy after a trip through weir.config.
func FuzzParsePolicy(f *testing.F) {
	for _, dir := range []string{"good", "bad"} {
		for _, text := range policyFiles(f, dir) {
			f.Add(text)
		}
	}
	f.Add([]byte("a: &a [*a]\n<<: *a"))
	f.Add([]byte("limits: &l\n- <<: [*l, {name: a}]\n  ? [x]\n  : y"))
	f.Add([]byte("\xff\xfe-\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := ParsePolicy("f.yaml", text)
		if err != nil {
			for _, e := range err.(PolicyErrors) {
				if e.Line < 1 || e.Column < 1 || e.Message == "" {
					t.Fatalf("%+v has no position or no message", e)
				}
			}
			return
		}
		reread(t, &doc.Policy)
	})
}

// FuzzParseWindow: one canonical text for each window, and it never panics.
func FuzzParseWindow(f *testing.F) {
	for _, s := range []string{"1/60s", "10/calendar-day", "bucket 10 refill 0.5/s", "bucket 1 refill 1/7s", "999999999/31d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		w, err := ParseWindow(s)
		if err != nil {
			return
		}
		if again, err := ParseWindow(w.String()); err != nil || again != w {
			t.Fatalf("%q is %+v, which prints %q: %+v, %v", s, w, w.String(), again, err)
		}
	})
}

// Small files that grow without end are refused in bounded time and memory.
func TestParsePolicyIsBounded(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("providers:\n- name: a\n  type: simulated\n  channels: [sms]\n  settings:\n    a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&bomb, "    a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10))
	}
	var merges strings.Builder
	merges.WriteString("providers:\n- name: a\n  type: simulated\n  channels: [sms]\n  settings:\n    a0: &a0 {k: v}\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&merges, "    a%d: &a%d {<<: [*a%d, *a%d]}\n", i, i, i-1, i-1)
	}
	for _, c := range []struct{ name, text, want string }{
		{"aliases of aliases", bomb.String(), "more than 1000000 values"},
		{"merges of merges", merges.String(), "more than 1000000 values"},
		{"nested settings", "providers: [{name: a, settings: {a: " + strings.Repeat("[", 500) + strings.Repeat("]", 500) + "}}]", "32 deep"},
		{"too large", strings.Repeat("#", MaxPolicyBytes+1), "4 MiB"},
		{"too many mistakes", "limits: [" + strings.Repeat("a, ", 5000) + "]", "more mistakes"},
	} {
		start := time.Now()
		_, err := ParsePolicy("p.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.300v, want %q", c.name, err, c.want)
		}
		if d := time.Since(start); d > 2*time.Minute { // unbounded, it would be years
			t.Errorf("%s took %s", c.name, d)
		}
	}
}

// genPolicy draws a policy that is valid, with every field sometimes set.
func genPolicy(t *rapid.T) *Policy {
	name := rapid.StringMatching(`[a-z0-9-]{1,12}`)
	names := func(label string) []string {
		return rapid.SliceOfNDistinct(name, 0, 3, func(s string) string { return s }).Draw(t, label)
	}
	text := rapid.StringN(1, 20, -1).Filter(func(s string) bool { return !strings.ContainsAny(s, "{}") })
	some := func(label string) bool { return rapid.Bool().Draw(t, label) }
	span := rapid.Custom(func(t *rapid.T) Duration {
		return Duration(time.Duration(rapid.Int64Range(1, MaxWindow.Milliseconds()).Draw(t, "ms")) * time.Millisecond)
	})
	windows := func(kinds ...WindowKind) []Window {
		return rapid.SliceOfNDistinct(genWindow(kinds...).Filter(func(w Window) bool { return w.check() == nil && (w.Kind != WindowRolling || w.N <= MaxRolling) }), 1, 3, func(w Window) string {
			if w.Kind == WindowBucket {
				return "bucket" // a limit has one
			}
			return w.UnitKey()
		}).Draw(t, "windows")
	}
	rate := genWindow(WindowRolling).Filter(func(w Window) bool { return w.check() == nil && w.N <= MaxRateRolling })
	match := func() Match {
		var m Match
		if some("class") {
			m.Class = []string{"verify", "x"}
		}
		if some("metadata") {
			m.Metadata = map[string][]string{"order": {text.Draw(t, "value")}, "a.b": {"1", "2"}}
		}
		if some("prefix") {
			m.Prefix, m.Country = []string{"86"}, []string{"CN"}
		}
		return m
	}
	p := new(Policy)
	for _, n := range names("providers") {
		v := Provider{Name: n, Type: rapid.SampledFrom([]string{"simulated", "external", "none"}).Draw(t, "type"), Channels: []Channel{ChannelSMS, ChannelEmail}}
		if v.Type == "external" && some("more") {
			v.Lanes, v.Price = 4, &Price{Currency: "CNY", PerSegment: "0.045"}
		}
		if v.HasLane() && some("more") {
			v.Pace, v.Concurrency, v.Timeout = windows(WindowRolling), 3, Duration(time.Second)
			v.Smooth, v.Lanes, v.Price = true, 1, &Price{Currency: "CNY", PerSegment: "0.045"}
			v.Settings = map[string]any{"a": text.Draw(t, "setting"), "n": float64(rapid.Int32().Draw(t, "n")), "f": rapid.Float64Range(-1e9, 1e9).Draw(t, "f"),
				"l": []any{true, "x"}, "m": map[string]any{"404": "permanent"}}
			v.Settings["a"] = strings.ReplaceAll(v.Settings["a"].(string), "$", "")
			v.Settings["a"] = strings.ReplaceAll(v.Settings["a"].(string), ":", "")
			if f := v.Settings["f"].(float64); f == math.Trunc(f) {
				v.Settings["f"] = 0.5
			}
		}
		p.Providers = append(p.Providers, v)
	}
	for _, n := range names("limits") {
		l := Limit{Name: n, Match: match(), Per: []string{}, Allow: windows(WindowRolling, WindowCalendar, WindowBucket)}
		if some("recipient") {
			l.Per = []string{"recipient", "prefix:5", "metadata.ip"}
			l.Exempt = []string{"+15005550006"}
			l.Overrides = []Override{{To: "+8613800000000", Allow: windows(WindowRolling)}}
			l.Mode, l.OnRefusal, l.Count, l.Timezone = ModeObserve, RefusalDefer, CountAttempt, "Asia/Shanghai"
		}
		p.Limits = append(p.Limits, l)
	}
	for _, n := range names("classes") {
		c := Class{Name: n, Retries: rapid.SampledFrom([][]Duration{nil, {}, {Duration(time.Second)}}).Draw(t, "retries")}
		if some("more") {
			c.Priority, c.OnUnknown, c.ExpiresAfter, c.StaleAfter = PriorityBulk, UnknownHold, span.Draw(t, "expires"), span.Draw(t, "stale")
			c.Countries, c.QuietHours = []string{"CN"}, &QuietHours{From: "22:00", To: "08:00", Timezone: "recipient"}
		}
		p.Classes = append(p.Classes, c)
	}
	for i, v := range p.Providers {
		p.Routes = append(p.Routes, Route{Name: v.Name, Match: match(), To: []Target{{Provider: v.Name, Weight: rapid.IntRange(1, 100).Draw(t, "weight")}, {Provider: p.Providers[(i+1)%len(p.Providers)].Name}}})
		if len(p.Providers) == 1 {
			p.Routes[i].To = p.Routes[i].To[:1]
		}
	}
	for _, n := range names("templates") {
		p.Templates = append(p.Templates, Template{Name: n, Channel: ChannelEmail, Subject: text.Draw(t, "subject"), Body: text.Draw(t, "body") + "{{code}}"})
	}
	for _, n := range names("tenants") {
		p.Tenants = append(p.Tenants, Tenant{Name: n, DefaultRegion: "CN", Callback: &Callback{URL: "https://a.example", Secret: "${S}", Events: []string{"sent"}},
			Rates: map[string]Window{"batch": windows(WindowBucket)[0]}, Smooth: rapid.Bool().Draw(t, "smooth")})
		p.Keys = append(p.Keys, Key{Name: n, Tenant: n, Scopes: []string{"send"}, Hash: HashSecret(n), Previous: &PreviousKey{Hash: HashSecret(n + "'"), ExpiresAt: 1},
			ExpiresAt: Millis(rapid.Int64Range(1, 4e12).Draw(t, "expires")), Rates: map[string]Window{"write": rate.Draw(t, "rate")}, Smooth: true})
		p.Inputs = append(p.Inputs, Input{Topic: "t." + n, Tenant: n})
	}
	return p
}

// Any valid policy is the same after JSON, as JSON and as the file's form.
func TestPolicyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPolicy(t)
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var again Policy
		if err := json.Unmarshal(b, &again); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(*p, again) {
			t.Fatal(cmp.Diff(*p, again))
		}
		doc, err := ParsePolicy("p.json", yamlSafe(b))
		if err != nil {
			t.Fatalf("%s\n%v", b, err)
		}
		if !reflect.DeepEqual(*p, doc.Policy) {
			t.Fatal(cmp.Diff(*p, doc.Policy))
		}
	})
}

func TestLookups(t *testing.T) {
	hold := Class{Name: "default", OnUnknown: UnknownHold, Retries: []Duration{}}
	p := &Policy{
		Classes:   []Class{{Name: "verify", Priority: PriorityUrgent, ExpiresAfter: Duration(5 * time.Minute)}},
		Providers: []Provider{{Name: "a", Type: "simulated", Channels: []Channel{ChannelSMS}}, {Name: "b", Concurrency: 2, Timeout: 3, Lanes: 4}},
		Templates: []Template{{Name: "t", Channel: ChannelSMS}},
		Tenants:   []Tenant{{Name: "acme", DefaultRegion: "SG"}},
	}
	builtIn := Class{Priority: PriorityNormal, ExpiresAfter: Duration(72 * time.Hour),
		Retries: []Duration{Duration(5 * time.Second), Duration(30 * time.Second), Duration(5 * time.Minute)}, OnUnknown: UnknownResend}
	verify := builtIn
	verify.Name, verify.Priority, verify.ExpiresAfter = "verify", PriorityUrgent, Duration(5*time.Minute)
	if diff := cmp.Diff(verify, p.Class("verify")); diff != "" {
		t.Error(diff)
	}
	nobody := builtIn
	nobody.Name = "nobody"
	if diff := cmp.Diff(nobody, p.Class("nobody")); diff != "" {
		t.Error(diff)
	}
	p.Classes = append(p.Classes, hold)
	if c := p.Class("nobody"); c.Name != "nobody" || c.OnUnknown != UnknownHold || c.Retries == nil || len(c.Retries) != 0 {
		t.Errorf("an undeclared class does not have the declared default's rules: %+v", c)
	}
	if c := p.Class("verify"); c.OnUnknown != UnknownResend {
		t.Errorf("a declared class took rules of default: %+v", c)
	}
	if v, ok := p.Provider("a"); !ok || v.Concurrency != 64 || v.Timeout != Duration(10*time.Second) || v.Lanes != 1 {
		t.Errorf("provider a is %+v, %v", v, ok)
	}
	if v, ok := p.Provider("b"); !ok || v.Concurrency != 2 || v.Timeout != 3 || v.Lanes != 4 {
		t.Errorf("provider b is %+v, %v", v, ok)
	}
	if _, ok := p.Provider("c"); ok {
		t.Error("there is a provider c")
	}
	if _, ok := p.Template("t"); !ok {
		t.Error("there is no template t")
	}
	if _, ok := p.Template("u"); ok {
		t.Error("there is a template u")
	}
	if v, ok := p.Tenant("acme"); !ok || v.DefaultRegion != "SG" {
		t.Errorf("tenant acme is %+v, %v", v, ok)
	}
	if v, ok := p.Tenant("default"); !ok || v.Name != "default" || v.DefaultRegion != "" {
		t.Errorf("tenant default is %+v, %v", v, ok)
	}
	if _, ok := p.Tenant("nobody"); ok {
		t.Error("there is a tenant nobody")
	}
}

// What came as JSON is judged like a file, without positions.
func TestValidateJSON(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"limits":[{"name":"a","per":["recipient"],"allow":["1/60s","2/1m"]}]}`, "limits[0].allow[1]: 2/60s has the window"},
		{`{"routes":[{"name":"a","to":[{"provider":"x"}]}]}`, `routes[0].to[0].provider: there is no provider "x"`},
		{`{"limits":[{"name":"a","allow":["1/60s"]}]}`, "limits[0].per: is missing"},
		{`{"providers":[{"name":"a","type":"simulated","channels":["sms"],"concurrency":-1}]}`, "providers[0].concurrency: -1 is out of range"},
		{`{}`, ""},
	} {
		var p Policy
		if err := json.Unmarshal([]byte(c.text), &p); err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		err := p.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
	var p Policy
	if err := json.Unmarshal([]byte(`{"routes":[{"to":[{"provider":"a"},{"provider":"b","weight":0}]}]}`), &p); err != nil || p.Routes[0].To[0].Weight != DefaultWeight || p.Routes[0].To[1].Weight != 0 {
		t.Errorf("weights are %+v, %v; want 1 where absent and 0 where written", p.Routes, err)
	}
	for _, text := range []string{
		`{"limits":[{"name":"a","match":{"klass":"verify"}}]}`, // to ignore it would match all
		`{"limits":[{"name":"a","match":{"class":5}}]}`,
		`{"limits":[{"name":"a","allow":["1/60"]}]}`,
		`{"classes":[{"name":"a","expires_after":"soon"}]}`,
		`{"providers":[{"name":"a","price":{"per_segment":"x"}}]}`,
	} {
		var p Policy
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s reads as %+v", text, p)
		}
	}
}
