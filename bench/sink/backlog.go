package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// backlog is what stands in weir.status: the records that admission and a lane
// write for messages of two classes to Chinese and other numbers, 100 messages a
// second. Of 20 messages 12 are admitted and delivered, one of these after a retry,
// 7 are refused with their evidence, and one is decided elsewhere first (forward),
// or gives a place back: decisions that are no status.
type backlog struct {
	events     int
	recipients int
	partitions int32
}

// message appends the records of the nth message, in order.
func (b backlog) message(out []schemas.Event, n int, began schemas.Millis) []schemas.Event {
	var (
		at        = began.Add(time.Duration(n) * 10 * time.Millisecond)
		to        = b.recipient(n)
		partition = schemas.PartitionOf(to, b.partitions)
		class     = [...]string{"verify", "notice"}[n/3%2]
		source    = &schemas.Source{Topic: "weir.requests", Partition: partition, Offset: int64(n)}
		id        = idAt(at, n)
	)
	step := func(s schemas.Status, after time.Duration) *schemas.Event {
		out = append(out, schemas.Event{Kind: schemas.KindStatus, MessageID: id, Tenant: "acme", Channel: "sms", Class: class, To: to,
			Status: s, At: at.Add(after), AcceptedAt: at.Add(-4 * time.Millisecond), Segments: 1, Source: source})
		return &out[len(out)-1]
	}
	decide := func(v schemas.Verdict, after time.Duration) *schemas.Decision {
		return &schemas.Decision{Verdict: v, Partition: partition, Seq: int64(n), T: at.Add(after), Revision: 7, Input: source}
	}
	places := func(after time.Duration) []schemas.Charge {
		return []schemas.Charge{{Limit: class, Scope: to + "," + class, T: at.Add(after), Cost: 1}, {Limit: "everyone", Scope: to, T: at.Add(after), Cost: 1}}
	}
	attempt := func(s schemas.Status, n int, after time.Duration) *schemas.Event {
		e := step(s, after)
		e.Attempt, e.Provider = n, "aliyun"
		return e
	}
	sent := func(n int, after time.Duration) {
		e := attempt(schemas.StatusSent, n, after)
		e.ProviderMessageID, e.Price, e.Currency = "2026112109"+id[19:], "0.045", "CNY"
		e = attempt(schemas.StatusDelivered, n, after+2*time.Second)
		e.ProviderMessageID = "2026112109" + id[19:]
	}
	switch k := n % 20; {
	case k < 12:
		e := step(schemas.StatusQueued, 0)
		e.Decision = decide(schemas.VerdictAdmit, 0)
		e.Decision.Charges = places(0)
		attempt(schemas.StatusSending, 1, 8*time.Millisecond)
		if k > 0 {
			sent(1, 80*time.Millisecond)
			break
		}
		e = attempt(schemas.StatusRetrying, 1, 80*time.Millisecond)
		e.ErrorCode, e.Error, e.Reason = "isp.BUSY", "the provider is busy", "transient"
		e = step(schemas.StatusQueued, 5*time.Second)
		e.Decision = decide(schemas.VerdictMove, 5*time.Second)
		e.Decision.Charges, e.Decision.Returned = places(5*time.Second), places(0)
		attempt(schemas.StatusSending, 2, 5*time.Second+8*time.Millisecond)
		sent(2, 5*time.Second+80*time.Millisecond)
	case k < 19:
		e := step(schemas.StatusLimited, 0)
		e.Limit, e.Window, e.Reason, e.RetryAt = class, "1/60s", "limited", at.Add(time.Minute)
		e.Decision = decide(schemas.VerdictRefuse, 0)
		e.Decision.Evidence = []schemas.Evidence{{Limit: class, Scope: to + "," + class, Window: "1/60s", N: 1, Count: 1, Cost: 1, Oldest: at.Add(-30 * time.Second)}}
	default:
		d := decide(schemas.VerdictForward, 0)
		if n/20%2 == 0 {
			d = decide(schemas.VerdictGiveBack, 0)
			d.Returned = places(-time.Minute)
		}
		out = append(out, schemas.Event{Kind: schemas.KindDecision, MessageID: id, To: to, At: d.T, Decision: d})
	}
	return out
}

// recipient is for whom the nth message is: one in ten lives where the country is
// not to be seen from the calling code alone.
func (b backlog) recipient(n int) string {
	who := n * 7919 % b.recipients
	switch who % 20 {
	case 0:
		return fmt.Sprintf("+1415%07d", 2000000+who)
	case 1:
		return fmt.Sprintf("+4477%08d", 10000000+who)
	}
	return fmt.Sprintf("+86138%08d", who)
}

// idAt is a UUIDv7 (RFC 9562) of the moment, as ingest makes them.
func idAt(at schemas.Millis, n int) string {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(at)<<16|7<<12|uint64(n)&0xfff)
	binary.BigEndian.PutUint32(id[8:], 0x80000000|uint32(n)*2654435761>>2)
	binary.BigEndian.PutUint32(id[12:], uint32(n)*0x85ebca6b)
	return id.String()
}

// write makes the topic and fills it. It returns how many bytes the values have.
func (b backlog) write(ctx context.Context, brokers []string, names topics.Names) (int64, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(names.Status()),
		kgo.ProducerLinger(20*time.Millisecond), kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, b.partitions, 1, nil, names.Status()); err != nil {
		return 0, fmt.Errorf("make the topic: %w", err)
	}
	var (
		began  = schemas.MillisOf(time.Now().Add(-4 * time.Hour).Truncate(time.Minute))
		bytes  int64
		failed atomic.Pointer[error]
		steps  []schemas.Event
	)
	for n, written := 0, 0; written < b.events; n++ {
		steps = b.message(steps[:0], n, began)
		for i := range steps[:min(len(steps), b.events-written)] {
			e := &steps[i]
			value := schemas.AppendEvent(nil, e)
			bytes += int64(len(value))
			cl.Produce(ctx, &kgo.Record{Key: []byte(e.To), Value: value, Partition: schemas.PartitionOf(e.To, b.partitions)}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			})
			written++
		}
	}
	if err := cl.Flush(ctx); err != nil {
		return 0, err
	}
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return bytes, nil
}
