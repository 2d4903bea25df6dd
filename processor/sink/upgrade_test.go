package sink_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// A sink of the former version has planned a range, and nobody knows whether it
// inserted it. This one inserts it as that would have, so that it stands once
// whether or not, and goes on with rows of its own.
func TestUpgradeAmidAPlan(t *testing.T) {
	seeds := startKafka(t)
	url := "http://" + startEngine(t, t.TempDir(), "").Addr()
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	topic := topics.Names{}.Status()
	listed, err := adm.ListTopics(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	admitted := func(id string) schemas.Event {
		place := []schemas.Charge{{Limit: "acme", Scope: "tenant=acme", T: began, Cost: 1}}
		return schemas.Event{Kind: schemas.KindStatus, MessageID: id, Status: schemas.StatusQueued, At: began,
			Decision: &schemas.Decision{Verdict: schemas.VerdictAdmit, T: began, Charges: place, Carried: place}}
	}
	tell(t, seeds, []schemas.Event{admitted("m-1"), admitted("m-2")}) // offsets 0 to 2

	for n := range 2 { // the second time it had, and died before it confirmed it
		plan := sink.Plan{Topic: listed[topic].ID.String(), From: 0, To: 3, Encoder: 1, Expires: schemas.MillisOf(time.Now().Add(time.Minute))}
		if listed[topic].ID == [16]byte{} {
			t.Fatal("the topic has no id")
		}
		var os kadm.Offsets
		os.Add(kadm.Offset{Topic: topic, Partition: 0, At: plan.From, LeaderEpoch: -1, Metadata: plan.Metadata()})
		if err := adm.CommitAllOffsets(t.Context(), sink.Group(topics.Names{}), os); err != nil {
			t.Fatal(err)
		}
		reg := prometheus.NewRegistry()
		stop := run(t, sink.Config{Brokers: seeds, URL: url, Logger: logger(t), Metrics: reg})
		until(t, 20*time.Second, "the plan is carried out", func() bool { return confirmed(t, reg) == 3 })
		if n == 1 {
			tell(t, seeds, []schemas.Event{admitted("m-3")})
			until(t, 20*time.Second, "it goes on", func() bool { return confirmed(t, reg) == 5 })
		}
		stop()
	}
	conn := open(t, url)
	for _, c := range []struct{ query, want string }{
		{"SELECT message_id, charges.limit, carried.limit, onward FROM decisions ORDER BY message_id", "('m-1',['acme'],[],-1)|('m-2',['acme'],[],-1)|('m-3',['acme'],['acme'],-1)"},
		{"SELECT kind, count() FROM status_events GROUP BY kind ORDER BY kind", "('status',3)|('poison',2)"},
		{"SELECT sum(events) FROM status_by_minute", "(3)"},
		{"SELECT sum(places) FROM limits_by_minute", "(4)"}, // carried counts in rows of this version only
	} {
		if got := answer(t, conn, c.query); got != c.want {
			t.Errorf("%s: %s, want %s", c.query, got, c.want)
		}
	}
}
