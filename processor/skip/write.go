package skip

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// reasonSkipped is what weir.dlq says of a skipped record.
const reasonSkipped = "skipped"

// maxLetter bounds how much of a record's value goes to weir.dlq.
const maxLetter = 1 << 20

// Find reads the record that is to be skipped. It refuses one of which a stage
// needs no skip, and an offset at which no record is.
func Find(ctx context.Context, read stream.ReadConfig, names topics.Names, at schemas.Source) (*kgo.Record, error) {
	_, refused := Effect(names, at.Topic) // a record; a batch beyond the bound is another matter
	if refused != nil && at.Topic != names.Ledger() && at.Topic != names.Seen() {
		return nil, refused
	}
	p := stream.Partition{Topic: at.Topic, Partition: at.Partition}
	extents, err := stream.Extents(ctx, read, []stream.Partition{p})
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", at, err)
	}
	if is := extents[p]; at.Offset < is.Start || at.Offset >= is.End {
		return nil, cmp.Or(refused, fmt.Errorf("there is no record %s: the log holds the offsets %d to %d", at, is.Start, is.End-1))
	}
	var found *kgo.Record
	read.Oversized = func(batch *kgo.Record) error {
		found = batch
		return nil
	}
	r, err := stream.OpenReader(read)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if _, err := r.Span(ctx, p, at.Offset, at.Offset+1, func(rec *kgo.Record) error {
		if rec.Offset == at.Offset {
			found = rec
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read %s: %w", at, err)
	}
	switch {
	case found == nil:
		return nil, cmp.Or(refused, fmt.Errorf("there is no record %s: it is the marker of a transaction, was aborted, or was compacted away", at))
	case found.Offset != at.Offset:
		return nil, fmt.Errorf("%s is in a batch that is skipped as a whole: weir skip %s", at, SourceOf(found))
	}
	if _, err := EffectOf(names, found); err != nil {
		return nil, err
	}
	return found, nil
}

// Write records that Weir goes on without a record: its bytes in weir.dlq, which has
// so many partitions, and then who skipped it and why in weir.skips. cl must be an
// idempotent producer with acks=all and kgo.ManualPartitioner.
func Write(ctx context.Context, cl *kgo.Client, names topics.Names, dlq int32, r *kgo.Record, by, reason string, now schemas.Millis) (*Skip, error) {
	effect, err := EffectOf(names, r)
	switch {
	case err != nil:
		return nil, err
	case strings.TrimSpace(reason) == "":
		return nil, errors.New("say why, for who asks later: --reason \"...\"")
	}
	s := &Skip{
		Record: SourceOf(r), At: now, By: by, Reason: reason, Effect: effect,
		Bytes: len(r.Key) + len(r.Value), SHA256: Sum(r), Written: schemas.MillisOf(r.Timestamp),
	}
	key := s.Record.String()
	env := schemas.Envelope{
		Origin: s.Record, AcceptedAt: s.Written, Reason: reasonSkipped,
		Error: fmt.Sprintf("skipped by %s: %.500s (%d bytes, SHA-256 %s)", by, reason, s.Bytes, s.SHA256),
	}
	letter := &kgo.Record{Topic: names.DLQ(), Partition: schemas.PartitionOf(key, dlq), Key: []byte(key), Value: r.Value[:min(len(r.Value), maxLetter)]}
	env.Each(func(k string, v []byte) { letter.Headers = append(letter.Headers, kgo.RecordHeader{Key: k, Value: v}) })
	if err := cl.ProduceSync(ctx, letter).FirstErr(); err != nil {
		return nil, fmt.Errorf("write the record's bytes to %s: %w", names.DLQ(), err)
	}
	s.Letter = fmt.Sprintf("%d/%d", letter.Partition, letter.Offset)
	value, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the skip: %w", err)
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: names.Skips(), Key: []byte(key), Value: value}).FirstErr(); err != nil {
		return nil, fmt.Errorf("write to %s: %w", names.Skips(), err)
	}
	return s, nil
}
