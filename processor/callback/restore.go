package callback

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/skip"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// firstReach is how far back the first stage ever begins: what happened while it
// was started is told, and no old history.
const firstReach = 5 * time.Minute

// Assign reads of each partition which callbacks wait, up to the high watermark: the
// group's offsets were fetched before, and are stable.
func (s *stage) Assign(ctx context.Context, committed map[stream.Partition]stream.Position) (map[stream.Partition]int64, error) {
	s.begin()
	clear(s.parts)
	began := time.Now()
	numbers := make(map[int32]bool)
	for tp := range committed {
		numbers[tp.Partition] = true
	}
	var ranges []stream.Range
	metas := make(map[int32]meta)
	damaged := make(map[stateKey]unread)
	for n := range numbers {
		if n >= s.cfg.Partitions {
			return nil, stream.Fatal(fmt.Errorf("%s has a partition %d: there are to be %d", s.cfg.Names.Callbacks(), n, s.cfg.Partitions))
		}
		s.parts[n] = &part{num: n, salt: saltOf(n, s.cfg.Partitions), book: newBook(), own: make(map[messageKey]own)}
		ranges = append(ranges, stream.Range{Partition: stream.Partition{Topic: s.cfg.Names.CallbackState(), Partition: n}})
	}
	var mu sync.Mutex
	records := 0
	err := stream.Read(ctx, skip.Batches(ctx, s.cfg.Read, s.cfg.Names, s.cfg.Logger), ranges, func(r *kgo.Record) error {
		mu.Lock()
		defer mu.Unlock()
		records++
		key := stateKey{r.Partition, string(r.Key)}
		delete(damaged, key) // a later record replaces what was there
		if string(r.Key) == metaKey {
			delete(metas, r.Partition)
			var m meta
			if err := json.Unmarshal(r.Value, &m); err != nil {
				damaged[key] = unread{r, err}
				return nil
			}
			metas[r.Partition] = m
			return nil
		}
		if len(r.Key) != 1+len(messageKey{}) { // compaction goes by key: it replaced nothing
			s.metrics.foreign.Met(s.cfg.Logger, "a record that Weir did not write is left out: let no one else write to this topic", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset)
			return nil
		}
		if err := s.parts[r.Partition].recall(r); err != nil {
			damaged[key] = unread{r, err}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("restore the callbacks that wait: %w", err)
	}
	if err := s.without(ctx, damaged, committed); err != nil {
		return nil, fmt.Errorf("restore the callbacks that wait: %w", err)
	}
	start := make(map[stream.Partition]int64)
	for n, p := range s.parts {
		p.noted, p.known = metas[n]
		status, callbacks := stream.Partition{Topic: s.cfg.Names.Status(), Partition: n}, stream.Partition{Topic: s.cfg.Names.Callbacks(), Partition: n}
		at := meta{committed[status].Offset, committed[callbacks].Offset}
		if known, ok := metas[n]; ok { // offsets of a group vanish after days of idleness
			if at.Status < 0 {
				at.Status = known.Status
			}
			if at.Callbacks < 0 {
				at.Callbacks = known.Callbacks
			}
		}
		if at.Status < 0 {
			if at.Status, err = s.beginning(ctx, status, firstReach); err != nil {
				return nil, err
			}
		}
		if at.Callbacks < 0 {
			if at.Callbacks, err = s.beginning(ctx, callbacks, 0); err != nil {
				return nil, err
			}
		}
		start[status], start[callbacks] = at.Status, at.Callbacks
		p.status, p.callbacks = newIntake(at.Status), newIntake(at.Callbacks)
		p.stood = p.meta()
	}
	s.held = true
	s.txAt = s.cfg.Now()
	if len(s.parts) > 0 {
		s.cfg.Logger.Info("callbacks restored", "partitions", len(s.parts), "records", records, "took", time.Since(began).Round(100*time.Microsecond))
	}
	return start, nil
}

// stateKey is a key of a partition of the state.
type stateKey struct {
	partition int32
	key       string
}

// unread is the latest record of a key, which cannot be read.
type unread struct {
	rec *kgo.Record
	why error
}

// without reports whether the stage can go on without records that it could not
// read: where an operator skipped them. How far the stage was is not needed where the
// group says it.
func (s *stage) without(ctx context.Context, damaged map[stateKey]unread, committed map[stream.Partition]stream.Position) error {
	look := &skip.Lookup{Read: s.cfg.Read, Names: s.cfg.Names}
	for key, d := range damaged {
		if key.key == metaKey {
			at := func(topic string) int64 {
				return committed[stream.Partition{Topic: topic, Partition: key.partition}].Offset
			}
			if at(s.cfg.Names.Status()) >= 0 && at(s.cfg.Names.Callbacks()) >= 0 {
				continue
			}
		}
		skipped, err := look.Covers(ctx, d.rec)
		switch {
		case err != nil:
			return err
		case !skipped:
			return skip.Unreadable(s.cfg.Names, d.rec, d.why)
		}
		s.cfg.Logger.Warn("a record is skipped, as an operator said", "topic", d.rec.Topic, "partition", d.rec.Partition, "offset", d.rec.Offset)
	}
	return nil
}

// recall takes in a record of the state. It is an error when its key is one of the
// state's and its value cannot be read: nothing is known of that message then.
func (p *part) recall(r *kgo.Record) error {
	var k messageKey
	copy(k[:], r.Key[1:])
	switch r.Key[0] {
	case ownKind:
		delete(p.own, k)
		if len(r.Value) > 0 {
			var o own
			if err := json.Unmarshal(r.Value, &o); err != nil {
				return err
			}
			p.own[k] = o
		}
	case waitKind:
		p.book.forget(k)
		if len(r.Value) > 0 {
			var s saved
			if err := json.Unmarshal(r.Value, &s); err != nil {
				return err
			}
			for _, w := range s.Away {
				p.book.restore(k, s.Tenant, w.Seq, w.Hop, w.Due)
			}
		}
	default:
		return fmt.Errorf("a record of kind %q", r.Key[:1])
	}
	return nil
}

// beginning is where a partition is read that nobody has read: so far back, or from
// its start.
func (s *stage) beginning(ctx context.Context, p stream.Partition, back time.Duration) (int64, error) {
	if back > 0 {
		// Where nothing is as young, that is the end as it was before: the client asks for the
		// end in a second call, and what is appended between the two would be left out.
		ends, err := s.adm.ListEndOffsets(ctx, p.Topic)
		if err == nil {
			err = ends.Error()
		}
		var at kadm.ListedOffsets
		if err == nil {
			at, err = s.adm.ListOffsetsAfterMilli(ctx, int64(schemas.MillisOf(s.cfg.Now().Add(-back))), p.Topic)
		}
		if err == nil {
			err = at.Error()
		}
		end, ok1 := ends.Lookup(p.Topic, p.Partition)
		if o, ok2 := at.Lookup(p.Topic, p.Partition); err == nil && ok1 && ok2 && o.Offset >= 0 {
			return min(o.Offset, end.Offset), nil
		}
		if err != nil {
			return 0, fmt.Errorf("find where to begin in %s: %w", p.Topic, err)
		}
	}
	starts, err := s.adm.ListStartOffsets(ctx, p.Topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("find the start of %s: %w", p.Topic, err)
	}
	o, _ := starts.Lookup(p.Topic, p.Partition)
	return o.Offset, nil
}
