package audit_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Limits of every kind without recipient, before and after those with one.
const firstWide = `
limits:
  - {name: ip, match: {class: verify}, per: [metadata.ip], allow: [25/1s, 300/60s]}
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [1/1s, 4/60s, 10/calendar-day]}
  - {name: tenant, per: [tenant], allow: [14/1s, 200/calendar-hour]}
  - {name: twin, match: {class: verify}, per: [tenant], allow: [13/1s], count: attempt}
  - {name: everyone, per: [recipient], allow: [3/1s, 12/60s]}
  - {name: drops, match: {class: verify}, per: [class], allow: ["bucket 60 refill 40/s"]}
  - {name: parts, per: [channel], allow: [4000/60s], count: segments}
  - {name: later, match: {class: notice}, per: [class], allow: [12/1s], on_refusal: defer}
  - {name: watched, per: [country], allow: [20/1s, 100/60s], mode: observe}
  - {name: global, per: [], allow: [55/1s, 2000/1h]}
classes:
  - {name: verify, retries: [1s, 1s]}
providers:
  - {name: sim, type: simulated, channels: [sms, email], settings: {latency: 1ms-2ms}}
tenants: [{name: t0, default_region: CN}, {name: t1, default_region: CN}, {name: t2, default_region: CN}, {name: t3, default_region: CN}]
`

// Another order, another per, other numbers, some gone and some new.
const secondWide = `
limits:
  - {name: global, per: [], allow: [50/1s, 2000/1h]}
  - {name: everyone, per: [recipient], allow: [3/1s, 12/60s]}
  - {name: tenant, per: [tenant, class], allow: [10/1s, 200/calendar-hour]}
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [1/1s, 3/60s, 10/calendar-day]}
  - {name: ip, match: {class: verify}, per: [metadata.ip], allow: [20/1s]}
  - {name: watched, per: [country], allow: [20/1s]}
  - {name: later, match: {class: notice}, per: [class], allow: [12/1s], on_refusal: defer}
  - {name: byprovider, per: [provider], allow: [45/1s]}
classes:
  - {name: verify, retries: [1s, 1s]}
providers:
  - {name: sim, type: simulated, channels: [sms, email], settings: {latency: 1ms-2ms}}
tenants: [{name: t0, default_region: CN}, {name: t1, default_region: CN}, {name: t2, default_region: CN}, {name: t3, default_region: CN}]
`

// sendWide writes n requests from a seed, of few tenants and addresses.
func (l *live) sendWide(seed uint64, n int) {
	l.t.Helper()
	r := rand.New(rand.NewPCG(seed, 9))
	for done := 0; done < n; {
		var records []*kgo.Record
		for range 40 {
			channel, class, extra := "sms", "verify", ""
			to := fmt.Sprintf("138%08d", r.IntN(120))
			switch r.IntN(8) {
			case 0:
				class = "notice"
			case 1:
				channel = "email"
				to = fmt.Sprintf("%s@e%d.example.com", []string{"transient-1", "permanent", "maybe", "delivered"}[r.IntN(4)], r.IntN(30))
				extra = `,"subject":"s"`
			case 2:
				extra = fmt.Sprintf(`,"action":"record","provider":"sim","at":%q`, time.Now().Add(-time.Second).UTC().Format("2006-01-02T15:04:05.000Z07:00"))
			case 3:
				extra = fmt.Sprintf(`,"idempotency_key":"k%d"`, r.IntN(10))
			}
			if r.IntN(8) > 0 {
				extra += fmt.Sprintf(`,"metadata":{"ip":"10.0.0.%d"}`, r.IntN(5))
			}
			records = append(records, &kgo.Record{Topic: l.names.Requests(), Partition: int32(r.IntN(parts)),
				Value: fmt.Appendf(nil, `{"channel":%q,"tenant":"t%d","to":%q,"class":%q,"body":"code %d"%s}`, channel, r.IntN(4), to, class, done, extra)})
			done++
		}
		if err := l.cl.ProduceSync(l.t.Context(), records...).FirstErr(); err != nil {
			l.t.Fatal(err)
		}
	}
}

func TestWideRealRunIsProven(t *testing.T) {
	l := newLive(t)
	l.publish(firstWide)
	stop := l.start()
	for i := range 16 {
		switch i {
		case 5: // while messages are on their way
			l.publish(secondWide)
		case 10:
			l.publish(firstWide)
		}
		l.sendWide(uint64(i), 80)
		if r := l.audit(); r.Outcome == audit.Violated {
			t.Fatal(text(r))
		}
	}
	l.settled()
	stop()
	c := l.proven().Checked
	shows(t, map[string]int64{
		"admitted": c.Admitted, "moved": c.Moved, "refused": c.Refused, "given back": c.GivenBack, "deferred": c.Deferred,
		"owners that own several": c.Owners - 1, "charged": c.Charged, "owners' places": c.OwnersPlaces, "owners refused": c.OwnersRefused,
		"passed": c.Passed, "carried": c.Carried, "released": c.Released,
	})
}

