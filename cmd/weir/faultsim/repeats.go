package faultsim

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/cmd/weir/e2e"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// Producers repeat records: their clients retry, topics are mirrored or replayed. One id or
// key of one tenant to one recipient is one message, in whatever form the id is and however
// the record comes again. The provider must see it under one id, and more than once only
// where a call was in doubt. A record with neither id nor key is a message each time.

// form is how a record names its message.
type form string

const (
	formNone    form = "neither id nor key"
	formKey     form = "key"
	formKeyIDs  form = "key and another id each time"
	formV4      form = "v4"
	formV7      form = "v7" // as Weir's own over HTTP
	formV8      form = "v8" // as Weir derives it
	formEarlier form = "earlier form"
	formEvent   form = "id of a CloudEvent"
	formNoUUID  form = "no UUID" // is refused each time
)

var forms = []form{formNone, formKey, formKeyIDs, formV4, formV7, formV8, formEarlier, formEvent, formNoUUID}

// one reports whether records of this form that are alike are one message.
func (f form) one() bool { return f != formNone && f != formNoUUID }

// Ways in which a record comes again.
const (
	wayAtOnce    = "at once"
	wayLater     = "later"
	wayCrash     = "after a crash"
	wayPartition = "in another partition"
	waySpelling  = "with another spelling of the number"
	wayCase      = "with the id in other letter case"
	wayEncoding  = "in another encoding"
	wayInput     = "through an input"
)

// ways are those that each form must have come in.
func (f form) ways() []string {
	all := []string{wayAtOnce, wayLater, wayCrash, wayPartition, waySpelling, wayEncoding, wayInput}
	if f != formNone && f != formKey && f != formNoUUID {
		all = append(all, wayCase)
	}
	return all
}

// original is a message of which there are several records.
type original struct {
	form   form
	to     string // canonical
	tenant string
	body   string // in these records, and in no other
	copies []*record

	// What came of it. cycle.mu is held.
	first  *record
	deaths int            // of workers, before the first
	direct []e2e.Offset   // of those in weir.requests that are not of an input
	got    map[string]int // messages that the provider received for its recipient, and the troubles until then
	twice  int            // received again, and nothing had happened that puts a call in doubt
	astray int            // received for others
}

// record is one of them.
type record struct {
	of   *original
	send *send
	door *knock // it goes through a bound topic instead of send; nil for most
	ways []string
}

// repeats draws them, from a source by itself, so that the rest of a seed stays.
func repeats(p *Plan) (all []*original) {
	r := rand.New(rand.NewPCG(p.Seed, 0x61676169))
	for i := range 2 + r.IntN(3) {
		n := 4 + r.IntN(6)
		to := func(k int) string { return fmt.Sprintf(spellings[k], n) }
		o := &original{
			form: forms[r.IntN(len(forms))], to: to(0), tenant: []string{schemas.DefaultTenant, "acme"}[r.IntN(2)],
			body: fmt.Sprintf("again %d", i), got: make(map[string]int),
		}
		q := schemas.Request{Channel: schemas.ChannelSMS, Class: []string{"verify", "notice", "hold"}[r.IntN(3)], Body: o.body, Tenant: o.tenant}
		if r.IntN(4) == 0 {
			q.Channel, q.Subject, o.to = schemas.ChannelEmail, "again", fmt.Sprintf("again-%d@example.com", n)
			to = func(k int) string {
				return fmt.Sprintf([]string{"again-%d@example.com", "Again-%d@example.com", "AGAIN-%d@Example.COM"}[k%3], n)
			}
		}
		o.name(r, p, i, &q)
		at, k := time.Duration(r.Int64N(int64(p.Span))), r.IntN(len(spellings))
		for n := range 2 + r.IntN(3) {
			again := q
			c, when := &record{of: o}, at
			if n > 0 {
				switch r.IntN(3) {
				case 0:
					c.ways = append(c.ways, wayAtOnce)
				case 1:
					when += time.Duration(r.Int64N(int64(10 * time.Second)))
				case 2: // most crashes are over
					when = max(at, p.Span*3/4) + time.Duration(r.Int64N(int64(p.Span/4)))
				}
				if r.IntN(2) == 0 {
					k = r.IntN(len(spellings))
				}
			}
			if again.To = to(k); n > 0 && again.To != to(0) {
				c.ways = append(c.ways, waySpelling)
			}
			if o.form == formKeyIDs {
				again.ID = draw(r)
			}
			if n > 0 && slices.Contains(o.form.ways(), wayCase) && r.IntN(3) == 0 {
				again.ID = strings.ToUpper(again.ID)
				c.ways = append(c.ways, wayCase)
			}
			c.encode(r, p, when, &again, n > 0)
			o.copies = append(o.copies, c)
		}
		all = append(all, o)
	}
	return all
}

