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
	live  map[sum]int32                  // by message: its records
	queue map[string]map[int32][]delayed // by topic and partition, in the order of release
	known bool                           // the delay topics exist and were read
}

// delayed is a record of a delay topic that is still to be released.
type delayed struct {
	offset  int64
	message sum
}

// released finds how far the delay topics were released. It is called after the end of
// weir.status was taken and before that of weir.readmit: whatever was waiting at the first
// is there still, or is in weir.readmit below the second.
func (a *auditing) released(ctx context.Context) (map[string]map[int32]int64, error) {
	released := make(map[string]map[int32]int64)
	done, err := a.adm.FetchOffsets(ctx, a.Names.Delay("all"))
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("fetch the offsets of the delay stage: %w", err)
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
	return released, nil
}

// hold reads the records of the delay topics that are still to be released.
func (a *auditing) hold(ctx context.Context, w *waits, released map[string]map[int32]int64) error {
	for _, t := range topics.Tiers {
		topic := a.Names.Delay(t.Name)
		for num := range a.reader.until[topic] {
			w.known = true
			w.release(topic, num, released[topic][num])
			log, closeLog, err := a.reader.resume(ctx, topic, num, released[topic][num])
			if err != nil {
				return err
			}
			err = w.read(log, a.Names.Readmit(), func() error {
				a.tick()
				return a.held.tick(func() string { return "messages that wait in delay topics" }, w.size)
			})
			closeLog()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func newWaits() waits {
	return waits{live: make(map[sum]int32), queue: make(map[string]map[int32][]delayed)}
}

// size is in bytes.
func (w *waits) size() int64 { return inMap(len(w.live), 16+4+24) }

// release forgets the records below an offset.
func (w *waits) release(topic string, num int32, below int64) {
	q := w.queue[topic][num]
	for ; len(q) > 0 && q[0].offset < below; q = q[1:] {
		if w.live[q[0].message]--; w.live[q[0].message] == 0 {
			delete(w.live, q[0].message)
		}
	}
	if w.queue[topic] != nil {
		w.queue[topic][num] = q
	}
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
			key := messageKey(env.Tenant, env.Key, env.ID)
			w.live[key]++
			if w.queue[r.Topic] == nil {
				w.queue[r.Topic] = make(map[int32][]delayed)
			}
			w.queue[r.Topic][r.Partition] = append(w.queue[r.Topic][r.Partition], delayed{r.Offset, key})
		}
		if tick == nil {
			continue
		}
		if err := tick(); err != nil {
			return err
		}
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
	p.end.Waiting++
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
		p.end.Overdue++
		p.found.violation(Violation{
			Kind: KindLate, Topic: p.statusTopic, Partition: p.num, Offset: m.offset, T: m.last,
			Text: fmt.Sprintf("%s since then, and no end: it expired at %s, and the brokers' time is %s", m.state(), m.expires, at),
		})
	case p.clocks.own > late:
		p.end.Overdue++
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
