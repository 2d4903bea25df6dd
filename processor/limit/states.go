package limit

import (
	"runtime"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// What is left is told to callers who wait for a decision, and to those who only
// ask. Limits that observe say nothing: they refuse nobody.

// States appends to dst what is left for s in every window of the enforced limits
// of its recipient, in the policy's order. It takes nothing.
func (t *Table) States(dst []schemas.LimitState, r *Rules, s *Subject, now schemas.Millis) []schemas.LimitState {
	defer runtime.KeepAlive(t)
	now = t.look(r, now)
	t.planFor(r, s)
	for i := range t.plans {
		if p := &t.plans[i]; !p.l.observe {
			dst = t.states(dst, p, now)
		}
	}
	return dst
}

// StatesIn is States for one limit in one scope. The recipient is whose it is; ""
// for a wide limit. Nothing is appended where the rules have no enforced limit of
// that name that counts in that scope, or the recipient is exempt.
func (t *Table) StatesIn(dst []schemas.LimitState, r *Rules, limit, scope, recipient string, now schemas.Millis) []schemas.LimitState {
	defer runtime.KeepAlive(t)
	l := r.byName[limit]
	if l == nil || l.observe || l.wide != (recipient == "") || !l.countsFor(scope, recipient) {
		return dst
	}
	if _, ok := l.exempt[recipient]; ok {
		return dst
	}
	now = t.look(r, now)
	p := plan{l: l, windows: l.windowsFor(recipient), key: t.keyOf(limit, scope), at: nowhere, scope: scope}
	return t.states(dst, &p, now)
}

// look takes the time of a call that changes nothing.
func (t *Table) look(r *Rules, now schemas.Millis) schemas.Millis {
	t.use(r)
	return min(max(now, t.last), maxTime)
}

func (t *Table) states(dst []schemas.LimitState, p *plan, now schemas.Millis) []schemas.LimitState {
	s := t.slotOf(p)
	for i := range p.windows {
		w := &p.windows[i]
		count, first, level := t.count(s, p.l, w, now)
		m := schemas.LimitState{Limit: p.l.name, Window: w.text, N: w.n, Remaining: max(w.n-count, 0)}
		switch {
		case count == 0:
		case w.bucket():
			m.Reset = now + w.wait((m.Remaining+1)*w.parts-level)
		case w.calendar:
			m.Reset = t.period(p.l, int(w.unit), now).end
		default:
			// Under a lowered n more may stand than n: then the oldest to leave
			// makes no room yet.
			m.Reset = t.nth(s, first, max(count-w.n, 0)+1) + w.length
		}
		dst = append(dst, m)
	}
	return dst
}

// countsFor is counts for a limit of one recipient too: the scope has to be its.
func (c *rule) countsFor(scope, recipient string) bool {
	if c.wide {
		return c.counts(scope)
	}
	own := string(appendEscaped(nil, recipient))
	if c.alone {
		return scope == own
	}
	rest, ok := strings.CutPrefix(scope, c.dims[0].label+own)
	return ok && strings.HasPrefix(rest, ",") && c.counts(scope)
}

// Inquiry is what to ask whom for what is left.
type Inquiry struct {
	// Asks has a question for each partition that owns one of the scopes.
	Asks map[int32]*schemas.QuotaAsk
	// Unknown names the limits that may apply, by what s does not say: such as
	// the content, or a field of metadata. What is left in them is not guessed.
	Unknown []string
}

// Inquire plans the question for what is left for s, as Plan plans a message's
// round, among n partitions. What s leaves empty it does not say, but for the
// country: a recipient without one has none.
func (r *Rules) Inquire(s *Subject, n int32) Inquiry {
	q := Inquiry{Asks: make(map[int32]*schemas.QuotaAsk)}
	for i := range r.limits {
		l := &r.limits[i]
		if l.observe {
			continue
		}
		applies, unsaid := l.mayApply(s)
		switch {
		case !applies:
			continue
		case l.lacksCounted(s): // nothing to count by: see Plan
			continue
		case unsaid || l.unsaid(s):
			q.Unknown = append(q.Unknown, l.name)
			continue
		}
		scope := string(appendScope(nil, l.dims, s))
		owner := schemas.PartitionOf(s.Recipient, n)
		if l.wide {
			owner = Owner(scope, n)
		}
		if q.Asks[owner] == nil {
			q.Asks[owner] = &schemas.QuotaAsk{}
		}
		ask := q.Asks[owner]
		ask.Scopes = append(ask.Scopes, schemas.QuotaScope{Limit: l.name, Scope: scope})
		if !l.wide {
			ask.To = s.Recipient
		}
	}
	return q
}

// mayApply is matches for a subject that does not say everything: whether the
// limit may apply, and whether that depends on what is not said.
func (c *rule) mayApply(s *Subject) (may, unsaid bool) {
	said := *s
	said.Metadata = make(map[string]string, len(c.match.Metadata))
	fill := func(v *string, list []string) {
		if *v == "" && len(list) > 0 {
			*v, unsaid = list[0], true
		}
	}
	m := &c.match
	fill(&said.Tenant, m.Tenant)
	fill(&said.Channel, m.Channel)
	fill(&said.Class, m.Class)
	fill(&said.Template, m.Template)
	fill(&said.Provider, m.Provider)
	for field, list := range m.Metadata {
		v := s.Metadata[field]
		fill(&v, list)
		said.Metadata[field] = v
	}
	return c.matches(&said), unsaid
}

// unsaid reports whether s does not say something that the limit counts by.
func (c *rule) unsaid(s *Subject) bool {
	for i := range c.dims {
		if d := &c.dims[i]; !d.derived() && d.value(s) == "" {
			return true
		}
	}
	return false
}

// lacksCounted reports whether a wide limit does not count s's recipient at all,
// for want of a country or prefix.
func (c *rule) lacksCounted(s *Subject) bool {
	if !c.wide {
		return false
	}
	for i := range c.dims {
		if d := &c.dims[i]; d.derived() && d.value(s) == "" {
			return true
		}
	}
	return false
}

// derived reports whether a dimension's value follows from the recipient.
func (d *dimension) derived() bool {
	return d.order == dimRecipient || d.order == dimMailbox || d.order == dimCountry || d.order == dimPrefix
}
