package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Extent is what a partition's log holds now: offsets from Start to before End,
// End being the high watermark. TopicID changes when a topic is deleted and made
// anew; it is empty where the brokers have none.
type Extent struct {
	Start, End int64
	TopicID    string
}

// Extents asks for the extents of partitions.
func Extents(ctx context.Context, cfg ReadConfig, of []Partition) (map[Partition]Extent, error) {
	out := make(map[Partition]Extent, len(of))
	if len(of) == 0 {
		return out, nil
	}
	r, err := OpenReader(cfg)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	ranges := make([]Range, len(of))
	names := make(map[string]bool)
	for i, p := range of {
		ranges[i], names[p.Topic] = Range{Partition: p}, true
	}
	jobs, err := r.bound(ctx, ranges)
	if err != nil {
		return nil, err
	}
	ids := make(map[string]string)
	for name := range names {
		details, err := r.adm.ListTopics(ctx, name)
		if err == nil {
			err = details.Error()
		}
		if err != nil {
			return nil, fmt.Errorf("list topic %s: %w", name, err)
		}
		if id := details[name].ID; id != (kadm.TopicID{}) {
			ids[name] = id.String()
		}
	}
	for _, j := range jobs { // From was 0, so a job begins at the log's start
		out[j.Partition] = Extent{Start: j.at, End: j.until, TopicID: ids[j.Topic]}
	}
	return out, nil
}

// StableEnds returns the last stable offsets of partitions: all records below them are of
// transactions that have ended.
func (r *Reader) StableEnds(ctx context.Context, of []Partition) (map[Partition]int64, error) {
	out := make(map[Partition]int64, len(of))
	if len(of) == 0 {
		return out, nil
	}
	ranges := make([]Range, len(of))
	for i, p := range of {
		ranges[i] = Range{Partition: p, Stable: true}
	}
	jobs, err := r.bound(ctx, ranges)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		out[j.Partition] = j.until
	}
	return out, nil
}

// errFound ends a reading early.
var errFound = errors.New("found")

// Holds reports whether a partition has a committed record of which is holds. It
// reads up to the first.
func Holds(ctx context.Context, cfg ReadConfig, p Partition, is func(*kgo.Record) bool) (bool, error) {
	err := Read(ctx, cfg, []Range{{Partition: p}}, func(r *kgo.Record) error {
		if is(r) {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}
