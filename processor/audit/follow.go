package audit

import (
	"context"
	"fmt"
	"sync"
	"time"
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
	a.keeps, a.reader.stalled = true, func(err error) {
		one.Lock()
		defer one.Unlock()
		each(nil, err)
	}
	for {
		c, err := a.cut(ctx)
		var wait time.Duration
		switch {
		case ctx.Err() != nil:
			return nil
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
