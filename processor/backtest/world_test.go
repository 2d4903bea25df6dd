package backtest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// policyOf parses limits.
func policyOf(t *testing.T, limits string) *schemas.Policy {
	t.Helper()
	doc, err := schemas.ParsePolicy("test.yaml", []byte("limits:\n"+limits+`
classes:
  - {name: verify}
  - {name: notice}
tenants:
  - {name: acme, default_region: CN}
  - {name: umbrella, default_region: CN}
providers:
  - {name: sim, type: simulated, channels: [sms, email]}
`))
	if err != nil {
		t.Fatal(err)
	}
	return &doc.Policy
}

// log is recorded traffic: the events of each partition.
type log struct {
	parts [][]*schemas.Event
}

func newLog(partitions int) *log { return &log{parts: make([][]*schemas.Event, partitions)} }

// add appends an event to the partition of its recipient, or of its decision where
// elsewhere says so.
func (g *log) add(e *schemas.Event) *schemas.Event { return g.addTo(g.home(e.To), e) }

func (g *log) home(to string) int32 { return schemas.PartitionOf(to, int32(len(g.parts))) }

func (g *log) addTo(n int32, e *schemas.Event) *schemas.Event {
	if e.Kind == "" {
		e.Kind = schemas.KindStatus
	}
	if d := e.Decision; d != nil {
		seq := int64(1)
		for _, o := range g.parts[n] {
			if o.Decision != nil {
				seq++
			}
		}
		d.Partition, d.Seq, d.T = n, seq, e.At
	}
	g.parts[n] = append(g.parts[n], e)
	return e
}

func (g *log) feeds() []feed {
	out := make([]feed, len(g.parts))
	for n, events := range g.parts {
		out[n] = func(_ context.Context, fn func(*step) error) error {
			for _, e := range events {
				var s step
				if s.read(e, int32(len(g.parts))); s.kind == stepNothing {
					continue
				}
				if err := fn(&s); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return out
}

// trial is a log that is decided again.
type trial struct {
	tried, inForce *schemas.Policy
	from, until    schemas.Millis
	most           int64
}

type answerAt struct {
	partition int32
	seq       int64
}

func (c *trial) run(t *testing.T, g *log) (*Result, map[answerAt]Answer) {
	t.Helper()
	r, answers, err := c.try(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	return r, answers
}

func (c *trial) try(ctx context.Context, g *log) (*Result, map[answerAt]Answer, error) {
	rules, err := limit.Compile(c.tried, nil)
	if err != nil {
		return nil, nil, err
	}
	until, most := c.until, c.most
	if until == 0 {
		until = 1 << 50
	}
	if most == 0 {
		most = 1 << 30
	}
	x := newEngine(int32(len(g.parts)), rules, c.tried, &schemas.Revision{Revision: 1, Policy: *c.inForce}, c.from, until, most)
	defer x.close()
	answers := make(map[answerAt]Answer)
	told := make(chan Answer)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for a := range told {
			answers[answerAt{a.Partition, a.Seq}] = a
		}
	}()
	x.each = func(a Answer) {
		a.Now.Places = slices.Clone(a.Now.Places)
		told <- a
	}
	err = x.run(ctx, g.feeds())
	close(told)
	<-done
	if err != nil {
		return nil, nil, err
	}
	r := x.result(c.tried)
	r.Notes = x.notes(c.tried)
	return r, answers, nil
}

// t0 is a moment from which tests count.
const t0 = schemas.Millis(1_790_000_000_000)

// at is a message of a log.
func msg(id int, to, class string) *schemas.Event {
	return &schemas.Event{
		MessageID: fmt.Sprintf("00000000-0000-7000-8000-%012d", id), Tenant: "acme", Channel: "sms", Class: class, To: to, Provider: "sim", Segments: 1,
		Source: &schemas.Source{Topic: "weir.requests", Offset: int64(id)},
	}
}

// with completes a copy of a message's event with a decision.
func with(m *schemas.Event, at schemas.Millis, status schemas.Status, verdict schemas.Verdict, charges ...schemas.Charge) *schemas.Event {
	e := *m
	e.At, e.Status = at, status
	if status == "" {
		e.Kind = schemas.KindDecision
	}
	if verdict != "" {
		e.Decision = &schemas.Decision{Verdict: verdict, Revision: 1, Charges: charges}
	}
	return &e
}

func admitted(m *schemas.Event, at schemas.Millis, limits ...string) *schemas.Event {
	return with(m, at, schemas.StatusQueued, schemas.VerdictAdmit, places(m, at, limits)...)
}

func moved(m *schemas.Event, at schemas.Millis, limits ...string) *schemas.Event {
	e := with(m, at, schemas.StatusQueued, schemas.VerdictMove, places(m, at, limits)...)
	e.Attempt = 1
	return e
}

func refusedBy(m *schemas.Event, at schemas.Millis, limit, window string) *schemas.Event {
	e := with(m, at, schemas.StatusLimited, schemas.VerdictRefuse)
	e.Limit, e.Window, e.Reason = limit, window, "limited"
	e.Decision.Evidence = []schemas.Evidence{{Limit: limit, Scope: m.To, Window: window}}
	return e
}

func deferredBy(m *schemas.Event, at schemas.Millis, limit, window string) *schemas.Event {
	e := refusedBy(m, at, limit, window)
	e.Status, e.Decision.Verdict = schemas.StatusDeferred, schemas.VerdictDefer
	return e
}

func returned(m *schemas.Event, at schemas.Millis, placed schemas.Millis, limits ...string) *schemas.Event {
	e := with(m, at, "", schemas.VerdictGiveBack)
	e.Decision.Returned = places(m, placed, limits)
	return e
}

func places(m *schemas.Event, at schemas.Millis, limits []string) (out []schemas.Charge) {
	for _, l := range limits {
		out = append(out, schemas.Charge{Limit: l, Scope: m.To, T: at, Cost: 1})
	}
	return out
}
