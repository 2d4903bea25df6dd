package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// widePolicy has wide limits on both sides of the recipient's.
const widePolicy = `
limits:
  - {name: ip, match: {class: verify}, per: [metadata.ip], allow: [3/10s]}
  - {name: verify, match: {class: verify}, per: [recipient], allow: [2/10s]}
  - {name: acme, per: [tenant], allow: [6/60s, 50/calendar-day]}
  - {name: pair, match: {class: verify}, per: [recipient, class], allow: [9/60s, 90/calendar-day]}
  - {name: all, per: [], allow: [5/60s, 50/calendar-day]}
  - {name: watch, match: {class: seen}, per: [class], allow: [1/60s], mode: observe}
classes:
  - {name: verify, expires_after: 10m}
  - {name: seen, expires_after: 10m}
providers:
  - {name: sim, type: simulated, channels: [sms]}
tenants:
  - {name: acme, default_region: CN}
`

func wideSince(t schemas.Millis) map[string]map[string]schemas.Millis {
	return map[string]map[string]schemas.Millis{"ip": {"10s": t}, "verify": {"10s": t}, "acme": {"60s": t, "calendar-day": t}, "pair": {"60s": t, "calendar-day": t}, "all": {"60s": t, "calendar-day": t}, "watch": {"60s": t}}
}

// Partitions of the hand-made logs, chosen so that each limit has another owner.
const (
	worldParts = 8
	ipScope    = "metadata.ip=10.0.0.13"
	acmeScope  = "tenant=acme"
	seenScope  = "class=seen"
)

func ownerOf(scope string) int32 { return schemas.PartitionOf(scope, worldParts) }

// world is the hand-made logs of several partitions.
type world struct {
	policies          []schemas.Policy
	parts             [worldParts]*sheet
	dispatch, journal []written
	since             schemas.Millis
	cut, cutInputs    bool
	begun             schemas.Millis
}

func newWorld(t testing.TB) *world {
	w := &world{policies: []schemas.Policy{policyOf(t, widePolicy)}}
	for i := range w.parts {
		w.parts[i] = &sheet{policies: w.policies}
	}
	w.marker(start, wideSince(start))
	return w
}

// marker brings the latest policy into force everywhere.
func (w *world) marker(t schemas.Millis, since map[string]map[string]schemas.Millis) {
	for i := range w.parts {
		w.markerAt(int32(i), t, since)
	}
}

func (w *world) markerAt(p int32, t schemas.Millis, since map[string]map[string]schemas.Millis) {
	w.parts[p].policies = w.policies
	w.parts[p].marker(t, since).Partition = p
}

func (w *world) decide(p int32, e *schemas.Event, v schemas.Verdict, t schemas.Millis, in *schemas.Source) *schemas.Decision {
	d := w.parts[p].decide(e, v, t, in)
	d.Partition = p
	return d
}

// revise brings a policy into force in some partitions, or all: with texts in
// other texts' places.
func (w *world) revise(t testing.TB, in []int32, texts ...string) {
	t.Helper()
	text := widePolicy
	for i := 0; i < len(texts); i += 2 {
		if !strings.Contains(text, texts[i]) {
			t.Fatalf("the policy has no %q", texts[i])
		}
		text = strings.Replace(text, texts[i], texts[i+1], 1)
	}
	w.policies = append(w.policies, policyOf(t, text))
	if in == nil {
		for p := range int32(worldParts) {
			in = append(in, p)
		}
	}
	for _, p := range in {
		s := w.parts[p]
		at := s.status[len(s.status)-1].event.At
		var was *schemas.Marker // in force until now
		for _, o := range s.status {
			if m := o.event.Decision; m != nil && m.Marker != nil {
				was = m.Marker
			}
		}
		w.markerAt(p, at, sinceOf(&w.policies[was.Revision-1], was.Since, &w.policies[len(w.policies)-1], at))
	}
}

// letter is one message on its way. Where it is, its record waits to be decided.
type letter struct {
	w                 *world
	name, to, class   string
	home, at          int32
	in                *schemas.Source
	env               *schemas.Envelope // of the record that waits; nil is its request
	held, old         []schemas.Charge
	round             schemas.Round
	value             string
	attempt, parts    int
	taint             schemas.Taint
	accepted, expires schemas.Millis
	recordAt          schemas.Millis // of a message sent elsewhere: when
}

