package input

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// How long an input that cannot be read waits until it is tried again: at first,
// and at most.
const (
	againAfter = time.Second
	againMost  = 30 * time.Second
)

const (
	heartbeat = 500 * time.Millisecond // bounds how long a new input waits for its group
	lookEvery = 5 * time.Second        // for new partitions
)

// forgotten is how long after it was bound a topic must have positions in the
// group. Brokers forget those of topics that no member has read for a week
// (offsets.retention.minutes).
const forgotten = 24 * time.Hour

// ErrPositionLost means that the group has no position in a topic that was bound
// long ago. To begin at its start might send all that it holds a second time.
var ErrPositionLost = errors.New("the group has no position in it, though it was bound long ago: brokers forget positions that nobody used for a week, and those of a topic that is deleted; say where to go on with kafka-consumer-groups.sh --reset-offsets (docs/inputs.md)")

// member is one input: a member of the group that reads its topic.
type member struct {
	cfg     Config
	topic   string
	tenant  string
	metrics *metrics
	cancel  context.CancelFunc
	done    chan struct{}
}

// keep reads the topic until ctx ends. The error is one of the whole process.
func (m *member) keep(ctx context.Context) error {
	again := againAfter
	for ctx.Err() == nil {
		began := time.Now()
		err := m.read(ctx)
		switch {
		case ctx.Err() != nil && !errors.Is(err, stream.ErrFenced):
			return nil
		case errors.Is(err, stream.ErrFenced):
			return fmt.Errorf("%s: %w", m.topic, err)
		}
		if time.Since(began) > time.Minute {
			again = againAfter
		}
		m.metrics.stopped.WithLabelValues(m.topic).Set(1)
		m.cfg.Logger.Error("input cannot be read: what its producers write waits", "topic", m.topic, "tenant", m.tenant, "error", err, "again_in", again)
		select {
		case <-time.After(again):
		case <-ctx.Done():
		}
		again = min(2*again, againMost)
	}
	return nil
}

// read makes sure that the topic can be read exactly once, and reads it.
func (m *member) read(ctx context.Context) error {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(m.cfg.Stream.Brokers...), kgo.ClientID(m.cfg.Stream.ClientID)}, m.cfg.Stream.Options...)...)
	if err != nil {
		return fmt.Errorf("open client: %w", err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if err := topics.Check(ctx, adm, topics.Inputs(m.cfg.Topics, &schemas.Policy{Inputs: []schemas.Input{{Topic: m.topic, Tenant: m.tenant}}})); err != nil {
		return err
	}
	if err := m.known(ctx, adm); err != nil {
		return err
	}
	m.metrics.stopped.WithLabelValues(m.topic).Set(0)
	cfg := m.cfg.Stream
	cfg.Stage = cfg.Group + " " + m.topic
	cfg.Topics = []string{m.topic}
	cfg.TransactionalID += "." + m.topic
	// One that joins waits for the others' heartbeats; and new partitions of a
	// topic that is its owner's are found by asking.
	cfg.Options = append(slices.Clip(cfg.Options), kgo.HeartbeatInterval(heartbeat), kgo.MetadataMaxAge(lookEvery))
	names := m.cfg.Topics.Names()
	return stream.Run(ctx, cfg, nil, func(stream.Fetching) stream.Stage {
		return &stage{
			cfg: m.cfg, adm: adm, topic: m.topic, metrics: m.metrics, open: make(map[string]int),
			door: door{names: names, partitions: m.cfg.Topics.Partitions, dlq: m.cfg.DLQPartitions, tenant: m.tenant, met: m.metrics.met},
		}
	})
}

// known holds that the group knows where it stands in the topic, or never stood
// anywhere.
func (m *member) known(ctx context.Context, adm *kadm.Client) error {
	since, err := m.boundSince(ctx)
	if err != nil || m.cfg.Now().Sub(since.Time()) < forgotten {
		return err
	}
	at, err := adm.FetchOffsetsForTopics(ctx, m.cfg.Stream.Group, m.topic)
	if err == nil {
		err = at.Error()
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("look up where the group stands in %s: %w", m.topic, err)
	}
	for _, o := range at[m.topic] {
		if o.At >= 0 {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", m.topic, ErrPositionLost)
}

// boundSince is when a revision first bound the topic.
func (m *member) boundSince(ctx context.Context) (schemas.Millis, error) {
	latest := m.cfg.Policy.Latest()
	for n := int64(1); n < latest.Revision; n++ {
		r, err := m.cfg.Policy.Get(ctx, n)
		if err != nil {
			return 0, err
		}
		if _, bound := bindings(&r.Policy)[m.topic]; bound {
			return r.At, nil
		}
	}
	return latest.At, nil
}
