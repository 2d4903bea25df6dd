package faultsim

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/schemas"
)

// doors are the topics that are bound to tenants, with as many partitions as each
// has.
var doors = map[string]int32{"acme.sends": 3, "umbrella.sends": 1}

var bound = []schemas.Input{{Topic: "acme.sends", Tenant: "acme"}, {Topic: "umbrella.sends", Tenant: "umbrella"}}

// inputs are those of the plan's i-th policy: all at the end, and before perhaps
// one, which goes on where it was when it is bound again.
func (p *Plan) inputs(i int) []schemas.Input {
	switch {
	case !p.Doors:
		return nil
	case i%2 == 1 && i < len(p.Policies)-1:
		return bound[:1]
	}
	return bound
}

// knock is one record of a bound topic to be, and what must become of it.
type knock struct {
	at      time.Duration
	rec     *kgo.Record
	tenant  string
	request schemas.Request // as it is to be passed on
	refused string          // why it ends at the door; "" when it passes
	again   *record         // it is one of several of a message; nil for most
}

// knocks draws the records of bound topics.
func knocks(p *Plan) (all []knock) {
	if !p.Doors {
		return nil
	}
	r := rand.New(rand.NewPCG(p.Seed, 0x6b6e6f63))
	for i := range p.Requests / 2 {
		in := bound[r.IntN(len(bound))]
		k := knock{at: time.Duration(r.Int64N(int64(p.Span))), tenant: in.Tenant}
		q := schemas.Request{Channel: schemas.ChannelSMS, Class: "verify", Body: fmt.Sprintf("knock %d", i), To: fmt.Sprintf(spellings[r.IntN(len(spellings))], 1+r.IntN(9))}
		k.rec = &kgo.Record{Topic: in.Topic, Partition: r.Int32N(doors[in.Topic])}
		switch r.IntN(4) {
		case 0:
			q.ID = draw(r)
		case 1:
			q.Tenant = in.Tenant
		case 2:
			q.IdempotencyKey = fmt.Sprintf("knock-%d", i)
		}
		k.rec.Value = schemas.RequestJSON(&q)
		switch r.IntN(6) {
		case 0:
			k.refused = schemas.ReasonForbiddenTenant
			other := q
			other.Tenant = []string{"default", "umbrella", "globex"}[r.IntN(3)]
			if other.Tenant == in.Tenant {
				other.Tenant = "acme"
			}
			k.rec.Value = schemas.RequestJSON(&other)
		case 1:
			k.refused, k.rec.Value = schemas.ReasonNotJSON, fmt.Appendf(nil, "garbage %d", i)
		case 2:
			b, err := schemas.RequestProto(&q)
			if err != nil {
				panic(err) // drawn so that it can be encoded
			}
			k.rec.Value = b
			k.rec.Headers = []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/x-protobuf")}}
		}
		q.Tenant = in.Tenant
		k.request = q
		all = append(all, k)
	}
	return all
}

// came is what came of one record of a bound topic.
type came struct {
	knock    *knock
	appended schemas.Millis
	passed   []*kgo.Record    // to weir.requests
	ended    []*schemas.Event // without a decision
	dead     []*kgo.Record    // to weir.dlq
}

// knock writes the records of bound topics at their times.
func (c *cycle) knock(ctx context.Context, k *knock) {
	time.Sleep(time.Until(c.plan.Start.Add(k.at)))
	c.cl.Produce(ctx, k.rec, func(r *kgo.Record, err error) {
		if err != nil {
			c.fail("produce to %s: %v", r.Topic, err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.of(schemas.Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}).knock = k
		if k.again != nil {
			c.acknowledged(k.again)
		}
	})
}

// of is what came of the record at a place. c.mu is held.
func (c *cycle) of(src schemas.Source) *came {
	if c.doors[src] == nil {
		c.doors[src] = new(came)
	}
	return c.doors[src]
}

// throughDoor takes up a record of a bound topic, or of weir.requests or weir.dlq
// that came of one. c.mu is held.
func (c *cycle) throughDoor(r *kgo.Record) {
	if doors[r.Topic] != 0 {
		c.of(schemas.Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}).appended = schemas.MillisOf(r.Timestamp)
		return
	}
	for _, h := range r.Headers {
		if h.Key != schemas.HeaderOrigin {
			continue
		}
		src, err := schemas.ParseSource(string(h.Value))
		if _, is := doors[src.Topic]; err != nil || !is {
			continue
		}
		at := c.of(src)
		if r.Topic == c.names.DLQ() {
			at.dead = append(at.dead, r)
			continue
		}
		at.passed = append(at.passed, r)
		c.pass(r)
	}
}

// shut says which record of a bound topic nothing has come of. c.mu is held.
func (c *cycle) shut() string {
	for src, at := range c.doors {
		if len(at.passed)+len(at.ended) == 0 {
			return fmt.Sprintf("nothing came of the record at %s", src)
		}
	}
	return ""
}

// judgeDoors holds that each record of a bound topic became one message, as its
// tenant's, or one end, and what it must.
func (c *cycle) judgeDoors(r *audit.Report) {
	c.mu.Lock()
	var faults []string
	passed, ended := 0, 0
	for src, at := range c.doors {
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Sprintf("input %s: "+format, append([]any{src}, args...)...))
		}
		k := at.knock
		passed, ended = passed+len(at.passed), ended+len(at.ended)
		switch {
		case k == nil:
			fault("nobody wrote it")
		case k.refused == "" && (len(at.passed) != 1 || len(at.ended)+len(at.dead) != 0):
			fault("passed on %d times, ended %d times", len(at.passed), len(at.ended))
		case k.refused == "":
			q, err := schemas.DecodeRequest(at.passed[0].Value, nil)
			if err != nil {
				fault("what was passed on is none: %v", err)
				continue
			}
			q.ExpiresAt = 0
			id := k.request.ID
			if id == "" {
				id = schemas.DerivedID(src, at.appended)
			}
			if q.Tenant != k.tenant || q.ID != id || schemas.ContentHash(q) != schemas.ContentHash(&k.request) {
				fault("passed on as tenant %s's, id %s", q.Tenant, q.ID)
			}
		case len(at.ended) != 1 || len(at.dead) != 1 || len(at.passed) != 0:
			fault("to be refused as %s: passed on %d times, ended %d times, %d times in the DLQ", k.refused, len(at.passed), len(at.ended), len(at.dead))
		default:
			e := at.ended[0]
			if e.Tenant != k.tenant || e.Reason != k.refused || e.Status != schemas.StatusRejected || e.MessageID != schemas.DerivedID(src, e.AcceptedAt) {
				fault("ended as tenant %s's, %s %s, id %s", e.Tenant, e.Status, e.Reason, e.MessageID)
			}
			if !bytes.Equal(at.dead[0].Value, k.rec.Value) {
				fault("other bytes in the DLQ")
			}
		}
	}
	c.mu.Unlock()
	for _, f := range faults {
		c.fail("%s", f)
	}
	if n := int64(ended); r.Checked.TurnedAway != n {
		c.fail("the audit saw %d records turned away, and %d were", r.Checked.TurnedAway, n)
	}
	c.count(func(t *Tally) { t.Passed += passed; t.TurnedAway += ended })
}