// name gives a request what its form names it by.
func (o *original) name(r *rand.Rand, p *Plan, i int, q *schemas.Request) {
	v7, _ := uuid.Parse(draw(r))
	at := uint64(p.Start.UnixMilli())
	v7[0], v7[1], v7[2], v7[3], v7[4], v7[5] = byte(at>>40), byte(at>>32), byte(at>>24), byte(at>>16), byte(at>>8), byte(at)
	v7[6] = v7[6]&0x0f | 0x70
	switch o.form {
	case formNone:
	case formKey, formKeyIDs:
		q.IdempotencyKey = fmt.Sprintf("again-%d", i)
	case formV4, formEvent:
		q.ID = draw(r)
	case formV7:
		q.ID = v7.String()
	case formV8:
		q.ID = schemas.DerivedID(schemas.Source{Topic: "elsewhere", Offset: int64(i)}, schemas.MillisOf(p.Start))
	case formEarlier:
		q.ID = schemas.LegacyID(v7.String(), o.to)
	case formNoUUID:
		q.ID = fmt.Sprintf("order-%d", i)
	}
}

// encode makes the record, for weir.requests or, in half of those of a tenant that has one, for its bound topic.
func (c *record) encode(r *rand.Rand, p *Plan, at time.Duration, q *schemas.Request, again bool) {
	body := *q
	var headers []kgo.RecordHeader
	if c.of.form == formEvent {
		headers = append(headers, kgo.RecordHeader{Key: "ce_specversion", Value: []byte("1.0")}, kgo.RecordHeader{Key: "ce_id", Value: []byte(q.ID)})
		body.ID = ""
	}
	s := place(r, p, send{at: at, message: true, again: c}, &body)
	if r.IntN(4) == 0 {
		b, err := schemas.RequestProto(&body)
		if err != nil {
			panic(err) // drawn so that it can be encoded
		}
		s.value = b
		headers = append(headers, kgo.RecordHeader{Key: "content-type", Value: []byte("application/x-protobuf")})
		if again {
			c.ways = append(c.ways, wayEncoding)
		}
	}
	s.headers = headers
	if r.IntN(2) == 0 {
		s.replyTo = schemas.ReplyTo(r.Int32N(replyPartitions), fmt.Sprintf("a%d", r.Uint32()))
	}
	if !p.Doors || q.Tenant != "acme" || r.IntN(2) == 0 {
		c.send = &s
		return
	}
	q.ID = strings.ToLower(q.ID)
	c.door = &knock{
		at: at, tenant: q.Tenant, request: *q, again: c,
		rec: &kgo.Record{Topic: "acme.sends", Partition: r.Int32N(doors["acme.sends"]), Value: s.value, Headers: headers},
	}
	if again {
		c.ways = append(c.ways, wayInput)
	}
}

