package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/ingest/replies"
	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

const repliesPolicy = `
limits:
  - {name: verify, match: {class: verify}, per: [recipient], allow: [1/1h, 10/calendar-day], timezone: %s}
  - {name: shop, match: {class: wide}, per: [tenant], allow: [100000/1h]}
  - {name: all, match: {class: wide}, per: [], allow: [100000/calendar-day]}
classes:
  - {name: verify}
  - {name: wide}
providers:
  - {name: simulated, type: simulated, channels: [sms]}
tenants:
  - {name: default, default_region: CN}
`

// whereItIsNoon is a time zone in which no day ends while a test runs.
func whereItIsNoon() string { return fmt.Sprintf("Etc/GMT%+d", time.Now().UTC().Hour()-12) }

// waited measures how long a caller waits for the decision on its request, in an
// idle Weir: from before the request is produced until it has the reply.
func waited(t *testing.T, brokers []string, sc scale) {
	s := newSite(t, brokers, "replies", fmt.Sprintf(repliesPolicy, whereItIsNoon()))
	worker := s.run(0, "admission")
	room, err := replies.Open(replies.Config{Topic: s.names.Replies(), Partitions: 8, Slot: 5, Options: []kgo.Opt{kgo.SeedBrokers(brokers...)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- room.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ticket := func() *replies.Ticket {
		for {
			k, err := room.Expect()
			if err == nil {
				return k
			}
			if !errors.Is(err, replies.ErrAway) || t.Context().Err() != nil {
				t.Fatal(err)
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-t.Context().Done():
			}
		}
	}
	// one waits for what becomes of a record, and says how long.
	one := func(k *replies.Ticket, rec *kgo.Record) (*schemas.Reply, time.Duration) {
		t.Helper()
		defer k.Done()
		began := time.Now()
		if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
		within, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		r, err := k.Wait(within)
		if err != nil {
			t.Fatalf("no reply: %v", err)
		}
		return r, time.Since(began)
	}
	request := func(to, class string, hops int32) (*schemas.Reply, time.Duration) {
		t.Helper()
		k := ticket()
		return one(k, &kgo.Record{
			Topic: s.names.Requests(), Partition: (schemas.PartitionOf(to, partitions) + hops) % partitions,
			Value:   schemas.RequestJSON(&schemas.Request{Channel: schemas.ChannelSMS, To: to, Class: class, Body: "code 123456"}),
			Headers: []kgo.RecordHeader{{Key: schemas.HeaderReply, Value: []byte(k.Header())}},
		})
	}
	rules, err := limit.Compile(s.policies[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	quota := func(to string) (left []schemas.LimitState, took time.Duration) {
		t.Helper()
		asks := rules.Inquire(&limit.Subject{Recipient: to, Country: "CN", Tenant: "default", Channel: "sms", Class: "verify"}, partitions).Asks
		if len(asks) != 1 {
			t.Fatalf("asks %v", asks)
		}
		for partition, ask := range asks {
			k := ticket()
			r, d := one(k, replies.Question(s.names.Readmit(), partition, ask, k))
			left, took = r.Limits, d
		}
		return left, took
	}
	wants := func(r *schemas.Reply, status schemas.Status, windows int, violated bool) {
		t.Helper()
		if r.Event.Status != status || len(r.Limits) != windows || windows > 0 && r.Limits[0].Violated != violated {
			t.Fatalf("told %+v\n%+v\nwant %s and %d windows", r.Event, r.Limits, status, windows)
		}
	}
	for i := range 10 { // connections, and a group that has come together
		request(fmt.Sprintf("+86139%08d", i), "verify", int32(i))
	}
	ways := map[string][]time.Duration{}
	for i := range sc.messages {
		to := fmt.Sprintf("+86139%08d", 1000+i)
		r, took := request(to, "verify", 0)
		wants(r, schemas.StatusQueued, 2, false)
		ways["decided"] = append(ways["decided"], took)
		left, took := quota(to)
		if !slices.Equal(left, r.Limits) {
			t.Fatalf("asked what is left: %+v, told with the decision: %+v", left, r.Limits)
		}
		ways["quota"] = append(ways["quota"], took)
		r, took = request(to, "verify", 1)
		wants(r, schemas.StatusLimited, 2, true)
		if r.Limits[0].Reset != r.Event.RetryAt || r.Limits[0].Remaining != 0 || r.Limits[1].Remaining != 9 {
			t.Fatalf("told %+v\n%+v", r.Event, r.Limits)
		}
		ways["misrouted, refused"] = append(ways["misrouted, refused"], took)
		r, took = request(to, "wide", 0)
		wants(r, schemas.StatusQueued, 2, false)
		ways["two wide limits"] = append(ways["two wide limits"], took)
	}
	s.stop(worker)
	for _, way := range []string{"decided", "quota", "misrouted, refused", "two wide limits"} {
		took := ways[way]
		slices.Sort(took)
		at := func(q float64) time.Duration { return took[min(int(q*float64(len(took))), len(took)-1)] }
		t.Logf("WAITED request to reply, idle, %s, %d: p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, max %.1f ms",
			way, len(took), ms(at(0.5)), ms(at(0.9)), ms(at(0.99)), ms(took[len(took)-1]))
		if at(0.5) > sc.most(500*time.Millisecond) {
			t.Errorf("%s: p50 %v is absurd", way, at(0.5))
		}
	}
}
