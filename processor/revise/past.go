package revise

import (
	"context"
	"maps"
	"sync"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/policy"
)

// Past is what the revisions of one log say up to one of them. An edit needs that of all
// of them, and there may be thousands.
type Past struct {
	mu     sync.Mutex
	newest int64 // revision
	course limit.Course
	ended  map[string]bool // hashes of all secrets that a revision had
}

// upTo returns the course up to a revision that was read, and the hashes of all secrets so
// far. The caller may change both. p may be nil.
func (p *Past) upTo(ctx context.Context, w *policy.Watcher, newest int64) (limit.Course, map[string]bool, error) {
	if p == nil {
		p = &Past{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if newest < p.newest { // another edit has come first: this one is made again
		p = &Past{}
	}
	if p.ended == nil {
		p.ended = make(map[string]bool)
	}
	for p.newest < newest {
		rev, err := w.Get(ctx, p.newest+1) // read already: it does not wait
		if err != nil {
			return limit.Course{}, nil, err
		}
		p.course.Take(&rev.Policy, rev.At)
		for hash := range secretsOf(&rev.Policy, 0) {
			p.ended[hash] = true
		}
		p.newest++
	}
	return p.course.Clone(), maps.Clone(p.ended), nil
}
