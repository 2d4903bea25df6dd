package ingest

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/ingest/legacy"
	"github.com/weirhq/weir/processor/backlog"
	routing "github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const (
	lookTimeout = 5 * time.Second
	lookAge     = 2 * time.Second // how long a look counts: callers that ask often do not burden Kafka
	// lookEvery is how often the server looks by itself, so that a first answer has rates
	// and the metrics are of now.
	lookEvery = 10 * time.Second
	// lookStale is after how long without a look the metrics are left out.
	lookStale = 3 * lookEvery
)

// waits is what waits in Kafka, as it was last looked at.
type waits struct {
	looker *backlog.Looker
	queues func() []backlog.Queue
	policy func() *schemas.Policy
	health func() routing.Health

	looking sync.Mutex // one look at a time
	meter   backlog.Meter

	mu   sync.Mutex
	last snapshot
}

// snapshot is one look: rates of all queues, and the providers that make no calls.
type snapshot struct {
	at      time.Time
	rates   []backlog.Rate
	stalled []string
}

// now looks, unless the last look is not older than lookAge.
func (w *waits) now() (snapshot, error) {
	w.looking.Lock()
	defer w.looking.Unlock()
	got := w.latest()
	if time.Since(got.at) >= lookAge {
		ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
		defer cancel()
		all, err := w.looker.Look(ctx, w.queues())
		if err != nil {
			return snapshot{}, err
		}
		var health routing.Health
		if w.health != nil {
			health = w.health()
		}
		got.at = time.Now()
		now := schemas.MillisOf(got.at)
		got.rates = w.meter.Add(now, all)
		backlog.Calls(got.rates, health, now)
		got.stalled = w.meter.Stalled(w.policy(), health, got.rates, now)
		w.mu.Lock()
		w.last = got
		w.mu.Unlock()
	}
	return got, nil
}

// latest returns the last look. It does not wait for one that is under way.
func (w *waits) latest() snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// run looks now and then until ctx ends. What fails shows where somebody asks.
func (w *waits) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		_, _ = w.now()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look returns the last look for an answer, or answers that there is none.
func (s *Server) look(w http.ResponseWriter, r *http.Request) (snapshot, bool) {
	got, err := s.waits.now()
	if err != nil {
		s.logger.Warn("the backlog cannot be read from Kafka now", "error", err)
		refuse(w, r, after(kafkaUnavailable.problem("What waits cannot be read from Kafka now."), retryKafka))
	}
	return got, err == nil
}

// getDelays returns what waits for its time.
func (s *Server) getDelays(w http.ResponseWriter, r *http.Request, _ *caller) {
	if p := noParameters(r); p != nil {
		refuse(w, r, p)
		return
	}
	if got, ok := s.look(w, r); ok {
		answer(w, http.StatusOK, "application/json", DelaysOf(got.rates))
	}
}

// DelaysOf returns what waits in each tier, the shortest first.
func DelaysOf(rates []backlog.Rate) client.Delays {
	out := client.Delays{Tiers: []client.DelayTier{}}
	for _, t := range topics.Tiers {
		for _, q := range rates {
			if q.Stage == backlog.Delay && q.Name == t.Name {
				out.Tiers = append(out.Tiers, client.DelayTier{Name: t.Name, Wait: t.Wait.Milliseconds(), Waiting: q.Records, AtMost: q.AtMost, OldestAt: q.Oldest})
			}
		}
	}
	return out
}

// getBacklog returns what waits to be worked on, in all queues but the delays.
func (s *Server) getBacklog(w http.ResponseWriter, r *http.Request, _ *caller) {
	if p := noParameters(r); p != nil {
		refuse(w, r, p)
		return
	}
	if got, ok := s.look(w, r); ok {
		answer(w, http.StatusOK, "application/json", BacklogOf(schemas.MillisOf(got.at), got.rates, got.stalled))
	}
}

// BacklogOf sums up rates as the API and weir status show them. Delays are left out: what
// is in them waits for its time.
func BacklogOf(at schemas.Millis, rates []backlog.Rate, stalled []string) client.Backlog {
	out := client.Backlog{At: at, Stalled: stalled, Queues: []client.QueueBacklog{}}
	for _, q := range rates {
		if q.Stage == backlog.Delay {
			continue
		}
		out.Waiting += q.Records
		out.AtMost = out.AtMost || q.AtMost
		b := client.QueueBacklog{Stage: string(q.Stage), Provider: q.Provider, Queue: q.Name, Waiting: q.Records, AtMost: q.AtMost, OldestAt: q.Oldest, Drain: q.Drain.Milliseconds()}
		if q.Known {
			b.PerMinute = &q.PerMinute
		}
		out.Queues = append(out.Queues, b)
	}
	return out
}

// getLegacyQueue returns the statistics of the older system's one queue.
func (s *Server) getLegacyQueue(w http.ResponseWriter, r *http.Request, _ *caller) {
	if got, ok := s.look(w, r); ok {
		answer(w, http.StatusOK, "application/json", legacy.QueueOf(BacklogOf(0, got.rates, nil).Waiting))
	}
}

var (
	waitingDesc = prometheus.NewDesc("weir_backlog_messages",
		"Records that wait in a queue of inputs, admission or lanes, of the whole cluster: of several processes take the maximum. Markers of transactions are counted too where more than 200 wait in a partition. In a provider's queue, messages that are done behind one that is not are counted until it is: again was seen up to 6 % too high.",
		[]string{"stage", "provider", "queue"}, nil)
	oldestDesc = prometheus.NewDesc("weir_backlog_oldest_seconds",
		"For how long the oldest record of a queue has waited in it; 0 when none waits.", []string{"stage", "provider", "queue"}, nil)
	drainDesc = prometheus.NewDesc("weir_backlog_drain_seconds",
		"In how long a queue will be empty at the rate of the last minute, if nothing is added; absent while nothing moves.", []string{"stage", "provider", "queue"}, nil)
	stalledDesc = prometheus.NewDesc("weir_provider_stalled",
		"1 for a provider for which messages have waited for a minute without a call, or for twice the longest window of its pace; else 0.", []string{"provider"}, nil)
)

// Describe makes waits a prometheus.Collector.
func (w *waits) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{waitingDesc, oldestDesc, drainDesc, stalledDesc} {
		ch <- d
	}
}

// Collect shows the last look. It does not wait for Kafka.
func (w *waits) Collect(ch chan<- prometheus.Metric) {
	last := w.latest()
	if time.Since(last.at) > lookStale {
		return
	}
	now := schemas.MillisOf(time.Now())
	show := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	seen := make(map[string]bool)
	for _, q := range last.rates {
		if q.Stage == backlog.Delay {
			continue
		}
		of := []string{string(q.Stage), q.Provider, q.Name}
		show(waitingDesc, float64(q.Records), of...)
		age := 0.0
		if q.Records > 0 {
			age = max(now.Sub(q.Oldest).Seconds(), 0)
		}
		show(oldestDesc, age, of...)
		if q.Drain > 0 || q.Known && q.Records == 0 {
			show(drainDesc, q.Drain.Seconds(), of...)
		}
		if q.Provider != "" && !seen[q.Provider] {
			seen[q.Provider] = true
			v := 0.0
			if slices.Contains(last.stalled, q.Provider) {
				v = 1
			}
			show(stalledDesc, v, q.Provider)
		}
	}
}
