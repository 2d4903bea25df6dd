package backtest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// readers is how many partitions are read and decided at once where they do not
// depend on each other: one more than can run hides the fetches.
var readers = runtime.GOMAXPROCS(0) + 1

// source reads the logs.
type source struct {
	cfg        Config
	reader     *stream.Reader
	partitions int32

	ticks   atomic.Int64
	read    atomic.Int64 // offsets
	total   atomic.Int64 // that are to be read
	missing atomic.Int64 // decisions that neither log has, between those that it has
	saying  sync.Mutex
	said    time.Time
}

func openSource(ctx context.Context, cfg Config) (*source, error) {
	reader, err := stream.OpenReader(stream.ReadConfig{
		Brokers: cfg.Brokers, ClientID: "weir-backtest", Stall: cfg.Stall, Options: cfg.Options, FetchBytes: 2 << 20,
	})
	if err != nil {
		return nil, err
	}
	s := &source{cfg: cfg, reader: reader, said: time.Now()}
	ends, err := s.list(ctx, (*kadm.Client).ListEndOffsets, cfg.Names.Status())
	if err != nil {
		reader.Close()
		return nil, err
	}
	s.partitions = int32(len(ends))
	return s, nil
}

func (s *source) close() { s.reader.Close() }

// span reads what is left of a partition's stretch, and says how far the reading is.
func (s *source) span(ctx context.Context, p stream.Partition, st stretch, fn func(*kgo.Record) error) error {
	at := st.from
	_, err := s.reader.Span(ctx, p, st.from, st.end, func(r *kgo.Record) error {
		s.tick(r.Offset + 1 - at)
		at = r.Offset + 1
		return fn(r)
	})
	s.read.Add(max(st.end-at, 0))
	return err
}

// tick counts records, and markers of transactions between them.
func (s *source) tick(n int64) {
	s.read.Add(n)
	if s.ticks.Add(1)%4096 != 0 || s.cfg.Progress == nil {
		return
	}
	s.saying.Lock()
	defer s.saying.Unlock()
	if now := time.Now(); now.Sub(s.said) >= time.Second {
		s.said = now
		s.cfg.Progress(s.read.Load(), s.total.Load())
	}
}

// stretch is what is read of a partition: from one offset to before another.
type stretch struct {
	from, end int64
	start     int64          // of the log
	first     schemas.Millis // of the first record, if the log has lost some that were to be read
}

type lister = func(*kadm.Client, context.Context, ...string) (kadm.ListedOffsets, error)

func (s *source) list(ctx context.Context, of lister, topic string) (map[int32]kadm.ListedOffset, error) {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.cfg.Brokers...), kgo.ClientID("weir-backtest")}, s.cfg.Options...)...)
	if err != nil {
		return nil, fmt.Errorf("open client: %w", err)
	}
	defer cl.Close()
	listed, err := of(kadm.NewClient(cl), ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	if len(listed[topic]) == 0 {
		return nil, fmt.Errorf("%s does not exist: Weir has not been set up on this cluster, or under another prefix", topic)
	}
	return listed[topic], nil
}

// begins finds what to read of a topic's partitions to have all since from.
func (s *source) begins(ctx context.Context, topic string, from schemas.Millis) (map[int32]stretch, error) {
	// Records are appended a little after the decisions that they tell of, and by
	// another clock.
	from = max(from-minute, 0)
	ends, err := s.list(ctx, (*kadm.Client).ListEndOffsets, topic)
	if err != nil {
		return nil, err
	}
	starts, err := s.list(ctx, (*kadm.Client).ListStartOffsets, topic)
	if err != nil {
		return nil, err
	}
	after := func(cl *kadm.Client, ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		return cl.ListOffsetsAfterMilli(ctx, int64(from), topics...)
	}
	firsts, err := s.list(ctx, after, topic)
	if err != nil {
		return nil, err
	}
	out := make(map[int32]stretch, len(ends))
	for n, end := range ends {
		st := stretch{from: max(firsts[n].Offset, starts[n].Offset), end: end.Offset, start: starts[n].Offset}
		if st.start > 0 && st.from == st.start {
			if st.first = schemas.Millis(firsts[n].Timestamp); st.from >= st.end {
				st.first = schemas.MillisOf(time.Now()) // nothing is left
			}
		}
		out[n] = st
		s.total.Add(max(st.end-st.from, 0))
	}
	return out, nil
}

var (
	decided  = []byte(`"decision":{`)
	wasSent  = []byte(`"status":"sent"`)
	wasDoubt = []byte(`"status":"unknown"`)
)

// sequence watches the numbers of a partition's decisions over the seam of two
// logs: each comes once, and all do.
type sequence struct {
	last    int64
	missing *atomic.Int64
}

// repeats reports whether a step's decision was here before.
func (q *sequence) repeats(s *step) bool {
	switch {
	case s.seq == 0: // a lane's
		return false
	case s.seq <= q.last:
		return true
	case q.last > 0:
		q.missing.Add(s.seq - q.last - 1)
	}
	q.last = s.seq
	return false
}

// events hands a stretch of weir.status to fn, without what says nothing to a
// replay: most records are a lane's. fn may not keep the step.
func (s *source) events(ctx context.Context, n int32, st stretch, line *sequence, fn func(*step) error) error {
	if st.from >= st.end {
		return nil
	}
	var (
		at    step
		event schemas.EventReader
		known = make(texts)
	)
	err := s.span(ctx, stream.Partition{Topic: s.cfg.Names.Status(), Partition: n}, st, func(r *kgo.Record) error {
		if !bytes.Contains(r.Value, decided) && !bytes.Contains(r.Value, wasSent) && !bytes.Contains(r.Value, wasDoubt) {
			return nil
		}
		e, err := event.Read(string(r.Value))
		if err != nil {
			return nil // the sink keeps what is no event, and the audit tells of it
		}
		if at.read(e, s.partitions); line.repeats(&at) || at.kind == stepNothing {
			return nil
		}
		at.detach(known, s.cfg.Each != nil)
		return fn(&at)
	})
	if err != nil {
		return fmt.Errorf("read %s/%d: %w", s.cfg.Names.Status(), n, err)
	}
	return nil
}
