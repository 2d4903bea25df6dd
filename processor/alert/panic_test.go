package alert

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// TestPanicOnARecord: a record on which the program panics says nothing; those before and
// after it do.
func TestPanicOnARecord(t *testing.T) {
	reg, log := prometheus.NewRegistry(), new(streamtest.Log)
	one := &term{election: &election{cfg: Config{Logger: log.Logger(), Watch: stream.NewWatch(reg)}}}
	read := func(dst []Happening, r *kgo.Record) []Happening {
		dst = append(dst, Happening{To: string(r.Value)})
		if r.Offset == 1 {
			panic("no")
		}
		return dst
	}
	var got []Happening
	for i, to := range []string{"a", "b", "c"} {
		got = one.hear(got, &kgo.Record{Topic: "weir.dlq", Offset: int64(i), Value: []byte(to)}, read)
	}
	if len(got) != 2 || got[0].To != "a" || got[1].To != "c" || streamtest.Sum(t, reg, "weir_poison_records_total") != 1 || !log.Has("offset=1 panic=no") {
		t.Errorf("%+v", got)
	}
}

// TestPanicOfATerm: a term that panics ends, is reported as failing and begins again; the
// process goes on.
func TestPanicOfATerm(t *testing.T) {
	names := topics.Names{}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, names.Status(), names.DLQ(), names.Alerts()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl := streamtest.Client(t, kgo.SeedBrokers(c.ListenAddrs()...))
	reg, log := prometheus.NewRegistry(), new(streamtest.Log)
	fails := make(chan struct{}) // once it is closed, nothing panics
	looked := make(chan struct{}, 100)
	e := &election{group: cl, metrics: newMetrics(nil), cfg: Config{
		Brokers: c.ListenAddrs(), Names: names, Slot: "1", Logger: log.Logger(), Watch: stream.NewWatch(reg),
		Health: func() route.Health { return nil }, Reports: func() map[string]schemas.Report { return nil },
		Policy: func() *schemas.Revision {
			select {
			case <-fails:
				return &schemas.Revision{Revision: 1}
			default:
			}
			select {
			case looked <- struct{}{}:
			default:
			}
			panic("no policy")
		},
	}}
	e.begin(t.Context())
	t.Cleanup(e.end)
	<-looked
	<-looked // it began again
	if streamtest.Sum(t, reg, "weir_stage_stuck_seconds") == 0 || !log.Has("the alerter panicked") {
		t.Error("not reported")
	}
	close(fails)
	for began := time.Now(); streamtest.Sum(t, reg, "weir_stage_stuck_seconds") != 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("still failing after a turn that did not")
		}
	}
}
