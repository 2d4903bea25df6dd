package callback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/secret"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Config is what the role is made of.
type Config struct {
	Stream          stream.Config // brokers, transactional id; topics and group are set here
	Read            stream.ReadConfig
	Names           topics.Names
	Partitions      int32 // N of status, callbacks and their state
	DelayPartitions int32 // of each delay topic
	DLQPartitions   int32
	Slot            string // of this process: for people
	Policy          func() *schemas.Revision
	Client          Poster
	Getenv          func(string) string // nil is the process's
	Secrets         secret.Bounds       // what a tenant's callback may refer to
	// Grace is how long calls under way may take to end when ctx does; what does not is
	// called again by the next owner. 3 s when 0. Half as long is for what they came to
	// to be committed.
	Grace   time.Duration
	Now     func() time.Time
	Logger  *slog.Logger
	Metrics prometheus.Registerer
}

// Poster makes calls: *outbound.Client.
type Poster interface {
	Post(ctx context.Context, address, contentType string, header http.Header, body []byte) (*outbound.Answer, error)
}

// NewClient returns a client for callbacks, which the caller must close.
func NewClient(allow outbound.Networks, agent string) *outbound.Client {
	return outbound.New(outbound.Config{Allow: allow, Timeout: callTimeout, Agent: agent, Idle: maxCalls})
}

// Group is the stage's consumer group under a prefix.
func Group(names topics.Names) string { return names.Callbacks() + ".stage" }

// runner is what outlives a stage.
type runner struct {
	cfg        *Config
	metrics    *metrics
	adm        *kadm.Client
	notes      *notes
	waker      *stream.Waker
	quit       func()          // ends the stream: nothing is left to do
	calling    context.Context // ends when calls must
	stopping   atomic.Bool
	reader     schemas.EventReader
	complained map[endpointKey]time.Time
	reports    chan Report

	life   context.Context // of the calls of one stage, between two assignments
	end    context.CancelFunc
	number int // of that life
	calls  sync.WaitGroup

	mu     sync.Mutex
	landed []landed
}

// renew ends the calls under way: nobody is to hear of them.
func (r *runner) renew() {
	if r.end != nil {
		r.end()
	}
	r.life, r.end = context.WithCancel(r.calling)
	r.number++
}

// call makes one call.
func (r *runner) call(j *job, t *target, e *endpoint, done func(error)) {
	life, number := r.life, r.number
	r.calls.Go(func() {
		began := r.cfg.Now()
		l := landed{job: j, target: t, end: e, done: done, life: number}
		l.what, l.after, l.why = r.post(life, j, t, began)
		l.took = r.cfg.Now().Sub(began)
		r.mu.Lock()
		r.landed = append(r.landed, l)
		r.mu.Unlock()
		r.waker.Wake()
	})
}

func (r *runner) post(ctx context.Context, j *job, t *target, now time.Time) (what verdict, after time.Duration, why string) {
	defer func() {
		if v := recover(); v != nil {
			what, after, why = failed, 0, fmt.Sprintf("the call panicked: %v", v)
			r.cfg.Logger.Error("a callback's call panicked; it counts as failed", "tenant", j.tenant, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	header, err := outbound.SignAll(t.secrets, j.ID, now, j.body)
	if err != nil {
		return failed, 0, err.Error()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := r.cfg.Client.Post(ctx, t.url, "application/json", header, j.body)
	switch {
	case errors.Is(err, outbound.ErrRefused):
		return refused, 0, err.Error()
	case err != nil:
		return failed, 0, err.Error()
	}
	what, after = judge(answer)
	if what != taken {
		why = fmt.Sprintf("it answered %d", answer.Code)
	}
	return what, after, why
}

// collect returns the calls that ended since the last time, of this life.
func (r *runner) collect() []landed {
	r.mu.Lock()
	all := r.landed
	r.landed = nil
	r.mu.Unlock()
	out := all[:0]
	for _, l := range all {
		if l.life == r.number {
			out = append(out, l)
		}
	}
	return out
}

// Run tells callbacks of the partitions that the group assigns here, until ctx ends. Then
// nothing new is called, and calls under way have Grace to end.
func Run(ctx context.Context, cfg Config) error {
	cfg.Grace = cmp.Or(cfg.Grace, 3*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	cfg.Stream.Group = Group(cfg.Names)
	cfg.Stream.Topics = []string{cfg.Names.Status(), cfg.Names.Callbacks()}
	cfg.Stream.Logger = cfg.Logger
	opts := append([]kgo.Opt{kgo.SeedBrokers(cfg.Stream.Brokers...), kgo.ClientID(cfg.Stream.ClientID), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// It writes advice only: brokers that are away do not hold up the end for it.
		kgo.AllowIdempotentProduceCancellation(), kgo.RecordDeliveryTimeout(reportEvery),
	}, cfg.Stream.Options...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("callbacks: %w", err)
	}
	defer cl.Close()
	notes := newNotes(cfg)
	if err := notes.advice.Open(ctx, append([]kgo.Opt{kgo.SeedBrokers(cfg.Stream.Brokers...)}, cfg.Stream.Options...)...); err != nil {
		return fmt.Errorf("callbacks: %w", err)
	}

	// The stream outlives ctx: what calls under way come to is still to be committed.
	streamCtx, quit := context.WithCancel(context.WithoutCancel(ctx))
	defer quit()
	callCtx, cut := context.WithCancel(context.WithoutCancel(ctx))
	r := &runner{
		cfg: &cfg, metrics: newMetrics(cfg.Metrics), adm: kadm.NewClient(cl), notes: notes, waker: &stream.Waker{},
		quit: quit, calling: callCtx, complained: make(map[endpointKey]time.Time), reports: make(chan Report, 1),
	}
	var others sync.WaitGroup
	defer others.Wait()
	defer r.calls.Wait()
	defer cut()
	defer quit()
	others.Go(func() { _ = notes.advice.Run(streamCtx) })
	others.Go(func() { r.writeReports(streamCtx, cl) })
	defer context.AfterFunc(ctx, func() {
		r.stopping.Store(true)
		r.waker.Wake()
		select {
		case <-time.After(cfg.Grace):
		case <-streamCtx.Done():
			return
		}
		cut()
		select {
		case <-time.After(cfg.Grace / 2):
			quit()
		case <-streamCtx.Done():
		}
	})()
	err = stream.Run(streamCtx, cfg.Stream, r.waker, func(stream.Fetching) stream.Stage { return newStage(r) })
	if err != nil {
		return fmt.Errorf("callbacks: %w", err)
	}
	return nil
}
