package schemas

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// What a policy may name. The JSON Schema lists the same, and a test compares.
var (
	Priorities   = []Priority{PriorityUrgent, PriorityNormal, PriorityBulk}
	KeyScopes    = []string{"send", "read", "policy", "keys", "operate", "admin"}
	KeyRates     = []string{"write", "query", "batch", "import"}
	MailboxParts = []MailboxPart{IgnoreDots, IgnoreTag}
	AlertTypes   = []string{"slack", "webhook", "email"}
	AlertEvents  = []string{AlertLimitObserved, AlertLimitRefused, AlertBreakerOpen, AlertDLQRecord, AlertSinkDifference, AlertClockStall, AlertStageStuck, AlertProviderStalled, AlertAudit, AlertLag}
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
	domainForm   = regexp.MustCompile(`^([a-z0-9_][a-z0-9_-]{0,62}\.)+[a-z0-9_][a-z0-9_-]{0,62}$`)
	topicForm    = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
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

	classes, providers, templates, tenants map[string]int // index by name
}

func (c *checker) failf(path, format string, args ...any) {
	c.report(path, fmt.Sprintf(format, args...))
}

func (c *checker) check() {
	p := c.policy
	c.names("limits", len(p.Limits), func(i int) string { return p.Limits[i].Name })
	c.classes = c.names("classes", len(p.Classes), func(i int) string { return p.Classes[i].Name })
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
	c.mailboxes(p.Mailboxes)
}

// mailboxes checks which addresses are one mailbox.
func (c *checker) mailboxes(all []Mailbox) {
	if len(all) > MaxMailboxes {
		c.failf("mailboxes", "has %d entries: at most %d, such as [{domains: [gmail.com, googlemail.com], ignore: [dots, tag]}]", len(all), MaxMailboxes)
	}
	first := map[string]string{}
	for i := range all {
		m, path := &all[i], itemPath("mailboxes", i)
		switch {
		case len(m.Domains) == 0:
			c.failf(path+".domains", "is missing or empty: write the domains whose addresses this is of, such as domains: [gmail.com, googlemail.com]")
		case len(m.Domains) > MaxMailboxes:
			c.failf(path+".domains", "has %d domains: at most %d, such as [gmail.com, googlemail.com]", len(m.Domains), MaxMailboxes)
		case len(m.Domains) == 1 && len(m.Ignore) == 0:
			c.failf(path, "one domain that ignores nothing makes no two addresses one mailbox: say what it ignores, such as ignore: [dots, tag], or name a second domain")
		}
		for j, d := range m.Domains {
			at := itemPath(path+".domains", j)
			if !domainForm.MatchString(d) || len(d) > 253 {
				c.failf(at, "%s is not a domain: write it in lower case and ASCII, such as gmail.com or xn--bcher-kva.example", quote(d))
			} else if was, again := first[d]; again {
				c.failf(at, "%s is also in %s: a domain has one entry, such as {domains: [%s], ignore: [dots, tag]}", d, was, d)
			} else {
				first[d] = at
			}
		}
		for j, part := range m.Ignore {
			at := itemPath(path+".ignore", j)
			if mustBe(c, at, part, MailboxParts); slices.Contains(m.Ignore[:j], part) {
				c.failf(at, "%s is there twice: keep one, such as ignore: [dots, tag]", quote(string(part)))
			}
		}
	}
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
		c.failf(path, "%s is not known%s Write %s", quote(string(v)), DidYouMean(string(v), texts(allowed)), orList(allowed))
	}
}

// DidYouMean ends a sentence, with a guess if there is a good one.
func DidYouMean(word string, candidates []string) string {
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
	if _, err := Zone(v); err != nil {
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
		kind, quote(v), DidYouMean(v, slices.Sorted(maps.Keys(declared))), kind, kind, exampleName(v))
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

// className checks the class that a template or a key names.
func (c *checker) className(path, v string) {
	if _, ok := c.classes[v]; ok || v == "" || v == DefaultClass {
		return
	}
	c.failf(path, "there is no class %s%s Declare it under classes, such as classes: [{name: %s}]",
		quote(v), DidYouMean(v, slices.Sorted(maps.Keys(c.classes))), exampleName(v))
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

var perNames = []string{"recipient", "mailbox", "tenant", "channel", "class", "template", "content", "provider", "country"}

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
	c.causes(path+".next_provider_on", v.NextProviderOn, RetryCauses)
	if v.Unknown != "" && v.Name != DefaultClass {
		c.failf(path+".unknown", "is of the class default alone: write - {name: default, unknown: reject}")
	}
	oneOf(c, path+".unknown", v.Unknown, []UnknownClass{UnknownDefault, UnknownReject})
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

func (c *checker) tenant(v *Tenant, path string) {
	if v.DefaultRegion != "" {
		c.country(path+".default_region", v.DefaultRegion)
	}
	c.rates(path+".rates", v.Rates)
	c.rates(path+".total_rates", v.TotalRates)
	c.whole(path+".policy_bytes", v.PolicyBytes, 1, MaxPolicyBytes, "262144")
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
	c.className(path+".class", v.Class)
	c.rates(path+".rates", v.Rates)
	if v.OnUnavailable != "" && v.OnUnavailable != UnavailableAllow {
		c.failf(path+".on_unavailable", "%s is not known: write allow, or leave it out to refuse what cannot be decided", quote(v.OnUnavailable))
	}
}

// rates checks how often a key, each of a tenant's keys, or all of them together may call.
func (c *checker) rates(path string, rates map[string]Window) {
	for _, k := range slices.Sorted(maps.Keys(rates)) {
		at := childPath(path, k)
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
