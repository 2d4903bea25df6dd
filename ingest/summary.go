package ingest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// mostSums bounds the kinds of statuses that one summary tells apart: a class may be
// any text.
const mostSums = 500

// sums count what a stream would have said.
type sums struct {
	since  schemas.Millis
	counts map[sumKey]int64
}

// sumKey is a kind of statuses.
type sumKey struct {
	channel, class, provider string
	status                   schemas.Status
}

func newSums(now time.Time) *sums {
	return &sums{schemas.MillisOf(now), make(map[sumKey]int64)}
}

func (s *sums) add(i *item) {
	k := sumKey{i.channel, i.class, i.provider, i.status}
	if _, ok := s.counts[k]; !ok && len(s.counts) >= mostSums {
		k = sumKey{status: i.status}
	}
	s.counts[k]++
}

// take returns what was counted, the most frequent first, and begins anew.
func (s *sums) take(now time.Time) *client.Summary {
	out := &client.Summary{From: s.since, Until: schemas.MillisOf(now), Counts: make([]client.SummaryCount, 0, len(s.counts))}
	for k, n := range s.counts {
		out.Counts = append(out.Counts, client.SummaryCount{Channel: k.channel, Class: k.class, Provider: k.provider, Status: k.status, Events: n})
	}
	slices.SortFunc(out.Counts, func(a, b client.SummaryCount) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), strings.Compare(a.Class, b.Class), strings.Compare(a.Provider, b.Provider), strings.Compare(a.Channel, b.Channel), cmp.Compare(a.Status, b.Status))
	})
	s.since = out.Until
	clear(s.counts)
	return out
}

// readEvery reads how often a summary is to come.
func readEvery(v string) (time.Duration, error) {
	d, err := schemas.ParseDuration(v)
	every := time.Duration(d)
	if err != nil || every < time.Second || every > time.Minute || every%time.Second != 0 {
		return 0, errors.New("is whole seconds from 1s to 60s")
	}
	return every, nil
}

// summary writes what came.
func (o *eventWriter) summary(s *client.Summary, position string) {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // texts and numbers
	}
	fmt.Fprintf(&o.buf, "event: summary\nid: %s\ndata: %s\n\n", position, data)
}