// send writes a message's request.
func (w *world) send(name, to, class string, t schemas.Millis) *letter {
	m := &letter{w: w, name: name, to: to, class: class, home: schemas.PartitionOf(to, worldParts), accepted: t - 10, expires: t - 10 + 600_000}
	m.value = fmt.Sprintf(`{"id":%q,"channel":"sms","tenant":"acme","to":%q,"class":%q,"body":"b","metadata":{"ip":"10.0.0.13"}}`, id(name), to, class)
	m.at = m.home
	m.request(t)
	return m
}

func (m *letter) request(t schemas.Millis) {
	s := m.w.parts[m.home]
	at := int64(len(s.requests) * 3)
	s.requests = append(s.requests, written{offset: at, appended: t - 10, value: m.value})
	m.in = &schemas.Source{Topic: "weir.requests", Partition: m.home, Offset: at}
}

func (m *letter) event(k schemas.Kind) *schemas.Event {
	return &schemas.Event{Kind: k, MessageID: id(m.name), Tenant: "acme", Channel: "sms", Class: m.class, To: m.to, AcceptedAt: m.accepted, Attempt: m.attempt, Segments: m.parts,
		Source: &schemas.Source{Topic: "weir.requests", Partition: m.home}}
}

// brief is an owner's event: it says nothing of the message but whose it is.
func (m *letter) brief() *schemas.Event {
	return &schemas.Event{Kind: schemas.KindDecision, MessageID: id(m.name), Tenant: "acme", To: m.to}
}

// pass writes the message's record to another partition.
func (m *letter) pass(p int32, reason string, t schemas.Millis, round *schemas.Round, place, restore []schemas.Charge) *written {
	s := m.w.parts[p]
	at := int64(len(s.readmit) * 2)
	env := schemas.Envelope{ID: id(m.name), Key: m.to, Tenant: "acme", Reason: reason, Attempt: m.attempt, DecidedAt: t, AcceptedAt: m.accepted, ExpiresAt: m.expires,
		Place: place, Restore: restore, Taint: m.taint}
	if round != nil {
		r := *round
		r.Ask, r.Taken, r.Moved, r.Passed, r.Evidence = slices.Clone(r.Ask), slices.Clone(r.Taken), slices.Clone(r.Moved), slices.Clone(r.Passed), slices.Clone(r.Evidence)
		env.Round = &r
	}
	s.readmit = append(s.readmit, written{offset: at, appended: t + 2, env: env, value: m.value})
	m.at, m.in, m.env = p, &schemas.Source{Topic: "weir.readmit", Partition: p, Offset: at}, &s.readmit[len(s.readmit)-1].env
	return &s.readmit[len(s.readmit)-1]
}

func (m *letter) scope(limit string) string {
	return map[string]string{"ip": ipScope, "verify": m.to, "acme": acmeScope, "pair": "recipient=" + m.to + ",class=" + m.class, "all": "", "watch": seenScope, "mine": m.to}[limit]
}

func (m *letter) charge(limit string, t schemas.Millis) schemas.Charge {
	return schemas.Charge{Limit: limit, Scope: m.scope(limit), T: t, Cost: 1}
}

func (m *letter) ask(limits ...string) (asks []schemas.Ask) {
	for _, l := range limits {
		asks = append(asks, schemas.Ask{Limit: l, Scope: m.scope(l), Cost: 1, T: m.recordAt})
	}
	return asks
}

// takes moves what the message holds in some limits here, and returns both places.
func (m *letter) takes(t schemas.Millis, limits []string) (charges, returned []schemas.Charge) {
	for _, l := range limits {
		charges = append(charges, m.charge(l, t))
		if i := slices.IndexFunc(m.old, func(c schemas.Charge) bool { return c.Limit == l }); i >= 0 {
			returned = append(returned, m.old[i])
		}
	}
	return charges, returned
}

