package replies

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

var (
	// ErrFull means that as many wait as may.
	ErrFull = errors.New("as many wait for a decision as may")
	// ErrAway means that the room does not know where its partition ends: what is
	// decided now might not be told. It ends once Kafka answers.
	ErrAway = errors.New("decisions cannot be waited for: Kafka does not say where the replies end")
)

// Config says what a room reads, and how many may wait in it.
type Config struct {
	Topic      string
	Partitions int32 // of Topic
	Slot       int   // of this process: it reads partition Slot modulo Partitions
	Most       int   // tickets at once; default 10,000
	Logger     *slog.Logger
	// Options reach the brokers: seeds, a client id, TLS, SASL, a dialer. Those for
	// reading are the room's.
	Options []kgo.Opt
}

// Room gives out tickets, and hands each the reply that comes for it.
type Room struct {
	cl        *kgo.Client
	topic     string
	partition int32
	most      int
	logger    *slog.Logger
	failed    stream.FetchErrors // of Run's goroutine

	mu    sync.Mutex
	open  bool               // the partition is being read
	waits map[string]*Ticket // by correlation
}

// pause is between attempts while Kafka does not answer.
const pause = 250 * time.Millisecond

// Open prepares a room. It speaks to no broker: Run does, and until it has found
// where the partition ends there are no tickets.
func Open(cfg Config) (*Room, error) {
	if cfg.Topic == "" || cfg.Partitions < 1 || cfg.Slot < 0 || cfg.Most < 0 {
		return nil, fmt.Errorf("replies: a topic, one partition or more, and no negative slot or bound are needed: %q, %d, %d, %d", cfg.Topic, cfg.Partitions, cfg.Slot, cfg.Most)
	}
	r := &Room{
		topic: cfg.Topic, partition: int32(cfg.Slot % int(cfg.Partitions)), most: cmp.Or(cfg.Most, 10_000),
		logger: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), waits: make(map[string]*Ticket),
	}
	opts := append([]kgo.Opt{}, cfg.Options...)
	cl, err := kgo.NewClient(append(opts,
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// A fetch ends with the first record; this is how long it lasts without one.
		kgo.FetchMaxWait(time.Second),
		kgo.FetchMinBytes(1),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		kgo.FetchMaxBytes(4<<20), stream.Bounded(),
		// A partition that moves is looked for soon: people wait.
		kgo.MetadataMinAge(pause),
	)...)
	if err != nil {
		return nil, fmt.Errorf("replies: open a client: %w", err)
	}
	r.cl = cl
	return r, nil
}

// Run reads replies until ctx ends, and then closes the room's client. Kafka being
// away is no error: who waits meanwhile waits as long as its own context lets it.
func (r *Room) Run(ctx context.Context) error {
	defer r.cl.Close()
	defer r.setOpen(false)
	if !r.begin(ctx) {
		return nil
	}
	for ctx.Err() == nil {
		fetches := r.cl.PollFetches(ctx)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return nil
		}
		failed := false
		fetches.EachError(func(_ string, p int32, err error) {
			failed = true
			stream.PassOversized(r.cl, err)
			r.failed.Warn(r.logger, "reading replies failed", r.topic, p, err)
		})
		if failed {
			wait(ctx, pause)
		}
		fetches.EachRecord(r.take)
	}
	return nil
}

// begin reads from where the partition ends now, which is found before the first
// ticket: a position that the client looks up by itself, later, might lie behind
// the first reply.
func (r *Room) begin(ctx context.Context) bool {
	for ; ctx.Err() == nil; wait(ctx, pause) {
		end, err := r.end(ctx)
		if err == nil {
			r.cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{r.topic: {r.partition: kgo.NewOffset().At(end)}})
			r.setOpen(true)
			return true
		}
		if ctx.Err() == nil {
			r.failed.Warn(r.logger, "finding the end of the replies failed", r.topic, r.partition, err)
		}
	}
	return false
}

func (r *Room) end(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// The last stable offset: behind it nothing is committed that was asked for
	// before.
	ends, err := kadm.NewClient(r.cl).ListCommittedOffsets(ctx, r.topic)
	if err != nil {
		return 0, err
	}
	end, ok := ends.Lookup(r.topic, r.partition)
	if !ok {
		return 0, fmt.Errorf("%s has no partition %d", r.topic, r.partition)
	}
	return end.Offset, end.Err
}

func (r *Room) setOpen(open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = open
}

// take hands a reply to who waits for it.
func (r *Room) take(rec *kgo.Record) {
	r.mu.Lock()
	t := r.waits[string(rec.Key)]
	r.mu.Unlock()
	if t == nil {
		return
	}
	select {
	case t.came <- rec.Value:
	default: // it has one: the first decision is told once, so this one is not Weir's
	}
}

// Expect gives out a ticket for one request. Its owner calls Done in the end, or
// it counts for ever.
func (r *Room) Expect() (*Ticket, error) {
	var random [16]byte
	rand.Read(random[:]) // never fails
	t := &Ticket{room: r, correlation: hex.EncodeToString(random[:]), came: make(chan []byte, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.open:
		return nil, ErrAway
	case len(r.waits) >= r.most:
		return nil, ErrFull
	}
	r.waits[t.correlation] = t
	return t, nil
}

// Waiting is how many tickets are out.
func (r *Room) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waits)
}

// Ticket is one caller's.
type Ticket struct {
	room        *Room
	correlation string
	came        chan []byte
}

// Header is the value of the request's header weir-reply.
func (t *Ticket) Header() string { return schemas.ReplyTo(t.room.partition, t.correlation) }

// Wait returns the reply, or ctx's error. It is called once.
func (t *Ticket) Wait(ctx context.Context) (*schemas.Reply, error) {
	select {
	case value := <-t.came:
		r, err := schemas.DecodeReply(value)
		if err != nil {
			return nil, fmt.Errorf("replies: %w", err)
		}
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Done gives the ticket back. It may be called again, and while Wait waits.
func (t *Ticket) Done() {
	t.room.mu.Lock()
	defer t.room.mu.Unlock()
	delete(t.room.waits, t.correlation)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
