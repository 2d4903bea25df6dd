package audit

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// found is an item that only one topic has, and where it may stand.
type found struct {
	item
	kind   Kind
	topics []string
	text   string
}

// fault is a found without what is the same for all of its text.
type fault struct {
	item
	text string
}

func (f *found) fault() fault { return fault{f.item, f.text} }

// compare returns what only one of two topics has.
func (b *bounds) compare(queues, journals map[string]string, into *findings) (all []found) {
	status := []string{b.statusTopic}
	permits, outcomes := maps.Clone(b.holes), maps.Clone(b.holes) // a skipped record is a permit or an outcome
	for _, c := range []struct {
		j           *join
		kind        Kind
		further     []string
		only, extra string
		before      string
	}{
		{b.dispatched, KindDispatch, slices.Sorted(maps.Keys(queues)), "admitted, and not dispatched once with these places", "dispatched, and not admitted once with these places", "admissions before the retained dispatch topics"},
		{b.forwarded, KindForward, []string{b.readmit}, "forwarded, and not there once in weir.readmit", "in weir.readmit as forwarded, and no partition forwarded it", "forwards before the retained log"},
		{b.hops, KindHop, []string{b.readmit}, "sent on, and not there once in weir.readmit with all that it carries", "in weir.readmit as sent on, and no decision sent it so", "steps of messages whose requests lie before the retained log"},
		{b.released, KindReleased, []string{b.readmit}, "asked back of its owner, or to be put back, and not there once in weir.readmit", "in weir.readmit as asked back, or to be put back, and no decision of home asked for it", "places asked back that were taken before the retained log"},
		{b.permitted, KindPermit, slices.Sorted(maps.Keys(journals)), "sending, without one permit in the journal", "permitted in the journal, without its status sending", "sendings before the retained journals"},
		{b.ended, KindOutcome, slices.Sorted(maps.Keys(journals)), "what it says came of the attempt is not once in the journal", "an outcome of the journal that no status says", "outcomes before the retained journals"},
	} {
		only, extra, tangled := c.j.difference()
		for _, i := range only {
			if c.kind == KindPermit && b.found.skippedPermit(permits, i) {
				continue // it is counted as what cannot be told
			}
			if c.kind == KindOutcome && b.found.skippedOutcome(outcomes, i) {
				continue
			}
			all = append(all, found{i, c.kind, status, c.only})
		}
		for _, i := range extra {
			all = append(all, found{i, c.kind, c.further, c.extra})
		}
		for range tangled {
			into.violation(Violation{Kind: c.kind, Partition: -1, Offset: -1, Text: c.only + ", or the reverse: several, which cannot be told apart"})
		}
		b.found.cannotTell(c.before, c.j.untold())
	}
	return all
}

// locate reads again, where something is wrong, to say at which records: the
// comparison of topics has kept ids and times only. What it does not find is
// reported without. What an earlier cut found is not looked for again.
func (a *auditing) locate(ctx context.Context, all []found, into *findings) error {
	ids := make(map[string][]int)
	wanted := make(map[string]bool) // topics
	least := schemas.Millis(math.MaxInt64)
	for i := range all {
		f := &all[i]
		if _, there := a.located[f.fault()]; there || i >= 3*kept {
			continue
		}
		id := f.message()
		ids[id] = append(ids[id], i)
		for _, t := range f.topics {
			wanted[t] = true
		}
		least = min(least, f.t)
	}
	places := make([]*kgo.Record, len(all))
	for _, topic := range slices.Sorted(maps.Keys(wanted)) {
		// What names a decision is appended after it.
		from, err := a.adm.ListOffsetsAfterMilli(ctx, int64(least.Add(-time.Minute)), topic)
		if err != nil {
			return fmt.Errorf("list the offsets at %s: %w", least, err)
		}
		for num := range a.reader.until[topic] {
			begin := a.reader.start[topic][num]
			if o, ok := from.Lookup(topic, num); ok && o.Err == nil {
				begin = max(begin, o.Offset)
			}
			if err := a.reader.each(ctx, topic, num, begin, func(r *kgo.Record) {
				for id, of := range ids {
					if !holds(r, id) {
						continue
					}
					for _, i := range of {
						if f := &all[i]; slices.Contains(f.topics, topic) && (places[i] == nil || speaksOf(r, f.t)) {
							places[i] = r
						}
					}
				}
			}); err != nil {
				return err
			}
		}
	}
	for i := range all {
		v, there := a.located[all[i].fault()]
		if !there {
			v = Violation{Kind: all[i].kind, Topic: all[i].topics[0], Partition: -1, Offset: -1, MessageID: all[i].message(), T: all[i].t, Text: all[i].text}
			if r := places[i]; r != nil {
				v.Topic, v.Partition, v.Offset, v.Appended = r.Topic, r.Partition, r.Offset, schemas.MillisOf(r.Timestamp)
			}
			if i < 3*kept {
				a.located[all[i].fault()] = v
			}
		}
		into.violation(v)
	}
	return nil
}

// holds reports whether a record names a message.
func holds(r *kgo.Record, id string) bool {
	return bytes.Contains(r.Value, []byte(id)) ||
		slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == schemas.HeaderID && string(h.Value) == id })
}

// speaksOf reports whether a record names a moment.
func speaksOf(r *kgo.Record, t schemas.Millis) bool {
	text := []byte(t.String())
	return bytes.Contains(r.Value, text) || slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return bytes.Equal(h.Value, text) })
}
