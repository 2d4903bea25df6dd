package schemas

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a zone is judged alike on every machine
)

// What a policy may name. The JSON Schema lists the same, and a test compares.
var (
	Priorities  = []Priority{PriorityUrgent, PriorityNormal, PriorityBulk}
	KeyScopes   = []string{"send", "read", "admin"}
	KeyRates    = []string{"write", "query", "batch", "import"}
	AlertTypes  = []string{"slack", "webhook", "email"}
	AlertEvents = []string{AlertLimitObserved, AlertLimitRefused, AlertBreakerOpen, AlertDLQRecord, AlertSinkDifference, AlertClockStall, AlertLag}
)

// ProviderTypes are the adapters and the channels each can carry.
var ProviderTypes = map[string][]Channel{
	"simulated":      Channels,
	"http":           Channels,
	ProviderExternal: Channels,
	ProviderNone:     Channels,
	"aliyun-sms":     {ChannelSMS},
	"tencent-sms":    {ChannelSMS},
	"twilio":         {ChannelSMS, ChannelVoice},
	"ses":            {ChannelEmail},
	"sns":            {ChannelSMS, ChannelPush},
	"smtp":           {ChannelEmail},
	"fcm":            {ChannelPush},
	"apns":           {ChannelPush},
	"smpp":           {ChannelSMS},
}

// providerTypes are their names, in the order of policy.schema.json.
var providerTypes = []string{"simulated", "http", "external", "none", "aliyun-sms", "tencent-sms", "twilio", "ses", "sns", "smtp", "fcm", "apns", "smpp"}

// templateFields are the parts of a message that a channel has.
var templateFields = map[Channel][]string{
	ChannelSMS:     {"body"},
	ChannelVoice:   {"body"},
	ChannelEmail:   {"subject", "body", "html"},
	ChannelPush:    {"title", "body"},
	ChannelWebhook: {"subject", "body", "html", "title"},
}

