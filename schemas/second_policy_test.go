package schemas

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/language"
)

// TestSecondPolicy draws policies as values, writes them as YAML in many styles, and compares
// what ParsePolicy makes of the text with what another reader makes of the values: whether
// the policy is refused, and every field. Half of the policies have a mistake or two. A
// policy that is accepted must also be the same when it comes back from weir.config.
//
// Left out: keys, alerts, callbacks, rates of keys and tenants, settings and templates' providers, which no
// audit reads.
func TestSecondPolicy(t *testing.T) {
	policies := 3_000
	if os.Getenv("WEIR_CHAOS") != "" {
		policies = 300_000
	}
	rnd := rand.New(rand.NewPCG(7, 8))
	valid, fields := 0, 0
	for range policies {
		g := &policyDraw{Rand: rnd}
		tree := g.policy()
		if g.IntN(2) == 0 {
			for range 1 + g.IntN(2) {
				g.mutate(&tree)
			}
		}
		fields += len(places(&tree))
		text := g.yaml(tree, "", false)
		want, ok := secondPolicy(tree)
		doc, err := ParsePolicy("p.yaml", []byte(text))
		if (err == nil) != ok {
			t.Fatalf("%s\n%v; the second reader accepts it: %v", text, err, ok)
		}
		if !ok {
			continue
		}
		valid++
		if !reflect.DeepEqual(*want, doc.Policy) {
			t.Fatalf("%s\n%s", text, cmp.Diff(*want, doc.Policy))
		}
		b, err := json.Marshal(&doc.Policy)
		if err != nil {
			t.Fatal(err)
		}
		var recorded Policy
		if err := json.Unmarshal(b, &recorded); err != nil || !reflect.DeepEqual(*want, recorded) {
			t.Fatalf("%s\n%v\n%s", b, err, cmp.Diff(*want, recorded))
		}
		name := g.of("verify", "default", "nobody")
		if got, want := doc.Policy.Class(name), secondClass(want, name); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\nclass %s: %s", text, name, cmp.Diff(want, got))
		}
	}
	if valid < policies/4 || valid > policies*9/10 {
		t.Errorf("%d of %d are valid", valid, policies)
	}
	t.Logf("%d policies with %d values, %d of them valid", policies, fields, valid)
}

// num is a number as it is written.
type num string

type tree = map[string]any

// policyDraw draws policies.
type policyDraw struct {
	*rand.Rand
	providers, templates, tenants []any
}

func (g *policyDraw) of(from ...string) string { return from[g.IntN(len(from))] }

// some draws up to most things, which may be equal.
func (g *policyDraw) some(most int, draw func() any) []any {
	out := []any{}
	for range g.IntN(most + 1) {
		out = append(out, draw())
	}
	return out
}

// distinct draws up to most different ones of the words.
func (g *policyDraw) distinct(most int, words ...string) []any {
	out := []any{}
	for _, i := range g.Perm(len(words))[:min(len(words), g.IntN(most+1))] {
		out = append(out, words[i])
	}
	return out
}

// set sets a field in one policy of four, or always where it is needed.
func (g *policyDraw) set(m tree, name string, value any) {
	if list, ok := value.([]any); ok && len(list) == 0 && g.IntN(10) > 0 {
		return
	}
	if g.IntN(4) == 0 {
		m[name] = value
	}
}

func (g *policyDraw) span() any {
	if g.IntN(100) == 0 {
		return g.of("0s", "0ms", "31d1ms", "745h")
	}
	return g.of("1ms", "500ms", "1s", "60s", "1m", "90s", "1h30m", "4m59s999ms", "24h", "1d", "7d", "31d", "744h")
}

func (g *policyDraw) allow(most int, kinds ...string) []any {
	lengths := []string{"1s", "60s", "1m30s", "1h", "24h", "25h", "7d", "31d", "123ms"}
	out := []any{}
	for _, i := range g.Perm(len(lengths))[:1+g.IntN(most)] {
		n := g.of("1", "3", "10", "100000")
		switch g.of(kinds...) {
		case "rolling":
			out = append(out, n+"/"+lengths[i])
		case "calendar":
			out = append(out, n+"/calendar-"+[]string{"minute", "hour", "day", "month"}[i%4])
		default:
			out = append(out, "bucket "+n+" refill "+g.of("0.5/s", "1/7s", "30/m", "1000/h", "0.125/m"))
		}
	}
	return out
}

func (g *policyDraw) countries() []any {
	return g.some(3, func() any {
		return g.of("CN", "NO", "US", "XK", "TA", string([]byte{'A' + byte(g.IntN(26)), 'A' + byte(g.IntN(26))}))
	})
}

func (g *policyDraw) match(route bool) tree {
	m := tree{}
	one := func(name string, values []any) {
		if len(values) == 0 || g.IntN(4) > 0 {
			return
		}
		if m[name] = values; len(values) == 1 && g.IntN(2) == 0 {
			m[name] = values[0]
		}
	}
	one("class", g.distinct(2, "verify", "a.B:c_d-1", "default"))
	one("country", g.distinct(2, "CN", "NO", "DE"))
	one("prefix", g.distinct(2, "86", "1", "441534567890123"))
	one("metadata."+g.of("order", "a.b", "X_-"), g.some(2, func() any { return g.of("1", "true", "a b", "\u00e9\n", "null") }))
	one("template", g.templates)
	one("tenant", append(g.tenants, "default"))
	if !route {
		one("channel", g.distinct(2, "sms", "email", "push"))
		one("provider", g.providers)
	}
	return m
}