// on is home's step: it takes its own limits, and asks others.
func (m *letter) on(t schemas.Millis, own []string, asks ...string) *schemas.Decision {
	if m.env != nil && m.env.Reason != schemas.ReadmitCharged {
		m.round = schemas.Round{For: m.env.Reason}
		if m.env.Reason == schemas.ReadmitForward {
			m.round.For = ""
		}
	}
	d := m.w.decide(m.home, m.event(schemas.KindDecision), schemas.VerdictCharge, t, m.in)
	d.Charges, d.Returned = m.takes(t, own)
	m.round.Revision = d.Revision
	if slices.ContainsFunc(own, func(l string) bool { return !isWide(m.scope(l)) }) {
		m.round.Home, m.round.HomeRevision = true, d.Revision
	}
	m.round.Taken, m.round.Moved = append(m.round.Taken, d.Charges...), append(m.round.Moved, d.Returned...)
	m.round.Ask = m.ask(asks...)
	m.onward(d)
	return d
}

func (m *letter) onward(d *schemas.Decision) {
	to, reason := m.home, schemas.ReadmitCharged
	if len(m.round.Ask) > 0 && !m.round.Refused {
		to, reason = ownerOf(m.round.Ask[0].Scope), schemas.ReadmitCharge
	}
	d.Onward = &to
	m.pass(to, reason, d.T, &m.round, m.old, nil)
}

// take is an owner's step: it takes some limits, the next that are asked.
func (m *letter) take(t schemas.Millis, limits ...string) *schemas.Decision {
	d := m.w.decide(m.at, m.brief(), schemas.VerdictCharge, t, m.in)
	d.Charges, d.Returned = m.takes(t, limits)
	m.round.Taken, m.round.Moved = append(m.round.Taken, d.Charges...), append(m.round.Moved, d.Returned...)
	m.round.Ask = m.round.Ask[len(limits):]
	m.onward(d)
	return d
}

// through is an owner's step in which a limit takes no place.
func (m *letter) through(t schemas.Millis, limit string, ev ...schemas.Evidence) *schemas.Decision {
	d := m.w.decide(m.at, m.brief(), schemas.VerdictCharge, t, m.in)
	d.Passed, d.Evidence = m.ask(limit), ev
	m.round.Passed, m.round.Evidence = append(m.round.Passed, d.Passed...), append(m.round.Evidence, ev...)
	m.round.Ask = m.round.Ask[1:]
	m.onward(d)
	return d
}

// full is an owner's refusal.
func (m *letter) full(t, retry schemas.Millis, ev ...schemas.Evidence) *schemas.Event {
	e := m.brief()
	e.Reason, e.RetryAt = "limited", retry
	d := m.w.decide(m.at, e, schemas.VerdictRefuse, t, m.in)
	d.Evidence = ev
	m.round.Refused, m.round.RetryAt, m.round.Evidence = true, retry, ev
	m.onward(d)
	return e
}

// admit is home's last step.
func (m *letter) admit(t schemas.Millis, own ...string) *schemas.Event {
	e := m.event(schemas.KindStatus)
	e.Status, e.Provider = schemas.StatusQueued, "sim"
	v := schemas.VerdictAdmit
	if len(m.old) > 0 {
		v = schemas.VerdictMove
	}
	d := m.w.decide(m.home, e, v, t, m.in)
	d.Charges, d.Returned = m.takes(t, own)
	d.Passed = slices.Clone(m.round.Passed)
	for _, c := range m.round.Taken {
		if isWide(c.Scope) || c.T == t || m.drains(c.Limit) {
			d.Carried = append(d.Carried, c)
			continue
		}
		d.Returned = append(d.Returned, c)
		c.T = t
		d.Charges = append(d.Charges, c)
	}
	if len(m.round.Evidence) > 0 {
		e.Observed, d.Evidence, e.Limit, e.Window = true, m.round.Evidence, m.round.Evidence[0].Limit, m.round.Evidence[0].Window
	}
	m.held = slices.Concat(d.Charges, d.Carried)
	m.old, m.round = nil, schemas.Round{}
	m.w.dispatch = append(m.w.dispatch, written{offset: int64(len(m.w.dispatch)), appended: t + 5, env: schemas.Envelope{
		ID: e.MessageID, Key: m.to, Origin: schemas.Source{Topic: "weir.requests"}, Provider: "sim", DecidedAt: t, Place: m.held}})
	return e
}

// drains reports whether a limit of the latest policy has only buckets.
func (m *letter) drains(name string) bool {
	p := m.w.policies[len(m.w.policies)-1]
	i := slices.IndexFunc(p.Limits, func(l schemas.Limit) bool { return l.Name == name })
	return i >= 0 && !slices.ContainsFunc(p.Limits[i].Allow, func(w schemas.Window) bool { return w.Kind != schemas.WindowBucket })
}

