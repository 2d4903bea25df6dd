package sink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// await tries until it succeeds, and reports whether it did before ctx ended.
func (s *sink) await(ctx context.Context, try func(context.Context) error) bool {
	for n := 0; ; n++ {
		err := try(ctx)
		if err == nil || ctx.Err() != nil {
			return err == nil
		}
		wait := s.cfg.wait(n)
		s.cfg.Logger.Warn("the sink cannot begin; nothing is lost: what is to be loaded stands in Kafka", "error", err, "retry_in", wait)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}

// findTopic learns the topic's id, once there is one.
func (s *sink) findTopic(ctx context.Context) error {
	ts, err := s.adm.ListTopics(ctx, s.name)
	if err == nil {
		err = ts.Error()
	}
	if err != nil {
		return fmt.Errorf("read the topic %s: %w", s.name, err)
	}
	s.topic, s.count = ts[s.name].ID.String(), len(ts[s.name].Partitions)
	return nil
}

// findRows learns of which of these partitions ClickHouse has rows. It is asked as they
// are assigned: what one process knew at its start, others have changed since. One that
// had rows is not asked for again.
func (s *sink) findRows(ctx context.Context, ids []int32) error {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return s.there[id] })
	if len(ids) == 0 {
		return nil
	}
	there, err := partitionsThere(ctx, s.conn, s.cfg.Cluster, ids)
	maps.Copy(s.there, there)
	return err
}

// skip goes on at the log's start where Kafka deleted records before they were
// loaded: they are lost, and waiting would lose more. Anything else that makes
// the group's offset impossible is fatal.
func (s *sink) skip(_ context.Context, id int32, cause error) error {
	p := s.parts[id]
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	starts, err := s.adm.ListStartOffsets(ctx, s.name)
	if err != nil {
		s.failed.Warn(s.cfg.Logger, "fetch failed", s.name, id, errors.Join(cause, err))
		return nil
	}
	start, ok := starts.Lookup(s.name, id)
	if !ok || start.Err != nil || start.Offset <= p.read {
		return fmt.Errorf("%s/%d: offset %d was read before and Kafka has no longer heard of it: %w", s.name, id, p.read, cause)
	}
	s.cfg.Logger.Error("Kafka deleted status events before they were loaded into ClickHouse", "partition", id, "from", p.read, "to", start.Offset)
	s.metrics.skipped.Add(float64(start.Offset - p.read))
	p.skipped(start.Offset, time.Now())
	s.cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{s.name: {id: {Epoch: -1, Offset: p.read}}})
	return nil
}

// rebalance drops what was revoked and takes what was assigned.
func (s *sink) rebalance() error {
	s.mu.Lock()
	revoked, assigned := s.revoked, s.assigned
	s.revoked, s.assigned = false, nil
	s.mu.Unlock()
	if revoked {
		s.dropAll()
	}
	for id, at := range assigned {
		plan, err := s.standing(id, at)
		if err != nil {
			return err
		}
		p := newPartition(s.topic, plan, s.cfg.limits(s.count))
		if at.planned {
			p.settle(time.Now())
		}
		s.parts[id] = p
		s.ledger.start(id, s.accountOf(id, plan, at))
		if plan.planned() {
			s.cfg.Logger.Info("a planned insert is taken over", "partition", id, "from", plan.From, "to", plan.To, "try", plan.Try)
		}
	}
	return nil
}

// accountOf is what the group's metadata says was loaded of a partition. All of it is compared soon,
// and the tables that views fill likewise.
func (s *sink) accountOf(id int32, plan Plan, at position) *entries {
	e := parseEntries(plan.From, at.metadata)
	if len(e.marks) > 0 {
		s.nextWhole, s.nextMinutes = time.Time{}, time.Time{}
	}
	return e
}

// standing reads where the group stands in a partition.
func (s *sink) standing(id int32, at position) (Plan, error) {
	plan, err := ParseMetadata(id, at.offset, at.metadata)
	switch {
	case errors.Is(err, ErrForeignMetadata):
		why := at.anew
		if at.offset >= 0 {
			why = "the group's offset was not set by a sink"
		}
		if why != "" {
			s.cfg.Logger.Warn("a partition is read without knowing what ClickHouse has: rows that are there already are left out", "why", why, "partition", id, "offset", at.offset)
		}
		return Plan{Topic: s.topic, Partition: id, From: at.offset, To: at.offset, Doubt: unknown}, nil
	case err != nil:
		return Plan{}, fmt.Errorf("partition %d: %w", id, err)
	}
	return plan, nil
}

