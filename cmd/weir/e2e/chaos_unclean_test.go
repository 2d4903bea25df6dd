//go:build e2e

package e2e

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhq/weir/deploy/local"
	"github.com/weirhq/weir/topics"
)

// unclean is an election of a leader that is behind, of some topics of three brokers: what the
// others had acknowledged since is lost, and they cut their own logs to what the new leader has.
type unclean struct {
	name   string
	topics func(topics.Names) []string
	dies   bool // the worker dies with the brokers, and starts again when the logs are longer than what it had read
}

func init() {
	for _, c := range []unclean{
		{"requests", only(topics.Names.Requests), false},
		{"requests", only(topics.Names.Requests), true},
		{"status", only(topics.Names.Status), false},
		{"ledger", only(topics.Names.Ledger), false},
		{"all", func(n topics.Names) []string {
			return append([]string{n.Requests(), n.Status(), n.Ledger(), n.Seen(), n.Journal("phone")}, dispatches(n)...)
		}, false},
	} {
		name := "unclean election of " + c.name
		if c.dies {
			name += " with the worker"
		}
		scenarios = append(scenarios, scenario{name, local.Options{Brokers: 3, Apart: true}, c.run, nil})
	}
}

// behind is the broker that is away while the others acknowledge.
const behind = 2 // whose id is one more

func (c unclean) run(t *testing.T, k *local.Kafka, _ scale) figures {
	x := newTraffic(t, k.Addrs(), "unclean", "", 5)
	w := x.run(0, roles)
	x.stable(1)
	x.start(100)
	x.until(1_000)
	names := c.topics(x.names)
	k.Kill(behind)
	x.note("kill -9 of broker %d", behind)
	x.beyond(x.logEnds(names), names)
	before := x.logEnds(names)
	for b := range behind {
		k.Kill(b)
	}
	if c.dies {
		w.Kill()
	}
	x.mu.Lock()
	acked := maps.Clone(x.acked)
	x.mu.Unlock()
	x.note("kill -9 of all others")
	ctx, cancel := context.WithTimeout(t.Context(), brokersStart)
	defer cancel()
	if err := k.Restart(ctx, behind); err != nil {
		t.Fatal(err)
	}
	marks, lost := x.elect(names, before)
	x.unread(acked, marks)
	x.note("broker %d is elected with %d records of %s fewer", behind, lost, c.name)
	if lost < 40 {
		t.Fatal("too little was lost: this run shows nothing")
	}
	for b := range behind {
		if err := k.Restart(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	x.whole()
	x.decided()
	x.until(x.count() + 1_500)
	x.endHanging(names)
	if c.dies {
		w = x.run(0, roles)
	}
	return x.survives(w)
}

// endHanging aborts transactions that no one will end, as kafka-transactions.sh find-hanging and
// abort do (KIP-664): their records are there, the marker that ended them is lost, and their
// coordinator takes them for ended. No committed record behind them can be read.
func (x *traffic) endHanging(names []string) {
	x.t.Helper()
	open := func() map[kadm.DescribedProducer]bool {
		set := make(kadm.TopicsSet)
		x.logEnds(names).Each(func(at kadm.ListedOffset) { set.Add(at.Topic, at.Partition) })
		all, err := x.adm.DescribeProducers(x.t.Context(), set)
		if err != nil {
			x.t.Fatal(err)
		}
		open := make(map[kadm.DescribedProducer]bool)
		all.EachProducer(func(p kadm.DescribedProducer) {
			if p.CurrentTxnStartOffset >= 0 {
				open[p] = true
			}
		})
		return open
	}
	before := open()
	x.wait(25 * time.Second) // more than twice what a transaction of Weir's may take
	for p := range open() {
		if !before[p] {
			continue
		}
		m := kadm.TxnMarkers{ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch, CoordinatorEpoch: max(p.CoordinatorEpoch, 0)}
		m.Topics.Add(p.Topic, p.Partition)
		answers, err := x.adm.WriteTxnMarkers(x.t.Context(), m)
		answers.EachPartition(func(a kadm.TxnMarkersPartitionResponse) { err = errors.Join(err, a.Err) })
		x.note("%s/%d: a transaction hangs from offset %d on; aborted: %v", p.Topic, p.Partition, p.CurrentTxnStartOffset, err)
		if err != nil {
			x.t.Error(err)
		}
	}
}

// elect has the only broker that runs lead partitions of which it has not all. It returns where
// what it has ends, and how many records that is before the ends of before.
func (x *traffic) elect(names []string, before kadm.ListedOffsets) (marks kadm.ListedOffsets, lost int64) {
	x.t.Helper()
	set := make(kadm.TopicsSet)
	epochs := make(kadm.OffsetForLeaderEpochRequest)
	before.Each(func(at kadm.ListedOffset) {
		set.Add(at.Topic, at.Partition)
		epochs.Add(at.Topic, at.Partition, at.LeaderEpoch)
	})
	var last error
	if !poll(x.t, brokersStart, func() bool {
		if _, last = x.adm.ElectLeaders(x.t.Context(), kadm.ElectLiveReplica, set); last != nil {
			return false
		}
		var all kadm.Metadata
		if all, last = x.adm.Metadata(x.t.Context(), names...); last != nil {
			return false
		}
		led := true
		all.Topics.EachPartition(func(p kadm.PartitionDetail) { led = led && p.Leader == behind+1 })
		return led
	}) {
		x.t.Fatalf("no election: %v", last)
	}
	answers, err := x.adm.OffsetForLeaderEpoch(x.t.Context(), epochs)
	if err != nil {
		x.t.Fatal(err)
	}
	marks = make(kadm.ListedOffsets)
	before.Each(func(at kadm.ListedOffset) {
		end := answers[at.Topic][at.Partition]
		if end.Err != nil {
			x.t.Fatal(end.Err)
		}
		if marks[at.Topic] == nil {
			marks[at.Topic] = make(map[int32]kadm.ListedOffset)
		}
		marks[at.Topic][at.Partition] = kadm.ListedOffset{Topic: at.Topic, Partition: at.Partition, Offset: end.EndOffset}
		lost += max(0, at.Offset-end.EndOffset)
	})
	return marks, lost
}