// ends writes home's end of a message, or its wait, and asks back what stands
// elsewhere: of its round, or all that it holds.
func (m *letter) ends(v schemas.Verdict, st schemas.Status, reason string, t schemas.Millis, gone, back []schemas.Charge) *schemas.Event {
	e := m.event(schemas.KindStatus)
	e.Status, e.Reason = st, reason
	d := m.w.decide(m.home, e, v, t, m.in)
	m.gives(d, schemas.ReadmitUnwind, gone, back)
	m.round = schemas.Round{}
	return e
}

// endsBoth is the end of a message half way, which gives up what its round took
// and what it held before.
func (m *letter) endsBoth(t schemas.Millis, taken, old []schemas.Charge) {
	e := m.ends(schemas.VerdictExpire, schemas.StatusExpired, "expired", t, taken, nil)
	m.gives(e.Decision, schemas.ReadmitGiveBack, old, nil)
}

// anew is home's last step under another revision: its own limits are asked anew,
// and what does not apply any more is given up.
func (m *letter) anew(t schemas.Millis, former string, own ...string) *schemas.Decision {
	e := m.event(schemas.KindStatus)
	e.Status, e.Provider = schemas.StatusQueued, "sim"
	d := m.w.decide(m.home, e, schemas.VerdictAdmit, t, m.in)
	for _, c := range m.round.Taken {
		switch {
		case slices.Contains(own, c.Limit):
			d.Returned, d.Charges = append(d.Returned, c), append(d.Charges, m.charge(c.Limit, t))
		case c.Limit != former:
			d.Carried = append(d.Carried, c)
		}
	}
	m.w.dispatch = append(m.w.dispatch, written{offset: int64(len(m.w.dispatch)), appended: t + 5, env: schemas.Envelope{
		ID: e.MessageID, Key: m.to, Origin: schemas.Source{Topic: "weir.requests"}, Provider: "sim", DecidedAt: t, Place: slices.Concat(d.Charges, d.Carried)}})
	m.gives(d, schemas.ReadmitUnwind, only(m.round.Taken, former), nil)
	return d
}

func (m *letter) gives(d *schemas.Decision, reason string, gone, back []schemas.Charge) {
	place, restore := map[int32][]schemas.Charge{}, map[int32][]schemas.Charge{}
	for _, c := range gone {
		if !isWide(c.Scope) || ownerOf(c.Scope) == m.home {
			d.Returned = append(d.Returned, c)
		} else {
			d.Released = append(d.Released, c)
			place[ownerOf(c.Scope)] = append(place[ownerOf(c.Scope)], c)
		}
	}
	for _, c := range back {
		if !isWide(c.Scope) || ownerOf(c.Scope) == m.home {
			d.Restored = append(d.Restored, c)
		} else {
			d.Reinstated = append(d.Reinstated, c)
			restore[ownerOf(c.Scope)] = append(restore[ownerOf(c.Scope)], c)
		}
	}
	for p := range int32(worldParts) {
		if len(place[p])+len(restore[p]) == 0 {
			continue
		}
		m.pass(p, reason, d.T, nil, place[p], restore[p])
		g := m.w.decide(p, m.brief(), schemas.VerdictGiveBack, d.T+3, m.in)
		g.Returned, g.Restored = slices.Clone(place[p]), slices.Clone(restore[p])
	}
}

// refuse is home's end after an owner's refusal.
func (m *letter) refuse(t schemas.Millis) *schemas.Event {
	r := m.round
	e := m.ends(schemas.VerdictRefuse, schemas.StatusLimited, "limited", t, r.Taken, r.Moved)
	return said(e, &r)
}

// waits is home's wait after an owner's refusal.
func (m *letter) waits(t, until schemas.Millis) *schemas.Event {
	r := m.round
	e := said(m.ends(schemas.VerdictDefer, schemas.StatusDeferred, "limited", t, r.Taken, r.Moved), &r)
	e.RetryAt = until
	return e
}

func said(e *schemas.Event, r *schemas.Round) *schemas.Event {
	e.Decision.Evidence, e.Limit, e.Window, e.RetryAt = r.Evidence, r.Evidence[0].Limit, r.Evidence[0].Window, r.RetryAt
	return e
}

