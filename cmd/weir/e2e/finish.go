package e2e

import (
	"time"

	"github.com/weirhq/weir/schemas"
)

// Offset is where a committed record stands in a topic that admission reads.
type Offset struct {
	Partition int32
	Offset    int64
}

// Ended returns the id and the end of the message that the request at an
// offset asked for; false while it has none.
func (o *Oracle) Ended(at Offset) (id string, end schemas.Status, ok bool) {
	id, ok = o.inputs[schemas.Source{Topic: o.requests, Partition: at.Partition, Offset: at.Offset}]
	if s := o.messages[id]; ok && s != nil && s.end != "" {
		return id, s.end, true
	}
	return id, "", false
}

// Unended counts the requests that have no end by the last status of their
// messages; "" is those without a decision.
func (o *Oracle) Unended(requests []Offset) map[schemas.Status]int {
	out := make(map[schemas.Status]int)
	for _, at := range requests {
		if id, _, ok := o.Ended(at); !ok {
			var last schemas.Status
			if s := o.messages[id]; s != nil {
				last = s.last
			}
			out[last]++
		}
	}
	return out
}

// Decided reports whether the record of readmit at an offset was decided.
func (o *Oracle) Decided(at Offset) bool {
	_, ok := o.inputs[schemas.Source{Topic: o.readmit, Partition: at.Partition, Offset: at.Offset}]
	return ok
}

// Finish judges what only the whole log can show. requests are the records
// that brokers acknowledged, readmit the committed ones of weir.readmit, and
// calls what the providers in it received: provider, message, times called. See Received.
func (o *Oracle) Finish(requests, readmit []Offset, calls map[string]map[string]int) *Report {
	o.report.Requests = len(requests)
	ids := make(map[string]bool)
	for _, at := range requests {
		none := Record{Partition: at.Partition, Offset: -1}
		id, ok := o.inputs[schemas.Source{Topic: o.requests, Partition: at.Partition, Offset: at.Offset}]
		if !ok {
			o.fault(FaultLost, none, "the request at offset %d was never decided", at.Offset)
			continue
		}
		if ids[id] {
			continue
		}
		ids[id] = true
		if s := o.messages[id]; s == nil || s.end == "" {
			none.Event = &schemas.Event{MessageID: id}
			o.fault(FaultLost, none, "the request at offset %d has no end", at.Offset)
		}
	}
	o.report.Messages = len(ids)
	for _, at := range readmit {
		if !o.Decided(at) {
			o.fault(FaultLost, Record{Partition: at.Partition, Offset: -1}, "the record of readmit at offset %d was never decided", at.Offset)
		}
	}
	o.walks()
	o.agree()
	o.received() // after agree, which says what a message gave up on its way
	o.resolve()
	o.calls(calls)
	return &o.report
}

// Received judges the calls that providers received, by their own clock; clocks is by how
// much the clocks of those who called may differ. It is for after the whole log.
func (o *Oracle) Received(calls []Call, clocks time.Duration) { o.phones.judge(o, calls, clocks) }

// received looks whether every message that may have been received keeps its
// place, and each at most one.
func (o *Oracle) received() {
	type holding struct{ message, limit string }
	held := make(map[holding]int)
	for n, p := range o.parts {
		for key, places := range p.places {
			limit := limitOf(key)
			for _, pl := range places.all() {
				h := holding{pl.message, limit}
				if held[h]++; held[h] == 2 && !o.perAttempt(limit) {
					o.fault(FaultCharges, Record{Partition: n, Offset: -1, Event: &schemas.Event{MessageID: pl.message}}, "it holds two places in %s", limit)
				}
			}
		}
	}
	for id, s := range o.messages {
		if s.gaveBack && (s.end == schemas.StatusSent || s.end == schemas.StatusUnknown) {
			o.fault(FaultReturned, Record{Partition: s.partition, Offset: s.endOffset, Event: &schemas.Event{MessageID: id}}, "it ended as %s and gave its place back", s.end)
		}
	}
}

func (o *Oracle) perAttempt(limit string) bool {
	for _, pol := range o.policies {
		for i := range pol.Limits {
			if pol.Limits[i].Name == limit && pol.Limits[i].Count == schemas.CountAttempt {
				return true
			}
		}
	}
	return false
}

// calls compares the log with what providers received: every sent message was
// called, and nothing was called more often than it was permitted.
func (o *Oracle) calls(calls map[string]map[string]int) {
	for provider, byMessage := range calls {
		for id, n := range byMessage {
			o.report.Calls += n
			permits := 0
			if s := o.messages[id]; s != nil {
				for _, k := range s.permits {
					permits += k
				}
			}
			if n > permits {
				o.fault(FaultCalls, Record{Offset: -1, Event: &schemas.Event{MessageID: id}}, "%s was called %d times on %d permits", provider, n, permits)
			}
		}
	}
	for id, s := range o.messages {
		if byMessage, known := calls[s.provider]; known && s.end == schemas.StatusSent && byMessage[id] == 0 {
			o.fault(FaultCalls, Record{Partition: s.partition, Offset: s.endOffset, Event: &schemas.Event{MessageID: id}}, "sent, but %s was never called", s.provider)
		}
	}
}
