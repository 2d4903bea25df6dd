package sink_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/topics"
)

func admin(t *testing.T, seeds []string) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// weir.status is deleted and made again: its records have the offsets of others, which
// ClickHouse has, and are loaded all the same. (Apache Kafka forgets a group's offsets
// in a topic that is deleted.)
func TestTopicMadeAnew(t *testing.T) {
	for _, tt := range []struct {
		name          string
		runs, forgets bool
	}{
		{"while the sink runs", true, false},
		{"while none runs", false, false},
		{"while none runs, and the group's offsets are gone", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const n = 1000
			seeds := startKafka(t)
			adm := admin(t, seeds)
			url := "http://" + startEngine(t, t.TempDir(), "").Addr()
			reg := prometheus.NewRegistry()
			cfg := sink.Config{Brokers: seeds, URL: url, Rows: 300, Every: 10 * time.Millisecond, Logger: logger(t), Metrics: reg}
			stop := run(t, cfg)
			if err := produce(t.Context(), seeds, 0, n/2, 500, false); err != nil {
				t.Fatal(err)
			}
			until(t, 20*time.Second, "the old topic is loaded", func() bool { return confirmed(t, reg) == n/2 })
			if !tt.runs {
				stop()
				cfg.Metrics = nil
			}
			if _, err := adm.DeleteTopic(t.Context(), topics.Names{}.Status()); err != nil {
				t.Fatal(err)
			}
			if tt.forgets {
				if _, err := adm.DeleteGroups(t.Context(), sink.Group(topics.Names{})); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := adm.CreateTopic(t.Context(), parts, 1, nil, topics.Names{}.Status()); err != nil {
				t.Fatal(err)
			}
			if err := produce(t.Context(), seeds, n/2, n, 500, false); err != nil {
				t.Fatal(err)
			}
			if !tt.runs {
				run(t, cfg)
			}
			conn := open(t, url)
			until(t, 30*time.Second, "the new topic is loaded", func() bool { return there(t, conn) >= n && committed(t, seeds) })
			if got := ask[uint64](t, conn, "SELECT count() FROM status_events"); got != n/5*4 {
				t.Errorf("%d status rows, want %d", got, n/5*4)
			}
			if got := ask[uint64](t, conn, "SELECT uniqExact(message_id, status) FROM status_events"); got != n/5*4 {
				t.Errorf("%d different statuses, want %d", got, n/5*4)
			}
			if got := ask[uint64](t, conn, "SELECT uniqExact(seq) FROM decisions"); got != n/5*2+n/50 {
				t.Errorf("%d different decisions, want %d", got, n/5*2+n/50)
			}
			agrees(t, conn)
		})
	}
}

// clickhouse.url is of another database, or of one that was emptied: what Kafka still
// has is loaded there, though the group stands at its end.
func TestAnotherDatabase(t *testing.T) {
	const n = 2000
	seeds := startKafka(t)
	at := "http://" + startEngine(t, t.TempDir(), "").Addr()
	for i, url := range []string{at + "/first", at + "/second", at + "/second"} {
		reg := prometheus.NewRegistry()
		stop := run(t, sink.Config{Brokers: seeds, URL: url, Rows: 300, Every: 10 * time.Millisecond, Logger: logger(t), Metrics: reg})
		if err := produce(t.Context(), seeds, i*n/4, (i+1)*n/4, 500, false); err != nil {
			t.Fatal(err)
		}
		conn := open(t, url)
		until(t, 30*time.Second, "all is loaded", func() bool { return there(t, conn) >= (i+1)*n/4 && committed(t, seeds) })
		stop()
		holds(t, conn, (i+1)*n/4)
		if want := []int{n / 4, n / 2, n / 4}[i]; confirmed(t, reg) != want {
			t.Errorf("%d rows were loaded, want %d: not what is there", confirmed(t, reg), want)
		}
	}
}

