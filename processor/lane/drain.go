package lane

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

var errFound = errors.New("a message")

// undrained reports whether a provider's queues hold a message that its lanes
// have not finished. Between the group's positions and the ends of the queues
// may be nothing but the ends of transactions, so the records are read, up to
// the first.
func undrained(ctx context.Context, cfg Config) (bool, error) {
	cl, err := openClient(cfg.Read)
	if err != nil {
		return false, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	var names []string
	for _, q := range topics.Queues {
		names = append(names, cfg.Names.Dispatch(cfg.Provider, q))
	}
	details, err := adm.ListTopics(ctx, names...)
	if err != nil {
		return false, fmt.Errorf("list the queues of %s: %w", cfg.Provider, err)
	}
	done, err := adm.FetchOffsets(ctx, Group(cfg.Names, cfg.Provider))
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return false, fmt.Errorf("read how far the lanes of %s are: %w", cfg.Provider, err)
	}
	var ranges []stream.Range
	for _, d := range details {
		if errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
			continue // deleted by its operator
		}
		if d.Err != nil {
			return false, fmt.Errorf("look at %s: %w", d.Topic, d.Err)
		}
		for p := range d.Partitions {
			r := stream.Range{Partition: stream.Partition{Topic: d.Topic, Partition: p}}
			if o, ok := done.Lookup(d.Topic, p); ok {
				r.From = max(o.At, 0)
			}
			ranges = append(ranges, r)
		}
	}
	read := cfg.Read
	read.Oversized = func(*kgo.Record) error { return errFound } // a lane ends it
	err = stream.Read(ctx, read, ranges, func(*kgo.Record) error { return errFound })
	if errors.Is(err, errFound) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the queues of %s: %w", cfg.Provider, err)
	}
	return false, nil
}

func openClient(cfg stream.ReadConfig) (*kgo.Client, error) {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(cfg.Brokers...), kgo.ClientID(cfg.ClientID)}, cfg.Options...)...)
	if err != nil {
		return nil, fmt.Errorf("open client: %w", err)
	}
	return cl, nil
}

// named collects the providers with lanes that any revision has named.
type named struct {
	read int64 // revisions read
	all  map[string]bool
}

// removed returns those that the latest revision lacks.
func (n *named) removed(ctx context.Context, cfg Config) ([]string, error) {
	latest := cfg.Policy.Latest()
	for ; n.read < latest.Revision; n.read++ {
		rev, err := cfg.Policy.Get(ctx, n.read+1)
		if err != nil {
			return nil, err
		}
		for _, p := range rev.Policy.Providers {
			n.all[p.Name] = n.all[p.Name] || p.HasLane()
		}
	}
	var out []string
	for name, lane := range n.all {
		if _, ok := served(&latest.Policy, name); !ok && lane {
			out = append(out, name)
		}
	}
	return out, nil
}

// served returns a provider that the policy has and that has lanes. One that
// is of type none now drains like one that was taken out. (None becomes
// external: schemas.Policy.KeepsQueues.)
func served(pol *schemas.Policy, name string) (schemas.Provider, bool) {
	p, ok := pol.Provider(name)
	return p, ok && p.HasLane()
}