// elsewhere writes a request about a message that was sent elsewhere, and home's
// record of it.
func (w *world) elsewhere(name, to string, at, t schemas.Millis, own []string, asks ...string) *letter {
	m := w.send(name, to, "verify", t)
	m.recordAt = at
	s := w.parts[m.home]
	s.requests[len(s.requests)-1].value = fmt.Sprintf(`{"action":"record","channel":"sms","tenant":"acme","to":%q,"class":"verify","provider":"sim","at":%q,"metadata":{"ip":"10.0.0.13"}}`, to, at)
	e := m.event(schemas.KindDecision)
	e.Provider = "sim"
	d := w.decide(m.home, e, schemas.VerdictRecord, t, m.in)
	m.records(d, own, m.ask(asks...))
	return m
}

// recorded is an owner's step of it.
func (m *letter) recorded(t schemas.Millis, own ...string) *schemas.Decision {
	d := m.w.decide(m.at, m.brief(), schemas.VerdictRecord, t, m.in)
	m.records(d, own, m.round.Ask[len(own):])
	return d
}

// unrecorded is the step of an owner that has no such limit.
func (m *letter) unrecorded(t schemas.Millis, limit string) *schemas.Decision {
	d := m.w.decide(m.at, m.brief(), schemas.VerdictRecord, t, m.in)
	d.Passed = m.ask(limit)
	m.records(d, nil, m.round.Ask[1:])
	return d
}

func (m *letter) records(d *schemas.Decision, own []string, asks []schemas.Ask) {
	for _, l := range own {
		d.Charges = append(d.Charges, m.charge(l, m.recordAt))
	}
	if m.round = (schemas.Round{For: "record", Revision: d.Revision, Ask: asks}); len(asks) > 0 {
		to := ownerOf(asks[0].Scope)
		d.Onward = &to
		m.pass(to, schemas.ReadmitCharge, d.T, &m.round, nil, nil)
	}
}

func (m *letter) step(st schemas.Status, t schemas.Millis) *schemas.Event {
	e := m.event(schemas.KindStatus)
	e.Status, e.Provider, e.Attempt = st, "sim", m.attempt
	return m.w.parts[m.home].say(e, t)
}

// call is an attempt with its permit and its outcome.
func (m *letter) call(st schemas.Status, t schemas.Millis) *schemas.Event {
	m.attempt++
	m.step(schemas.StatusSending, t)
	j, said := answers(m.name, came[st], st == schemas.StatusSent || st == schemas.StatusUnknown, m.attempt, t, t+50)
	m.w.journal = append(m.w.journal,
		written{offset: int64(len(m.w.journal)), appended: t + 5, journal: journalled{Kind: "permit", ID: id(m.name), Attempt: m.attempt, T: t, CallBy: t}},
		written{offset: int64(len(m.w.journal)) + 1, appended: t + 55, journal: j})
	e := m.step(st, t+50)
	s := m.w.parts[m.home]
	s.status[len(s.status)-1].outcome = said
	if st == schemas.StatusRetrying {
		e.Reason = came[st]
	}
	return e
}

// back is the message's return to its home.
func (m *letter) back(reason string, t schemas.Millis) {
	m.old = m.held
	m.pass(m.home, reason, t, nil, m.held, nil)
}

// end is a call that failed for good, and the give-back that its lane asks for.
func (m *letter) fails(t schemas.Millis) *schemas.Decision {
	m.call(schemas.StatusFailed, t)
	m.pass(m.home, schemas.ReadmitGiveBack, t+60, nil, m.held, nil)
	d := m.w.decide(m.home, m.event(schemas.KindDecision), schemas.VerdictGiveBack, t+100, m.in)
	m.gives(d, schemas.ReadmitGiveBack, m.held, nil)
	return d
}

