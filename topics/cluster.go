package topics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// visibleWithin bounds how long Apply waits until every broker's metadata shows
// what was created.
const visibleWithin = 30 * time.Second

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
// settings, and returns when the cluster's metadata shows all of it. progress
// (may be nil) is called with a line for each step done. It may be repeated,
// and run by several processes at once: what another has created in between
// counts as done. It never deletes.
func Apply(ctx context.Context, adm *kadm.Client, d Diff, progress func(string)) error {
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
	if err := visible(ctx, adm, d); err != nil {
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

// visible waits until metadata shows every topic and partition of d with a
// leader: a broker acknowledges a creation before the others know of it.
func visible(ctx context.Context, adm *kadm.Client, d Diff) error {
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
	names := make([]string, 0, len(want))
	for n := range want {
		names = append(names, n)
	}
	slices.Sort(names)
	ctx, cancel := context.WithTimeout(ctx, visibleWithin)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var absent string
	for {
		details, err := adm.ListTopics(kadm.WithAuthorizedOps(ctx), names...)
		if err == nil {
			if absent = firstAbsent(want, details); absent == "" {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until the brokers show topic %s: %w", absent, errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

func firstAbsent(want map[string]int32, details kadm.TopicDetails) string {
	for name, n := range want {
		td, ok := details[name]
		if !ok || td.Err != nil || int32(len(td.Partitions)) < n {
			return name
		}
		for _, p := range td.Partitions {
			if p.Err != nil || p.Leader < 0 {
				return name
			}
		}
	}
	return ""
}

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
