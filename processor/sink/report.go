package sink

import (
	"maps"
	"slices"
	"time"

	"github.com/weirhq/weir/schemas"
)

const (
	// reportEvery is how often a sink says how it is when nothing changes.
	reportEvery = time.Minute
	// reportGap is the least time between two reports, however often it fails
	// and is well again.
	reportGap = time.Second
)

// reporter hands reports to Config.Report, one after the other: while one is
// written, the latest of the others waits.
type reporter struct {
	next chan schemas.SinkReport // has room for one
	done chan struct{}
}

func newReporter(write func(schemas.SinkReport)) *reporter {
	r := &reporter{next: make(chan schemas.SinkReport, 1), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for s := range r.next {
			if write != nil {
				write(s)
			}
		}
	}()
	return r
}

// say never waits. Only one goroutine may call it.
func (r *reporter) say(s schemas.SinkReport) {
	select {
	case <-r.next:
	default:
	}
	r.next <- s
}

// close waits until the last report is written.
func (r *reporter) close() {
	close(r.next)
	<-r.done
}

// health is what the sink has said of itself.
type health struct {
	said    schemas.SinkReport
	at      time.Time
	why     map[int32]string // why the last tries of a partition failed
	current schemas.SinkReport
}

// report says how the sink is, once a minute and when that changes.
func (s *sink) report(now time.Time) {
	h := &s.health
	r := h.current
	r.Partitions = slices.Sorted(maps.Keys(s.parts))
	r.Failing = ""
	for _, id := range slices.Sorted(maps.Keys(h.why)) {
		r.Failing = h.why[id]
	}
	if why, ok := h.why[noPartition]; ok { // it is why the partitions fail, and says what to do
		r.Failing = why
	}
	since := now.Sub(h.at)
	changed := r.Failing != h.said.Failing || r.Difference != h.said.Difference || !slices.Equal(r.Partitions, h.said.Partitions)
	if since < reportGap || !changed && since < reportEvery {
		return
	}
	h.said, h.at = r, now
	s.reporter.say(r)
}

// failed and well keep why partitions fail.
func (h *health) failed(id int32, why string) {
	if h.why == nil {
		h.why = make(map[int32]string)
	}
	h.why[id] = why
}

func (h *health) well(id int32) { delete(h.why, id) }