// policy draws a policy, which is mostly valid.
func (g *policyDraw) policy() any {
	p := tree{}
	section := func(name string, most int, draw func(name string) tree, names ...string) {
		list := []any{}
		for _, n := range g.distinct(most, names...) {
			item := draw(n.(string))
			if _, is := item["topic"]; !is {
				item["name"] = n
			}
			list = append(list, item)
		}
		if len(list) > 0 || g.IntN(20) == 0 {
			p[name] = list
		}
	}
	section("providers", 3, func(name string) tree {
		g.providers = append(g.providers, name)
		m := tree{"type": g.of("simulated", "simulated", "external", "none", "twilio", "ses", "fcm", "aliyun-sms")}
		carries := map[string][]string{"twilio": {"sms", "voice"}, "ses": {"email"}, "fcm": {"push"}, "aliyun-sms": {"sms"}}[m["type"].(string)]
		if carries == nil {
			carries = []string{"sms", "voice", "email", "push", "webhook"}
		}
		m["channels"] = g.distinct(3, carries...)
		if len(m["channels"].([]any)) == 0 {
			m["channels"] = []any{carries[0]}
		}
		called := m["type"] != "external" && m["type"] != "none"
		if called {
			if g.IntN(3) == 0 {
				m["pace"] = g.allow(2, "rolling")
				g.set(m, "smooth", g.IntN(2) == 0)
			}
			g.set(m, "concurrency", num(g.of("1", "64", "10000")))
			g.set(m, "timeout", g.of("1ms", "5s", "5m"))
		}
		if m["type"] != "none" && m["pace"] == nil {
			g.set(m, "lanes", num(g.of("1", "2", "128")))
		}
		if g.IntN(4) == 0 {
			m["price"] = tree{"currency": g.of("CNY", "EUR"), g.of("per_segment", "per_message"): g.amount()}
		}
		g.set(m, "legacy_id", num(strconv.Itoa(10*len(g.providers)+g.IntN(3))))
		return m
	}, "a", "b-2", "0", strings.Repeat("x", 64))
	section("tenants", 2, func(name string) tree {
		g.tenants = append(g.tenants, name)
		m := tree{}
		g.set(m, "default_region", g.of("CN", "NO", "GB"))
		g.set(m, "strict", g.IntN(2) == 0)
		g.set(m, "smooth", g.IntN(2) == 0)
		return m
	}, "acme", "default", "t-1")
	section("templates", 2, func(name string) tree {
		g.templates = append(g.templates, name)
		text := func() string {
			return g.of("Hi", "{{code}}", "a {{ b.c-d }} e {{_}}", "{", "}", "{ }", "\u4e2d\u6587 {{code}}\n", " x", "y: z", "- a", "# no", "'")
		}
		m := tree{"channel": g.of("sms", "voice", "email", "push", "webhook"), "body": text()}
		if g.IntN(8) == 0 {
			m["class"] = g.of("default", "verify", "nobody")
		}
		switch m["channel"] {
		case "email", "webhook":
			g.set(m, "subject", text())
			g.set(m, "html", text())
		case "push":
			g.set(m, "title", text())
		}
		return m
	}, "login", "code")
	section("limits", 3, func(name string) tree {
		if g.IntN(6) == 0 { // of the legacy API
			m := tree{"per": []any{}, "allow": []any{g.of("1/1s", "10/1000ms"), "5/60s", "100/1h"}[:g.IntN(4)], "legacy_id": num(strconv.Itoa((len(name)-2)*100 + g.IntN(3)))}
			if len(g.providers) > 0 && g.IntN(2) == 0 {
				m["per"], m["match"] = []any{"provider"}, tree{"provider": g.providers[0]}
			}
			return m
		}
		m := tree{"per": g.distinct(3, "recipient", "mailbox", "tenant", "channel", "class", "template", "content", "provider", "country", "prefix:5", "prefix:15", "metadata.ip", "metadata.a.b")}
		m["allow"] = g.allow(1, "rolling", "calendar", "bucket")
		switch g.IntN(8) {
		case 0, 1, 2:
			m["allow"] = g.allow(4, "rolling")
		case 3: // which may have two buckets, or a unit twice
			m["allow"] = g.allow(3, "rolling", "calendar", "bucket")
		}
		g.set(m, "match", g.match(false))
		g.set(m, "timezone", g.of("UTC", "Asia/Shanghai", "America/Argentina/Buenos_Aires", "Europe/Kyiv"))
		g.set(m, "mode", g.of("enforce", "observe", "off"))
		g.set(m, "on_refusal", g.of("reject", "defer"))
		g.set(m, "count", g.of("message", "attempt", "segments", "cost"))
		g.set(m, "exempt", g.some(3, func() any { return g.someone() }))
		if slices.Contains(m["per"].([]any), "recipient") {
			var overrides []any
			for _, to := range g.some(2, func() any { return g.of("+8613800000000", "ann@example.com", "tok-1", "tok-2", "b@c.example") }) {
				overrides = append(overrides, tree{"to": to, "allow": g.allow(3, "rolling")})
			}
			g.set(m, "overrides", overrides)
		}
		return m
	}, "verify", "l2", "l3")
	section("classes", 3, func(name string) tree {
		m := tree{}
		g.set(m, "priority", g.of("urgent", "normal", "bulk"))
		g.set(m, "expires_after", g.span())
		g.set(m, "stale_after", g.span())
		if g.IntN(4) == 0 {
			m["retries"] = g.some(4, g.span)
		}
		g.set(m, "on_unknown", g.of("resend", "hold"))
		g.set(m, "countries", g.countries())
		if g.IntN(4) == 0 {
			q := tree{"from": g.of("22:00", "00:00", "09:30"), "to": g.of("08:00", "23:59", "21:07", "08:00", "22:00")}
			g.set(q, "timezone", g.of("recipient", "UTC", "Asia/Tokyo"))
			g.set(q, "then", g.of("defer", "reject"))
			m["quiet_hours"] = q
		}
		if g.IntN(4) == 0 {
			m["next_provider_on"] = g.distinct(3, "transient", "throttled", "unknown")
		}
		if name == "default" {
			g.set(m, "unknown", g.of("default", "reject"))
		}
		return m
	}, "verify", "default", "news")
	if len(g.providers) > 0 {
		section("routes", 2, func(string) tree {
			m := tree{"to": []any{}}
			for _, i := range g.Perm(len(g.providers)) {
				to := tree{"provider": g.providers[i]}
				g.set(to, "weight", num(g.of("1", "70", "1000000")))
				m["to"] = append(m["to"].([]any), to)
			}
			g.set(m, "match", g.match(true))
			g.set(m, "failover", []any{g.providers[0]})
			if g.IntN(4) == 0 {
				m["next_provider_on"] = g.distinct(2, "transient", "throttled")
			}
			return m
		}, "r1", "r2")
	}
	section("inputs", 2, func(topic string) tree {
		m := tree{"topic": topic, "tenant": "default"}
		if len(g.tenants) > 0 {
			m["tenant"] = g.tenants[0]
		}
		g.set(m, "strict", g.IntN(2) == 0)
		return m
	}, "acme.sends", "A_b-c", "...")
	g.set(p, "routes_only", g.IntN(2) == 0)
	if g.IntN(4) == 0 {
		p["mailboxes"] = []any{}
		if g.IntN(3) > 0 {
			p["mailboxes"] = []any{tree{"domains": []any{"gmail.com", "googlemail.com"}}, tree{"domains": []any{"xn--bcher-kva.example"}, "ignore": g.of("dots", "tag")}}
			p["mailboxes"].([]any)[1].(tree)["ignore"] = []any{g.of("dots", "tag")}
		}
	}
	return p
}

