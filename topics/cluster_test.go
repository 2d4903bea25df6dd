package topics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cluster returns an embedded cluster, or the one that KAFKA_BROKERS names, and a
// prefix of the test's own on it.
func cluster(t *testing.T, brokers int) (*kgo.Client, string) {
	t.Helper()
	if seeds := os.Getenv("KAFKA_BROKERS"); seeds != "" {
		cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(seeds, ",")...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl, "t" + strconv.FormatInt(time.Now().UnixNano(), 36) + "."
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl, DefaultPrefix
}

func apply(t *testing.T, cl *kgo.Client, want []Spec) []string {
	t.Helper()
	d, err := Plan(t.Context(), kadm.NewClient(cl), want)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	if err := Apply(t.Context(), cl, d, func(s string) { lines = append(lines, s) }); err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestApplyIsIdempotent(t *testing.T) {
	cl, prefix := cluster(t, 3)
	adm := kadm.NewClient(cl)
	rf, err := ClusterReplication(t.Context(), adm)
	if err != nil || rf < 1 || rf > 3 {
		t.Fatalf("replication %d, %v", rf, err)
	}
	cfg := Config{Prefix: prefix, Partitions: 4, Replication: rf}
	want := Catalogue(cfg, policy())

	d, err := Plan(t.Context(), adm, want)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Create) != len(want) || len(d.Alter) != 0 {
		t.Fatalf("on an empty cluster: %s", d)
	}
	var notReady *NotReadyError
	if err := Check(t.Context(), adm, want); !errors.As(err, &notReady) || len(notReady.Missing) != len(want) || !strings.Contains(err.Error(), "weir topics apply") {
		t.Fatalf("Check on an empty cluster: %v", err)
	}
	topics, err := adm.ListTopics(kadm.WithAuthorizedOps(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range topics.Names() {
		if strings.HasPrefix(name, prefix) {
			t.Fatalf("Plan and Check created %s", name)
		}
	}

	if lines := apply(t, cl, want); len(lines) != len(want) {
		t.Errorf("%d lines of progress for %d topics: %q", len(lines), len(want), lines)
	}
	again, err := Plan(t.Context(), adm, want)
	if err != nil || !again.Empty() || len(again.Notes) != 0 {
		t.Fatalf("after apply: %s %v", again, err)
	}
	if err := Check(t.Context(), adm, want); err != nil {
		t.Fatal(err)
	}
	// The first plan, carried out twice, as two processes at once would.
	if err := Apply(t.Context(), cl, d, nil); err != nil {
		t.Fatalf("applying an old plan: %v", err)
	}
	if lines := apply(t, cl, want); len(lines) != 0 {
		t.Errorf("a second apply did %q", lines)
	}
}

// A broker acknowledges a creation before the others know of it, and shows a topic
// before it leads it. Apply returns when every broker can be asked.
func TestApplyWaitsForEveryBroker(t *testing.T) {
	const late = 5
	for _, lagging := range []kfake.Fault{
		{Keys: []kmsg.Key{kmsg.Metadata}, Nodes: []int32{2}, Err: kerr.UnknownTopicOrPartition},
		{Keys: []kmsg.Key{kmsg.Metadata}, Nodes: []int32{0}, Err: kerr.LeaderNotAvailable},
		{Keys: []kmsg.Key{kmsg.ListOffsets}, Nodes: []int32{1}, Err: kerr.UnknownTopicOrPartition},
		{Keys: []kmsg.Key{kmsg.FindCoordinator}, Nodes: []int32{1}, Group: anyGroup, Err: kerr.CoordinatorNotAvailable},
	} {
		t.Run(fmt.Sprintf("%s of broker %d", lagging.Keys[0].Name(), lagging.Nodes[0]), func(t *testing.T) {
			c, err := kfake.NewCluster(kfake.NumBrokers(3))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			want := Catalogue(Config{Partitions: 32, Replication: 3}, nil) // leaders are drawn by lot: of 8, one broker in thirty cases leads none
			d, err := Plan(t.Context(), kadm.NewClient(cl), want)
			if err != nil {
				t.Fatal(err)
			}
			lagging.Count = late
			switch lagging.Keys[0] {
			case kmsg.Metadata:
				lagging.Topic = Names{}.Config()
			case kmsg.ListOffsets:
				lagging.Topic = Names{}.Requests() // of whose partitions each broker leads some
			}
			fault := c.Fault(lagging)
			if err := Apply(t.Context(), cl, d, nil); err != nil {
				t.Fatal(err)
			}
			if n := fault.Hits(); n != late {
				t.Errorf("it asked that broker %d times, and %d answers were late", n, late)
			}
		})
	}
}

// One that hangs is asked until the cluster does not name it any more.
func TestApplyGivesUpABrokerThatLeft(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	want := Catalogue(Config{Partitions: 2, Replication: 1}, nil)
	d, err := Plan(t.Context(), kadm.NewClient(cl), want)
	if err != nil {
		t.Fatal(err)
	}
	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Nodes: []int32{2}, Topic: Names{}.Config(), Err: kerr.UnknownTopicOrPartition, Count: -1})
	done := make(chan error, 1)
	applying, returned := context.WithCancel(t.Context())
	go func() {
		defer returned()
		done <- Apply(t.Context(), cl, d, nil)
	}()
	if err := fault.Wait(applying, 3); err != nil {
		t.Fatal("it did not wait:", err, <-done)
	}
	if err := c.RemoveNode(2); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestChangedNIsRefused(t *testing.T) {
	cl, prefix := cluster(t, 1)
	adm := kadm.NewClient(cl)
	apply(t, cl, Catalogue(Config{Prefix: prefix, Partitions: 4, Replication: 1}, nil))
	want := Catalogue(Config{Prefix: prefix, Partitions: 6, Replication: 1}, nil)
	d, err := Plan(t.Context(), adm, want)
	var changed *PartitionsChangedError
	if !errors.As(err, &changed) {
		t.Fatalf("Plan: %v", err)
	}
	if len(changed.Topics) != 7 {
		t.Errorf("named %v, want the seven topics of N", changed.Topics)
	}
	for _, g := range changed.Topics {
		if g.Have != 4 || g.Want != 6 {
			t.Errorf("%+v", g)
		}
	}
	for _, g := range d.Grow {
		if strings.Contains(err.Error(), g.Topic) {
			t.Errorf("%s is both refused and grown", g.Topic)
		}
	}
	if err := Check(t.Context(), adm, want); !errors.As(err, &changed) {
		t.Errorf("Check: %v", err)
	}
}

func TestLanesGrowAndNeverShrink(t *testing.T) {
	cl, prefix := cluster(t, 1)
	adm := kadm.NewClient(cl)
	cfg := Config{Prefix: prefix, Partitions: 2, Replication: 1}
	p := policy()
	apply(t, cl, Catalogue(cfg, p))

	p.Providers[0].Lanes = 3
	want := Catalogue(cfg, p)
	var notReady *NotReadyError
	if err := Check(t.Context(), adm, want); !errors.As(err, &notReady) || len(notReady.Few) != 5 {
		t.Fatalf("Check with too few lanes: %v", err)
	}
	apply(t, cl, want)
	if err := Check(t.Context(), adm, want); err != nil {
		t.Fatal(err)
	}
	td, err := adm.ListTopics(kadm.WithAuthorizedOps(t.Context()), cfg.Names().Journal("aliyun"), cfg.Names().Dispatch("aliyun", QueueAgain))
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range td {
		if len(d.Partitions) != 3 {
			t.Errorf("%s has %d partitions", name, len(d.Partitions))
		}
	}

	p.Providers[0].Lanes = 1
	var shrunk *LanesShrunkError
	if _, err := Plan(t.Context(), adm, Catalogue(cfg, p)); !errors.As(err, &shrunk) || len(shrunk.Topics) != 5 {
		t.Errorf("shrinking: %v", err)
	}
	// A provider that left the policy keeps its topics.
	p.Providers = p.Providers[1:]
	if d, err := Plan(t.Context(), adm, Catalogue(cfg, p)); err != nil || !d.Empty() {
		t.Errorf("after a provider left: %s %v", d, err)
	}
}

func TestSettingsAreMended(t *testing.T) {
	cl, prefix := cluster(t, 1)
	adm := kadm.NewClient(cl)
	want := Catalogue(Config{Prefix: prefix, Partitions: 2, Replication: 1}, nil)
	apply(t, cl, want)
	set := func(topic, k, v string) {
		t.Helper()
		rs, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: k, Value: &v}}, prefix+topic)
		if err != nil || rs[0].Err != nil {
			t.Fatal(err, rs)
		}
	}
	set("status", "retention.ms", "1000")
	set("requests", "message.timestamp.type", "CreateTime")
	set("ledger", "cleanup.policy", "delete")
	set("dlq", "retention.ms", "-1")            // an operator keeps more: fine
	set("seen", "retention.ms", "999999999999") // likewise
	set("config", "retention.ms", "999999999999")

	d, err := Plan(t.Context(), adm, want)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range d.Alter {
		got = append(got, strings.TrimPrefix(c.Topic, prefix)+" "+c.Config)
	}
	if s := strings.Join(got, ", "); s != "requests message.timestamp.type, ledger cleanup.policy, status retention.ms, config retention.ms" {
		t.Errorf("to alter: %s", s)
	}
	var notReady *NotReadyError
	if err := Check(t.Context(), adm, want); !errors.As(err, &notReady) || len(notReady.Wrong) != 2 {
		t.Errorf("Check: %v", err)
	}
	if lines := apply(t, cl, want); len(lines) != 4 {
		t.Errorf("progress: %q", lines)
	}
	if d, err := Plan(t.Context(), adm, want); err != nil || !d.Empty() {
		t.Errorf("after apply: %s %v", d, err)
	}
}

