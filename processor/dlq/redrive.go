package dlq

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// DefaultRate is how many messages a second are sent again unless more are asked
// for: few beside what Weir does, and enough for a hundred thousand in a quarter
// of an hour. MaxRate is the most.
const (
	DefaultRate = 100.0
	MaxRate     = 10_000.0
)

// RedriveOptions say how.
type RedriveOptions struct {
	DryRun bool    // count, and write nothing
	Rate   float64 // messages a second; 0 is DefaultRate
	// Most ends the call after so many were sent, or would be; 0 is no bound.
	Most int64
	// Within ends the call after so long; 0 is no bound.
	Within time.Duration
	Cursor string // of the call before, with the same filter
	// Keep keeps in Kafka how far this redrive is, so that Resume goes on with it.
	Keep     bool
	Progress func(Summary) // may be nil; called about once a second
}

// Summary is what a redrive did, or would do.
type Summary struct {
	Matched  int64            `json:"matched"`
	Redriven int64            `json:"redriven"` // admission was asked for; what it decided is in weir.status
	Skipped  map[string]int64 `json:"skipped"`  // by why: it cannot be sent again, was before (redriven), or ended for a permanent reason, which it is under
	ByReason map[string]int64 `json:"by_reason"`
	// MayBeReceived is how many of the redriven may have been received: an attempt of
	// theirs left that open, so that their recipients may get them twice.
	MayBeReceived int64 `json:"may_be_received,omitempty"`
	DryRun        bool  `json:"dry_run"`
	// Cursor goes on where this call ended; empty when it came to the end that
	// stood when it began.
	Cursor string `json:"cursor,omitempty"`
	// Start is of the first call of a dry run: the cursor with which a redrive of
	// the same filter takes what the dry run counts, and nothing that came since.
	Start string `json:"start,omitempty"`
}

// checkpoint is how long at most a redrive goes on before it makes sure of what
// it wrote, and keeps how far it is.
const checkpoint = time.Second

// Redrive asks for every matching record to be sent again, partition by
// partition, the oldest first, up to the ends that stood at its first call. An
// error leaves what was done in the summary; to call again with the same filter
// is to go on, since admission recognises for a day what it was asked before.
func (b *Box) Redrive(ctx context.Context, f Filter, o RedriveOptions) (Summary, error) {
	c, err := b.resume(ctx, o.Cursor, &f, true)
	if err != nil {
		return Summary{}, err
	}
	start := ""
	if o.DryRun && o.Cursor == "" {
		start = c.String() // before it moves
	}
	sum, err := b.redrive(ctx, c, o)
	sum.Start = start
	return sum, err
}

func (b *Box) redrive(ctx context.Context, c *cursor, o RedriveOptions) (sum Summary, err error) {
	sum = Summary{Skipped: make(map[string]int64), ByReason: make(map[string]int64), DryRun: o.DryRun}
	partitions, err := b.owners(ctx)
	if err != nil {
		return sum, err
	}
	d := &drive{box: b, c: c, o: o, sum: &sum, partitions: partitions, began: time.Now()}
	d.saved, d.next = d.began, d.began
	if o.Keep && !o.DryRun {
		if err := b.keep(ctx, c); err != nil {
			return sum, err
		}
	}
	err = d.run(ctx)
	// What was written is made sure of, and kept, also after an interruption.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if d.span != nil {
		err = errors.Join(err, d.stand(last))
	}
	for _, s := range c.Spans {
		if s.From < s.To {
			sum.Cursor = c.String()
			break
		}
	}
	return sum, err
}

// owners is N: how many partitions weir.readmit has.
func (b *Box) owners(ctx context.Context) (int32, error) {
	t, err := b.adm.ListTopics(ctx, b.names.Readmit())
	if err != nil {
		return 0, fmt.Errorf("look up %s: %w", b.names.Readmit(), err)
	}
	n := len(t[b.names.Readmit()].Partitions)
	if n == 0 {
		return 0, fmt.Errorf("%s does not exist: run weir topics apply", b.names.Readmit())
	}
	return int32(n), nil
}

