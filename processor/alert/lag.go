package alert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// Stage is a group of consumers that must not be behind.
type Stage struct {
	Name  string
	Group string
	// Wait is how old a record of a topic is when its turn comes; nil is at once.
	Wait func(topic string) time.Duration
}

// laggards finds stages that are behind, by the age of the oldest record that they
// have not taken. Their count of records says little: the last of a transactional
// topic is a marker, which nobody takes.
type laggards struct {
	adm    *kadm.Client
	read   *stream.Reader
	stages []Stage

	behind map[string]Condition          // stages that were behind when they were last asked about
	empty  map[stream.Partition][2]int64 // of partitions: nothing but markers between these offsets
}

// guarded is look. A panic in it is its error.
func (l *laggards) guarded(ctx context.Context, now schemas.Millis) (out []Condition, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return l.look(ctx, now)
}

// look returns all stages that are behind. Where a stage cannot be asked about the
// error says so, and it is as it was: the others are told of nevertheless.
func (l *laggards) look(ctx context.Context, now schemas.Millis) ([]Condition, error) {
	out := []Condition{}
	var errs []error
	was := l.behind
	l.behind = make(map[string]Condition)
	for _, s := range l.stages {
		before, late := was[s.Name]
		after := schemas.AlertLagAfter
		if late {
			after /= 2 // so that it does not come and go
		}
		c, err := l.stage(ctx, s, after, now)
		if err != nil {
			errs = append(errs, fmt.Errorf("how far %s is behind: %w", s.Name, err))
			if c == nil && late {
				c = &before
			}
		}
		if c != nil {
			l.behind[s.Name] = *c
			out = append(out, *c)
		}
	}
	return out, errors.Join(errs...)
}

var errFound = errors.New("found")

func (l *laggards) stage(ctx context.Context, s Stage, after time.Duration, now schemas.Millis) (*Condition, error) {
	committed, err := l.adm.FetchOffsets(ctx, s.Group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil // it never ran: some brokers say so, others that nothing is committed
	}
	if err != nil {
		return nil, err
	}
	var worst *Condition
	for topic, parts := range committed {
		wait := time.Duration(0)
		if s.Wait != nil {
			wait = s.Wait(topic)
		}
		// What is older than that should have been taken.
		bounds, err := l.adm.ListOffsetsAfterMilli(ctx, int64(now)-(after+wait).Milliseconds(), topic)
		if err != nil {
			return nil, err
		}
		for id, at := range parts {
			bound, ok := bounds.Lookup(topic, id)
			if at.Err != nil || at.At < 0 || !ok || bound.Err != nil || at.At >= bound.Offset {
				continue
			}
			p := stream.Partition{Topic: topic, Partition: id}
			if e, ok := l.empty[p]; ok && e[0] == at.At && bound.Offset <= e[1] {
				continue
			}
			var first schemas.Millis
			look := func(from int64) error {
				_, err := l.read.Span(ctx, p, from, bound.Offset, func(r *kgo.Record) error {
					first = schemas.MillisOf(r.Timestamp)
					return errFound
				})
				return err
			}
			err := look(at.At)
			if gone, deleted := errors.AsType[*stream.GoneError](err); deleted && gone.Start > at.At { // retention took what nobody reads: an input's that is bound no more
				err = look(min(gone.Start, bound.Offset))
			}
			switch {
			case err == nil:
				l.empty[p] = [2]int64{at.At, bound.Offset}
				continue
			case !errors.Is(err, errFound):
				return worst, err
			}
			delete(l.empty, p)
			due := first.Add(wait)
			if now.Sub(due) >= after && (worst == nil || due < worst.Since) {
				worst = &Condition{
					Subject: Subject{Event: schemas.AlertLag, Stage: s.Name}, Since: due,
					Detail: fmt.Sprintf("the oldest record that waits in %s/%d is of %s", topic, id, clock(first)),
				}
			}
		}
	}
	return worst, nil
}