// sends are all records of weir.requests to be, and questions, in their order.
func (c *cycle) sends() []send {
	all := append(traffic(c.plan), nationals(c.plan)...)
	for _, o := range c.again {
		for _, rec := range o.copies {
			if rec.send != nil {
				all = append(all, *rec.send)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b send) int { return cmp.Compare(a.at, b.at) })
	return all
}

// knocks are all records of bound topics to be.
func (c *cycle) knocks() []knock {
	all := knocks(c.plan)
	for _, o := range c.again {
		for _, rec := range o.copies {
			if rec.door != nil {
				all = append(all, *rec.door)
			}
		}
	}
	return all
}

// acknowledged takes note that a broker has one of several records of a message. c.mu is
// held.
func (c *cycle) acknowledged(rec *record) {
	o := rec.of
	if o.first == nil {
		o.first, o.deaths = rec, c.tally.Deaths
		return
	}
	ways := rec.ways
	switch {
	case slices.Contains(ways, wayAtOnce):
	case c.tally.Deaths > o.deaths:
		ways = append(ways, wayCrash)
	default:
		ways = append(ways, wayLater)
	}
	if rec.send != nil && o.first.send != nil && rec.send.partition != o.first.send.partition {
		ways = append(ways, wayPartition)
	}
	for _, w := range ways {
		c.tally.Repeats[repeated(o.form, w)]++
	}
}

func repeated(f form, way string) string { return string(f) + ", " + way }

// delivered takes note of a call that its recipient may have received. c.mu is held.
func (c *cycle) delivered(call *provider.Call) {
	for _, o := range c.again {
		switch {
		case o.body != call.Content.Body:
		case o.tenant == call.Tenant && o.to == cmp.Or(call.Key, call.To):
			// The call before may be in doubt if a worker ended, its transaction was aborted,
			// or its group gave its lane to another.
			troubles := 1 + c.tally.Deaths + c.tally.Restarts + c.tally.Aborted + c.tally.Rebalances + c.tally.Events[WhatCut]
			if o.got[call.ID] == troubles {
				o.twice++
			}
			o.got[call.ID] = troubles
		default:
			o.astray++
		}
	}
}

// judgeRepeats holds what the provider received, and then the log, to what was sent
// again. c.mu is held.
func (c *cycle) judgeRepeats() (faults []string) {
	passed := make(map[*original][]e2e.Offset)
	refused := make(map[*original]int) // at their input
	for _, at := range c.doors {
		if at.knock == nil || at.knock.again == nil {
			continue
		}
		o := at.knock.again.of
		refused[o] += len(at.ended)
		for _, r := range at.passed {
			passed[o] = append(passed[o], e2e.Offset{Partition: r.Partition, Offset: r.Offset})
		}
	}
	for _, o := range c.again {
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Sprintf("%d records of %q (%s): "+format, append([]any{len(o.copies), o.body, o.form}, args...)...))
		}
		records := append(passed[o], o.direct...)
		most := 1
		switch o.form {
		case formNone:
			most = len(records)
		case formNoUUID:
			most = 0
		default: // one message
		}
		if len(o.got) > most {
			fault("the provider received %d messages", len(o.got))
		}
		if o.astray > 0 {
			fault("the provider received %d for others than their recipient", o.astray)
		}
		if o.twice > 0 {
			fault("the provider received one message again, and no call was in doubt")
		}
		messages := make(map[string]bool)
		for _, at := range records {
			if id, end, ok := c.oracle.Ended(at); ok && end != schemas.StatusDuplicate {
				messages[id] = true
			}
		}
		want := 1
		if !o.form.one() {
			want = len(records)
		}
		if len(messages) != want || len(records)+refused[o] != len(o.copies) {
			fault("%d reached admission and %d were refused before it; they are %d messages", len(records), refused[o], len(messages))
		}
		if len(o.got) > 0 {
			c.tally.Repeats[repeated(o.form, "received")]++
		} else if o.form == formNoUUID {
			c.tally.Repeats[repeated(o.form, "refused")]++
		}
	}
	return faults
}

// repeats sums up by form, and then by way.
func (t *Tally) repeats() string {
	by := make(map[string]int)
	for k, n := range t.Repeats {
		f, way, _ := strings.Cut(k, ", ")
		if by[way] += n; way == wayAtOnce || way == wayLater || way == wayCrash {
			by[f] += n
		}
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(by)) {
		out = append(out, fmt.Sprintf("%s %d", k, by[k]))
	}
	return strings.Join(out, ", ")
}

// neverRepeated lists the forms and ways of repeats that never were.
func (t *Tally) neverRepeated() (out []string) {
	for _, f := range forms {
		last := "received"
		if f == formNoUUID {
			last = "refused"
		}
		for _, w := range append(f.ways(), last) {
			if t.Repeats[repeated(f, w)] == 0 {
				out = append(out, "repeats: "+repeated(f, w))
			}
		}
	}
	return out
}