func (g *policyDraw) amount() any {
	s := g.of("0", "0.045", "1", "9999999999.999999", "12.5")
	if g.IntN(2) == 0 {
		return s
	}
	return num(s)
}

func (g *policyDraw) someone() string {
	return g.of("+15005550006", "+8613800000000", "ann@example.com", "a+b@x.example", "token", "https://example.com/Hook", "https://a@b.example/")
}

// place is where a value is: what reads it and what puts another in its place.
type place struct {
	at  any
	put func(any)
}

// places lists all values of a tree.
func places(root *any) []place {
	out := []place{{*root, func(v any) { *root = v }}}
	for i := 0; i < len(out); i++ {
		switch at := out[i].at.(type) {
		case tree:
			for _, k := range slices.Sorted(maps.Keys(at)) {
				out = append(out, place{at[k], func(v any) { at[k] = v }})
			}
		case []any:
			for j := range at {
				out = append(out, place{at[j], func(v any) { at[j] = v }})
			}
		}
	}
	return out
}

// mutate makes a mistake, mostly.
func (g *policyDraw) mutate(root *any) {
	all := places(root)
	p := all[g.IntN(len(all))]
	switch at := p.at.(type) {
	case tree:
		switch keys := slices.Sorted(maps.Keys(at)); {
		case g.IntN(3) == 0:
			at[g.of("unknown", "Name", "names", "limit", "per", "class", "metadata.", "metadata.a b", "metadata.x", "to", "mode", "weight", "unknown", "match", "overrides", "smooth", "pace", "countries", "legacy_id")] = g.odd(all)
			return
		case g.IntN(2) == 0 && len(keys) > 0:
			delete(at, keys[g.IntN(len(keys))])
			return
		}
	case []any:
		switch g.IntN(4) {
		case 0:
			p.put([]any{})
			return
		case 1:
			p.put(append(slices.Clone(at), g.odd(all)))
			return
		case 2:
			if len(at) > 0 {
				p.put(append(slices.Clone(at), at[g.IntN(len(at))]))
				return
			}
		}
	case string: // an edit
		if g.IntN(2) == 0 && at != "" {
			i := g.IntN(len([]rune(at)))
			r := []rune(at)
			p.put(string(r[:i]) + g.of("", " ", "0", "9", "A", "z", "-", ".", ":", "/", "+", "{{", "}}", "@", "\n", "\u00e9") + string(r[i+g.IntN(2):]))
			return
		}
	}
	p.put(g.odd(all))
}

