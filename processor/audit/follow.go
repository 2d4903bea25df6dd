package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// unknownFor is for how long an audit that follows could not tell, after it met something
// that it could not judge. Then its proof begins after that.
const unknownFor = time.Hour

// Follow audits without end: it reads on from cut to cut, every so often, until ctx ends.
// each is called by one goroutine at a time. It gets a report after every cut, of all that was judged since the beginning; or an
// error where the cut could not be taken, which is tried again. A violation is in every
// report after it. Follow returns an error when it cannot go on: records were deleted
// before it read them, or what it must remember does not fit into cfg.Memory.
//
// Unlike Run it keeps the state of all partitions in memory at once, and does not find the
// densest real sending in wide limits.
func Follow(ctx context.Context, cfg Config, every time.Duration, each func(*Report, error)) error {
	a, err := open(cfg)
	if err != nil {
		return err
	}
	defer a.close()
	var one sync.Mutex
	a.keeps, a.reader.stalled = true, func(err error) error {
		if gone := a.sameTopics(ctx); errors.Is(gone, errOtherLog) {
			return gone
		}
		one.Lock()
		defer one.Unlock()
		each(nil, err)
		return nil
	}
	for {
		c, err := a.cut(ctx)
		if err == nil {
			err = a.sameTopics(ctx)
		}
		var wait time.Duration
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errOtherLog):
			return err
		case err != nil:
			each(nil, err)
			wait = every
		default:
			r, err := a.judge(ctx, c)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return fmt.Errorf("audit up to %s: %w", c.at.UTC().Format(time.RFC3339), err)
			}
			each(r, nil)
			wait = time.Until(c.began.Add(every))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// errOtherLog ends an audit that follows: what it counted is of other logs.
var errOtherLog = errors.New("this audit has begun with another log: start it again")

// sameTopics returns errOtherLog where a topic was created again since the first call, or where a
// partition ends before what was read of it.
func (a *auditing) sameTopics(ctx context.Context) error {
	all, err := a.adm.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	a.reader.mu.Lock()
	defer a.reader.mu.Unlock()
	if a.ids == nil {
		a.ids = make(map[string]kadm.TopicID)
	}
	for _, t := range all {
		if was, known := a.ids[t.Topic]; known && was != t.ID {
			return fmt.Errorf("%s was created again: %w", t.Topic, errOtherLog)
		}
		a.ids[t.Topic] = t.ID
	}
	for topic, parts := range a.reader.done {
		for num, done := range parts {
			if until, known := a.reader.until[topic][num]; known && until < done {
				return fmt.Errorf("%s/%d ends at offset %d, and was read up to %d: it has lost its end: %w", topic, num, until, done, errOtherLog)
			}
		}
	}
	return nil
}
