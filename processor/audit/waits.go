package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// waits are the messages that the delay topics hold: of each its record that is still to
// be released. A message that waits is among them, or its record has come back and waits
// in weir.readmit.
type waits struct {
	live  map[sum]struct{} // by message
	known bool             // the delay topics exist and were read
}

// waits finds what the delay topics hold. It is called after the end of weir.status was
// taken and before that of weir.readmit: whatever was waiting at the first is there still,
// or is in weir.readmit below the second.
func (a *auditing) waits(ctx context.Context) (w waits, released map[string]map[int32]int64, err error) {
	released = make(map[string]map[int32]int64)
	done, err := a.adm.FetchOffsets(ctx, a.Names.Delay("all"))
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return w, nil, fmt.Errorf("fetch the offsets of the delay stage: %w", err)
	}
	done.Each(func(o kadm.OffsetResponse) {
		if o.Err != nil {
			return
		}
		if released[o.Topic] == nil {
			released[o.Topic] = make(map[int32]int64)
		}
		released[o.Topic][o.Partition] = o.At
	})
	return w, released, nil
}

// hold reads the records of the delay topics that are still to be released.
func (a *auditing) hold(ctx context.Context, w *waits, released map[string]map[int32]int64) error {
	w.live = make(map[sum]struct{})
	own := &share{of: a.budget}
	for _, t := range topics.Tiers {
		topic := a.Names.Delay(t.Name)
		for num := range a.reader.until[topic] {
			w.known = true
			from := max(a.reader.start[topic][num], released[topic][num])
			log, closeLog, err := a.reader.openFrom(ctx, topic, num, from)
			if err != nil {
				return err
			}
			err = w.read(log, a.Names.Readmit(), func() error {
				a.tick()
				return own.tick(func() string { return "messages that wait in delay topics" }, func() int64 { return inMap(len(w.live), 16) })
			})
			closeLog()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *waits) read(log source, readmit string, tick func() error) error {
	for {
		r, err := log()
		if err != nil || r == nil {
			return err
		}
		var env schemas.Envelope
		torn := false
		for _, h := range r.Headers {
			torn = torn || env.Set(h.Key, string(h.Value)) != nil
		}
		if !torn && env.Return == readmit { // callbacks and receipts wait there too
			w.live[messageKey(env.Tenant, env.Key, env.ID)] = struct{}{}
		}
		if tick == nil {
			continue
		}
		if err := tick(); err != nil {
			return err
		}
	}
}

// comesBack takes note of a record of readmit that waits to be decided.
func (p *partition) comesBack(env *schemas.Envelope) {
	if env != nil {
		p.back[messageKey(env.Tenant, env.Key, env.ID)] = struct{}{}
	}
}

// waitsSomewhere judges that a message that waits has a record that brings it back.
func (p *partition) waitsSomewhere(k sum, m *message) {
	if !p.waiting.known || m.last < p.bounds.since || m.flags&flagRound != 0 {
		return
	}
	switch m.state() {
	case schemas.StatusScheduled, schemas.StatusDeferred, schemas.StatusRetrying:
	default:
		return
	}
	_, waits := p.waiting.live[k]
	_, back := p.back[k]
	p.counts.Waiting++
	if !waits && !back {
		p.found.violation(Violation{
			Kind: KindDelay, Topic: p.statusTopic, Partition: p.num, Offset: m.offset, T: m.last,
			Text: fmt.Sprintf("%s since then, and no record of it is in a delay topic or comes back from one", m.state()),
		})
	}
}

// overdue judges a message without an end by the brokers' time at the cut, or by the
// partition's own where that is later. By the auditor's clock alone, where nothing was
// written for a while, it cannot be told.
func (p *partition) overdue(m *message) {
	if m.expires == 0 {
		return
	}
	late := m.expires.Add(p.slack)
	at := max(p.t, p.clocks.brokers)
	switch {
	case at > late:
		p.counts.Overdue++
		p.found.violation(Violation{
			Kind: KindLate, Topic: p.statusTopic, Partition: p.num, Offset: m.offset, T: m.last,
			Text: fmt.Sprintf("%s since then, and no end: it expired at %s, and the brokers' time is %s", m.state(), m.expires, at),
		})
	case p.clocks.own > late:
		p.counts.Overdue++
		p.found.cannotTell("messages without an end that have expired by the clock of this machine; the brokers have written nothing since", 1)
	}
}

// clocks are the times of the cut: the latest append of any topic, by the brokers, and
// this machine's.
type clocks struct{ brokers, own schemas.Millis }

// clocks asks for the latest append of all topics.
func (a *auditing) clocks(ctx context.Context, names ...string) (clocks, error) {
	c := clocks{own: schemas.MillisOf(time.Now())}
	latest, err := a.adm.ListMaxTimestampOffsets(ctx, names...)
	if err != nil {
		return c, fmt.Errorf("list the latest appends: %w", err)
	}
	latest.Each(func(o kadm.ListedOffset) {
		if o.Err == nil {
			c.brokers = max(c.brokers, schemas.Millis(o.Timestamp))
		}
	})
	return c, nil
}
