package recipient

import (
	"testing"

	"github.com/weirhq/weir/schemas"
)

func TestMailboxes(t *testing.T) {
	doc, err := schemas.ParsePolicy("policy.yaml", []byte(`
mailboxes:
  - {domains: [gmail.com, googlemail.com], ignore: [dots, tag]}
  - {domains: [fastmail.com], ignore: [tag]}
  - {domains: [dotted.example], ignore: [dots]}
  - {domains: [old.example, new.example]}
`))
	if err != nil {
		t.Fatal(err)
	}
	m := MailboxesOf(&doc.Policy)
	for key, want := range map[string]string{
		"ann@gmail.com":              "ann@gmail.com",
		"a.nn+x@gmail.com":           "ann@gmail.com",
		"a.n.n+x.y+z@googlemail.com": "ann@gmail.com",
		"A.nn+x@gmail.com":           "ann@gmail.com", // a key from before letter case was folded
		"a.nn+x@mail.gmail.com":      "a.nn+x@mail.gmail.com",
		"a.nn+x@fastmail.com":        "a.nn@fastmail.com",
		"a.nn+x@dotted.example":      "ann+x@dotted.example",
		"a.nn+x@new.example":         "a.nn+x@old.example",
		"a.nn+x@old.example":         "a.nn+x@old.example",
		"a.nn+x@example.com":         "a.nn+x@example.com",
		"+x@gmail.com":               "+x@gmail.com", // the rules leave nothing
		"+y@googlemail.com":          "+y@googlemail.com",
	} {
		if got := m.Of(schemas.ChannelEmail, key); got != want {
			t.Errorf("%s reaches %s, want %s", key, got, want)
		}
		if got := m.Of(schemas.ChannelPush, key); got != key {
			t.Errorf("the push token %s has become %s", key, got)
		}
	}
	var none *Mailboxes
	if got := none.Of(schemas.ChannelEmail, "a.nn+x@gmail.com"); got != "a.nn+x@gmail.com" {
		t.Errorf("without rules it reaches %s", got)
	}
	if got := none.Of(schemas.ChannelSMS, "+8613800000000"); got != "+8613800000000" {
		t.Errorf("a number has become %s", got)
	}
}

// The order of entries and of what they ignore means nothing; the first domain of an
// entry names the mailbox.
func TestEqualMailboxes(t *testing.T) {
	of := func(all ...schemas.Mailbox) *Mailboxes { return MailboxesOf(&schemas.Policy{Mailboxes: all}) }
	a := schemas.Mailbox{Domains: []string{"a.example", "b.example"}, Ignore: []schemas.MailboxPart{schemas.IgnoreDots, schemas.IgnoreTag}}
	c := schemas.Mailbox{Domains: []string{"c.example"}, Ignore: []schemas.MailboxPart{schemas.IgnoreTag}}
	swapped := schemas.Mailbox{Domains: a.Domains, Ignore: []schemas.MailboxPart{schemas.IgnoreTag, schemas.IgnoreDots}}
	renamed := schemas.Mailbox{Domains: []string{"b.example", "a.example"}, Ignore: a.Ignore}
	less := schemas.Mailbox{Domains: a.Domains, Ignore: c.Ignore}
	for _, tt := range []struct {
		name string
		x, y *Mailboxes
		want bool
	}{
		{"none", of(), of(), true},
		{"none and one", of(), of(c), false},
		{"the same", of(a, c), of(a, c), true},
		{"another order", of(a, c), of(c, swapped), true},
		{"another first domain", of(a), of(renamed), false},
		{"dots count again", of(a), of(less), false},
	} {
		if got := tt.x.Equal(tt.y); got != tt.want || tt.y.Equal(tt.x) != got {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestMaskScopes(t *testing.T) {
	for text, want := range map[string]string{
		`[{"limit":"boxes","scope":"mailbox=ann@gmail.com,tenant=acme","t":1,"cost":1},{"scope":"mailbox=+8613800000042"}]`: `[{"limit":"boxes","scope":"mailbox=a***@gmail.com,tenant=acme","t":1,"cost":1},{"scope":"mailbox=+86*********42"}]`,
		`[{"scope":"tenant=acme"}]`: `[{"scope":"tenant=acme"}]`,
	} {
		if got := MaskScopes(text); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
