package limit

import (
	"testing"
	"unicode/utf8"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

var gmail = []schemas.Mailbox{{Domains: []string{"gmail.com", "googlemail.com"}, Ignore: []schemas.MailboxPart{schemas.IgnoreDots, schemas.IgnoreTag}}}

func TestScopeText(t *testing.T) {
	s := &Subject{Recipient: "+8613800000000", Tenant: "acme", Class: "a,b=c%", Metadata: map[string]string{"ip": "203.0.113.9", "x,y": "张\xff\n"}}
	for _, test := range []struct {
		per  []string
		want string
	}{
		{[]string{"recipient"}, "+8613800000000"},
		{[]string{"recipient", "class"}, "recipient=+8613800000000,class=a%2Cb%3Dc%25"},
		{[]string{"class", "recipient", "class"}, "recipient=+8613800000000,class=a%2Cb%3Dc%25"},
		{[]string{"metadata.ip", "prefix:4", "recipient", "tenant"}, "recipient=+8613800000000,tenant=acme,prefix:4=8613,metadata.ip=203.0.113.9"},
		{[]string{"recipient", "metadata.x,y"}, "recipient=+8613800000000,metadata.x%2Cy=张%FF%0A"},
		{[]string{"recipient", "prefix:15"}, "recipient=+8613800000000,prefix:15=8613800000000"},
		{[]string{"recipient", "country"}, "recipient=+8613800000000,country="},
		{[]string{"class"}, "class=a%2Cb%3Dc%25"},
		{nil, ""},
	} {
		dims, err := parsePer(test.per, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendScope(nil, dims, s)); got != test.want {
			t.Errorf("per %v: %s, want %s", test.per, got, test.want)
		}
	}
	dims, err := parsePer([]string{"recipient", "prefix:3"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(appendScope(nil, dims, &Subject{Recipient: "+x=@example.com"})); got != "recipient=+x%3D@example.com,prefix:3=" {
		t.Errorf("a recipient that is no phone: %s", got)
	}
}

// Different values never make the same text, and a text is always UTF-8.
func FuzzScopeIsInjective(f *testing.F) {
	f.Add("a", "b,class=c", "a,class=b", "c")
	f.Add("%", "=", "%25", "")
	f.Add("\xff", "\xef\xbf\xbd", "\xef\xbf\xbd", "\xff")
	dims, err := parsePer([]string{"recipient", "class"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	single, err := parsePer([]string{"recipient"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, r1, c1, r2, c2 string) {
		a, b := &Subject{Recipient: r1, Class: c1}, &Subject{Recipient: r2, Class: c2}
		x, y := string(appendScope(nil, dims, a)), string(appendScope(nil, dims, b))
		if (x == y) != (r1 == r2 && c1 == c2) || !utf8.ValidString(x) {
			t.Errorf("%q, %q: %q\n%q, %q: %q", r1, c1, x, r2, c2, y)
		}
		if string(appendScope(nil, single, a)) == y {
			t.Errorf("%q reads as %q", r1, y)
		}
	})
}

// A limit per mailbox is wide, and its scope is the mailbox by the rules.
func TestScopeOfMailbox(t *testing.T) {
	boxes := recipient.MailboxesOf(&schemas.Policy{Mailboxes: gmail})
	for _, test := range []struct {
		per         []string
		channel, to string
		want, plain string // with the rules, and without
	}{
		{[]string{"mailbox"}, "email", "a.nn+x@googlemail.com", "mailbox=ann@gmail.com", "mailbox=a.nn+x@googlemail.com"},
		{[]string{"tenant", "mailbox"}, "email", "a.nn@gmail.com", "mailbox=ann@gmail.com,tenant=acme", "mailbox=a.nn@gmail.com,tenant=acme"},
		{[]string{"mailbox", "recipient"}, "email", "a.nn@gmail.com", "recipient=a.nn@gmail.com,mailbox=ann@gmail.com", "recipient=a.nn@gmail.com,mailbox=a.nn@gmail.com"},
		{[]string{"mailbox"}, "email", "a=,b@gmail.com", "mailbox=a%3D%2Cb@gmail.com", "mailbox=a%3D%2Cb@gmail.com"},
		{[]string{"mailbox"}, "sms", "+8613800000000", "mailbox=+8613800000000", "mailbox=+8613800000000"},
		{[]string{"mailbox"}, "push", "a.nn+x@gmail.com", "mailbox=a.nn+x@gmail.com", "mailbox=a.nn+x@gmail.com"},
	} {
		s := &Subject{Recipient: test.to, Channel: test.channel, Tenant: "acme"}
		for rules, want := range map[*recipient.Mailboxes]string{boxes: test.want, nil: test.plain} {
			dims, err := parsePer(test.per, rules)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(appendScope(nil, dims, s)); got != want || Wide(got) != (len(test.per) == 1 || test.per[0] == "tenant") {
				t.Errorf("per %v of %s %s: %s, want %s; wide %v", test.per, test.channel, test.to, got, want, Wide(got))
			}
		}
	}
}