// altered corrupts the first record of readmit under a reason in which a header
// can be changed so.
func altered(reason, key string, do func(value []byte) []byte) func([]*kgo.Record) []*kgo.Record {
	return func(rs []*kgo.Record) []*kgo.Record {
		for _, r := range rs {
			if !slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool {
				return h.Key == schemas.HeaderReason && string(h.Value) == reason
			}) {
				continue
			}
			for i := range r.Headers {
				if h := &r.Headers[i]; h.Key == key {
					if value := do(h.Value); value != nil {
						h.Value = value
						return rs
					}
				}
			}
		}
		return nil
	}
}

func inRound(do func(*schemas.Round) bool) func([]byte) []byte {
	return func(value []byte) []byte {
		r, err := schemas.DecodeRound(value)
		if err != nil || !do(r) {
			return nil
		}
		return schemas.AppendRound(nil, r)
	}
}

// A real run's logs of rounds are copied to another broker with one thing changed.
func TestWideCorruptedCopiesAreCaught(t *testing.T) {
	l := newLive(t)
	l.publish(firstWide)
	stop := l.start()
	l.sendWide(4, 240)
	l.settled()
	stop()
	logs := l.logs()
	status, readmit := topics.Names.Status, topics.Names.Readmit
	taken := func(e *schemas.Event) bool {
		return verdict(schemas.VerdictCharge)(e) && len(e.Decision.Charges) > 0 && e.Source == nil // an owner's
	}
	for _, c := range []change{
		{name: "nothing changed", topic: status, do: func(rs []*kgo.Record) []*kgo.Record { return rs }},
		{name: "an owner's place lost", topic: status, want: audit.KindCharges, do: event(taken, func(e *schemas.Event) { e.Decision.Charges = nil })},
		{name: "an owner's refusal made a place", topic: status, want: audit.KindOver, do: event(func(e *schemas.Event) bool {
			return verdict(schemas.VerdictRefuse)(e) && e.Kind == schemas.KindDecision
		}, func(e *schemas.Event) {
			d := e.Decision
			d.Verdict = schemas.VerdictCharge
			for _, v := range d.Evidence {
				d.Charges = append(d.Charges, schemas.Charge{Limit: v.Limit, Scope: v.Scope, T: d.T, Cost: v.Cost})
			}
			d.Evidence = nil
		})},
		{name: "a place that nobody carries", topic: status, want: audit.KindCharges, do: event(func(e *schemas.Event) bool {
			return verdict(schemas.VerdictAdmit)(e) && len(e.Decision.Carried) > 0
		}, func(e *schemas.Event) { e.Decision.Carried = e.Decision.Carried[1:] })},
		{name: "a place that is not asked back", topic: status, want: audit.KindReleased, do: event(func(e *schemas.Event) bool {
			return verdict(schemas.VerdictRefuse)(e) && len(e.Decision.Released) > 0
		}, func(e *schemas.Event) { e.Decision.Released = e.Decision.Released[1:] })},
		{name: "sent on to another partition", topic: status, want: audit.KindOwner, do: event(taken, func(e *schemas.Event) {
			*e.Decision.Onward = (*e.Decision.Onward + 1) % parts
		})},
		{name: "a place lost on its way", topic: readmit, want: audit.KindHop, do: altered(schemas.ReadmitCharged, schemas.HeaderRound, inRound(func(r *schemas.Round) bool {
			ok := len(r.Taken) > 0
			if ok {
				r.Taken = r.Taken[1:]
			}
			return ok
		}))},
		{name: "evidence altered on its way", topic: readmit, want: audit.KindHop, do: altered(schemas.ReadmitCharged, schemas.HeaderRound, inRound(func(r *schemas.Round) bool {
			if r.Refused {
				r.Evidence[0].Count--
			}
			return r.Refused
		}))},
		{name: "a place asked back lost on its way", topic: readmit, want: audit.KindReleased, do: altered(schemas.ReadmitUnwind, schemas.HeaderPlace, func([]byte) []byte { return []byte("[]") })},
	} {
		t.Run(c.name, func(t *testing.T) {
			for ; c.partition < parts; c.partition++ { // the first that has such a thing
				own := slices.Clone(logs[c.topic(l.names)][c.partition])
				for i, r := range own {
					own[i] = &kgo.Record{Value: r.Value, Headers: slices.Clone(r.Headers)}
				}
				if c.do(own) != nil {
					break
				}
			}
			c.copied(t, logs, firstWide)
		})
	}
}
