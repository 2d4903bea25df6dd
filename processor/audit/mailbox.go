package audit

import (
	"slices"
	"strings"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// box is the rule of one domain: which of its addresses are one mailbox.
type box struct {
	name      string // of the domain, in scopes
	dots, tag bool   // ignored
}

func boxesOf(p *schemas.Policy) map[string]box {
	all := make(map[string]box)
	for _, m := range p.Mailboxes {
		for _, domain := range m.Domains {
			all[domain] = box{m.Domains[0], slices.Contains(m.Ignore, schemas.IgnoreDots), slices.Contains(m.Ignore, schemas.IgnoreTag)}
		}
	}
	return all
}

// mailboxOf is the recipient by the rule of its domain. One that has no domain, or
// none with a rule, is itself; so is one of which the rule leaves no name.
func mailboxOf(all map[string]box, s *subject) string {
	if s.channel != string(schemas.ChannelEmail) {
		return s.to
	}
	to := recipient.Fold(s.to)
	name, domain, _ := strings.Cut(to, "@")
	of, ruled := all[domain]
	if !ruled {
		return to
	}
	var out strings.Builder
	for _, c := range name {
		if c == '+' && of.tag {
			break
		}
		if c != '.' || !of.dots {
			out.WriteRune(c)
		}
	}
	if out.Len() == 0 {
		return to
	}
	return out.String() + "@" + of.name
}
