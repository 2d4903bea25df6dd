package sink

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream/streamtest"
)

// TestFetchErrorsThatStay: they come with every fetch, and are not told with every one.
// What means that the topic is another is no such error.
func TestFetchErrorsThatStay(t *testing.T) {
	log := new(streamtest.Log)
	s := &sink{cfg: Config{Logger: log.Logger()}, name: "weir.status"}
	failing := func(err error) kgo.Fetches {
		return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "weir.status", Partitions: []kgo.FetchPartition{{Partition: 1, Err: err}, {Partition: 2, Err: err}}}}}}
	}
	for range 1000 {
		if err := s.failures(t.Context(), failing(kerr.TopicAuthorizationFailed)); err != nil {
			t.Fatal(err)
		}
	}
	if n := log.Count("fetch failed"); n == 0 || n > 100 { // one, but for a machine that takes minutes
		t.Errorf("2000 errors are %d lines", n)
	}
	if err := s.failures(t.Context(), failing(kerr.UnknownTopicID)); !errors.Is(err, errTopicAnew) {
		t.Errorf("%v", err)
	}
}

// TestBehind: a record that was appended in the future is one that a clock is behind.
func TestBehind(t *testing.T) {
	now := time.Now()
	at := func(ds ...time.Duration) (recs []*kgo.Record) {
		for _, d := range ds {
			recs = append(recs, &kgo.Record{Timestamp: now.Add(d)})
		}
		return recs
	}
	for _, tt := range []struct {
		recs []*kgo.Record
		want time.Duration
	}{
		{at(-time.Hour, -time.Millisecond), 0},
		{at(-time.Hour, 5*time.Minute, 4*time.Minute), 5 * time.Minute},
	} {
		if got := behind(tt.recs, now); got != tt.want {
			t.Errorf("%v, want %v", got, tt.want)
		}
	}
}
