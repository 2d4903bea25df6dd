package audit

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// feed is a source that is read beside the log: one record is looked at, at a
// time. At the end of a cut the records that wait to be decided are looked at too, each
// once: answered ≤ seen.
type feed struct {
	topic   string
	next    source
	head    *kgo.Record
	from    int64 // where the topic's partition begins
	read    int64 // the next offset that a decision may answer
	start   bool  // the first decision on it was seen
	ended   bool
	at      int64 // below, every record was answered or skipped
	seen    int64 // below, every record was looked at
	waiting int64 // records from at to seen
}

// reopen goes on after an earlier cut with a source that begins at offset at.
func (f *feed) reopen(next source) { f.next, f.head, f.ended = next, nil, false }

func (f *feed) peek() (*kgo.Record, error) {
	if f.head == nil && !f.ended {
		r, err := f.next()
		if err != nil {
			return nil, err
		}
		f.head, f.ended = r, r == nil
	}
	return f.head, nil
}

// pop takes the head. seen says whether it was looked at at the end of an earlier cut.
func (f *feed) pop() (r *kgo.Record, seen bool) {
	r, f.head, f.at = f.head, nil, f.head.Offset+1
	if seen = r.Offset < f.seen; seen {
		f.waiting--
	}
	return r, seen
}

// input finds the record that a decision answers and holds that those between
// it and the last one are none. It returns nil for a record that is gone, with
// the envelope of one of readmit.
func (p *partition) input() (*kgo.Record, *schemas.Envelope, error) {
	d := p.e.Decision
	if d.Input == nil {
		if d.Verdict != schemas.VerdictMarker {
			p.fault(KindPhantom, "%s answers no record", d.Verdict)
		}
		return nil, nil, nil
	}
	f := p.in[d.Input.Topic]
	if f == nil || d.Input.Partition != p.num {
		p.fault(KindPhantom, "it answers %s, which is not this partition's to decide", d.Input)
		return nil, nil, nil
	}
	at := d.Input.Offset
	if f.start && at < f.read {
		p.fault(KindTwice, "%s was answered before", d.Input)
		return nil, nil, nil
	}
	for {
		r, err := f.peek()
		if err != nil {
			return nil, nil, err
		}
		if r == nil || r.Offset > at {
			if at >= f.from {
				p.fault(KindPhantom, "there is no committed record at %s", d.Input)
			} else {
				p.cannotTell("inputs that lie before the retained log")
			}
			f.read = at + 1
			return nil, nil, nil
		}
		if r.Offset < at {
			if f.start || !p.cut {
				p.skipped(r)
			}
			_, seen := f.pop()
			if f.topic == p.readmit {
				p.arrived(r, seen)
			}
			continue
		}
		_, seen := f.pop()
		f.start, f.read = true, at+1
		if first, is := unreadFrom(r); is { // all of its batch is answered by it
			if p.e.Reason != schemas.ReasonBatchTooLarge {
				p.fault(KindPhantom, "it answers %s, the last record of a batch that is too large to be read", d.Input)
			}
			if p.judged {
				p.counts.Unread++
				p.found.notRead(Unread{r.Topic, r.Partition, first, r.Offset})
			}
			return nil, nil, nil
		}
		if f.topic == p.requests {
			p.counts.Requests += p.one()
			return r, nil, nil
		}
		p.counts.Readmitted += p.one()
		return r, p.arrived(r, seen), nil
	}
}

// skipped reports a record that no decision answers.
func (p *partition) skipped(r *kgo.Record) {
	if !p.judged {
		return
	}
	p.found.violation(Violation{
		Kind: KindUnanswered, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Appended: schemas.MillisOf(r.Timestamp),
		Text: fmt.Sprintf("no decision answers it, and the next record is decided at %s/%d/%d", p.statusTopic, p.num, p.rec.Offset),
	})
}

// arrived reads a record of readmit, and counts it if another partition wrote it. One that
// was seen while it waited is counted already.
func (p *partition) arrived(r *kgo.Record, seen bool) *schemas.Envelope {
	env := new(schemas.Envelope)
	for _, h := range r.Headers {
		if env.Set(h.Key, string(h.Value)) != nil {
			return nil // not of Weir's making
		}
	}
	if seen {
		p.comesBack(env, -1)
	} else {
		p.came(r, env)
	}
	return env
}

// returning is how many records of readmit that wait to be decided a message has, and how
// many of them give its places back.
type returning struct{ records, giveBacks int32 }

// comesBack takes note of a record of readmit that waits to be decided (n is 1), or does no
// longer (-1).
func (p *partition) comesBack(env *schemas.Envelope, n int32) {
	key := messageKey(env.Tenant, env.Key, env.ID)
	b := p.back[key]
	b.records += n
	if env.Reason == schemas.ReadmitGiveBack {
		b.giveBacks += n
	}
	if p.back[key] = b; b.records == 0 {
		delete(p.back, key)
	}
	if env.Round != nil || env.Reason == schemas.ReadmitUnwind {
		p.underWay += int64(n)
	}
}

// pending looks at the records of a feed that wait to be decided, up to the cut.
func (p *partition) pending(f *feed) error {
	for {
		r, err := f.peek()
		if err != nil || r == nil {
			return err
		}
		f.head = nil
		if r.Offset >= f.seen {
			f.seen = r.Offset + 1
			f.waiting++
			if f.topic == p.readmit {
				if env := p.arrived(r, false); env != nil {
					p.comesBack(env, 1)
				}
			}
		}
		if r.Offset < p.done[f.topic] && (f.start || !p.cut) {
			p.end.Pending--
			p.found.violation(Violation{
				Kind: KindUnanswered, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Appended: schemas.MillisOf(r.Timestamp),
				Text: fmt.Sprintf("no decision answers it, and the group has committed %d", p.done[f.topic]),
			})
		}
	}
}
