package limit

import (
	"testing"

	"github.com/weirhq/weir/schemas"
)

// other is one in everything that a limit can count or match by, and nothing
// like it.
var (
	whole = Subject{Recipient: "+8613800000000", Tenant: "acme", Channel: "sms", Class: "verify", Template: "code", Content: "c1", Provider: "p", Country: "CN", Metadata: map[string]string{"ip": "1"}}
	other = Subject{Recipient: "+12125550123", Tenant: "umbrella", Channel: "voice", Class: "notice", Template: "news", Content: "c2", Provider: "q", Country: "US", Metadata: map[string]string{"ip": "2"}}
)

// differing are whole, but for one field each.
func differing() map[string]Subject {
	out := map[string]Subject{}
	for name, change := range map[string]func(s *Subject){
		"recipient":   func(s *Subject) { s.Recipient = other.Recipient },
		"tenant":      func(s *Subject) { s.Tenant = other.Tenant },
		"channel":     func(s *Subject) { s.Channel = other.Channel },
		"class":       func(s *Subject) { s.Class = other.Class },
		"template":    func(s *Subject) { s.Template = other.Template },
		"content":     func(s *Subject) { s.Content = other.Content },
		"provider":    func(s *Subject) { s.Provider = other.Provider },
		"country":     func(s *Subject) { s.Country = other.Country },
		"metadata.ip": func(s *Subject) { s.Metadata = other.Metadata },
	} {
		s := whole
		change(&s)
		out[name] = s
	}
	return out
}

// A limit per recipient and one thing more keeps apart what differs in either,
// and counts together what differs in anything else.
func TestEachPer(t *testing.T) {
	now := at(t, "2026-11-21T12:00:00Z")
	for _, per := range []string{"recipient", "tenant", "channel", "class", "template", "content", "provider", "country", "metadata.ip"} {
		l := perRecipient(t, "a", "1/1h")
		if per != "recipient" {
			l.Per = append(l.Per, per)
		}
		r := rulesOf(t, l)
		for differs, s := range differing() {
			table := NewTable()
			if !table.Decide(r, &whole, nil, now).OK {
				t.Fatal("setup")
			}
			apart := differs == per || differs == "recipient"
			if passed := table.Decide(r, &s, nil, now).OK; passed != apart {
				t.Errorf("per recipient and %s: another %s is counted apart: %v", per, differs, passed)
			}
		}
	}
	// A prefix is the recipient's own, so it never tells two messages to one
	// recipient apart.
	l := perRecipient(t, "a", "1/1h")
	l.Per = append(l.Per, "prefix:3")
	r, table := rulesOf(t, l), NewTable()
	table.Decide(r, &whole, nil, now)
	if table.Decide(r, &whole, nil, now).OK {
		t.Error("per recipient and prefix: two of one recipient passed")
	}
}

// A limit that matches a value applies to it, in a list too, and to nothing
// else, nor to what lacks the field.
func TestEachMatch(t *testing.T) {
	now := at(t, "2026-11-21T12:00:00Z")
	for name, match := range map[string]func(values ...string) schemas.Match{
		"tenant":      func(v ...string) schemas.Match { return schemas.Match{Tenant: v} },
		"channel":     func(v ...string) schemas.Match { return schemas.Match{Channel: v} },
		"class":       func(v ...string) schemas.Match { return schemas.Match{Class: v} },
		"template":    func(v ...string) schemas.Match { return schemas.Match{Template: v} },
		"provider":    func(v ...string) schemas.Match { return schemas.Match{Provider: v} },
		"country":     func(v ...string) schemas.Match { return schemas.Match{Country: v} },
		"metadata.ip": func(v ...string) schemas.Match { return schemas.Match{Metadata: map[string][]string{"ip": v}} },
		"prefix":      func(v ...string) schemas.Match { return schemas.Match{Prefix: v} },
	} {
		value := map[string][2]string{
			"tenant": {whole.Tenant, other.Tenant}, "channel": {whole.Channel, other.Channel}, "class": {whole.Class, other.Class},
			"template": {whole.Template, other.Template}, "provider": {whole.Provider, other.Provider}, "country": {whole.Country, other.Country},
			"metadata.ip": {"1", "2"}, "prefix": {"86138", "1"},
		}[name]
		for _, c := range []struct {
			says   string
			values []string
			s      Subject
			want   bool
		}{
			{"its value", []string{value[0]}, whole, true},
			{"one of a list", []string{value[1], value[0]}, whole, true},
			{"another value", []string{value[1]}, whole, false},
			{"another subject", []string{value[0]}, other, false},
			{"a subject without the field", []string{value[0]}, Subject{Recipient: "a@example.com"}, false},
		} {
			l := perRecipient(t, "a", "1/1h")
			l.Match = match(c.values...)
			res := NewTable().Decide(rulesOf(t, l), &c.s, nil, now)
			if got := len(res.Charges) == 1; got != c.want {
				t.Errorf("match %s, %s: applies %v", name, c.says, got)
			}
		}
	}
	// All fields must match together.
	l := perRecipient(t, "a", "1/1h")
	l.Match = schemas.Match{Class: []string{whole.Class}, Channel: []string{other.Channel}}
	if res := NewTable().Decide(rulesOf(t, l), &whole, nil, now); len(res.Charges) != 0 {
		t.Error("one field of two matched, and the limit applied")
	}
}