// Two sinks begin when ClickHouse has nothing yet. What both have loaded since is known to
// whoever takes over: it goes on with a plan whose insert is still under way, and reads
// nothing anew.
func TestBegunWithNothing(t *testing.T) {
	const n = 4000
	seeds := startKafka(t)
	f := startFront(t, startEngine(t, t.TempDir(), "").Addr())
	if err := warehouse.Migrate(t.Context(), f.url); err != nil {
		t.Fatal(err)
	}
	conn := open(t, f.url)
	cfg := sink.Config{Brokers: seeds, URL: f.url, Rows: n, Every: 10 * time.Millisecond, Logger: logger(t), Inserts: 4, Grace: time.Second, SessionTimeout: 6 * time.Second}
	begin := func(reg *prometheus.Registry) (stop func()) {
		cfg.Metrics = reg
		stop = run(t, cfg)
		until(t, time.Minute, "a sink is ready", func() bool { v, ok := metric(t, reg, "weir_sink_ready"); return ok && v == 1 })
		return stop
	}
	first, second := prometheus.NewRegistry(), prometheus.NewRegistry()
	one := begin(first)
	cfg.Rows = n / 20 // its own plans are not those of the first
	begin(second)
	if err := produce(t.Context(), seeds, 0, n/2, 500, false); err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, "the first half is loaded", func() bool { return there(t, conn) == n/2 && committed(t, seeds) })

	// What the first sends from now on arrives when the second has taken over.
	release := make(chan struct{})
	var arrive sync.WaitGroup
	f.set(func(_ http.ResponseWriter, r *http.Request, on func(http.ResponseWriter)) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		*r = *r.WithContext(context.WithoutCancel(r.Context()))
		r.Body = io.NopCloser(bytes.NewReader(body))
		arrive.Go(func() { <-release; on(httptest.NewRecorder()) })
		<-release
	})
	before := f.calls.Load()
	if err := produce(t.Context(), seeds, n/2, n, 500, false); err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, "inserts are under way", func() bool { return f.calls.Load() >= before+parts })
	f.set(nil)
	one()
	until(t, time.Minute, "the other has loaded all", func() bool { return there(t, conn) >= n && committed(t, seeds) })
	close(release)
	arrive.Wait()
	holds(t, conn, n)
	if got := confirmed(t, first) + confirmed(t, second); got != n {
		t.Errorf("%d records were loaded, want %d: none is read anew", got, n)
	}
}

// Where Kafka no longer has the log's first records when it is read first, nothing
// was lost: a sink that dies over its first plan leaves one that can be read again.
func TestLogBeginsLater(t *testing.T) {
	const n, gone = 1000, 50
	seeds := startKafka(t)
	f := startFront(t, startEngine(t, t.TempDir(), "").Addr())
	if err := produce(t.Context(), seeds, 0, n, 500, false); err != nil {
		t.Fatal(err)
	}
	var os kadm.Offsets
	for id := range int32(parts) {
		os.AddOffset(topics.Names{}.Status(), id, gone, -1)
	}
	if _, err := admin(t, seeds).DeleteRecords(t.Context(), os); err != nil {
		t.Fatal(err)
	}
	f.set(func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) { cutOff(w) })
	cfg := sink.Config{Brokers: seeds, URL: f.url, Rows: 100, Every: 10 * time.Millisecond, Backoff: 10 * time.Millisecond, Logger: logger(t)}
	stop := run(t, cfg)
	until(t, 20*time.Second, "each partition has a plan", func() bool { return f.calls.Load() > 50 })
	stop()
	f.set(nil)
	reg := prometheus.NewRegistry()
	cfg.Metrics = reg
	run(t, cfg)
	until(t, 20*time.Second, "the rest is loaded", func() bool { return committed(t, seeds) && confirmed(t, reg) >= n-parts*gone })
	if lost := shown(t, reg, "weir_sink_skipped_offsets_total"); lost != 0 {
		t.Errorf("%v offsets count as lost", lost)
	}
}
