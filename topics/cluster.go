package topics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// visibleWithin bounds how long Apply waits until every broker shows and serves
	// what was created.
	visibleWithin = 30 * time.Second
	// answerWithin bounds one look. A broker that hangs leaves the cluster's list when
	// its session ends (9 s by default), and is no longer asked then.
	answerWithin = 5 * time.Second
)

// ClusterReplication asks the cluster how many replicas a topic can have: three,
// or the number of brokers if fewer.
func ClusterReplication(ctx context.Context, adm *kadm.Client) (int16, error) {
	brokers, err := adm.ListBrokers(ctx)
	if err != nil {
		return 0, fmt.Errorf("list brokers: %w", err)
	}
	if len(brokers) == 0 {
		return 0, errors.New("list brokers: the cluster names none")
	}
	return Replication(len(brokers)), nil
}

// Plan compares the catalogue with the cluster and changes nothing. The Diff is
// complete even where the error is a [*PartitionsChangedError], a
// [*LanesShrunkError] or a [*BoundError].
func Plan(ctx context.Context, adm *kadm.Client, want []Spec) (Diff, error) {
	have, err := describe(ctx, adm, want)
	if err != nil {
		return Diff{}, err
	}
	return Compare(want, have)
}

// describe reads those of the wanted topics that exist.
func describe(ctx context.Context, adm *kadm.Client, want []Spec) (map[string]Actual, error) {
	if len(want) == 0 {
		return nil, nil
	}
	names := make([]string, len(want))
	for i, s := range want {
		names[i] = s.Name
	}
	// kgo answers metadata from a cache of 5 s, which would show a plan the
	// cluster before the last apply; asking for authorized operations is the
	// one way past it. Neither request creates a topic, whatever the broker's
	// auto.create.topics.enable says: kmsg leaves AllowAutoTopicCreation off.
	details, err := adm.ListTopics(kadm.WithAuthorizedOps(ctx), names...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	have := make(map[string]Actual, len(names))
	existing := make([]string, 0, len(names))
	for _, name := range names {
		td, ok := details[name]
		if !ok || errors.Is(td.Err, kerr.UnknownTopicOrPartition) {
			continue
		}
		if td.Err != nil {
			return nil, fmt.Errorf("list topic %s: %w", name, td.Err)
		}
		have[name] = Actual{
			Partitions:  int32(len(td.Partitions)),
			Replication: int16(td.Partitions.NumReplicas()),
			Configs:     map[string]string{},
		}
		existing = append(existing, name)
	}
	if len(existing) == 0 {
		return have, nil
	}
	configs, err := adm.DescribeTopicConfigs(ctx, existing...)
	if err != nil {
		return nil, fmt.Errorf("describe topic settings: %w", err)
	}
	for _, rc := range configs {
		if rc.Err != nil {
			return nil, fmt.Errorf("describe settings of topic %s: %w", rc.Name, rc.Err)
		}
		for _, c := range rc.Configs {
			have[rc.Name].Configs[c.Key] = c.MaybeValue()
		}
	}
	return have, nil
}

// Apply carries a Diff out: it creates what is missing, adds partitions, alters
// settings, and returns when every broker shows all of it, so that the next
// caller may ask any of them. progress
// (may be nil) is called with a line for each step done. It may be repeated,
// and run by several processes at once: what another has created in between
// counts as done. It never deletes.
func Apply(ctx context.Context, cl *kgo.Client, d Diff, progress func(string)) error {
	adm := kadm.NewClient(cl)
	if progress == nil {
		progress = func(string) {}
	}
	for _, group := range alike(d.Create) {
		if err := create(ctx, adm, group, progress); err != nil {
			return err
		}
	}
	for _, g := range d.Grow {
		rs, err := adm.UpdatePartitions(ctx, int(g.Want), g.Topic)
		if err == nil {
			err = rs.Error()
		}
		if err != nil && !errors.Is(err, kerr.InvalidPartitions) { // it has them already, or has more: the wait below tells
			return fmt.Errorf("grow topic %s to %d partitions: %w", g.Topic, g.Want, err)
		}
		progress(fmt.Sprintf("grew %s from %d to %d partitions", g.Topic, g.Have, g.Want))
	}
	if err := visible(ctx, cl, d); err != nil {
		return err
	}
	for _, changes := range byTopic(d.Alter) {
		alter := make([]kadm.AlterConfig, len(changes))
		text := make([]string, len(changes))
		for i, c := range changes {
			alter[i] = kadm.AlterConfig{Op: kadm.SetConfig, Name: c.Config, Value: kadm.StringPtr(c.Want)}
			text[i] = c.Config + "=" + c.Want
		}
		topic := changes[0].Topic
		rs, err := adm.AlterTopicConfigs(ctx, alter, topic)
		if err != nil {
			return fmt.Errorf("alter settings of topic %s: %w", topic, err)
		}
		for _, r := range rs {
			if r.Err != nil {
				return fmt.Errorf("alter settings of topic %s: %w", topic, explained(r.Err, r.ErrMessage))
			}
		}
		progress(fmt.Sprintf("set %s on %s", strings.Join(text, ", "), topic))
	}
	return nil
}

// create makes topics that are alike in all but their names.
func create(ctx context.Context, adm *kadm.Client, group []Spec, progress func(string)) error {
	names := make([]string, len(group))
	for i, s := range group {
		names[i] = s.Name
	}
	configs := make(map[string]*string, len(group[0].Configs))
	for k, v := range group[0].Configs {
		configs[k] = kadm.StringPtr(v)
	}
	rs, err := adm.CreateTopics(ctx, group[0].Partitions, group[0].Replication, configs, names...)
	if err != nil {
		return fmt.Errorf("create topics %s: %w", strings.Join(names, ", "), err)
	}
	for _, name := range names {
		r, ok := rs[name]
		switch {
		case !ok:
			return fmt.Errorf("create topic %s: the broker did not answer for it", name)
		case errors.Is(r.Err, kerr.TopicAlreadyExists):
			progress("exists already: " + name)
		case r.Err != nil:
			return fmt.Errorf("create topic %s: %w", name, explained(r.Err, r.ErrMessage))
		default:
			progress(fmt.Sprintf("created %s with %d partitions", name, group[0].Partitions))
		}
	}
	return nil
}

// visible waits until every broker's metadata shows every topic and partition of d
// with a leader, and each leader serves it: a broker acknowledges a creation before the
// others know of it. Until then another one, or the leader, may answer
// UNKNOWN_TOPIC_OR_PARTITION. A broker that does not answer is waited for as
// long as the cluster counts it among its brokers.
func visible(ctx context.Context, cl *kgo.Client, d Diff) error {
	want := make(map[string]int32, len(d.Create)+len(d.Grow))
	for _, s := range d.Create {
		want[s.Name] = s.Partitions
	}
	for _, g := range d.Grow {
		want[g.Topic] = g.Want
	}
	if len(want) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, visibleWithin)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	shown := make(map[int32]bool) // by broker: what one has shown it does not forget
	for {
		err := shows(ctx, cl, want, shown)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until all brokers serve what was created: %w", errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

// shows says what is not yet as visible wants it.
func shows(ctx context.Context, cl *kgo.Client, want map[string]int32, shown map[int32]bool) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	// Past the client's cache of metadata, as describe asks.
	ctx = kadm.WithAuthorizedOps(ctx)
	adm := kadm.NewClient(cl)
	brokers, err := adm.ListBrokers(ctx)
	if err != nil {
		return fmt.Errorf("list brokers: %w", err)
	}
	for _, b := range brokers {
		if shown[b.NodeID] {
			continue
		}
		if err := shownBy(ctx, cl.Broker(int(b.NodeID)), want); err != nil {
			return fmt.Errorf("broker %d: %w", b.NodeID, err)
		}
		shown[b.NodeID] = true
	}
	ends, err := adm.ListEndOffsets(ctx, slices.Sorted(maps.Keys(want))...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("ask the leaders: %w", err)
	}
	return nil
}

// shownBy asks one broker for its metadata, and for a group's coordinator.
func shownBy(ctx context.Context, b *kgo.Broker, want map[string]int32) error {
	req := kmsg.NewPtrMetadataRequest() // creates no topic
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	answer, err := b.Request(ctx, req)
	if err != nil {
		return err
	}
	have := make(map[string]int32, len(want))
	for _, t := range answer.(*kmsg.MetadataResponse).Topics {
		if t.Topic == nil {
			continue
		}
		name := *t.Topic
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("topic %s: %w", name, err)
		}
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("%s/%d: %w", name, p.Partition, err)
			}
			if p.Leader < 0 {
				return fmt.Errorf("%s/%d: %w", name, p.Partition, kerr.LeaderNotAvailable)
			}
		}
		have[name] = int32(len(t.Partitions))
	}
	for name, n := range want {
		if have[name] < n {
			return fmt.Errorf("topic %s has %d partitions of %d", name, have[name], n)
		}
	}
	// The first question after a group's coordinator makes the brokers' own topic of
	// offsets. Other errors, such as a missing right, are for those who have groups.
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorKeys = anyGroup, []string{anyGroup}
	if answer, err = b.Request(ctx, find); err != nil {
		return err
	}
	found := answer.(*kmsg.FindCoordinatorResponse)
	codes := []int16{found.ErrorCode} // before version 4
	for _, c := range found.Coordinators {
		codes = append(codes, c.ErrorCode)
	}
	if slices.Contains(codes, kerr.CoordinatorNotAvailable.Code) {
		return fmt.Errorf("groups: %w", kerr.CoordinatorNotAvailable)
	}
	return nil
}

