package lane

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Config is what lanes need to run.
type Config struct {
	Stream          stream.Config // brokers, transactional id, client; topics and group are set here
	Read            stream.ReadConfig
	Names           topics.Names
	Provider        string // its name; Supervise sets it
	Partitions      int32  // N of status, readmit and requests
	DelayPartitions int32  // of each delay topic
	DLQPartitions   int32
	Policy          *policy.Watcher
	Open            func(schemas.Provider) (provider.Provider, error)
	// References signs what providers are given to give back with their receipts; nil
	// leaves it unsigned. The receipts stage verifies with the same.
	References *provider.Signer
	// PermitLife is how long after its permit a call may start. It must be
	// shorter than the group's session: half of it when 0.
	PermitLife time.Duration
	// Grace is how long calls under way may take to end when ctx does; then
	// they are cut off, which as a rule makes their outcome unknown. Default
	// 5 s.
	Grace time.Duration
	// Settle is how long the outcomes of calls that were cut off may take to
	// commit. What is not committed then is in doubt, and the lane's next owner
	// settles it. Default 3 s.
	Settle  time.Duration
	Now     func() time.Time
	Logger  *slog.Logger
	Metrics prometheus.Registerer
}

// Validate reports what is missing.
func (c Config) Validate() error {
	var errs []error
	if c.Provider == "" || c.Policy == nil || c.Open == nil {
		errs = append(errs, errors.New("provider, policy and open are required"))
	}
	if c.Partitions < 1 || c.DelayPartitions < 1 || c.DLQPartitions < 1 {
		errs = append(errs, errors.New("partition counts of status, delay and dlq are required"))
	}
	if c.PermitLife >= c.Stream.SessionTimeout {
		errs = append(errs, fmt.Errorf("permits live %v: that must be less than the session, %v", c.PermitLife, c.Stream.SessionTimeout))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.Stream.SessionTimeout = cmp.Or(c.Stream.SessionTimeout, 10*time.Second)
	c.PermitLife = cmp.Or(c.PermitLife, c.Stream.SessionTimeout/2)
	c.Grace = cmp.Or(c.Grace, 5*time.Second)
	c.Settle = cmp.Or(c.Settle, 3*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Group is the consumer group of a provider's lanes under a prefix.
func Group(names topics.Names, provider string) string { return names.Journal(provider) + ".lane" }

// ErrOpen means that the provider's adapter could not be opened: its settings
// are wrong, or refer to what is not there.
var ErrOpen = errors.New("cannot open the provider")

// ErrCutOff means that calls under way did not end within the grace of a stop.
// They were cut off, and the outcome that each had then was committed if it
// could be.
var ErrCutOff = errors.New("calls to a provider did not end in time and were cut off")

// ErrInDoubt means that a lane stopped before the outcomes of all its calls
// were committed: Kafka or an adapter did not answer. The lane's next owner
// finds their permits in the journal and settles them as unknown.
var ErrInDoubt = errors.New("outcomes of calls could not be committed in time: the lane's next owner settles them as unknown")

// Run runs one provider's lanes in this process, those that its group assigns
// here, until ctx ends. Then no permit is given any more, calls under way may
// take cfg.Grace to end, and their outcomes are committed. If any had to be cut
// off the error is ErrCutOff; if outcomes are left to the next owner,
// ErrInDoubt.
//
// While the provider is not in the policy its lanes drain: they hand back what
// waits and call nobody. A Run that began so has no adapter, and does
// nothing when the provider returns: Supervise starts another.
func Run(ctx context.Context, cfg Config) (err error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("lane %s: %w", cfg.Provider, err)
	}
	spec, ok := served(&cfg.Policy.Latest().Policy, cfg.Provider)
	var adapter provider.Provider
	if ok {
		if adapter, err = cfg.Open(spec); err != nil {
			return fmt.Errorf("lane %s: %w: %w", cfg.Provider, ErrOpen, err)
		}
		defer func() {
			if cerr := adapter.Close(); cerr != nil {
				err = errors.Join(err, fmt.Errorf("close provider %s: %w", cfg.Provider, cerr))
			}
		}()
	}

	cfg.References = cfg.References.Of(cfg.Provider)
	cfg.Stream.Group = Group(cfg.Names, cfg.Provider)
	cfg.Stream.Logger = cfg.Logger
	cfg.Stream.MaxPoll = cmp.Or(cfg.Stream.MaxPoll, 1000)
	cfg.Stream.Topics = nil
	index := make(map[string]int)
	for i, q := range queueNames {
		topic := cfg.Names.Dispatch(cfg.Provider, q)
		cfg.Stream.Topics = append(cfg.Stream.Topics, topic)
		index[topic] = i
	}
	by := make([]byte, 8)
	_, _ = rand.Read(by) // never fails

	// The stream outlives ctx: outcomes of calls under way are still to be
	// committed.
	streamCtx, quit := context.WithCancel(context.WithoutCancel(ctx))
	defer quit()
	callCtx, cut := context.WithCancel(context.WithoutCancel(ctx))
	var forced atomic.Bool
	waker := &stream.Waker{}
	c := newCalls(callCtx, adapter, waker)
	defer c.wg.Wait()
	defer cut()
	defer context.AfterFunc(ctx, func() {
		c.stopping.Store(true)
		waker.Wake()
		select {
		case <-time.After(cfg.Grace):
		case <-streamCtx.Done():
			return
		}
		// A call that was cut off has an outcome, and its record a better end
		// than a permit that the next owner finds in doubt.
		cut()
		select {
		case <-time.After(cfg.Settle):
			forced.Store(true)
			quit()
		case <-streamCtx.Done():
		}
	})()

	m := newMetrics(cfg.Metrics)
	defer m.forget(cfg.Provider)
	m.late.WithLabelValues(cfg.Provider) // shown from the start
	started := cfg.Now()
	err = stream.Run(streamCtx, cfg.Stream, waker, func(f stream.Fetching) stream.Stage {
		c.abandon()
		return &stage{
			cfg: &cfg, calls: c, metrics: m, fetch: f, quit: quit, by: hex.EncodeToString(by),
			lanes: make(map[int32]*lanePart), index: index,
			// Elapsed time is monotonic: a step of the wall clock while this
			// runs moves no permit.
			now: func() time.Time { return started.Add(cfg.Now().Sub(started)) },
		}
	})
	switch n := c.cut.Load(); {
	case err != nil:
		return err
	case forced.Load():
		err = fmt.Errorf("lane %s: %w", cfg.Provider, ErrInDoubt)
	case n > 0:
		err = fmt.Errorf("lane %s: %w: %d after %v", cfg.Provider, ErrCutOff, n, cfg.Grace)
	}
	if err != nil {
		cfg.Logger.Warn("lane did not stop in good order", "error", err)
	}
	return err
}