// said returns what the log says of a message under a verdict, by time.
func (w *world) said(m *letter, v schemas.Verdict) (all []*schemas.Event) {
	for _, s := range w.parts {
		for _, o := range s.status {
			if o.event.MessageID == id(m.name) && o.event.Decision != nil && o.event.Decision.Verdict == v {
				all = append(all, o.event)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *schemas.Event) int { return int(a.Decision.T - b.Decision.T) })
	return all
}

// sent returns the records that came to other partitions, or home, for a message.
func (w *world) sent(m *letter, reason string) (all []*written) {
	for _, s := range w.parts {
		for i := range s.readmit {
			if o := &s.readmit[i]; o.env.ID == id(m.name) && o.env.Reason == reason {
				all = append(all, o)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *written) int { return int(a.appended - b.appended) })
	return all
}

// lose takes a record of readmit and the decision on it out of a partition.
func (w *world) lose(m *letter, reason string, n int) {
	lost := w.sent(m, reason)[n]
	for _, s := range w.parts {
		k := slices.IndexFunc(s.readmit, func(o written) bool {
			return o.env.ID == lost.env.ID && o.env.Reason == reason && o.appended == lost.appended
		})
		if k < 0 {
			continue
		}
		at := s.readmit[k].offset
		s.readmit = slices.Delete(s.readmit, k, k+1)
		if i := slices.IndexFunc(s.status, func(o written) bool {
			d := o.event.Decision
			return d != nil && d.Input != nil && d.Input.Topic == "weir.readmit" && d.Input.Offset == at
		}); i >= 0 {
			s.drop(i)
		}
		return
	}
}

// again writes a record of readmit once more, behind the others.
func (w *world) again(m *letter, reason string, n int) {
	lost := w.sent(m, reason)[n]
	for _, s := range w.parts {
		if k := slices.IndexFunc(s.readmit, func(o written) bool {
			return o.env.ID == lost.env.ID && o.env.Reason == reason && o.appended == lost.appended
		}); k >= 0 {
			o := s.readmit[k]
			o.offset = int64(len(s.readmit) * 2)
			s.readmit = append(s.readmit, o)
			return
		}
	}
}

// audit judges all of it.
func (w *world) audit(t testing.TB) *Report {
	t.Helper()
	h := newHistory()
	for i := range w.policies {
		b, err := json.Marshal(schemas.Revision{Revision: int64(i + 1), Parent: int64(i), Policy: w.policies[i]})
		if err == nil {
			err = h.take(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const never = schemas.Millis(1 << 60)
	join := func() *join { return newJoin(max(w.since, w.begun), never) }
	b := &bounds{
		partitions: worldParts, statusTopic: "weir.status", requests: "weir.requests", readmit: "weir.readmit", config: h,
		since: w.since, slack: 10 * time.Second, gone: map[string]bool{}, found: newFindings(),
		dispatched: join(), permitted: join(), ended: join(), dead: join(), refusals: join(), forwarded: join(), hops: join(), released: join(), wide: newWideCalls(),
	}
	for i, s := range w.parts {
		p := newPartition(int32(i), b, records("weir.requests", s.requests), records("weir.readmit", s.readmit))
		p.cut = w.cut && len(s.status) > 0 && s.status[0].offset > 0
		p.done = map[string]int64{}
		for topic, f := range p.in {
			if from := map[string][]written{"weir.requests": s.requests, "weir.readmit": s.readmit}[topic]; w.cutInputs && len(from) > 0 {
				f.from = from[0].offset
			} else if w.cutInputs {
				f.from = 1 << 40
			}
		}
		if err := errors.Join(p.walk(records("weir.status", s.status), nil), p.judgeCut(b.found)); err != nil {
			t.Fatal(err)
		}
		b.found.report.Checked.add(&p.counts)
		b.found.report.Checked.add(&p.end)
		b.found.report.densest(p.calls.densest)
	}
	b.found.report.densest(b.wide.densest())
	if err := dispatches(b, "sim", records("weir.dispatch.sim.normal", w.dispatch), &b.found.report.Checked, nil); err != nil {
		t.Fatal(err)
	}
	l := &lane{bounds: b, provider: "sim", begin: max(w.begun-60_000, 0), flights: make(map[flight]int), sending: newSending(h.paces("sim"), false)}
	if err := l.run(records("weir.journal.sim", w.journal), nil); err != nil {
		t.Fatal(err)
	}
	b.found.report.Checked.add(&l.counts)
	for _, f := range slices.Concat(b.compare(nil, nil, b.found), b.forged()) {
		b.found.violation(Violation{Kind: f.kind, MessageID: f.message(), Text: f.text})
	}
	b.found.judgeLate(true)
	return b.found.finish()
}
