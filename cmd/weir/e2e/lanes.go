package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Permit is a permit of a provider's journal, with what the journal says came
// of it. It is read without the lane's own code.
type Permit struct {
	ID      string
	Attempt int
	T       schemas.Millis
	Offset  int64 // in the journal
	Queue   string
	At      int64  // in its dispatch topic
	Outcome string // "" while the journal has none
	Code    string
}

// Permits reads a provider's journal of one lane: its permits in the order of
// the log.
func Permits(ctx context.Context, brokers []string, names topics.Names, provider string) ([]*Permit, error) {
	type dispatched struct {
		topic  string
		offset int64
		t      schemas.Millis
	}
	open := make(map[dispatched]*Permit)
	var out []*Permit
	err := ReadCommitted(ctx, brokers, names.Journal(provider), func(r *kgo.Record) error {
		var e struct {
			Kind, ID, Outcome, Code, Topic string
			Attempt                        int
			T, Permit                      schemas.Millis
			Offset                         int64
		}
		if err := json.Unmarshal(r.Value, &e); err != nil {
			return err
		}
		if e.Kind == "permit" {
			p := &Permit{ID: e.ID, Attempt: e.Attempt, T: e.T, Offset: r.Offset, Queue: e.Topic, At: e.Offset}
			out = append(out, p)
			open[dispatched{e.Topic, e.Offset, e.T}] = p
		} else if p := open[dispatched{e.Topic, e.Offset, e.Permit}]; p != nil {
			p.Outcome, p.Code = e.Outcome, e.Code
		}
		return nil
	})
	return out, err
}

// densest returns the most of sorted times in any rolling window of a length.
func densest(times []schemas.Millis, window time.Duration) int {
	most, from := 0, 0
	for i, t := range times {
		for t.Sub(times[from]) >= window {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// outage is a time in which a lane had no owner that may call.
type outage struct{ from, to schemas.Millis }

// ideal returns how many permits a lane could give from the first moment to the
// last, both included: each as early as the windows of its pace allow, and none
// in an outage.
func ideal(windows []schemas.Window, first, last schemas.Millis, outages []outage) int {
	var times []schemas.Millis
	for t := first; ; {
		for _, w := range windows {
			if n := int(w.N); n <= len(times) {
				t = max(t, times[len(times)-n].Add(w.Length))
			}
		}
		for _, o := range outages {
			if t > o.from && t < o.to {
				t = o.to
			}
		}
		if t > last {
			return len(times)
		}
		times = append(times, t)
	}
}

func sortedTimes(permits []*Permit) []schemas.Millis {
	var out []schemas.Millis
	for _, p := range permits {
		out = append(out, p.T)
	}
	slices.SortFunc(out, cmp.Compare)
	return out
}