var (
	nameForm     = regexp.MustCompile(PolicyName)
	classForm    = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`) // of a class that producers name and nobody declared
	metadataForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	prefixForm   = regexp.MustCompile(`^[1-9][0-9]{0,14}$`)
	e164Form     = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)
	phoneLike    = regexp.MustCompile(`^[+0-9 ()./-]+$`)
	clockForm    = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)
	currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)
	hashForm     = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	preferForm   = regexp.MustCompile(`^(respond-async|wait=([1-9]|[1-5][0-9]|60))$`)
	topicForm    = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
	envForm      = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)
	secretKey    = regexp.MustCompile(`(?i)(secret|token|passw|passphrase|credential|private|apikey|authorization|(^|[_.-])key$)`)
	variableOnly = regexp.MustCompile(`^\{\{[^{}]*\}\}$`) // of a message's, in a request of type http
	notSecretKey = regexp.MustCompile(`(?i)[_.-](id|url|name|header|file|path)$`)
)

// Validate checks a policy that did not come from a file, such as one that came
// as JSON. Its error is a PolicyErrors without positions.
func (p *Policy) Validate() error {
	var errs PolicyErrors
	c := checker{policy: p, report: func(path, message string) {
		errs = append(errs, PolicyError{Path: path, Message: message})
	}}
	c.check()
	return errs.sorted()
}

// checker judges values; it knows no positions.
type checker struct {
	policy *Policy
	given  map[string]bool // scalars that the file has; nil when there is no file
	report func(path, message string)

	providers, templates, tenants map[string]int // index by name
}

func (c *checker) failf(path, format string, args ...any) {
	c.report(path, fmt.Sprintf(format, args...))
}

func (c *checker) check() {
	p := c.policy
	c.names("limits", len(p.Limits), func(i int) string { return p.Limits[i].Name })
	c.names("classes", len(p.Classes), func(i int) string { return p.Classes[i].Name })
	c.providers = c.names("providers", len(p.Providers), func(i int) string { return p.Providers[i].Name })
	c.names("routes", len(p.Routes), func(i int) string { return p.Routes[i].Name })
	c.templates = c.names("templates", len(p.Templates), func(i int) string { return p.Templates[i].Name })
	c.tenants = c.names("tenants", len(p.Tenants), func(i int) string { return p.Tenants[i].Name })
	c.names("keys", len(p.Keys), func(i int) string { return p.Keys[i].Name })
	c.names("alerts", len(p.Alerts), func(i int) string { return p.Alerts[i].Name })
	for i := range p.Limits {
		c.limit(&p.Limits[i], itemPath("limits", i))
	}
	for i := range p.Classes {
		c.class(&p.Classes[i], itemPath("classes", i))
	}
	for i := range p.Providers {
		c.provider(&p.Providers[i], itemPath("providers", i))
	}
	for i := range p.Routes {
		c.route(&p.Routes[i], itemPath("routes", i))
	}
	for i := range p.Templates {
		c.template(&p.Templates[i], itemPath("templates", i))
	}
	for i := range p.Tenants {
		c.tenant(&p.Tenants[i], itemPath("tenants", i))
	}
	secrets := map[string]string{}
	for i := range p.Keys {
		c.key(&p.Keys[i], itemPath("keys", i), secrets)
	}
	for i := range p.Alerts {
		c.alert(&p.Alerts[i], itemPath("alerts", i))
	}
	c.inputs(p.Inputs)
}

// names checks the names of a section and returns where each stands.
func (c *checker) names(section string, n int, name func(int) string) map[string]int {
	index := make(map[string]int, n)
	for i := range n {
		s, path := name(i), itemPath(section, i)
		if s == "" {
			c.failf(path+".name", "is missing: write 1 to 64 of a-z, 0-9 and -, such as name: verify")
			continue
		}
		if !nameForm.MatchString(s) {
			c.failf(path+".name", "%s is not a name: write 1 to 64 of a-z, 0-9 and -, such as verify", quote(s))
		}
		if first, ok := index[s]; ok {
			c.failf(path+".name", "%s is also the name of %s: names within %s differ, such as %s-2", quote(s), itemPath(section, first), section, s)
			continue
		}
		index[s] = i
	}
	return index
}

// oneOf checks a word that may be absent.
func oneOf[T ~string](c *checker, path string, v T, allowed []T) {
	if v != "" {
		mustBe(c, path, v, allowed)
	}
}

// mustBe checks a word.
func mustBe[T ~string](c *checker, path string, v T, allowed []T) {
	if !slices.Contains(allowed, v) {
		c.failf(path, "%s is not known%s Write %s", quote(string(v)), didYouMean(string(v), texts(allowed)), orList(allowed))
	}
}

// didYouMean ends a sentence, with a guess if there is a good one.
func didYouMean(word string, candidates []string) string {
	if n := nearest(word, candidates); n != "" {
		return "; did you mean " + n + "?"
	}
	return "."
}

func texts[T ~string](in []T) []string {
	out := make([]string, len(in))
	for i, v := range in {
		out[i] = string(v)
	}
	return out
}

// whole checks a number that may be absent.
func (c *checker) whole(path string, v, least, most int64, example string) {
	if v == 0 && !c.given[path] {
		return
	}
	if v < least || v > most {
		c.failf(path, "%d is out of range: write a whole number from %d to %d, such as %s", v, least, most, example)
	}
}

// span checks a duration that may be absent.
func (c *checker) span(path string, v Duration, most time.Duration, example string) {
	if v == 0 && !c.given[path] {
		return
	}
	if v <= 0 || time.Duration(v) > most || time.Duration(v)%time.Millisecond != 0 {
		c.failf(path, "%s is out of range: write a duration from 1ms to %s, such as %s", v, Duration(most), example)
	}
}

func (c *checker) zone(path, v string) {
	if v == "" {
		return
	}
	if _, err := time.LoadLocation(v); err != nil || v == "Local" {
		c.failf(path, "%s is not a time zone: write an IANA name, such as Asia/Shanghai or UTC", quote(v))
	}
}

func (c *checker) country(path, v string) {
	if !isCountry(v) {
		c.failf(path, "%s is not a country: write two capital letters of ISO 3166-1, such as CN", quote(v))
	}
}

// known checks that a name refers to something declared.
func (c *checker) known(path, kind, v string, declared map[string]int) {
	if _, ok := declared[v]; ok {
		return
	}
	c.failf(path, "there is no %s %s%s Declare it under %ss, such as %ss: [{name: %s, …}]",
		kind, quote(v), didYouMean(v, slices.Sorted(maps.Keys(declared))), kind, kind, exampleName(v))
}

func exampleName(v string) string {
	if nameForm.MatchString(v) {
		return v
	}
	return "acme"
}

func (c *checker) tenantName(path, v string) {
	if v != DefaultTenant {
		c.known(path, "tenant", v, c.tenants)
	}
}

// each calls f on every value of a match's list, which may not be empty.
func (c *checker) each(path string, list []string, f func(path, v string)) {
	if list != nil && len(list) == 0 {
		c.failf(path, "an empty list matches nothing: leave it out to match all, or give it values, such as [verify]")
	}
	for i, v := range list {
		item := itemPath(path, i)
		// A value that stands alone has no index in the file.
		if c.given[path] {
			item = path
		}
		f(item, v)
	}
}

func (c *checker) match(m *Match, path string) {
	c.each(path+".tenant", m.Tenant, c.tenantName)
	c.each(path+".channel", m.Channel, func(path, v string) { mustBe(c, path, Channel(v), Channels) })
	c.each(path+".class", m.Class, func(path, v string) {
		if !classForm.MatchString(v) {
			c.failf(path, "%s is not a class: write 1 to 64 letters, digits, ., _, : and -, such as verify", quote(v))
		}
	})
	c.each(path+".template", m.Template, func(path, v string) { c.known(path, "template", v, c.templates) })
	c.each(path+".provider", m.Provider, func(path, v string) { c.known(path, "provider", v, c.providers) })
	c.each(path+".country", m.Country, c.country)
	c.each(path+".prefix", m.Prefix, func(path, v string) {
		if !prefixForm.MatchString(v) {
			c.failf(path, "%s is not a prefix: write 1 to 15 digits of an international number without +, in quotes, such as \"86\"", quote(v))
		}
	})
	for _, k := range slices.Sorted(maps.Keys(m.Metadata)) {
		at := path + "." + metadataPrefix + k
		if !metadataForm.MatchString(k) {
			c.failf(at, "%s is not a metadata field: write 1 to 64 letters, digits, _, . and -, such as metadata.order", quote(k))
		}
		c.each(at, m.Metadata[k], func(string, string) {})
	}
}

var perNames = []string{"recipient", "tenant", "channel", "class", "template", "content", "provider", "country"}

func (c *checker) limit(l *Limit, path string) {
	c.match(&l.Match, path+".match")
	if l.Per == nil {
		c.failf(path+".per", "is missing: say whose messages are counted together, such as per: [recipient], or per: [] for one limit for all")
	}
	seen := map[string]bool{}
	for i, v := range l.Per {
		item := itemPath(path+".per", i)
		digits, prefix := strings.CutPrefix(v, "prefix:")
		key, metadata := strings.CutPrefix(v, metadataPrefix)
		n, err := strconv.Atoi(digits)
		switch {
		case prefix && (err != nil || n < 1 || n > 15 || strconv.Itoa(n) != digits):
			c.failf(item, "%s is not a prefix: write how many digits of the number, 1 to 15, such as prefix:5", quote(v))
		case metadata && !metadataForm.MatchString(key):
			c.failf(item, "%s is not a metadata field: write 1 to 64 letters, digits, _, . and -, such as metadata.order", quote(v))
		case !prefix && !metadata && !slices.Contains(perNames, v):
			c.failf(item, "%s is nothing to count by: write %s, prefix:N or metadata.X, such as recipient", quote(v), strings.Join(perNames, ", "))
		case seen[v]:
			c.failf(item, "%s is there twice: keep one, such as per: [recipient]", quote(v))
		}
		seen[v] = true
	}
	if l.LegacyID != 0 {
		c.legacy(l, path)
	}
	if l.LegacyID == 0 || l.Allow == nil || len(l.Allow) > 0 {
		c.allow(l.Allow, path+".allow")
	}
	c.zone(path+".timezone", l.Timezone)
	oneOf(c, path+".mode", l.Mode, []Mode{ModeEnforce, ModeObserve, ModeOff})
	oneOf(c, path+".on_refusal", l.OnRefusal, []OnRefusal{RefusalReject, RefusalDefer})
	oneOf(c, path+".count", l.Count, []Count{CountMessage, CountAttempt, CountSegments})
	for i, v := range l.Exempt {
		c.recipient(itemPath(path+".exempt", i), v)
	}
	first := map[string]int{}
	for i := range l.Overrides {
		o, at := &l.Overrides[i], itemPath(path+".overrides", i)
		if l.Per != nil && !slices.Contains(l.Per, "recipient") {
			c.failf(at, "an override is for one recipient, and %s does not count by recipient: add it, such as per: [recipient]", path)
		}
		if o.To == "" {
			c.failf(at+".to", `is missing: say whose limit this is, such as to: "+8613800000000"`)
		} else {
			c.recipient(at+".to", o.To)
			if j, ok := first[o.To]; ok {
				c.failf(at+".to", "the recipient is also in %s: keep one, such as {to: \"+8613800000000\", allow: [3/60s]}", itemPath(path+".overrides", j))
			} else {
				first[o.To] = i
			}
		}
		c.allow(o.Allow, at+".allow")
	}
}

// allow checks a limit's windows.
func (c *checker) allow(list []Window, path string) {
	if len(list) == 0 {
		c.failf(path, "is missing or empty: give it windows, such as allow: [1/60s, 10/calendar-day]")
	}
	c.windows(list, path)
	bucket := -1
	for i, w := range list {
		switch {
		case w.Kind == WindowRolling && w.N > MaxRolling && w.N <= MaxPlaces:
			c.failf(itemPath(path, i), "%s would keep the times of %d places for every recipient, and at most %d are kept: use a calendar window, which only counts, such as %d/calendar-day, a bucket, such as \"bucket %d refill 1/s\", or a smaller n in a shorter window", w, w.N, MaxRolling, w.N, MaxRolling)
		case w.Kind != WindowBucket:
		case bucket < 0:
			bucket = i
		case w.UnitKey() != list[bucket].UnitKey(): // else it is reported already
			c.failf(itemPath(path, i), "%s is a second bucket, after %s: write another limit for it, such as {name: slowly, per: [recipient], allow: [%s]}", w, itemPath(path, bucket), w)
		}
	}
}

func (c *checker) windows(list []Window, path string) {
	if len(list) > MaxWindows {
		c.failf(path, "has %d windows: at most %d, such as [1/60s, 10/calendar-day]", len(list), MaxWindows)
	}
	first := map[string]int{}
	for i, w := range list {
		at := itemPath(path, i)
		if err := w.check(); err != nil {
			c.report(at, err.Error())
			continue
		}
		if j, ok := first[w.UnitKey()]; ok {
			c.failf(at, "%s has the window of %s, %s: only the smaller would act, so keep one, such as [1/60s, 5/1h]", w, itemPath(path, j), list[j])
			continue
		}
		first[w.UnitKey()] = i
	}
}

// recipient checks an address that must be written as admission writes it, or
// it would never be met. Its text is somebody's number: the error says only
// what is wrong.
func (c *checker) recipient(path, v string) {
	switch user, domain, mail := strings.Cut(v, "@"); {
	case v == "" || strings.ContainsAny(v, " \t\r\n") && !phoneLike.MatchString(v):
		c.failf(path, "a recipient is a number in E.164, such as \"+8613800000000\", an address or a token, without spaces")
	case phoneLike.MatchString(v):
		if !e164Form.MatchString(v) {
			c.failf(path, "a number is written in E.164: +, country and number, 7 to 15 digits and nothing else, in quotes, such as \"+8613800000000\"")
		}
	case mail && !strings.Contains(v, "://") && (user == "" || domain == "" || domain != strings.ToLower(domain)):
		c.failf(path, "an address has a name, @ and a domain in lower case, such as ada@example.com")
	}
}

func (c *checker) class(v *Class, path string) {
	oneOf(c, path+".priority", v.Priority, Priorities)
	c.span(path+".expires_after", v.ExpiresAfter, MaxWindow, "72h")
	c.span(path+".stale_after", v.StaleAfter, MaxWindow, "60s")
	if len(v.Retries) > MaxRetries {
		c.failf(path+".retries", "has %d waits: at most %d, such as [5s, 30s, 5m]", len(v.Retries), MaxRetries)
	}
	for i, d := range v.Retries {
		if d <= 0 || time.Duration(d) > MaxWindow || time.Duration(d)%time.Millisecond != 0 {
			c.failf(itemPath(path+".retries", i), "%s is out of range: write a wait from 1ms to 31d, such as 30s", d)
		}
	}
	oneOf(c, path+".on_unknown", v.OnUnknown, []OnUnknown{UnknownResend, UnknownHold})
	for i, s := range v.Countries {
		c.country(itemPath(path+".countries", i), s)
	}
	if q := v.QuietHours; q != nil {
		at := path + ".quiet_hours"
		for _, f := range []struct{ name, v string }{{"from", q.From}, {"to", q.To}} {
			if f.v == "" {
				c.failf(at+"."+f.name, `is missing: give it a time of day, such as {from: "22:00", to: "08:00"}`)
			} else if !clockForm.MatchString(f.v) {
				c.failf(at+"."+f.name, `%s is not a time of day: write HH:MM from 00:00 to 23:59, in quotes, such as "22:00"`, quote(f.v))
			}
		}
		if q.From != "" && q.From == q.To {
			c.failf(at, `from and to are the same: name two times, such as {from: "22:00", to: "08:00"}`)
		}
		if q.Timezone != "recipient" {
			c.zone(at+".timezone", q.Timezone)
		}
		oneOf(c, at+".then", q.Then, []string{"defer", "reject"})
	}
}

func (c *checker) provider(v *Provider, path string) {
	if v.Type == "" {
		c.failf(path+".type", "is missing: write %s", orList(providerTypes))
	}
	oneOf(c, path+".type", v.Type, providerTypes)
	if len(v.Channels) == 0 {
		c.failf(path+".channels", "is missing or empty: say what it carries, such as channels: [sms]")
	}
	for i, ch := range v.Channels {
		at := itemPath(path+".channels", i)
		carries, typed := ProviderTypes[v.Type]
		switch {
		case !slices.Contains(Channels, ch):
			mustBe(c, at, ch, Channels)
		case slices.Contains(v.Channels[:i], ch):
			c.failf(at, "%s is there twice: keep one, such as [%s]", ch, ch)
		case typed && !slices.Contains(carries, ch):
			c.failf(at, "type %s does not carry %s: write %s", v.Type, ch, orList(carries))
		}
	}
	c.windows(v.Pace, path+".pace")
	for i, w := range v.Pace {
		at := itemPath(path+".pace", i)
		switch {
		case w.Kind != WindowRolling && w.check() == nil:
			c.failf(at, "%s does not roll: a pace is n/DURATION, such as 5/1s", w)
		case w.check() == nil && w.N < int64(v.Lanes):
			c.failf(at, "%s cannot fill %d lanes: each lane needs a whole number of at least 1, so write lanes: %d or fewer, or a pace such as %d/1s", w, v.Lanes, w.N, v.Lanes)
		}
	}
	if v.Smooth && len(v.Pace) == 0 {
		c.failf(path+".smooth", "there is no pace to space evenly: give the provider one, such as pace: [5/1s]")
	}
	c.whole(path+".concurrency", int64(v.Concurrency), 1, MaxConcurrency, "64")
	c.span(path+".timeout", v.Timeout, MaxTimeout, "5s")
	c.whole(path+".lanes", int64(v.Lanes), 1, MaxLanes, "1")
	c.whole(path+".legacy_id", v.LegacyID, 1, math.MaxInt64, "7")
	if p := v.Price; p != nil {
		at := path + ".price"
		if p.Currency == "" {
			c.failf(at+".currency", "is missing: write three capital letters of ISO 4217, such as currency: CNY")
		} else if !currencyForm.MatchString(p.Currency) {
			c.failf(at+".currency", "%s is not a currency: write three capital letters of ISO 4217, such as CNY", quote(p.Currency))
		}
		if p.PerSegment == "" && p.PerMessage == "" {
			c.failf(at, "has no amount: give it per_segment or per_message, such as per_segment: 0.045")
		}
		for _, f := range []struct {
			name string
			v    Decimal
		}{{"per_segment", p.PerSegment}, {"per_message", p.PerMessage}} {
			if f.v != "" {
				if err := f.v.check(); err != nil {
					c.report(at+"."+f.name, err.Error())
				}
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(v.Settings)) {
		if v.Type == "http" && k == "map" {
			continue // names what answers mean: an invalid_token there is no secret
		}
		c.setting(childPath(path+".settings", k), v.Settings[k], secretName(k))
	}
	if v.Type == "http" {
		at := path + ".settings.url"
		switch u, ok := v.Settings["url"].(string); {
		case v.Settings["url"] == nil:
			c.failf(at, "is missing: say where type http is to POST, such as settings: {url: \"https://sms.example.com/send\"}")
		case !ok:
			c.failf(at, "is not text: write an address, such as \"https://sms.example.com/send\"")
		default:
			c.address(at, u)
		}
	}
	if v.Type == ProviderExternal || v.Type == ProviderNone {
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"pace", len(v.Pace) > 0}, {"smooth", v.Smooth}, {"concurrency", v.Concurrency != 0}, {"timeout", v.Timeout != 0},
			{"lanes", v.Lanes != 0 && v.Type == ProviderNone},
		} {
			if f.set {
				c.failf(path+"."+f.name, "does nothing: Weir does not call a provider of type %s; take it out", v.Type)
			}
		}
		for _, k := range slices.Sorted(maps.Keys(v.Settings)) {
			if k != "receipt_secret" && k != "sign" { // who sends receipts
				c.failf(childPath(path+".settings", k), "does nothing: Weir does not call a provider of type %s; take it out", v.Type)
			}
		}
	}
	if id := v.LegacyID; id != 0 {
		for j := range c.policy.Providers {
			if w := &c.policy.Providers[j]; w == v {
				break
			} else if w.LegacyID == id {
				c.failf(path+".legacy_id", "%d is also %s's: each provider has its own, such as %d", id, itemPath("providers", j), id+1)
				break
			}
		}
	}
}

func secretName(k string) bool { return secretKey.MatchString(k) && !notSecretKey.MatchString(k) }

const secretHint = `write where it comes from, such as "${API_KEY}" or file:/run/secrets/key`

// setting checks a value of settings; secret is whether a name on the way to it
// looks like a secret's.
func (c *checker) setting(path string, v any, secret bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			c.setting(childPath(path, k), v[k], secret || secretName(k))
		}
	case []any:
		for i := range v {
			c.setting(itemPath(path, i), v[i], secret)
		}
	case string:
		c.environment(path, v)
		u, err := url.Parse(v)
		password := false
		if err == nil && u.User != nil {
			p, set := u.User.Password()
			password = set && !fromOutside(p)
		}
		switch {
		case secret && !fromOutside(v) && !variableOnly.MatchString(v):
			c.failf(path, "is a secret in plain text: %s", secretHint)
		case password:
			c.failf(path, "has a password in plain text: %s", secretHint)
		}
	case float64, int, int64:
		if secret {
			c.failf(path, "is a secret in plain text: %s", secretHint)
		}
	}
}

// fromOutside reports whether a value holds a reference to the environment or
// a file rather than a secret.
func fromOutside(v string) bool {
	name, file := strings.CutPrefix(v, "file:")
	return file && name != "" || envForm.MatchString(v)
}

// environment checks that every ${ of a value is a reference.
func (c *checker) environment(path, v string) {
	if strings.Contains(envForm.ReplaceAllString(v, ""), "${") {
		c.failf(path, "has a ${ that is no reference: write ${NAME} with letters, digits and _, such as ${API_KEY}")
	}
	if v == "file:" {
		c.failf(path, "names no file: write file: and a path, such as file:/run/secrets/key")
	}
}

// address checks an http or https URL, which may come from the environment.
func (c *checker) address(path, v string) {
	if fromOutside(v) {
		c.environment(path, v)
		return
	}
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		c.failf(path, "is not an address: write http or https and a host, such as \"https://example.com/hook\"")
	}
}

func (c *checker) route(v *Route, path string) {
	c.match(&v.Match, path+".match")
	if v.Match.Provider != nil {
		c.failf(path+".match.provider", "a route chooses the provider and cannot match by it: remove it; a message that pins one is not routed")
	}
	if len(v.To) == 0 {
		c.failf(path+".to", "is missing or empty: give it providers, such as to: [{provider: aliyun, weight: 70}]")
	}
	var sum int
	seen := map[string]bool{}
	for i := range v.To {
		t, at := &v.To[i], itemPath(path+".to", i)
		if t.Provider == "" {
			c.failf(at+".provider", "is missing: name one, such as {provider: aliyun, weight: 70}")
		} else {
			c.known(at+".provider", "provider", t.Provider, c.providers)
			c.serves(at+".provider", t.Provider, v.Match.Channel)
			if seen[t.Provider] {
				c.failf(at+".provider", "%s is there twice: keep one with the sum of the weights, such as {provider: %s, weight: 2}", t.Provider, t.Provider)
			}
			seen[t.Provider] = true
		}
		if t.Weight < 0 || t.Weight > 1_000_000 {
			c.failf(at+".weight", "%d is out of range: write a share from 0 to 1000000, such as 70", t.Weight)
			sum = 1
		}
		sum |= t.Weight
	}
	if len(v.To) > 0 && sum == 0 {
		c.failf(path+".to", "every weight is 0, so no message could go anywhere: give one at least 1, such as {provider: aliyun, weight: 1}")
	}
	for i, name := range v.Failover {
		at := itemPath(path+".failover", i)
		c.known(at, "provider", name, c.providers)
		c.serves(at, name, v.Match.Channel)
		if slices.Contains(v.Failover[:i], name) {
			c.failf(at, "%s is there twice: keep one, such as [%s]", quote(name), exampleName(name))
		}
	}
}

// serves checks that a provider carries the channels that are sent to it.
func (c *checker) serves(path, name string, channels []string) {
	i, ok := c.providers[name]
	if !ok {
		return
	}
	for _, ch := range channels {
		if has := c.policy.Providers[i].Channels; slices.Contains(Channels, Channel(ch)) && len(has) > 0 && !slices.Contains(has, Channel(ch)) {
			c.failf(path, "%s does not carry %s: it has %s; name another, or add %s to its channels", name, ch, orList(has), ch)
		}
	}
}

func (c *checker) template(v *Template, path string) {
	if v.Channel == "" {
		c.failf(path+".channel", "is missing: write %s", orList(Channels))
	}
	oneOf(c, path+".channel", v.Channel, Channels)
	fields, known := templateFields[v.Channel]
	empty := len(v.Providers) == 0
	for _, f := range []struct{ name, text string }{{"subject", v.Subject}, {"body", v.Body}, {"html", v.HTML}, {"title", v.Title}} {
		if f.text == "" {
			continue
		}
		if known && !slices.Contains(fields, f.name) {
			c.failf(path+"."+f.name, "%s messages have no %s: write %s", v.Channel, f.name, orList(fields))
		}
		empty = empty && f.name != "body" && f.name != "html"
		if _, err := TemplateParts(f.text); err != nil {
			c.report(path+"."+f.name, err.Error())
		}
	}
	if empty {
		c.failf(path, "has nothing to send: give it a body, such as body: \"Your code is {{code}}\", or the provider's own template under providers")
	}
	if !empty && v.Body == "" && v.HTML == "" && (v.Channel != ChannelPush || v.Title == "") {
		c.codesOnly(v, path)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Providers)) {
		at := childPath(path+".providers", name)
		c.known(at, "provider", name, c.providers)
		if known {
			c.serves(at, name, []string{string(v.Channel)})
		}
		for _, k := range slices.Sorted(maps.Keys(v.Providers[name])) {
			c.setting(childPath(at, k), v.Providers[name][k], secretName(k))
		}
	}
}

// textless are the types that take a template without a text and without anything of
// their own: nothing is sent, or the template's name and variables are handed on.
var textless = []string{ProviderNone, ProviderExternal, "simulated", "http"}

// codesOnly judges a template without a text, which is what its providers make of it:
// whoever carries the channel may come to serve it, and must have a template of his own.
func (c *checker) codesOnly(v *Template, path string) {
	for i := range c.policy.Providers {
		pr := &c.policy.Providers[i]
		if _, has := v.Providers[pr.Name]; has || !slices.Contains(pr.Channels, v.Channel) || slices.Contains(textless, pr.Type) {
			continue
		}
		c.failf(path, "has no text, and provider %s, which carries %s too, has no template of its own here: give it a body, or %s's own template under providers", pr.Name, v.Channel, pr.Name)
	}
}

func (c *checker) tenant(v *Tenant, path string) {
	if v.DefaultRegion != "" {
		c.country(path+".default_region", v.DefaultRegion)
	}
	c.rates(path, v.Rates)
	cb := v.Callback
	if cb == nil {
		return
	}
	at := path + ".callback"
	if cb.URL != "" {
		c.address(at+".url", cb.URL)
		c.setting(at+".url", cb.URL, false)
	}
	if cb.Secret == "" {
		c.failf(at+".secret", "is missing: callbacks are signed; make one with openssl rand -base64 32, and write where it is, such as secret: \"${ACME_WHSEC}\"")
	} else {
		c.setting(at+".secret", cb.Secret, true)
	}
	if cb.PreviousSecret != "" {
		c.setting(at+".previous_secret", cb.PreviousSecret, true)
	}
	for i, e := range cb.Events {
		item := itemPath(at+".events", i)
		if e == "" || !slices.Contains(Statuses[1:], Status(e)) {
			c.failf(item, "%s is no status that is told: write %s", quote(e), orList(Statuses[1:]))
		} else if slices.Contains(cb.Events[:i], e) {
			c.failf(item, "%s is there twice: keep one, such as [%s]", e, e)
		}
	}
}

// key checks a key. secrets maps the hashes so far to where they stand.
func (c *checker) key(v *Key, path string, secrets map[string]string) {
	if v.Tenant == "" {
		c.failf(path+".tenant", "is missing: say for whom it sends, such as tenant: default")
	} else {
		c.tenantName(path+".tenant", v.Tenant)
	}
	if len(v.Scopes) == 0 {
		c.failf(path+".scopes", "is missing or empty: write what it may do, such as scopes: [send, read]")
	}
	for i, s := range v.Scopes {
		mustBe(c, itemPath(path+".scopes", i), s, KeyScopes)
	}
	hash := func(at, hash string) {
		switch first, again := secrets[hash]; {
		case hash == "":
			c.failf(at, "is missing: make the key with weir keys create, which prints one such as sha256:9f86…")
		case !hashForm.MatchString(hash):
			c.failf(at, "is not the hash of a key: write sha256: and 64 digits of 0-9 and a-f, as weir keys create prints it, such as sha256:9f86…")
		case again:
			c.failf(at, "is also in %s: a secret is one key's; make this key anew with weir keys create", first)
		default:
			secrets[hash] = at
		}
	}
	hash(path+".hash", v.Hash)
	if p := v.Previous; p != nil {
		hash(path+".previous.hash", p.Hash)
		if p.ExpiresAt == 0 {
			c.failf(path+".previous.expires_at", "is missing: say until when the secret before is good, such as 2026-11-22T01:00:00Z")
		}
	}
	if v.Prefer != "" && !preferForm.MatchString(v.Prefer) {
		c.failf(path+".prefer", "%s is no preference: write wait=N with N from 1 to 60 seconds, or respond-async, such as wait=1", quote(v.Prefer))
	}
	c.rates(path, v.Rates)
}

// rates checks how often a key, or each of a tenant's keys, may call.
func (c *checker) rates(path string, rates map[string]Window) {
	for _, k := range slices.Sorted(maps.Keys(rates)) {
		at := childPath(path+".rates", k)
		if !slices.Contains(KeyRates, k) {
			c.failf(at, "%s is no kind of call: write %s, such as write: bucket 30 refill 5/s", quote(k), orList(KeyRates))
		}
		w := rates[k]
		switch err := w.check(); {
		case err != nil:
			c.report(at, err.Error())
		case w.Kind == WindowCalendar:
			c.failf(at, "%s: a rate is a bucket or rolls, such as bucket 30 refill 5/s", w)
		case w.Kind == WindowRolling && w.N > MaxRateRolling:
			c.failf(at, "%s would keep the times of %d calls, and at most %d are kept: use a bucket, such as bucket %d refill 100/s", w, w.N, MaxRateRolling, w.N)
		}
	}
}

func (c *checker) alert(v *Alert, path string) {
	at := path + ".to"
	kind, _ := v.To["type"].(string)
	target, fields := "url", []string{"type", "url", "secret"}
	if kind == "email" {
		target, fields = "address", []string{"type", "address", "provider"}
	}
	switch {
	case len(v.To) == 0:
		c.failf(at, "is missing or empty: say whom to tell, such as to: {type: slack, url: \"${SLACK_WEBHOOK_URL}\"}")
	case v.To["type"] == nil:
		c.failf(at+".type", "is missing: write %s, such as {type: slack, url: \"${SLACK_WEBHOOK_URL}\"}", orList(AlertTypes))
	case !slices.Contains(AlertTypes, kind):
		c.failf(at+".type", "is not known: write %s, such as {type: slack, url: \"${SLACK_WEBHOOK_URL}\"}", orList(AlertTypes))
	default:
		for _, k := range slices.Sorted(maps.Keys(v.To)) {
			if !slices.Contains(fields, k) {
				c.failf(childPath(at, k), "%s is nothing that %s takes: write %s", quote(k), kind, orList(fields))
			}
		}
		s, ok := v.To[target].(string)
		switch {
		case !ok && kind == "email":
			c.failf(at+".address", "is missing or no text: say whom to write to, such as {type: email, address: oncall@example.com}")
		case !ok:
			c.failf(at+".url", "is missing or no text: say where to POST, such as {type: %s, url: \"${ALERT_URL}\"}", kind)
		case kind == "email" && !strings.Contains(s, "@") && !fromOutside(s):
			c.failf(at+".address", "is not an address, such as oncall@example.com")
		case kind != "email":
			c.address(at+".url", s)
			// Whoever has Slack's address may post, so it is a secret as a whole.
			c.setting(at+".url", s, kind == "slack")
		}
		if s, ok := v.To["secret"]; ok {
			c.setting(at+".secret", s, true)
		}
		if kind == "email" {
			c.mailer(at+".provider", v)
		}
	}
	if len(v.When) == 0 {
		c.failf(path+".when", "is missing or empty: say of what, such as when: [breaker.open]")
	}
	for i, s := range v.When {
		mustBe(c, itemPath(path+".when", i), s, AlertEvents)
	}
	if v.AtMost != "" {
		switch w, err := ParseWindow(v.AtMost); {
		case err != nil || w.Kind != WindowRolling:
			c.failf(path+".at_most", "%s is not n/DURATION: write how many in how long, such as 1/10m", quote(v.AtMost))
		case w.N > MaxAlerts:
			c.failf(path+".at_most", "%s is more than anybody reads: at most %d in a window, such as 1/10m", w, MaxAlerts)
		}
	}
}

// mailer checks that there is a provider that an alert by e-mail can be sent with.
func (c *checker) mailer(path string, v *Alert) {
	named := v.To["provider"]
	name, ok := named.(string)
	switch p, err := c.policy.Mailer(v); {
	case named != nil && !ok:
		c.failf(path, "is no text: name a provider that carries email, or leave it out for the first of them")
	case err == nil:
	case named == nil:
		c.failf(path, "is missing, and no provider carries email: declare one, such as providers: [{name: mail, type: smtp, channels: [email], …}]")
	case p == nil:
		c.known(path, "provider", name, c.providers)
	default:
		c.failf(path, "%s cannot send it: name a provider that Weir calls and that carries email, such as one of type smtp or ses", quote(name))
	}
}

func (c *checker) inputs(list []Input) {
	first := map[string]int{}
	for i, v := range list {
		path := itemPath("inputs", i)
		switch j, again := first[v.Topic]; {
		case v.Topic == "":
			c.failf(path+".topic", "is missing: name one, such as topic: acme.sends")
		case !topicForm.MatchString(v.Topic) || v.Topic == "." || v.Topic == "..":
			c.failf(path+".topic", "%s is not a topic's name: write 1 to 249 letters, digits, ., _ and -, such as acme.sends", quote(v.Topic))
		case strings.HasPrefix(v.Topic, "weir."):
			c.failf(path+".topic", "%s is one of Weir's own topics: name one of your producers', such as acme.sends", v.Topic)
		case again:
			c.failf(path+".topic", "%s is also in %s: a topic is bound to one tenant, such as acme.sends", v.Topic, itemPath("inputs", j))
		default:
			first[v.Topic] = i
		}
		if v.Tenant == "" {
			c.failf(path+".tenant", "is missing: say whose requests these are, such as tenant: acme")
		} else {
			c.tenantName(path+".tenant", v.Tenant)
		}
	}
}