// odd is a value that hardly fits.
func (g *policyDraw) odd(all []place) any {
	if g.IntN(3) == 0 {
		return copied(all[g.IntN(len(all))].at)
	}
	switch g.IntN(5) {
	case 0:
		return []any{nil, true, false, tree{}, []any{}, []any{"x"}, tree{"a": "b"}, []any{[]any{}}}[g.IntN(8)]
	case 1:
		return num(g.of("0", "1", "-1", "7", "128", "129", "10001", "1000001", "1.5", "1e3", "0x10", "017", "+5", "1_000", "99999999999999999999", ".5", "0.0450000", "12345678901", "-0"))
	}
	return g.of("", "0s", "1ms", "31d", "32d", "5m1ms", "5m", "1.5s", "-1s", "00:00", "24:00", "7:00", "22:60", "1/0s", "0/60s", "100000/1s", "100001/1s", "2/60s", "5/calendar-week", "bucket 2 refill 1/s",
		"Verify", "a_b", strings.Repeat("x", 65), "default", "verify", "recipient", "prefix:0", "prefix:16", "prefix:05", "metadata.", "metadata.a b", "Mars/Olympus", "asia/shanghai", "Local", "UTC", "uk", "UK", "EU", "ZZ",
		"+86 138 0000 0000", "13800000000", "+123456", "+1234567", "+1234567890123456", "ann@Example.com", "Ann@example.com", "@x", "x@", "86", "086", "1234567890123456", "weir.requests", ".", "..", "a b", "Gmail.com", "gmail.com", "com", "a..com",
		"{{", "}}", "{{a}} }}", "{{{a}}", "{{1a}}", "{{a}}}", "{{ a\t}}", "cny", "CNYX", "0.0000001", "01", "unknown", "transient", "sms", "fax", "simulated", "http2", "external", "a", "true", "null", "1")
}

