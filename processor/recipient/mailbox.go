package recipient

import (
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir/schemas"
)

// Mailboxes are a policy's rules of which mail addresses reach one mailbox. The nil
// value has no rules. It does not change.
type Mailboxes struct{ domains map[string]mailbox }

type mailbox struct {
	domain    string // the first of its entry, which names all of them
	dots, tag bool
}

// MailboxesOf reads the rules of a valid policy.
func MailboxesOf(p *schemas.Policy) *Mailboxes {
	if p == nil || len(p.Mailboxes) == 0 {
		return nil
	}
	m := &Mailboxes{make(map[string]mailbox)}
	for _, e := range p.Mailboxes {
		var box mailbox
		for _, what := range e.Ignore {
			switch what {
			case schemas.IgnoreDots:
				box.dots = true
			case schemas.IgnoreTag:
				box.tag = true
			}
		}
		for _, d := range e.Domains {
			box.domain = e.Domains[0]
			m.domains[d] = box
		}
	}
	return m
}

// Equal reports whether both have the same rules.
func (m *Mailboxes) Equal(o *Mailboxes) bool {
	if m == nil || o == nil {
		return m == o
	}
	return maps.Equal(m.domains, o.domains)
}

// Of returns the mailbox that a recipient's key reaches: of a mail address the
// address with the rules of its domain applied, of anything else the key. An address
// of which the rules leave nothing before @ is its own mailbox.
func (m *Mailboxes) Of(channel schemas.Channel, key string) string {
	if channel != schemas.ChannelEmail {
		return key
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r >= utf8.RuneSelf || 'A' <= r && r <= 'Z' }) {
		key = Fold(key) // one from before keys ignored letter case may still be on its way
	}
	if m == nil {
		return key
	}
	at := strings.LastIndexByte(key, '@')
	box, ok := m.domains[key[at+1:]]
	if !ok {
		return key
	}
	local := key[:max(at, 0)]
	if box.tag {
		local, _, _ = strings.Cut(local, "+")
	}
	if box.dots {
		local = strings.ReplaceAll(local, ".", "")
	}
	if local == "" {
		return key
	}
	return local + "@" + box.domain
}