// drive is one call of Redrive.
type drive struct {
	box        *Box
	c          *cursor
	o          RedriveOptions
	sum        *Summary
	partitions int32
	began      time.Time
	saved      time.Time
	next       time.Time // the next message's turn
	span       *span     // that is under way,
	at         int64     // and how far it was written
	ids        []string  // of what was written since the last mark

	mu     sync.Mutex
	failed error // of a record that was not written
}

// catchUp is for how long a redrive that was held up goes faster than its rate.
const catchUp = 100 * time.Millisecond

// errEnough means that the call's own bound was reached.
var errEnough = errors.New("enough for one call")

func (d *drive) run(ctx context.Context) error {
	for i := range d.c.Spans {
		s := &d.c.Spans[i]
		// d.at is ahead of s.From by what is written and not made sure of.
		for d.span, d.at = s, s.From; d.at < s.To; {
			recs, next, err := d.box.chunk(ctx, s.Partition, d.at, s.To)
			if err != nil {
				return err
			}
			for _, r := range recs {
				if err := d.take(ctx, r); err != nil {
					if errors.Is(err, errEnough) {
						err = nil
					}
					return err
				}
				if d.at = r.Kafka.Offset + 1; time.Since(d.saved) >= checkpoint {
					if err := d.stand(ctx); err != nil {
						return err
					}
				}
			}
			d.at = next
			if err := d.stand(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// stand makes sure of all that was written.
func (d *drive) stand(ctx context.Context) error {
	if err := d.flush(ctx); err != nil {
		return err
	}
	if err := d.box.mark(ctx, d.ids); err != nil {
		return err
	}
	d.ids, d.span.From = d.ids[:0], d.at
	return d.save(ctx)
}

func (d *drive) flush(ctx context.Context) error {
	if err := d.box.cl.Flush(ctx); err != nil {
		return fmt.Errorf("write %s: %w", d.box.names.Readmit(), err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// save keeps how far the redrive is, and tells.
func (d *drive) save(ctx context.Context) error {
	d.saved = time.Now()
	if d.o.Progress != nil {
		d.o.Progress(*d.sum)
	}
	if !d.o.Keep || d.o.DryRun {
		return nil
	}
	return d.box.keep(ctx, d.c)
}

// take deals with one record, in its turn.
func (d *drive) take(ctx context.Context, r *Record) error {
	if !d.c.Filter.matches(&r.Entry) {
		return ctx.Err()
	}
	switch {
	case d.o.Most > 0 && d.sum.Redriven >= d.o.Most:
		return errEnough
	case d.o.Within > 0 && time.Since(d.began) >= d.o.Within:
		return errEnough
	}
	if why := d.c.Filter.leaves(&r.Entry); why != "" {
		d.sum.Matched++
		d.sum.Skipped[why]++
		return ctx.Err()
	}
	if !d.o.DryRun {
		if wait := time.Until(d.next); wait > 0 {
			if d.o.Within > 0 && d.next.Sub(d.began) >= d.o.Within {
				return errEnough
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// What was held up is made up for, but only so much.
		if late := time.Now().Add(-catchUp); d.next.Before(late) {
			d.next = late
		}
		d.next = d.next.Add(time.Duration(float64(time.Second) / cmp.Or(d.o.Rate, DefaultRate)))
		d.ids = append(d.ids, r.NewID())
		// Not with ctx: a record under way when it ends is to arrive, and does not
		// take those behind it along.
		d.box.cl.Produce(context.WithoutCancel(ctx), r.again(d.box.names.Readmit(), d.partitions), func(rec *kgo.Record, err error) {
			if err != nil {
				d.mu.Lock()
				d.failed = fmt.Errorf("write %s/%d: %w", rec.Topic, rec.Partition, err)
				d.mu.Unlock()
			}
		})
	}
	d.sum.Matched++
	d.sum.Redriven++
	d.sum.ByReason[r.Reason]++
	if r.Envelope.Taint != schemas.TaintNone {
		d.sum.MayBeReceived++
	}
	return ctx.Err()
}

// Progress of a redrive is kept as the committed offsets of a group that has no
// members, with the rest of the cursor as their metadata: Kafka is where state
// lives. It spares reading what was done; what was written after the last of it
// is written again, and recognised.
func (b *Box) group() string { return b.names.DLQ() + ".redrive" }

// note is the metadata of one partition's offset.
type note struct {
	Version int            `json:"v"`
	Filter  Filter         `json:"q"`
	Until   int64          `json:"t"`
	At      schemas.Millis `json:"at"`
}

// maxNote is what brokers take (offset.metadata.max.bytes).
const maxNote = 4096

// ErrFilter means that there are too many ids for progress to be kept.
var ErrFilter = errors.New("too many ids to keep how far the redrive is: name at most 60 at a time")

func (b *Box) keep(ctx context.Context, c *cursor) error {
	all := make(kadm.Offsets)
	at := schemas.MillisOf(time.Now())
	for _, s := range c.Spans {
		raw, err := json.Marshal(note{1, c.Filter, s.To, at})
		if err != nil {
			panic(err) // plain values
		}
		text := base64.RawStdEncoding.EncodeToString(raw)
		if len(text) > maxNote {
			return ErrFilter
		}
		all.Add(kadm.Offset{Topic: b.names.DLQ(), Partition: s.Partition, At: s.From, LeaderEpoch: -1, Metadata: text})
	}
	done, err := b.adm.CommitOffsets(ctx, b.group(), all)
	if err == nil {
		err = done.Error()
	}
	if err != nil {
		return fmt.Errorf("keep how far the redrive is: %w", err)
	}
	return nil
}

// Errors of Resume.
var (
	ErrNothing = errors.New("there is no redrive to go on with: the last one came to its end, or none was begun")
	ErrTooLate = errors.New("the redrive broke off more than 23 hours ago, and admission recognises for a day what it was asked before: begin a new one, with --since for what is left")
)

// resumable is shorter than admission remembers, by the time that what is under
// way may take.
const resumable = 23 * time.Hour

// Resume goes on with the redrive that broke off: with its filter, up to its
// ends.
func (b *Box) Resume(ctx context.Context, o RedriveOptions) (Summary, error) {
	if err := b.marks.follow(ctx, b.reader, b.names.Redriven()); err != nil {
		return Summary{}, err
	}
	c, err := b.broken(ctx)
	if err != nil {
		return Summary{}, err
	}
	o.Keep = true
	return b.redrive(ctx, c, o)
}

func (b *Box) broken(ctx context.Context) (*cursor, error) {
	kept, err := b.adm.FetchOffsets(ctx, b.group())
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, ErrNothing
	}
	if err != nil {
		return nil, fmt.Errorf("find how far the last redrive was: %w", err)
	}
	// The last one is the one whose notes are the latest: an earlier one may have
	// kept other partitions.
	notes := make(map[int32]note)
	var last schemas.Millis
	for p, o := range kept[b.names.DLQ()] {
		var n note
		raw, err := base64.RawStdEncoding.DecodeString(o.Metadata)
		if o.Err != nil || err != nil || json.Unmarshal(raw, &n) != nil || n.Version != 1 {
			return nil, fmt.Errorf("%s/%d: what was kept of the last redrive cannot be read", b.names.DLQ(), p)
		}
		notes[p] = n
		last = max(last, n.At)
	}
	c := &cursor{Oldest: true}
	left := false
	spans, err := b.spans(ctx, &Filter{})
	if err != nil {
		return nil, err
	}
	for _, now := range spans {
		n, ok := notes[now.Partition]
		if !ok || n.At != last {
			continue
		}
		c.Filter = n.Filter
		// What has left the topic by age is gone.
		s := span{now.Partition, max(kept[b.names.DLQ()][now.Partition].At, now.From), n.Until}
		c.Spans = append(c.Spans, s)
		left = left || s.From < s.To
	}
	switch {
	case !left:
		return nil, ErrNothing
	case time.Since(last.Time()) > resumable:
		return nil, ErrTooLate
	}
	return c, nil
}
