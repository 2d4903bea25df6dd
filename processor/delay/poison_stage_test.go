package delay_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/processor/delay"
	"github.com/weirhq/weir/processor/dlq"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
)

// refusesForGood lets a broker refuse every transactional batch that has text, unless it
// is a dead letter.
func refusesForGood(c *kfake.Cluster, text string) {
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		p := req.(*kmsg.ProduceRequest)
		resp := p.ResponseKind().(*kmsg.ProduceResponse)
		refused := false
		for _, topic := range p.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = topic.Topic, topic.TopicID
			for _, part := range topic.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = part.Partition, kerr.NotLeaderForPartition.Code // tried again
				if bytes.Contains(part.Records, []byte(text)) && !bytes.Contains(part.Records, []byte(schemas.ReasonInternalError)) {
					refused, rp.ErrorCode = true, kerr.InvalidRecord.Code
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, refused && p.TransactionID != nil
	})
}

// TestPoisonIsEnded: a message that the broker refuses to take back, with all that is in
// its batch, goes to the DLQ, and what waits beside it returns. The delay stage writes no
// status, so the message has no end there: a redrive from the DLQ gives it one.
func TestPoisonIsEnded(t *testing.T) {
	streamtest.Simulated(t, func(t *testing.T, c *kfake.Cluster, reach []kgo.Opt) {
		w := newWorldOn(t, c, []string{streamtest.SimulatedAddr}, reach...)
		const key, text = "+8613800000000", "!refused"
		body := []byte(`{"tenant":"acme","channel":"sms","to":"13800000000","body":"` + text + `"}`)
		env := schemas.Envelope{
			ID: "m-1", Key: key, Tenant: "acme", Reason: schemas.ReadmitRetry, DueAt: schemas.MillisOf(time.Now().Add(time.Second)), Return: w.names.Readmit(),
			Origin: schemas.Source{Topic: w.names.Requests(), Partition: 1, Offset: 7},
		}
		bad := &kgo.Record{Topic: w.names.Delay("1s"), Partition: 1, Key: []byte(key), Value: body, Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("t")}}}
		env.Each(func(k string, v []byte) { bad.Headers = append(bad.Headers, kgo.RecordHeader{Key: k, Value: v}) })
		beside := func(i int) *kgo.Record { // in the same partition of both topics
			r := &kgo.Record{Topic: bad.Topic, Partition: bad.Partition, Key: fmt.Appendf(nil, "beside-%d", i), Value: []byte("x")}
			env := schemas.Envelope{Key: key, DueAt: env.DueAt, Return: env.Return}
			env.Each(func(k string, v []byte) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: v}) })
			return r
		}
		if err := w.cl.ProduceSync(t.Context(), beside(0), beside(1), bad, beside(2), beside(3)).FirstErr(); err != nil {
			t.Fatal(err)
		}
		refusesForGood(c, text)
		reg := prometheus.NewRegistry()
		end := w.start(func(cfg *delay.Config) { cfg.DLQPartitions, cfg.Stream.Watch = partitions, stream.NewWatch(reg) })
		defer end()
		for k := range w.returned(4) {
			if k == key {
				t.Error("the broker took it")
			}
		}
		one := func(topic string, is func(schemas.Envelope) bool) (*kgo.Record, schemas.Envelope) {
			t.Helper()
			cl, err := w.client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for ctx.Err() == nil {
				for _, r := range cl.PollFetches(ctx).Records() {
					var env schemas.Envelope
					for _, h := range r.Headers {
						if err := env.Set(h.Key, string(h.Value)); err != nil {
							t.Error(err)
						}
					}
					if is(env) {
						return r, env
					}
				}
			}
			t.Fatalf("it is not in %s", topic)
			return nil, env
		}
		dead, got := one(w.names.DLQ(), func(schemas.Envelope) bool { return true })
		if got.Reason != schemas.ReasonInternalError || !bytes.Equal(dead.Value, body) || got.ID != env.ID || got.Key != key || got.Tenant != env.Tenant || got.Origin != env.Origin || got.Return != "" || got.DueAt != 0 {
			t.Errorf("a dead letter of %q: %+v", dead.Value, got)
		}
		if n := streamtest.Sum(t, reg, "weir_poison_records_total"); n != 1 {
			t.Errorf("%v poison records", n)
		}

		box, err := dlq.Open(dlq.Config{Brokers: w.addrs, Names: w.names, Options: reach})
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
		sum, err := box.Redrive(t.Context(), dlq.Filter{Reason: schemas.ReasonInternalError}, dlq.RedriveOptions{})
		if err != nil || sum.Redriven != 1 {
			t.Fatalf("%+v, %v", sum, err)
		}
		again, got := one(w.names.Readmit(), func(e schemas.Envelope) bool { return e.Reason == schemas.ReadmitRedrive })
		if got.RedriveOf != env.ID || got.ID == env.ID || !bytes.Equal(again.Value, body) || string(again.Key) != key || got.Tenant != env.Tenant || again.Partition != schemas.PartitionOf(key, partitions) {
			t.Errorf("sent again as %q to %d: %+v", again.Value, again.Partition, got)
		}
	})
}
