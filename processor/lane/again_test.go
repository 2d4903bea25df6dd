package lane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// TestRetriesDoNotWait: what comes back for another attempt is called before a
// backlog of first attempts, and takes no more than its share of the permits.
func TestRetriesDoNotWait(t *testing.T) {
	p := oneProvider(func(p *schemas.Provider) { p.Pace, p.Concurrency = []schemas.Window{window(20, time.Second)}, 4 })
	simulated(t, p, func(r *rig) {
		var ms []message
		for i := range 120 {
			ms = append(ms, message{id: fmt.Sprint("first", i)})
		}
		for i := range 30 {
			ms = append(ms, message{id: fmt.Sprint("retry", i), queue: topics.QueueAgain, change: func(e *schemas.Envelope) { e.Attempt = 1 }})
		}
		r.dispatch(ms...)
		r.run(r.config("a"))
		r.eventually("all are called", func() bool { return len(r.fake.made()) == len(ms) })
		ids := r.fake.ids()
		if at := slices.Index(ids, "retry0"); at > 25 {
			r.t.Errorf("the first retry is call %d", at)
		}
		last := slices.Index(ids, "retry29")
		first := 0
		for _, id := range ids[25:last] { // once all are read
			if strings.HasPrefix(id, "first") {
				first++
			}
		}
		if share := float64(first) / float64(last-25); share < 0.3 || last > 90 {
			r.t.Errorf("the last retry is call %d, and %.0f %% of the calls until then were first attempts: %v", last, 100*share, ids)
		}
	})
}

// TestUrgentFirstOnAgain: what returns is called by its own priority, wherever it
// stands on the queue.
func TestUrgentFirstOnAgain(t *testing.T) {
	p := oneProvider(func(p *schemas.Provider) { p.Pace, p.Concurrency = []schemas.Window{window(10, time.Second)}, 1 })
	simulated(t, p, func(r *rig) {
		var ms []message
		for i := range 40 {
			ms = append(ms, message{id: fmt.Sprint("bulk", i), queue: topics.QueueAgain, change: func(e *schemas.Envelope) { e.Priority = schemas.PriorityBulk }})
		}
		for i := range 40 {
			ms = append(ms, message{id: fmt.Sprint("normal", i), queue: topics.QueueAgain, change: func(e *schemas.Envelope) { e.Priority = schemas.PriorityNormal }})
		}
		for i := range 10 {
			ms = append(ms, message{id: fmt.Sprint("urgent", i), queue: topics.QueueAgain, change: func(e *schemas.Envelope) { e.Priority = schemas.PriorityUrgent }})
		}
		r.dispatch(ms...)
		r.run(r.config("a"))
		r.eventually("all are called", func() bool { return len(r.fake.made()) == len(ms) })
		ids := r.fake.ids()
		if last := slices.Index(ids, "urgent9"); last > 16 {
			r.t.Errorf("the last urgent message is call %d: %v", last, ids)
		}
		if normal := slices.Index(ids, "normal39"); normal > 62 {
			r.t.Errorf("the last normal message is call %d: %v", normal, ids)
		}
	})
}
