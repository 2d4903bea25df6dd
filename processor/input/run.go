package input

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Config is what the stage needs to run.
type Config struct {
	// Stream has brokers and the slot's transactional id, to which each input's
	// topic is added; topics and group are set here.
	Stream        stream.Config
	Topics        topics.Config
	DLQPartitions int32
	Policy        *policy.Watcher
	Now           func() time.Time
	Logger        *slog.Logger
	Metrics       prometheus.Registerer // nil: not counted
}

// Group is the consumer group of all inputs under a prefix.
func Group(names topics.Names) string { return names.Requests() + ".inputs" }

// Run reads the policy's inputs until ctx ends, each by a member of the group, and
// follows its revisions. An input that cannot be read is logged and tried again. An
// error is one that concerns the whole process: the policy cannot be followed, or
// another process runs in this slot.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Stream.Group = Group(cfg.Topics.Names())
	cfg.Stream.Logger = cfg.Logger
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg      sync.WaitGroup
		m       = newMetrics(cfg.Metrics, cfg.Logger, cfg.Now)
		running = make(map[string]*member) // by topic
		next    = make(chan struct{}, 1)
		failed  = make(chan error, 1)
		err     error
	)
	wg.Go(func() { // follows the policy
		for at := cfg.Policy.Latest().Revision; ; at++ {
			if _, err := cfg.Policy.Get(ctx, at+1); err != nil {
				if ctx.Err() == nil {
					report(failed, err)
				}
				return
			}
			select {
			case next <- struct{}{}:
			default: // one look at the latest will do
			}
		}
	})
	for ctx.Err() == nil {
		bound := bindings(&cfg.Policy.Latest().Policy)
		var ending []*member
		for topic, is := range running {
			if tenant, still := bound[topic]; !still || tenant != is.tenant {
				cfg.Logger.Info("input ends: it is not bound so any more", "topic", topic, "tenant", is.tenant)
				is.cancel()
				ending = append(ending, is)
			}
		}
		for _, is := range ending { // before another takes its place in the slot
			<-is.done
			delete(running, is.topic)
			m.forget(is.topic)
		}
		for topic, tenant := range bound {
			if running[topic] != nil {
				continue
			}
			cfg.Logger.Info("input begins", "topic", topic, "tenant", tenant)
			is := &member{cfg: cfg, topic: topic, tenant: tenant, metrics: m.of(topic), done: make(chan struct{})}
			memberCtx, end := context.WithCancel(ctx)
			is.cancel = end
			running[topic] = is
			wg.Go(func() {
				defer close(is.done)
				if err := is.keep(memberCtx); err != nil {
					report(failed, err)
				}
			})
		}
		select {
		case <-next:
		case err = <-failed:
			cancel()
		case <-ctx.Done():
		}
	}
	wg.Wait()
	if err != nil {
		return fmt.Errorf("inputs: %w", err)
	}
	return nil
}

// report hands an error over without waiting, since who takes it may wait for the
// one that reports. The first ends all.
func report(to chan<- error, err error) {
	select {
	case to <- err:
	default:
	}
}

// bindings are the policy's inputs: each topic's tenant.
func bindings(p *schemas.Policy) map[string]string {
	bound := make(map[string]string, len(p.Inputs))
	for _, in := range p.Inputs {
		bound[in.Topic] = in.Tenant
	}
	return bound
}
