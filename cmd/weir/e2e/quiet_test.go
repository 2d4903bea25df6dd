package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/schemas"
)

const quietPolicy = `
classes:
  - {name: verify, retries: [1s]}
limits:
  - {name: verify, match: {class: verify}, per: [recipient], allow: [100/1h]}
providers:
  - {name: sim, type: simulated, channels: [sms], settings: {latency: 1ms-5ms}}
tenants:
  - {name: default, default_region: CN}
`

// TestQuietForLong: nothing happens for longer than topics keep their records, so all
// of them are deleted. Their records were handled, so a process that takes partitions over
// or starts then goes on: the marker of a transaction behind the last record is no loss.
func TestQuietForLong(t *testing.T) {
	t.Parallel()
	quietForLong(t, []string{embedded(t).Addr()})
}

func quietForLong(t *testing.T, brokers []string) {
	click := enginetest.Start(t, engine.Options{Log: os.Stderr})
	s := newSite(t, brokers, "quiet", quietPolicy)
	x := &tamper{site: s, cl: s.client(), trail: s.follow(nil)}
	x.adm = kadm.NewClient(x.cl)
	run := func(slot int) *Process {
		return s.run(slot, "inputs,admission,lanes,delay,receipts,callbacks,sink,alerts", "--clickhouse-url", "http://"+click.Addr())
	}
	// Some are retried, through the delay topics and readmit, and some have receipts.
	sent := func(when string) {
		t.Helper()
		p, err := NewProducer(brokers, s.names, Murmur2)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 * partitions {
			for _, to := range []string{fmt.Sprintf("+86138000%05d", i), "+15005550011", "+15005550005"} {
				p.Send(t.Context(), &schemas.Request{Channel: schemas.ChannelSMS, To: to, Class: "verify", Body: "x"}, to)
			}
		}
		at, err := p.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.settle(x.trail, at, patience)
		for _, a := range at {
			_ = x.trail.Until(t.Context(), func(o *Oracle) bool {
				if _, end, _ := o.Ended(a); end != schemas.StatusSent {
					t.Errorf("%s, of %v: %s", when, a, end)
				}
				return true
			})
		}
		if !poll(t, patience, func() bool { return x.behind() == "" }) {
			t.Fatalf("%s, these stand before the end of their topics, where nothing is:\n%s", when, x.behind())
		}
	}

	first := run(0)
	sent("at first")
	x.expire()
	second := run(1) // is given some of the partitions
	s.stable(2)
	sent("after all had expired")
	s.stop(first, second)
	x.expire()
	third := run(2)
	sent("after all had expired while nobody ran")
	s.stop(third)
	for _, p := range []*Process{first, second, third} {
		if strings.Contains(p.Output(), "deleted") {
			t.Errorf("%s tells of records that were deleted:\n%s", p.Name, p.Tail(30))
		}
	}
}

// behind names the partitions in which a group of the site's stands before the end.
func (x *tamper) behind() string {
	x.t.Helper()
	groups, err := x.adm.ListGroups(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	var out []string
	for _, g := range groups.Groups() {
		if !strings.HasPrefix(g, x.names.Prefix) {
			continue
		}
		at, err := x.adm.FetchOffsets(x.t.Context(), g)
		if err != nil {
			x.t.Fatal(err)
		}
		ends, err := x.adm.ListEndOffsets(x.t.Context(), at.Offsets().TopicsSet().Topics()...)
		if err != nil {
			x.t.Fatal(err)
		}
		at.Each(func(o kadm.OffsetResponse) {
			if end, ok := ends.Lookup(o.Topic, o.Partition); ok && o.At >= 0 && o.At < end.Offset {
				out = append(out, fmt.Sprintf("%s: %s/%d at %d of %d", g, o.Topic, o.Partition, o.At, end.Offset))
			}
		})
		if g != sink.Group(x.names) {
			continue
		}
		// The sink may not have begun with a partition: then it has no position there.
		starts, err := x.adm.ListStartOffsets(x.t.Context(), x.names.Status())
		if err != nil {
			x.t.Fatal(err)
		}
		ends, err = x.adm.ListEndOffsets(x.t.Context(), x.names.Status())
		if err != nil {
			x.t.Fatal(err)
		}
		ends.Each(func(end kadm.ListedOffset) {
			start, _ := starts.Lookup(end.Topic, end.Partition)
			if o, ok := at.Lookup(end.Topic, end.Partition); start.Offset < end.Offset && (!ok || o.At < 0) {
				out = append(out, fmt.Sprintf("%s: %s/%d not begun of %d", g, end.Topic, end.Partition, end.Offset))
			}
		})
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// expire deletes all that retention would: the records of topics that keep none for
// ever.
func (x *tamper) expire() {
	x.t.Helper()
	all, err := x.adm.ListTopics(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	gone := make(kadm.Offsets)
	for _, d := range all {
		if !strings.HasPrefix(d.Topic, x.names.Prefix) {
			continue
		}
		cs, err := x.adm.DescribeTopicConfigs(x.t.Context(), d.Topic)
		if err != nil {
			x.t.Fatal(err)
		}
		deletes := false
		for _, c := range cs[0].Configs {
			deletes = deletes || c.Key == "retention.ms" && c.MaybeValue() != "-1"
		}
		for _, c := range cs[0].Configs {
			deletes = deletes && !(c.Key == "cleanup.policy" && c.MaybeValue() == "compact")
		}
		if !deletes {
			continue
		}
		for n := range d.Partitions {
			gone.AddOffset(d.Topic, n, -1, -1)
		}
	}
	if _, err := x.adm.DeleteRecords(x.t.Context(), gone); err != nil {
		x.t.Fatal(err)
	}
}
