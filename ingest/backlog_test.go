package ingest

import (
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/ingest/client"
	routing "github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
)

func TestDelays(t *testing.T) {
	at := schemas.Millis(1_795_309_200_000)
	w := newWorld(t, settings{before: func(w *world) {
		r := &kgo.Record{Topic: w.names.Delay("5m"), Partition: 1, Value: []byte("v"), Timestamp: at.Time()}
		if err := w.cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}})
	got := read[client.Delays](w.do("GET", "/v1/delays", ""), http.StatusOK)
	if len(got.Tiers) != 7 || got.Tiers[0] != (client.DelayTier{Name: "1s", Wait: 1000}) || got.Tiers[3] != (client.DelayTier{Name: "5m", Wait: 300_000, Waiting: 1, OldestAt: at}) {
		t.Errorf("%+v", got)
	}
	if err := w.cl.ProduceSync(t.Context(), &kgo.Record{Topic: w.names.Delay("5m"), Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	// Who asks often does not burden Kafka.
	if again := read[client.Delays](w.do("GET", "/v1/delays", ""), http.StatusOK); !reflect.DeepEqual(again, got) {
		t.Errorf("%+v", again)
	}
	w.until("looked at again", func() bool {
		return read[client.Delays](w.do("GET", "/v1/delays", ""), http.StatusOK).Tiers[3].Waiting == 2
	})
	w.do("GET", "/v1/delays?x=1", "").problem(http.StatusBadRequest, "invalid_request")
	w.line.cut()
	w.until("away", func() bool { return w.do("GET", "/v1/delays", "").code == http.StatusServiceUnavailable })
	w.do("GET", "/v1/delays", "").problem(http.StatusServiceUnavailable, "kafka_unavailable")
	w.line.mend()
}

// TestBacklog: what waits for a provider that makes no calls, in the API, in the metrics
// and for an older system's clients.
func TestBacklog(t *testing.T) {
	const pol = `
providers:
  - {name: p, type: simulated, channels: [sms]}
`
	since := schemas.MillisOf(time.Now().Add(-time.Hour))
	var calls atomic.Int64
	health := func() routing.Health {
		return routing.Health{"p": {Lanes: []schemas.Health{{Calls: calls.Load(), At: schemas.MillisOf(time.Now())}}}}
	}
	w := newWorld(t, settings{policy: pol,
		server: func(s *Server) { s.waits.health = health },
		before: func(w *world) {
			for range 900 {
				w.cl.Produce(t.Context(), &kgo.Record{Topic: w.names.Dispatch("p", "normal"), Value: []byte("v"), Timestamp: since.Time()}, nil)
			}
			w.cl.Produce(t.Context(), &kgo.Record{Topic: w.names.Dispatch("p", "urgent"), Value: []byte("v")}, nil)
			w.cl.Produce(t.Context(), &kgo.Record{Topic: w.names.Delay("5m"), Value: []byte("v")}, nil)
			if err := w.cl.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}})
	get := func() client.Backlog { return read[client.Backlog](w.do("GET", "/v1/backlog", ""), http.StatusOK) }
	got := get()
	if got.Waiting != 901 || !got.AtMost || !reflect.DeepEqual(got.Stalled, []string{"p"}) || len(got.Queues) != 5 || got.Queues[3].Provider != "p" || got.Queues[3].Queue != "normal" ||
		got.Queues[3].Waiting != 900 || got.Queues[3].OldestAt != since || got.Queues[0].Stage != "admission" {
		t.Errorf("%+v", got)
	}
	metrics := string(w.do("GET", "/metrics", "").body)
	for _, want := range []string{`weir_backlog_messages{provider="p",queue="normal",stage="lanes"} 900`, `weir_backlog_oldest_seconds{provider="p",queue="normal",stage="lanes"} 36`, `weir_provider_stalled{provider="p"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(metrics, `weir_backlog_drain_seconds{provider="p",queue="normal"`) || strings.Contains(metrics, `weir_backlog_messages{provider="",queue="5m"`) {
		t.Errorf("%s", metrics)
	}
	if got := w.do("GET", "/api/queue-monitor", "").body; strings.TrimSpace(string(got)) != `{"queueLength":901,"status":"警告"}` {
		t.Errorf("%s", got)
	}
	// A lane works again.
	calls.Store(50)
	done := kadm.Offsets{}
	done.AddOffset(w.names.Dispatch("p", "normal"), 0, 800, -1)
	if err := kadm.NewClient(w.cl).CommitAllOffsets(t.Context(), "lanes", done); err != nil {
		t.Fatal(err)
	}
	w.until("the rate is known", func() bool {
		got = get()
		return got.Waiting == 101 && *got.Queues[3].PerMinute > 0
	})
	if got.AtMost || *got.Queues[3].PerMinute != 10 || got.Queues[3].Drain != 121_200 || len(got.Stalled) > 0 {
		t.Errorf("%+v", got)
	}
	w.do("GET", "/v1/backlog?x=1", "").problem(http.StatusBadRequest, "invalid_request")
	w.line.cut()
	w.until("away", func() bool { return w.do("GET", "/v1/backlog", "").code == http.StatusServiceUnavailable })
	w.line.mend()
}
