package replies

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

const topic = "weir.replies"

// house is a broker with weir.replies, and who writes there.
type house struct {
	t     *testing.T
	seeds []string
	cl    *kgo.Client
	off   func() // ends the broker
}

func newHouse(t *testing.T, more ...kgo.Opt) *house {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	h := &house{t: t, seeds: c.ListenAddrs(), off: c.Close}
	h.cl, err = kgo.NewClient(append(more, kgo.SeedBrokers(h.seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("house"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.cl.Close)
	return h
}

// room opens one and lets it run until the test ends.
func (h *house) room(slot, most int) *Room {
	h.t.Helper()
	r, err := Open(Config{Topic: topic, Partitions: 4, Slot: slot, Most: most, Options: []kgo.Opt{kgo.SeedBrokers(h.seeds...)}})
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := r.Expect(); !errors.Is(err, ErrAway) {
		h.t.Fatalf("a ticket before the room is open: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
		if _, err := r.Expect(); !errors.Is(err, ErrAway) {
			h.t.Errorf("a ticket after the room closed: %v", err)
		}
	})
	return r
}

// expect waits for the room to open.
func (h *house) expect(r *Room) *Ticket {
	h.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		ticket, err := r.Expect()
		if err == nil {
			return ticket
		}
		if !errors.Is(err, ErrAway) || time.Now().After(deadline) {
			h.t.Fatal(err)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-h.t.Context().Done():
		}
	}
}

// tell writes replies in one transaction.
func (h *house) tell(commit bool, all ...*kgo.Record) {
	h.t.Helper()
	if err := h.cl.BeginTransaction(); err != nil {
		h.t.Fatal(err)
	}
	if err := h.cl.ProduceSync(h.t.Context(), all...).FirstErr(); err != nil {
		h.t.Fatal(err)
	}
	if err := h.cl.EndTransaction(h.t.Context(), kgo.TransactionEndTry(commit)); err != nil {
		h.t.Fatal(err)
	}
}

// reply is what admission would write for a header.
func reply(header, reason string) *kgo.Record {
	partition, correlation, ok := schemas.ParseReplyTo(header)
	if !ok {
		panic(header)
	}
	return &kgo.Record{Topic: topic, Partition: partition, Key: []byte(correlation),
		Value: schemas.AppendReply(nil, &schemas.Reply{Event: &schemas.Event{Kind: schemas.KindStatus, Status: schemas.StatusLimited, At: 1, Reason: reason}})}
}

func (h *house) wait(ticket *Ticket) (*schemas.Reply, error) {
	ctx, cancel := context.WithTimeout(h.t.Context(), 2*time.Minute)
	defer cancel()
	return ticket.Wait(ctx)
}

func (h *house) wants(ticket *Ticket, reason string) {
	h.t.Helper()
	if r, err := h.wait(ticket); err != nil || r.Event.Reason != reason {
		h.t.Fatalf("told %+v, %v, want %q", r, err, reason)
	}
}

func TestEachIsToldItsOwn(t *testing.T) {
	h := newHouse(t)
	h.tell(true, reply("1/ffffffffffffffffffffffffffffffff", "before")) // so that the room begins behind something
	r := h.room(5, 0)
	a, b := h.expect(r), h.expect(r)
	if n, _, ok := schemas.ParseReplyTo(a.Header()); !ok || n != 1 || a.Header() == b.Header() {
		t.Fatalf("slot 5 of 4 partitions: %q, %q", a.Header(), b.Header())
	}
	_, correlation, _ := schemas.ParseReplyTo(a.Header())
	other := reply(a.Header(), "on another partition")
	other.Partition = 2
	h.tell(true, other, reply("1/stranger", "x"), &kgo.Record{Topic: topic, Partition: 1}, reply(b.Header(), "for b"))
	h.tell(false, reply(a.Header(), "aborted"))
	h.tell(true, reply(a.Header(), "for a"), reply(a.Header(), "once more"))
	h.wants(a, "for a")
	h.wants(b, "for b")
	a.Done()
	a.Done()
	if r.Waiting() != 1 {
		t.Errorf("%d wait, one does", r.Waiting())
	}
	h.tell(true, reply("1/"+correlation, "too late"))
	c := h.expect(r)
	h.tell(true, reply(c.Header(), "for c"))
	h.wants(c, "for c")

	// Two in one slot's partition hear only of their own.
	second := h.room(1, 0)
	d := h.expect(second)
	e := h.expect(r)
	h.tell(true, reply(d.Header(), "for d"), reply(e.Header(), "for e"))
	h.wants(d, "for d")
	h.wants(e, "for e")
}

func TestABrokenReply(t *testing.T) {
	h := newHouse(t)
	ticket := h.expect(h.room(0, 0))
	rec := reply(ticket.Header(), "")
	rec.Value = []byte(`{"event":5}`)
	h.tell(true, rec)
	if r, err := h.wait(ticket); err == nil {
		t.Errorf("told %+v", r)
	}
}

func TestARoomIsBounded(t *testing.T) {
	h := newHouse(t)
	r := h.room(0, 3)
	var out []*Ticket
	for range 3 {
		out = append(out, h.expect(r))
	}
	if _, err := r.Expect(); !errors.Is(err, ErrFull) {
		t.Fatalf("a fourth of three: %v", err)
	}
	out[1].Done()
	h.expect(r)
	if _, err := r.Expect(); !errors.Is(err, ErrFull) {
		t.Fatalf("a fourth of three: %v", err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	h := newHouse(t)
	ticket := h.expect(h.room(0, 0))
	h.off() // Kafka is away
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := ticket.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestOpenNeedsNoKafka: a process starts while Kafka is away, and ends so.
func TestOpenNeedsNoKafka(t *testing.T) {
	r, err := Open(Config{Topic: topic, Partitions: 1, Options: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := r.Run(ctx); err != nil {
		t.Error(err)
	}
	for _, bad := range []Config{{}, {Topic: topic}, {Topic: topic, Partitions: 1, Slot: -1}, {Topic: topic, Partitions: 1, Most: -1}, {Partitions: 1}} {
		if _, err := Open(bad); err == nil {
			t.Errorf("%+v was opened", bad)
		}
	}
}

func TestQuestion(t *testing.T) {
	ask := &schemas.QuotaAsk{To: "+8613800000000", Scopes: []schemas.QuotaScope{{Limit: "all"}}}
	rec := Question("weir.readmit", 3, ask, &Ticket{room: &Room{partition: 2}, correlation: "abc"})
	var env schemas.Envelope
	for _, h := range rec.Headers {
		if err := env.Set(h.Key, string(h.Value)); err != nil {
			t.Fatal(err)
		}
	}
	q, err := schemas.DecodeQuotaAsk(rec.Value)
	if err != nil || fmt.Sprint(q) != fmt.Sprint(ask) || rec.Topic != "weir.readmit" || rec.Partition != 3 || env.Reply != "2/abc" || !env.Inquires() {
		t.Errorf("%+v, %+v, %v", rec, env, err)
	}
}

// TestRecordsDeleted: what retention took is no reason to stop.
func TestRecordsDeleted(t *testing.T) {
	h := newHouse(t)
	r := h.room(0, 0)
	ticket := h.expect(r)
	for i := range 5 {
		h.tell(true, reply("0/x", fmt.Sprint(i)))
	}
	h.tell(true, reply(ticket.Header(), "first"))
	h.wants(ticket, "first")
	adm := kadm.NewClient(h.cl)
	if _, err := adm.DeleteRecords(t.Context(), kadm.Offsets{topic: {0: kadm.Offset{Topic: topic, Partition: 0, At: -1}}}); err != nil {
		t.Fatal(err)
	}
	second := h.expect(r)
	h.tell(true, reply(second.Header(), "second"))
	h.wants(second, "second")
}
