package audit

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// refused judges that a window was full, and what the refusal says of it: one of
// home's own, in this step, or of an owner, who said so before.
func (p *partition) refused(in *kgo.Record, env *schemas.Envelope) {
	d, r := p.e.Decision, &p.trip.round
	p.nothingReturned()
	p.learn(in, env)
	if p.revision < 0 {
		p.cannotTell("decisions under a revision that is not known")
		return
	}
	if r.Refused {
		p.relayed(env)
		return
	}
	s, sure := p.subject(in)
	if !sure || p.blind && p.trip.on {
		p.cannotTell("decisions by metadata, content or parts whose request is gone")
		return
	}
	var full []room
	whole := true
	plan := p.plan(s)
	own, _ := p.step(plan)
	for i := range plan {
		st := &plan[i]
		if !own[i] || st.l.observe {
			continue
		}
		for _, r := range p.recount(st.l, st.scope, st.cost, d.T, p.without(st.l)) {
			whole = whole && r.whole
			if r.full() {
				full = append(full, r)
			}
		}
	}
	p.refusal(full, whole)
}

// refusal judges what a refusal says by the windows that are full.
func (p *partition) refusal(full []room, whole bool) {
	switch {
	case len(full) == 0 && !whole:
		p.cannotTell("refusals whose windows reach back before the log")
	case len(full) == 0:
		p.fault(KindRefused, "by %s %s, but no window is full", p.e.Limit, p.e.Window)
	case !whole:
		p.cannotTell("evidence of refusals whose windows reach back before the log")
	default:
		p.evidence(full, nil)
		p.retryAt(full)
	}
}

// evidence holds what a refusal says to the recount: every full window, and
// nothing else, with its count, its oldest place, its start and its since. before
// is what earlier steps of the message's round found, word for word.
func (p *partition) evidence(full []room, before []schemas.Evidence) {
	all := p.e.Decision.Evidence
	said := all
	if len(before) > 0 {
		said = slices.Clone(all)
		for i := range before {
			if k := slices.Index(said, before[i]); k >= 0 {
				said = slices.Delete(said, k, k+1)
			} else {
				p.fault(KindEvidence, "on its round %s of %s was full, and it does not say so, or not as it was", before[i].Window, before[i].Limit)
			}
		}
	}
	if len(said) != len(full) {
		p.fault(KindEvidence, "it names %d full windows, and %d are", len(said), len(full))
	}
	for i := range said {
		v := &said[i]
		k := slices.IndexFunc(full, func(r room) bool { return r.l.Name == v.Limit && r.w.String() == v.Window })
		if k < 0 {
			p.fault(KindEvidence, "window %s of %s is not full", v.Window, v.Limit)
			continue
		}
		r := &full[k]
		oldest := r.oldest
		if r.w.Kind != schemas.WindowRolling {
			oldest = 0
		}
		if v.N != r.w.N || v.Count != r.count || v.Cost != r.cost || v.Scope != r.scope || v.Oldest != oldest || v.Start != r.start || p.known && v.Since != r.since {
			p.fault(KindEvidence, "%s of %s: it says %d of %d, oldest %s, start %s, since %s; recounted %d of %d, oldest %s, start %s, since %s",
				v.Window, v.Limit, v.Count, v.N, v.Oldest, v.Start, v.Since, r.count, r.w.N, oldest, r.start, r.since)
		}
	}
	if len(all) > 0 && !p.away && p.e.Decision.Verdict != schemas.VerdictCharge && (p.e.Limit != all[0].Limit || p.e.Window != all[0].Window) {
		p.fault(KindEvidence, "refused by %s %s, which is not its first evidence", p.e.Limit, p.e.Window)
	}
}

// retryAt holds the retry time to the first moment at which every window that
// is full has room again; none when one never will.
func (p *partition) retryAt(full []room) {
	var at schemas.Millis
	for i := range full {
		r := &full[i]
		var opens schemas.Millis
		switch {
		case r.cost > r.w.N:
			at = -1
		case r.w.Kind == schemas.WindowCalendar:
			opens = r.end
		case r.w.Kind == schemas.WindowBucket:
			opens = p.e.Decision.T + schemas.Millis(refilling(r.w, r.short))
		default:
			leaves := p.places.leaving(scopeKey(r.l.Name, r.scope), r.from, p.e.Decision.T, p.without(r.l), p.key[0], r.count, r.count+r.cost-r.w.N)
			opens = leaves + schemas.Millis(r.w.Length.Milliseconds())
		}
		if at >= 0 {
			at = max(at, opens)
		}
	}
	defers := !slices.ContainsFunc(full, func(r room) bool { return r.l.OnRefusal != schemas.RefusalDefer })
	p.endsOrWaits(defers, max(at, 0), p.repeated())
}

// endsOrWaits holds what becomes of a refused message to what the limits that
// refused it say, and its retry time to the moment at which their windows open; 0
// is never. An owner says that moment, and leaves the rest to home.
func (p *partition) endsOrWaits(defers bool, at schemas.Millis, again bool) {
	got := p.e.RetryAt
	if p.e.Decision.Verdict == schemas.VerdictRefuse {
		if got != at {
			p.fault(KindRetryAt, "it says %s, and the windows open at %s", or(got, "never"), or(at, "never"))
		}
		if at != 0 && defers && !p.away {
			p.fault(KindRefused, "ended, though every limit that refuses it defers")
		}
		return
	}
	// One that waits comes back in its turn, not before the windows open; or it
	// ends at its expiry.
	if expires := max(p.messages[p.key].expires, p.expires); got < at && got != expires {
		p.fault(KindRetryAt, "it comes back at %s, and the windows open at %s", or(got, "never"), or(at, "never"))
	}
	if (at == 0 || !defers) && !again {
		p.fault(KindRefused, "waits, though a limit that refuses it does not defer")
	}
}

// awaitsTurn judges that a message waits without a status only if it came back
// before its turn: its last status says until when it waits, and is true as it is.
// Nothing refused it here, so there is nothing to prove.
func (p *partition) awaitsTurn(env *schemas.Envelope) {
	e := p.e
	m, there := p.messages[p.key]
	switch {
	case e.Kind == schemas.KindStatus && e.Reason != reasonTurn:
	case env == nil, !there && p.cut:
		p.cannotTell("waits for a turn, of messages whose records are gone")
	case e.Kind == schemas.KindStatus, e.Reason != reasonTurn, m.state() != schemas.StatusDeferred, env.Turn <= e.Decision.T:
		p.fault(KindOrder, "it waits for %q as %s after %s, and its turn is at %s", e.Reason, e.Kind, m.state(), or(env.Turn, "no time"))
	case e.RetryAt < env.Turn && e.RetryAt != max(m.expires, p.expires):
		p.fault(KindRetryAt, "it waits until %s, and its turn is at %s", e.RetryAt, env.Turn)
	}
}

func or(t schemas.Millis, none string) string {
	if t == 0 {
		return none
	}
	return t.String()
}
