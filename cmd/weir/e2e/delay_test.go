package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const delayPolicy = `
providers:
  - {name: one, type: simulated, channels: [sms]}
`

// delays lets messages wait a tier, and until times of their own, and looks at
// when each is back by the broker's clock: once, never early, and not late.
// bench/delay has the figures.
func delays(t *testing.T, brokers []string, sc scale, change func(*site)) {
	s := newSite(t, brokers, "delay", delayPolicy)
	if change != nil {
		change(s)
	}
	worker := s.run(0, "delay")
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	const n = 4000
	own := make(map[string]schemas.Millis) // due at a time of its own
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < n; <-tick.C {
		var recs []*kgo.Record
		for range 50 {
			wait := 5 * time.Second
			if i%2 == 1 {
				wait = 200*time.Millisecond + rand.N(8*time.Second)
			}
			key := fmt.Sprintf("+861%010d", i)
			due := schemas.MillisOf(time.Now().Add(wait))
			if i%2 == 1 {
				own[key] = due
			}
			env := schemas.Envelope{ID: key, Key: key, Reason: schemas.ReadmitRetry, DueAt: due, Return: s.names.Readmit()}
			rec := &kgo.Record{Topic: s.names.Delay(topics.TierFor(wait).Name), Partition: schemas.PartitionOf(key, partitions), Key: []byte(key), Value: []byte("{}")}
			env.Each(func(k string, v []byte) { rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: k, Value: v}) })
			recs = append(recs, rec)
			i++
		}
		if err := cl.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	put := make(map[string]schemas.Millis)
	if err := ReadCommitted(t.Context(), brokers, s.names.Delay("5s"), func(r *kgo.Record) error {
		if _, again := put[string(r.Key)]; !again && !r.Attrs.IsControl() {
			put[string(r.Key)] = schemas.MillisOf(r.Timestamp)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	back := make(map[string]schemas.Millis)
	for deadline := time.Now().Add(patience); len(back) < n; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d are back", len(back), n)
		}
		<-tick.C
		clear(back)
		if err := ReadCommitted(t.Context(), brokers, s.names.Readmit(), func(r *kgo.Record) error {
			if r.Attrs.IsControl() {
				return nil
			}
			if _, twice := back[string(r.Key)]; twice {
				t.Fatalf("%s is back twice", r.Key)
			}
			back[string(r.Key)] = schemas.MillisOf(r.Timestamp)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	s.stop(worker)
	var tier, clocked []time.Duration
	for key, at := range back {
		if due, ok := own[key]; ok {
			clocked = append(clocked, at.Sub(due))
		} else {
			tier = append(tier, at.Sub(put[key])-5*time.Second)
		}
	}
	for _, of := range []struct {
		what string
		late []time.Duration
		p99  time.Duration
	}{{"a tier", tier, sc.most(time.Second)}, {"a time of its own", clocked, sc.most(2500 * time.Millisecond)}} {
		slices.Sort(of.late)
		least, p50, p99, most := of.late[0], of.late[len(of.late)/2], of.late[len(of.late)*99/100], of.late[len(of.late)-1]
		t.Logf("DELAY %d messages that wait for %s: earliest %v, late p50 %v, p99 %v, max %v", len(of.late), of.what, least, p50, p99, most)
		if least < 0 {
			t.Errorf("%s: %v early", of.what, -least)
		}
		if p99 > of.p99 {
			t.Errorf("%s: p99 %v late", of.what, p99)
		}
	}
}
