package ingest

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/topics"
)

// Group is the consumer group whose members are the processes that serve HTTP. It reads
// nothing and commits nothing.
func Group(names topics.Names) string { return names.Requests() + ".ingest" }

const (
	// instancesEvery is how often the group's members are counted, and instanceSession how
	// long one that was killed still counts.
	instancesEvery  = 5 * time.Second
	instanceSession = 10 * time.Second
)

// instances counts the processes that serve HTTP, which share the API's own rates.
type instances struct {
	names  topics.Names
	opts   []kgo.Opt
	logger *slog.Logger
	n      atomic.Int32 // 0 before the first count
}

// count is how many processes there are, this one among them.
func (i *instances) count() int { return max(int(i.n.Load()), 1) }

// run is a member of the group, and counts its members, until ctx ends. While Kafka does
// not answer, the last count holds.
func (i *instances) run(ctx context.Context) {
	// A group has to subscribe to something: this topic is small, and nothing of it is fetched.
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, i.opts...),
		kgo.ConsumerGroup(Group(i.names)), kgo.ConsumeTopics(i.names.Skips()), kgo.DisableAutoCommit(), kgo.SessionTimeout(instanceSession))...)
	if err != nil {
		i.logger.Error("this process does not take part in the count of those that share the API's rates", "error", err)
		return
	}
	cl.PauseFetchTopics(i.names.Skips())
	defer cl.Close()
	defer func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = cl.LeaveGroupContext(within) // who stays away is out after its session
	}()
	adm := kadm.NewClient(cl)
	tick := time.NewTicker(instancesEvery)
	defer tick.Stop()
	for {
		within, cancel := context.WithTimeout(ctx, instancesEvery)
		if all, err := adm.DescribeGroups(within, Group(i.names)); err == nil {
			if g := all[Group(i.names)]; g.Err == nil {
				i.n.Store(int32(len(g.Members)))
			}
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
