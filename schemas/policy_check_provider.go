package schemas

import (
	"maps"
	"math"
	"slices"
)

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
				if err := f.v.checkRecorded(); err != nil { // decoding has judged what the file has
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
			if like := nearest("url", slices.Sorted(maps.Keys(v.Settings))); like != "" {
				c.failf(childPath(path+".settings", like), "is not a setting of type http; did you mean url?")
				break
			}
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
	c.causes(path+".next_provider_on", v.NextProviderOn, DefaultNextProviderOn)
}

// causes checks after which outcomes another provider is preferred.
func (c *checker) causes(path string, list, allowed []RetryCause) {
	for i, v := range list {
		at := itemPath(path, i)
		switch {
		case v == RetryUnknown && !slices.Contains(allowed, v):
			c.failf(at, "unknown stands in a class only: another provider does not know the message's idempotency key and may send it twice; write it in next_provider_on of a class that may be sent twice, or use %s", orList(allowed))
		case !slices.Contains(allowed, v):
			mustBe(c, at, v, allowed)
		case slices.Contains(list[:i], v):
			c.failf(at, "%s is there twice: keep one, such as [%s]", v, v)
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
	c.className(path+".class", v.Class)
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
