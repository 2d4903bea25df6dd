package stream

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (w *worker) offsetsFetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	got := make(map[Partition]Position)
	keep := func(topic string, p int32, metadata *string) {
		if metadata != nil {
			got[Partition{topic, p}] = Position{Metadata: *metadata}
		}
	}
	for _, g := range resp.Groups { // OffsetFetch v8 and later
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				keep(t.Topic, p.Partition, p.Metadata)
			}
		}
	}
	for _, t := range resp.Topics { // before v8
		for _, p := range t.Partitions {
			keep(t.Topic, p.Partition, p.Metadata)
		}
	}
	w.mu.Lock()
	w.committed = got
	w.mu.Unlock()
	return nil
}

// assign runs on the client's group goroutine, after the group's offsets were
// fetched and before anything is read. It hands over to Run's goroutine, so
// that a stage's state has one owner.
func (w *worker) assign(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	w.mu.Lock()
	all := w.committed
	w.mu.Unlock()
	committed := make(map[Partition]Position)
	for topic, parts := range offsets {
		for p, at := range parts {
			pos := Position{Offset: -1, Epoch: -1, Metadata: all[Partition{topic, p}].Metadata}
			if eo := at.EpochOffset(); eo.Offset >= 0 {
				pos.Offset, pos.Epoch = eo.Offset, eo.Epoch
			}
			committed[Partition{topic, p}] = pos
		}
	}
	a := assignment{committed: maps.Clone(committed), reply: make(chan assigned, 1)}
	for sent := false; !sent; {
		w.waker.Wake()
		select {
		case w.assigns <- a:
			sent = true
		case <-time.After(50 * time.Millisecond): // the wake fell between two waits
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.closed:
			return nil, kgo.ErrClientClosed
		}
	}
	select {
	case r := <-a.reply:
		if r.err != nil {
			return nil, r.err
		}
		for p, at := range r.start {
			if committed[p].Offset != at {
				offsets[p.Topic][p.Partition] = kgo.NewOffset().At(at)
			}
		}
		return w.resolve(ctx, offsets)
	case <-w.closed:
		return nil, kgo.ErrClientClosed
	}
}

// resolve turns "the start of the log" into an offset. The client goes back to
// where a partition was assigned when a transaction aborts, and it can only go
// back to an offset.
func (w *worker) resolve(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	var missing []string
	for topic, parts := range offsets {
		for _, at := range parts {
			if at.EpochOffset().Offset < 0 {
				missing = append(missing, topic)
				break
			}
		}
	}
	if len(missing) == 0 {
		return offsets, nil
	}
	starts, err := kadm.NewClient(w.session.Client()).ListStartOffsets(ctx, missing...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list log starts: %w", err)
	}
	for _, topic := range missing {
		for p, at := range offsets[topic] {
			if st, ok := starts.Lookup(topic, p); ok && at.EpochOffset().Offset < 0 {
				offsets[topic][p] = kgo.NewOffset().At(st.Offset)
			}
		}
	}
	return offsets, nil
}
