package dlq

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Config is where the topic is.
type Config struct {
	Brokers []string
	Names   topics.Names
	Options []kgo.Opt
}

// Box is an open weir.dlq. Its methods may be called from any goroutine.
type Box struct {
	names  topics.Names
	cl     *kgo.Client // produces, and asks
	adm    *kadm.Client
	reader *stream.Reader
	marks  marks
}

// stall is how long a partition may bring nothing before its end: longer than
// the transaction of a process that died holds it up.
const stall = 15 * time.Second

// Open connects to nothing yet: errors of the network show at the first call.
func Open(cfg Config) (*Box, error) {
	reader, err := stream.OpenReader(stream.ReadConfig{Brokers: cfg.Brokers, ClientID: "weir-dlq", Stall: stall, Oversized: stream.SkipOversized, Options: cfg.Options})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", cfg.Names.DLQ(), err)
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...), kgo.ClientID("weir-dlq"),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(topics.MaxMessageBytes), kgo.ProducerLinger(0), kgo.MaxBufferedBytes(16 << 20), kgo.RecordDeliveryTimeout(10 * time.Second),
	}, cfg.Options...)...)
	if err != nil {
		reader.Close()
		return nil, fmt.Errorf("open %s: %w", cfg.Names.DLQ(), err)
	}
	return &Box{names: cfg.Names, cl: cl, adm: kadm.NewClient(cl), reader: reader}, nil
}

// Close ends the connections.
func (b *Box) Close() {
	b.cl.Close()
	b.reader.Close()
}

// span is what is left of a partition: offsets from From up to To.
type span struct {
	Partition int32 `json:"p"`
	From      int64 `json:"f"`
	To        int64 `json:"t"`
}

// spans returns what of the topic may match, as of now, in the order of the
// partitions.
func (b *Box) spans(ctx context.Context, f *Filter) ([]span, error) {
	topic := b.names.DLQ()
	var wanted map[int32][]int64 // where all that is asked for is positions
	for _, id := range f.IDs {
		p, o, err := parsePosition(id)
		if err != nil {
			wanted = nil
			break
		}
		if wanted == nil {
			wanted = make(map[int32][]int64)
		}
		wanted[p] = append(wanted[p], o)
	}
	ends, err := b.offsets(b.adm.ListEndOffsets(ctx, topic))
	if err != nil {
		return nil, fmt.Errorf("find the ends of %s: %w", topic, err)
	}
	starts, err := b.offsets(b.adm.ListStartOffsets(ctx, topic))
	if err != nil {
		return nil, fmt.Errorf("find the beginnings of %s: %w", topic, err)
	}
	bound := func(at schemas.Millis, of map[int32]int64, better func(a, b int64) int64) error {
		if at == 0 {
			return nil
		}
		found, err := b.offsets(b.adm.ListOffsetsAfterMilli(ctx, int64(max(at, 0)), topic)) // to Kafka -1 and below are no times
		if err != nil {
			return fmt.Errorf("find %s in %s: %w", at, topic, err)
		}
		for p, o := range found {
			of[p] = better(of[p], o)
		}
		return nil
	}
	if err := bound(f.Since, starts, func(a, b int64) int64 { return max(a, b) }); err != nil {
		return nil, err
	}
	if err := bound(f.Until, ends, func(a, b int64) int64 { return min(a, b) }); err != nil {
		return nil, err
	}
	var out []span
	for p, end := range ends {
		s := span{p, starts[p], end}
		if wanted != nil {
			if len(wanted[p]) == 0 {
				continue
			}
			s.From, s.To = max(s.From, slices.Min(wanted[p])), min(s.To, slices.Max(wanted[p])+1)
		}
		out = append(out, s)
	}
	if len(ends) == 0 {
		return nil, fmt.Errorf("%s does not exist: run weir topics apply", topic)
	}
	slices.SortFunc(out, func(a, b span) int { return int(a.Partition - b.Partition) })
	return out, nil
}

func (b *Box) offsets(l kadm.ListedOffsets, err error) (map[int32]int64, error) {
	if err == nil {
		err = l.Error()
	}
	out := make(map[int32]int64)
	l.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
	return out, err
}

// A chunk is what is held at a time of one partition.
const (
	chunkRecords = 2000
	chunkBytes   = 2 << 20
)

var errFull = errors.New("the chunk is full")

// chunk reads a partition until the chunk is full, and returns where to go on.
func (b *Box) chunk(ctx context.Context, p int32, from, to int64) ([]*Record, int64, error) {
	var out []*Record
	next, size := from, 0
	at, err := b.reader.Span(ctx, stream.Partition{Topic: b.names.DLQ(), Partition: p}, from, to, func(r *kgo.Record) error {
		if len(out) == chunkRecords || size > chunkBytes {
			return errFull
		}
		rec := read(r)
		rec.RedrivenAt = b.marks.of(rec)
		out, next, size = append(out, rec), r.Offset+1, size+len(r.Value)
		return nil
	})
	if errors.Is(err, errFull) {
		return out, next, nil
	}
	if err != nil {
		return nil, from, fmt.Errorf("read %s: %w", b.names.DLQ(), err)
	}
	return out, at, nil
}

// cursor is where a walk goes on. The ends are those of its first step.
type cursor struct {
	Oldest bool   `json:"o,omitempty"`
	Filter Filter `json:"q"`
	Spans  []span `json:"s"`
}

// ErrCursor is a cursor that is none, or one of another question.
var ErrCursor = errors.New("the cursor is none that was given for these filters")

func (c *cursor) String() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // plain values
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// clip takes out of a cursor what has left the topic by age; what was never in
// it makes it no cursor.
func (b *Box) clip(ctx context.Context, c *cursor) error {
	there, err := b.spans(ctx, &Filter{})
	if err != nil {
		return err
	}
	for i := range c.Spans {
		s := &c.Spans[i]
		k := slices.IndexFunc(there, func(t span) bool { return t.Partition == s.Partition })
		if k < 0 || s.From < 0 || s.To > there[k].To {
			return ErrCursor
		}
		s.From = max(s.From, there[k].From)
	}
	return nil
}

// resume reads a cursor back.
func (b *Box) resume(ctx context.Context, text string, f *Filter, oldest bool) (*cursor, error) {
	if err := b.marks.follow(ctx, b.reader, b.names.Redriven()); err != nil {
		return nil, err
	}
	if text == "" {
		spans, err := b.spans(ctx, f)
		return &cursor{Oldest: oldest, Filter: *f, Spans: spans}, err
	}
	c := new(cursor)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, c) != nil {
		return nil, ErrCursor
	}
	asked, _ := json.Marshal(f)
	given, _ := json.Marshal(&c.Filter)
	if c.Oldest != oldest || string(asked) != string(given) {
		return nil, ErrCursor
	}
	return c, b.clip(ctx, c)
}