func copied(v any) any {
	switch v := v.(type) {
	case tree:
		out := tree{}
		for k, x := range v {
			out[k] = copied(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = copied(x)
		}
		return out
	}
	return v
}

// plainText is what YAML 1.2 reads as text without quotes, whether it looks like a word of
// YAML 1.1 (NO), a time (22:00) or a number with a unit.
var (
	plainText = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9./@_-]*(:[A-Za-z0-9./_-]+)*( [A-Za-z0-9./_-]+)*|[0-9]+[dhms]|[0-9]+/[a-z0-9-]+|[0-9]{2}:[0-9]{2})$`)
	yamlWord  = regexp.MustCompile(`(?i)^(true|false|null)$`)
)

// yaml writes a value as YAML, in block style or on one line, with and without quotes.
func (g *policyDraw) yaml(v any, indent string, flow bool) string {
	switch v := v.(type) {
	case nil:
		return g.of("null", "~")
	case bool:
		s := fmt.Sprint(v)
		return g.of(s, s, strings.ToUpper(s), strings.ToUpper(s[:1])+s[1:])
	case num:
		return string(v)
	case string:
		switch {
		case plainText.MatchString(v) && !yamlWord.MatchString(v) && g.IntN(2) == 0:
			return v
		case !strings.ContainsAny(v, "\n\t") && g.IntN(2) == 0:
			return "'" + strings.ReplaceAll(v, "'", "''") + "'"
		}
		b, _ := json.Marshal(v)
		return string(b)
	case tree:
		keys := slices.Sorted(maps.Keys(v))
		g.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		if flow || len(keys) == 0 || g.IntN(4) == 0 {
			parts := []string{}
			for _, k := range keys {
				parts = append(parts, g.yaml(k, "", true)+": "+g.yaml(v[k], "", true))
			}
			return "{" + strings.Join(parts, ", ") + "}"
		}
		var b strings.Builder
		for _, k := range keys {
			b.WriteString("\n" + indent + g.yaml(k, "", true) + ": " + g.yaml(v[k], indent+"  ", false) + g.of("", "", " # a comment"))
		}
		return b.String()
	case []any:
		if flow || len(v) == 0 || g.IntN(2) == 0 {
			parts := []string{}
			for _, x := range v {
				parts = append(parts, g.yaml(x, "", true))
			}
			return "[" + strings.Join(parts, g.of(",", ", ")) + "]"
		}
		var b strings.Builder
		for _, x := range v {
			b.WriteString("\n" + indent + "- " + g.yaml(x, indent+"    ", false))
		}
		return b.String()
	}
	panic("no value of a policy")
}

// second reads a policy's values.
type second struct {
	bad                bool
	providers          map[string]Provider
	templates, tenants map[string]bool
	ids, legacy        map[int64]bool // of providers, and of limits
	zones              map[string]bool
	deferred           []func() // what asks for names that may be declared later
	topics, domains    map[string]bool
}

func (s *second) must(ok bool) {
	if !ok {
		s.bad = true
	}
}

func (s *second) fields(v any, known map[string]func(any)) {
	m, ok := v.(tree)
	s.must(ok)
	for k, x := range m {
		if f := known[k]; f != nil {
			f(x)
		} else {
			s.bad = true
		}
	}
}

func (s *second) list(v any, each func(any)) (n int) {
	l, ok := v.([]any)
	s.must(ok)
	for _, x := range l {
		each(x)
	}
	return len(l)
}

func (s *second) text(v any) string {
	t, ok := v.(string)
	s.must(ok && t != "")
	return t
}

func (s *second) word(v any, words ...string) string {
	t := s.text(v)
	s.must(slices.Contains(words, t))
	return t
}

// wordList reads a list of different words; nil where it is empty and that is absent.
func wordList[T ~string](s *second, v any, keep bool, of ...string) (out []T) {
	if keep {
		out = []T{}
	}
	s.list(v, func(x any) {
		w := T(s.word(x, of...))
		s.must(!slices.Contains(out, w))
		out = append(out, w)
	})
	return out
}

func (s *second) whole(v any, least, most int64) int64 {
	n, ok := v.(num)
	i, err := strconv.ParseInt(string(n), 10, 64)
	s.must(ok && err == nil && (strconv.FormatInt(i, 10) == string(n) || n == "-0") && least <= i && i <= most)
	return i
}

func (s *second) flag(v any) bool {
	b, ok := v.(bool)
	s.must(ok)
	return b
}

func (s *second) span(v any, most time.Duration) Duration {
	ms, ok := secondLength(s.text(v))
	s.must(ok && ms <= most.Milliseconds())
	return Duration(time.Duration(ms) * time.Millisecond)
}

const (
	lower = "abcdefghijklmnopqrstuvwxyz"
	upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	zero9 = "0123456789"
)

func only(t, of string, most int) bool { return t != "" && len(t) <= most && strings.Trim(t, of) == "" }

func (s *second) name(v any, taken map[string]bool) string {
	t := s.text(v)
	s.must(only(t, lower+zero9+"-", 64) && !taken[t])
	taken[t] = true
	return t
}

// country is one of CLDR's that is not withdrawn or reserved.
func (s *second) country(v any) string {
	t := s.text(v)
	r, err := language.ParseRegion(t)
	s.must(err == nil && len(t) == 2 && r.String() == t && r.IsCountry() && r.Canonicalize() == r && !slices.Contains(strings.Fields("AN CP CQ CS DG EA EZ FQ IC NT PC SU UN YU"), t))
	return t
}

func (s *second) zone(v any) string {
	t := s.text(v)
	s.must(s.zones[t])
	return t
}

func (s *second) someone(v any) string {
	t := s.text(v)
	s.must(!strings.ContainsAny(t, " \t\r\n"))
	user, domain, mail := strings.Cut(t, "@")
	switch {
	case strings.Trim(t, zero9+"+()./-") == "":
		digits := strings.TrimPrefix(t, "+")
		s.must(digits != t && only(digits, zero9, 15) && len(digits) >= 7 && digits[0] != '0')
	case mail && !strings.Contains(t, "://"):
		s.must(user != "" && domain != "" && strings.ToLower(domain) == domain)
	}
	return t
}

// windows reads windows of different lengths, of which one may be a bucket.
func (s *second) windows(v any, most int64, kinds ...WindowKind) (out []Window) {
	seen := map[string]bool{}
	n := s.list(v, func(x any) {
		w, ok := secondWindow(s.text(x))
		unit := fmt.Sprint(w.Kind, w.Unit, w.Length)
		s.must(ok && !seen[unit] && slices.Contains(kinds, w.Kind) && (w.Kind != WindowRolling || w.N <= most))
		seen[unit] = true
		out = append(out, w)
	})
	s.must(n <= 16)
	return out
}

func (s *second) match(v any) (m Match) {
	values := func(x any, each func(any) string) (out []string) {
		if _, list := x.([]any); !list {
			return []string{each(x)}
		}
		s.must(s.list(x, func(x any) { out = append(out, each(x)) }) > 0)
		return out
	}
	field := func(into *[]string, each func(any) string) func(any) {
		return func(x any) { *into = values(x, each) }
	}
	declared := func(names func(string) bool) func(any) string {
		return func(x any) string {
			t := s.text(x)
			s.deferred = append(s.deferred, func() { s.must(names(t)) })
			return t
		}
	}
	known := map[string]func(any){
		"tenant":   field(&m.Tenant, declared(func(t string) bool { return t == "default" || s.tenants[t] })),
		"template": field(&m.Template, declared(func(t string) bool { return s.templates[t] })),
		"provider": field(&m.Provider, declared(func(t string) bool { _, ok := s.providers[t]; return ok })),
		"country":  field(&m.Country, s.country),
		"channel":  field(&m.Channel, func(x any) string { return s.word(x, "sms", "voice", "email", "push", "webhook") }),
		"class": field(&m.Class, func(x any) string {
			t := s.text(x)
			s.must(only(t, lower+upper+zero9+"._:-", 64))
			return t
		}),
		"prefix": field(&m.Prefix, func(x any) string {
			t := s.text(x)
			s.must(only(t, zero9, 15) && t[0] != '0')
			return t
		}),
	}
	if fields, ok := v.(tree); ok {
		for k := range fields {
			if key, is := strings.CutPrefix(k, "metadata."); is && only(key, lower+upper+zero9+"_.-", 64) {
				known[k] = func(x any) {
					if m.Metadata == nil {
						m.Metadata = map[string][]string{}
					}
					m.Metadata[key] = values(x, s.text)
				}
			}
		}
	}
	s.fields(v, known)
	return m
}

var allKinds = []WindowKind{WindowRolling, WindowCalendar, WindowBucket}

func (s *second) limit(v any, names map[string]bool) (l Limit) {
	s.fields(v, map[string]func(any){
		"name":  func(x any) { l.Name = s.name(x, names) },
		"match": func(x any) { l.Match = s.match(x) },
		"per": func(x any) {
			l.Per = []string{}
			s.list(x, func(x any) {
				t := s.text(x)
				n, prefix := strings.CutPrefix(t, "prefix:")
				key, metadata := strings.CutPrefix(t, "metadata.")
				s.must(!slices.Contains(l.Per, t) && (prefix && slices.Contains(strings.Fields("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"), n) || metadata && only(key, lower+upper+zero9+"_.-", 64) ||
					slices.Contains(strings.Fields("recipient mailbox tenant channel class template content provider country"), t)))
				l.Per = append(l.Per, t)
			})
		},
		"allow": func(x any) {
			if l.Allow = s.windows(x, 100_000, allKinds...); l.Allow == nil {
				l.Allow = []Window{}
			}
		},
		"legacy_id": func(x any) {
			l.LegacyID = s.whole(x, 1, 1<<31-1)
			s.must(!s.legacy[l.LegacyID])
			s.legacy[l.LegacyID] = true
		},
		"timezone":   func(x any) { l.Timezone = s.zone(x) },
		"mode":       func(x any) { l.Mode = Mode(s.word(x, "enforce", "observe", "off")) },
		"on_refusal": func(x any) { l.OnRefusal = OnRefusal(s.word(x, "reject", "defer")) },
		"count":      func(x any) { l.Count = Count(s.word(x, "message", "attempt", "segments", "cost")) },
		"exempt":     func(x any) { s.list(x, func(x any) { l.Exempt = append(l.Exempt, s.someone(x)) }) },
		"overrides": func(x any) {
			to := map[string]bool{}
			s.list(x, func(x any) {
				var o Override
				s.fields(x, map[string]func(any){"to": func(x any) { o.To = s.someone(x) }, "allow": func(x any) { o.Allow = s.windows(x, 100_000, allKinds...) }})
				s.must(o.To != "" && !to[o.To] && len(o.Allow) > 0)
				to[o.To] = true
				l.Overrides = append(l.Overrides, o)
			})
		},
	})
	if l.LegacyID != 0 {
		s.must(l.Mode != "observe" && l.OnRefusal != "defer" && (l.Count == "" || l.Count == "message") && l.Timezone == "" && len(l.Exempt)+len(l.Overrides) == 0)
		for _, w := range l.Allow {
			s.must(w.Kind == WindowRolling && (w.Length == time.Second || w.Length == time.Minute || w.Length == time.Hour))
		}
		m := l.Match
		m.Provider = nil
		s.must(reflect.DeepEqual(m, Match{}))
		if len(l.Match.Provider) == 0 {
			s.must(l.Per != nil && len(l.Per) == 0)
		} else {
			s.must(len(l.Match.Provider) == 1 && slices.Equal(l.Per, []string{"provider"}) && s.providers[l.Match.Provider[0]].LegacyID != 0)
		}
	}
	s.must(l.Name != "" && l.Per != nil && (len(l.Allow) > 0 || l.Allow != nil && l.LegacyID != 0) && (len(l.Overrides) == 0 || slices.Contains(l.Per, "recipient")))
	return l
}

func (s *second) class(v any, names map[string]bool) (c Class) {
	month := 31 * 24 * time.Hour
	s.fields(v, map[string]func(any){
		"name":          func(x any) { c.Name = s.name(x, names) },
		"priority":      func(x any) { c.Priority = Priority(s.word(x, "urgent", "normal", "bulk")) },
		"expires_after": func(x any) { c.ExpiresAfter = s.span(x, month) },
		"stale_after":   func(x any) { c.StaleAfter = s.span(x, month) },
		"retries": func(x any) {
			c.Retries = []Duration{}
			s.must(s.list(x, func(x any) { c.Retries = append(c.Retries, s.span(x, month)) }) <= 32)
		},
		"on_unknown": func(x any) { c.OnUnknown = OnUnknown(s.word(x, "resend", "hold")) },
		"countries":  func(x any) { s.list(x, func(x any) { c.Countries = append(c.Countries, s.country(x)) }) },
		"quiet_hours": func(x any) {
			q := new(QuietHours)
			at := func(into *string) func(any) {
				return func(x any) {
					t := s.text(x)
					clock, err := time.Parse("15:04", t)
					s.must(err == nil && clock.Format("15:04") == t)
					*into = t
				}
			}
			s.fields(x, map[string]func(any){"from": at(&q.From), "to": at(&q.To),
				"timezone": func(x any) {
					if q.Timezone = "recipient"; x != q.Timezone {
						q.Timezone = s.zone(x)
					}
				},
				"then": func(x any) { q.Then = s.word(x, "defer", "reject") }})
			s.must(q.From != "" && q.To != "" && q.From != q.To)
			c.QuietHours = q
		},
		"next_provider_on": func(x any) { c.NextProviderOn = wordList[RetryCause](s, x, true, "transient", "throttled", "unknown") },
		"unknown":          func(x any) { c.Unknown = UnknownClass(s.word(x, "default", "reject")) },
	})
	s.must(c.Name != "" && (c.Unknown == "" || c.Name == "default"))
	return c
}

func (s *second) provider(v any, names map[string]bool) (p Provider) {
	amount := func(into *Decimal) func(any) {
		return func(x any) {
			t, ok := x.(string)
			if n, is := x.(num); is {
				t, ok = string(n), true
			}
			whole, decimals, point := strings.Cut(t, ".")
			s.must(ok && only(whole, zero9, 10) && (whole == "0" || whole[0] != '0') && (!point || only(decimals, zero9, 6)))
			*into = Decimal(t)
		}
	}
	carries := map[string]string{"simulated": "sms voice email push webhook", "aliyun-sms": "sms", "tencent-sms": "sms", "twilio": "sms voice", "ses": "email", "sns": "sms push", "smtp": "email", "fcm": "push", "apns": "push", "smpp": "sms"}
	carries["external"], carries["none"] = carries["simulated"], carries["simulated"]
	var called, laned bool
	s.fields(v, map[string]func(any){
		"name": func(x any) { p.Name = s.name(x, names) },
		"type": func(x any) { p.Type = s.word(x, slices.Collect(maps.Keys(carries))...) },
		"channels": func(x any) {
			p.Channels = wordList[Channel](s, x, true, "sms", "voice", "email", "push", "webhook")
		},
		"pace":        func(x any) { p.Pace = s.windows(x, 1_000_000_000, WindowRolling); called = called || len(p.Pace) > 0 },
		"smooth":      func(x any) { p.Smooth = s.flag(x); called = called || p.Smooth },
		"concurrency": func(x any) { p.Concurrency = int(s.whole(x, 1, 10_000)); called = true },
		"timeout":     func(x any) { p.Timeout = s.span(x, 5*time.Minute); called = true },
		"lanes":       func(x any) { p.Lanes = int32(s.whole(x, 1, 128)); laned = true },
		"price": func(x any) {
			p.Price = new(Price)
			s.fields(x, map[string]func(any){"currency": func(x any) { p.Price.Currency = s.text(x) }, "per_segment": amount(&p.Price.PerSegment), "per_message": amount(&p.Price.PerMessage)})
			s.must(len(p.Price.Currency) == 3 && only(p.Price.Currency, upper, 3) && p.Price.PerSegment+p.Price.PerMessage != "")
		},
		"legacy_id": func(x any) {
			p.LegacyID = s.whole(x, 1, 1<<63-1)
			s.must(!s.ids[p.LegacyID])
			s.ids[p.LegacyID] = true
		},
	})
	s.must(p.Name != "" && p.Type != "" && len(p.Channels) > 0 && (!p.Smooth || len(p.Pace) > 0) && (!called || p.Type != "external" && p.Type != "none") && (!laned || p.Type != "none"))
	for _, c := range p.Channels {
		s.must(slices.Contains(strings.Fields(carries[p.Type]), string(c)))
	}
	for _, w := range p.Pace {
		s.must(w.N >= int64(p.Lanes))
	}
	return p
}

func (s *second) route(v any, names map[string]bool) (r Route) {
	provider := func(x any) string {
		t := s.text(x)
		s.deferred = append(s.deferred, func() {
			p, ok := s.providers[t]
			s.must(ok)
			for _, c := range r.Match.Channel {
				s.must(slices.Contains(p.Channels, Channel(c)))
			}
		})
		return t
	}
	s.fields(v, map[string]func(any){
		"name":  func(x any) { r.Name = s.name(x, names) },
		"match": func(x any) { r.Match = s.match(x) },
		"to": func(x any) {
			s.list(x, func(x any) {
				to := Target{Weight: 1}
				s.fields(x, map[string]func(any){"provider": func(x any) { to.Provider = provider(x) }, "weight": func(x any) { to.Weight = int(s.whole(x, 0, 1_000_000)) }})
				s.must(to.Provider != "" && !slices.ContainsFunc(r.To, func(o Target) bool { return o.Provider == to.Provider }))
				r.To = append(r.To, to)
			})
		},
		"failover": func(x any) {
			s.list(x, func(x any) {
				t := provider(x)
				s.must(!slices.Contains(r.Failover, t))
				r.Failover = append(r.Failover, t)
			})
		},
		"next_provider_on": func(x any) { r.NextProviderOn = wordList[RetryCause](s, x, true, "transient", "throttled") },
	})
	s.must(r.Name != "" && r.Match.Provider == nil && slices.ContainsFunc(r.To, func(to Target) bool { return to.Weight > 0 }))
	return r
}

func (s *second) template(v any, names map[string]bool) (t Template) {
	text := func(into *string, channels ...Channel) func(any) {
		return func(x any) {
			*into = s.text(x)
			s.must(secondTemplate(*into))
			s.deferred = append(s.deferred, func() { s.must(slices.Contains(channels, t.Channel)) })
		}
	}
	s.fields(v, map[string]func(any){
		"name":    func(x any) { t.Name = s.name(x, names) },
		"channel": func(x any) { t.Channel = Channel(s.word(x, "sms", "voice", "email", "push", "webhook")) },
		"class":   func(x any) { t.Class = s.text(x) },
		"subject": text(&t.Subject, ChannelEmail, ChannelWebhook),
		"html":    text(&t.HTML, ChannelEmail, ChannelWebhook),
		"title":   text(&t.Title, ChannelPush, ChannelWebhook),
		"body":    text(&t.Body, "sms", "voice", "email", "push", "webhook"),
	})
	for _, f := range s.deferred { // here, where t is
		f()
	}
	s.deferred = nil
	s.must(t.Name != "" && t.Channel != "" && t.Body+t.HTML != "")
	return t
}

// secondTemplate reports whether a template's braces hold variables.
func secondTemplate(text string) bool {
	for i, piece := range strings.Split(text, "{{") {
		if i > 0 {
			name, rest, closed := strings.Cut(piece, "}}")
			name = strings.Trim(name, " ")
			if piece = rest; !closed || !only(name, lower+upper+zero9+"_.-", 64) || strings.ContainsRune(zero9+".-", rune(name[0])) {
				return false
			}
		}
		if strings.Contains(piece, "}}") {
			return false
		}
	}
	return true
}

func secondPolicy(v any) (*Policy, bool) {
	s := &second{providers: map[string]Provider{}, templates: map[string]bool{}, tenants: map[string]bool{}, ids: map[int64]bool{}, legacy: map[int64]bool{}, zones: secondZones(), topics: map[string]bool{}, domains: map[string]bool{}}
	p := new(Policy)
	if v == nil {
		return p, true
	}
	limits, classes, routes, providers := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	var later []func()
	list := func(each func(any)) func(any) { return func(x any) { s.list(x, each) } }
	s.fields(v, map[string]func(any){
		"limits": func(x any) {
			later = append(later, func() { s.list(x, func(x any) { p.Limits = append(p.Limits, s.limit(x, limits)) }) })
		},
		"classes":   list(func(x any) { p.Classes = append(p.Classes, s.class(x, classes)) }),
		"providers": list(func(x any) { p.Providers = append(p.Providers, s.provider(x, providers)) }),
		"routes": func(x any) {
			later = append(later, func() { s.list(x, func(x any) { p.Routes = append(p.Routes, s.route(x, routes)) }) })
		},
		"templates": list(func(x any) { p.Templates = append(p.Templates, s.template(x, s.templates)) }),
		"tenants": list(func(x any) {
			var t Tenant
			s.fields(x, map[string]func(any){"name": func(x any) { t.Name = s.name(x, s.tenants) }, "default_region": func(x any) { t.DefaultRegion = s.country(x) },
				"strict": func(x any) { t.Strict = s.flag(x) }, "smooth": func(x any) { t.Smooth = s.flag(x) }})
			s.must(t.Name != "")
			p.Tenants = append(p.Tenants, t)
		}),
		"inputs": func(x any) {
			later = append(later, func() {
				s.list(x, func(x any) {
					var in Input
					s.fields(x, map[string]func(any){"topic": func(x any) { in.Topic = s.text(x) }, "tenant": func(x any) { in.Tenant = s.text(x) }, "strict": func(x any) { in.Strict = s.flag(x) }})
					s.must(only(in.Topic, lower+upper+zero9+"._-", 249) && in.Topic != "." && in.Topic != ".." && !strings.HasPrefix(in.Topic, "weir.") && !s.topics[in.Topic])
					s.must(in.Tenant == "default" || s.tenants[in.Tenant])
					s.topics[in.Topic] = true
					p.Inputs = append(p.Inputs, in)
				})
			})
		},
		"routes_only": func(x any) { b := s.flag(x); p.RoutesOnly = &b },
		"mailboxes": func(x any) {
			p.Mailboxes = []Mailbox{}
			s.list(x, func(x any) {
				var m Mailbox
				s.fields(x, map[string]func(any){
					"domains": func(x any) {
						s.list(x, func(x any) {
							d := s.text(x)
							labels := strings.Split(d, ".")
							for _, l := range labels {
								s.must(only(l, lower+zero9+"_-", 63) && l[0] != '-')
							}
							s.must(len(labels) > 1 && !s.domains[d])
							s.domains[d] = true
							m.Domains = append(m.Domains, d)
						})
					},
					"ignore": func(x any) { m.Ignore = wordList[MailboxPart](s, x, false, "dots", "tag") },
				})
				s.must(len(m.Domains) > 1 || len(m.Domains) == 1 && len(m.Ignore) > 0)
				p.Mailboxes = append(p.Mailboxes, m)
			})
		},
	})
	for _, v := range p.Providers {
		s.providers[v.Name] = v
	}
	for _, f := range later {
		f()
	}
	for _, f := range s.deferred {
		f()
	}
	for _, t := range p.Templates {
		s.must(t.Class == "" || t.Class == "default" || classes[t.Class])
	}
	return p, !s.bad
}

// secondClass is what a class's rules are with every default.
func secondClass(p *Policy, name string) (c Class) {
	for _, n := range []string{"default", name} {
		for _, d := range p.Classes {
			if d.Name == n {
				c = d
			}
		}
	}
	c.Name = name
	if c.Priority == "" {
		c.Priority = "normal"
	}
	if c.ExpiresAfter == 0 {
		c.ExpiresAfter = Duration(3 * 24 * time.Hour)
	}
	if c.OnUnknown == "" {
		c.OnUnknown = "resend"
	}
	if c.Retries == nil {
		c.Retries = []Duration{Duration(5 * time.Second), Duration(30 * time.Second), Duration(5 * time.Minute)}
	}
	return c
}

var secondZones = func() func() map[string]bool {
	names := map[string]bool{}
	return func() map[string]bool {
		if len(names) == 0 {
			files, err := zoneFiles()
			if err != nil {
				panic(err)
			}
			for _, f := range files.File {
				names[f.Name] = !strings.HasSuffix(f.Name, "/")
			}
		}
		return names
	}
}()