func TestDiffPrints(t *testing.T) {
	specs := Catalogue(Config{Partitions: 2, Replication: 3}, nil)
	have := map[string]Actual{}
	for _, s := range specs[1:] {
		have[s.Name] = Actual{Partitions: s.Partitions, Replication: 1, Configs: s.Configs}
	}
	seen := have["weir.seen"]
	seen.Configs = map[string]string{}
	have["weir.seen"] = seen
	replies := have["weir.replies"]
	replies.Partitions = 3
	have["weir.replies"] = replies
	d, err := Compare(specs, have)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"+ weir.requests  2 partitions, 3 replicas, cleanup.policy=delete, retention.ms=604800000\n",
		"~ weir.replies  partitions 3 -> 8\n",
		"~ weir.seen  retention.ms (unset) -> 90000000\n",
		"note: weir.status has 1 replicas and should have 3",
		"1 to create, 1 to grow, 8 settings to alter\n",
	} {
		if !strings.Contains(d.String(), want) {
			t.Errorf("%q is not in:\n%s", want, d)
		}
	}
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var back Diff
	if err := json.Unmarshal(b, &back); err != nil || back.String() != d.String() {
		t.Errorf("through JSON: %v\n%s", err, back)
	}
	if none, _ := Compare(nil, nil); none.String() != "topics are as they should be\n" {
		t.Errorf("empty: %s", none)
	}
	if b, _ := json.Marshal(Diff{Create: []Spec{}, Grow: []Growth{}, Alter: []Change{}, Notes: []string{}}); string(b) != `{"create":[],"grow":[],"alter":[],"notes":[]}` {
		t.Errorf("empty JSON: %s", b)
	}
}