// anew is where a partition is begun to be read: from the log's start though the
// group stands further on, where that says nothing of this ClickHouse. Where an operator
// has set the group's offset, there it goes on.
func (s *sink) anew(id int32, at position) position {
	plan, err := ParseMetadata(id, at.offset, at.metadata)
	switch {
	case err != nil:
	case plan.Topic != s.topic:
		return position{offset: atStart, anew: "the topic was deleted and made again"}
	case plan.From > 0 && !plan.First && !s.there[id]:
		return position{offset: atStart, anew: "ClickHouse has no rows of it: the database is another one, or was emptied", planned: plan.planned()}
	}
	return at
}

func (s *sink) dropAll() {
	for _, cancel := range s.cancels {
		cancel() // whoever is next sends it again under the same token
	}
	clear(s.parts)
	clear(s.health.why)
	s.ledger.clear()
	if len(s.paused) > 0 {
		s.setPaused(nil)
	}
}

// commit commits every position that changed, in one request, which has so long.
func (s *sink) commit(ctx context.Context, within time.Duration) error {
	offsets := make(map[int32]kgo.EpochOffset)
	metadata := make(map[int32]string)
	for id, p := range s.parts {
		if pos, ok := p.position(); ok {
			offsets[id] = kgo.EpochOffset{Epoch: -1, Offset: pos.From}
			metadata[id] = pos.Metadata() + s.ledger.parts[id].String()
		}
	}
	if len(offsets) == 0 {
		s.well()
		return nil
	}
	// A stop of the process must not make a commit's outcome unknown. But while the
	// group rebalances, the client answers no commit, whatever the context: who is
	// told to stop does not wait for that.
	commitCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	commitCtx = kgo.PreCommitFnContext(commitCtx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				p := &req.Topics[i].Partitions[j]
				m := metadata[p.Partition]
				p.Metadata = &m
			}
		}
		return nil
	})
	failed := func(err error) {
		if s.unsettled.IsZero() {
			s.unsettled = time.Now()
		}
		s.cfg.Watch.Failing(stage, s.unsettled, "offsets are not committed: "+err.Error())
		s.cfg.Logger.Warn("offsets were not committed; they will be committed again", "error", err)
	}
	type answer struct {
		resp *kmsg.OffsetCommitResponse
		err  error
	}
	answered := make(chan answer, 1)
	go s.cl.CommitOffsetsSync(commitCtx, map[string]map[int32]kgo.EpochOffset{s.name: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			answered <- answer{resp, err}
		})
	var a answer
	stopping, late := ctx.Done(), time.NewTimer(within)
	defer late.Stop()
	for waiting := true; waiting; {
		select {
		case a = <-answered:
			waiting = false
		case <-stopping:
			stopping = nil
			late.Reset(min(within, s.cfg.Grace/4))
		case <-late.C:
			failed(errors.New("there is no answer"))
			return nil
		}
	}
	if a.err != nil {
		failed(a.err)
		return nil
	}
	whole := true
	for _, t := range a.resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				failed(fmt.Errorf("partition %d: %w", p.Partition, err))
				whole = false
				continue
			}
			if own := s.parts[p.Partition]; own != nil {
				own.committed()
			}
		}
	}
	if whole {
		s.well()
	}
	return nil
}

// well notes that commits succeed, or that there is nothing of this sink's to commit.
func (s *sink) well() {
	if s.unsettled.IsZero() {
		return
	}
	s.unsettled = time.Time{}
	s.cfg.Watch.Failing(stage, time.Time{}, "")
}

func (s *sink) setRevoked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked, s.assigned = true, nil
	if s.wake != nil {
		s.wake()
	}
}

func (s *sink) offsetsFetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	got := make(map[int32]string)
	keep := func(topic string, p int32, metadata *string) {
		if metadata != nil && (topic == s.name || topic == "") {
			got[p] = *metadata
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metadata = got
	return nil
}

// setAssigned runs on the client's group goroutine, after the group's offsets
// were fetched and before anything is read from them. It waits for ClickHouse, until
// ctx ends with the assignment; the client's heartbeats go on.
func (s *sink) setAssigned(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	stands := make(map[int32]position)
	var ask []int32 // of which the group says that rows are there
	for id, at := range offsets[s.name] {
		pos := position{offset: atStart}
		if eo := at.EpochOffset(); eo.Offset >= 0 {
			s.mu.Lock()
			pos = position{offset: eo.Offset, metadata: s.metadata[id]}
			s.mu.Unlock()
		}
		if pos.offset > 0 {
			ask = append(ask, id)
		}
		stands[id] = pos
	}
	if !s.await(ctx, func(ctx context.Context) error { return s.findRows(ctx, ask) }) {
		return nil, ctx.Err()
	}
	for id, pos := range stands {
		if stands[id] = s.anew(id, pos); stands[id].anew != "" {
			offsets[s.name][id] = kgo.NewOffset().AtStart()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.assigned == nil {
		s.assigned = make(map[int32]position)
	}
	maps.Copy(s.assigned, stands)
	if s.wake != nil {
		s.wake()
	}
	return offsets, nil
}