// anyGroup need not exist.
const anyGroup = "weir"

// NotReadyError says that the cluster's topics are not fit to run on.
type NotReadyError struct {
	Missing []string // topics that do not exist
	Wrong   []Change // settings that decisions rest on
	Few     []Growth // topics with fewer partitions than lanes or instances
}

func (e *NotReadyError) Error() string {
	var why []string
	if len(e.Missing) > 0 {
		why = append(why, "missing "+strings.Join(e.Missing, ", "))
	}
	for _, g := range e.Few {
		why = append(why, fmt.Sprintf("%s has %d partitions and needs %d", g.Topic, g.Have, g.Want))
	}
	for _, c := range e.Wrong {
		why = append(why, fmt.Sprintf("%s has %s=%s and needs %s", c.Topic, c.Config, c.Have, c.Want))
	}
	return "topics are not ready: " + strings.Join(why, "; ") + "; run weir topics apply"
}

// Check is what a process calls before it starts. It refuses with a
// [*PartitionsChangedError] or a [*LanesShrunkError] where counts changed, with a
// [*BoundError] where an input cannot be read exactly once, and with a [*NotReadyError] where topics or partitions are missing or a setting
// is wrong that decisions rest on: who stamps the time, and whether state is
// kept. Other settings are an operator's business and show in Plan.
func Check(ctx context.Context, adm *kadm.Client, want []Spec) error {
	d, err := Plan(ctx, adm, want)
	if err != nil {
		return err
	}
	var e NotReadyError
	for _, s := range d.Create {
		e.Missing = append(e.Missing, s.Name)
	}
	e.Few = d.Grow
	for _, c := range d.Alter {
		if c.Config == "message.timestamp.type" || c.Config == "cleanup.policy" {
			e.Wrong = append(e.Wrong, c)
		}
	}
	if len(e.Missing)+len(e.Few)+len(e.Wrong) > 0 {
		return &e
	}
	return nil
}

// alike groups specs that one request can create, in order.
func alike(specs []Spec) [][]Spec {
	var groups [][]Spec
	at := map[string]int{}
	for _, s := range specs {
		configs, err := json.Marshal(s.Configs) // sorts the keys
		if err != nil {
			panic(err) // a map of strings
		}
		key := fmt.Sprintf("%d/%d/%s", s.Partitions, s.Replication, configs)
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], s)
	}
	return groups
}

// byTopic groups changes, which Compare leaves sorted by topic.
func byTopic(changes []Change) [][]Change {
	var groups [][]Change
	for _, c := range changes {
		if n := len(groups); n > 0 && groups[n-1][0].Topic == c.Topic {
			groups[n-1] = append(groups[n-1], c)
			continue
		}
		groups = append(groups, []Change{c})
	}
	return groups
}

func explained(err error, message string) error {
	if message == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, message)
}
