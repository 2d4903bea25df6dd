package alert

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// TestLag: a stage is behind by its oldest record that is not taken, whichever
// partition has it, later than it should wait; and until it is well ahead of that.
func TestLag(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "in"), kfake.SeedTopics(1, "slow"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	now := schemas.MillisOf(time.Now())
	ago := func(d time.Duration) schemas.Millis { return now.Add(-d) }
	for _, r := range []kgo.Record{
		{Topic: "in", Partition: 0, Timestamp: ago(4 * time.Minute).Time()},
		{Topic: "in", Partition: 0, Timestamp: ago(90 * time.Second).Time()},
		{Topic: "in", Partition: 1, Timestamp: ago(9 * time.Minute).Time()},
		{Topic: "in", Partition: 1, Timestamp: ago(10 * time.Second).Time()},
		{Topic: "slow", Partition: 0, Timestamp: ago(9 * time.Minute).Time()},
	} {
		if err := cl.ProduceSync(t.Context(), &r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	read, err := stream.OpenReader(stream.ReadConfig{Brokers: c.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(read.Close)
	adm := kadm.NewClient(cl)
	l := &laggards{adm: adm, read: read, empty: make(map[stream.Partition][2]int64), stages: []Stage{
		{Name: "stage", Group: "g"}, {Name: "never ran", Group: "n"}, {Name: "delay", Group: "d", Wait: func(string) time.Duration { return 8 * time.Minute }},
	}}
	for _, tt := range []struct {
		name  string
		taken [2]int64 // of in
		want  string
	}{
		{"the oldest of two", [2]int64{0, 0}, "stage 9m0s"},
		{"the other", [2]int64{0, 1}, "stage 4m0s"},
		{"behind, and not yet well", [2]int64{1, 1}, "stage 1m30s"},
		{"well", [2]int64{2, 1}, ""},
		{"not behind by so little", [2]int64{1, 1}, ""},
	} {
		var at kadm.Offsets
		at.AddOffset("in", 0, tt.taken[0], -1)
		at.AddOffset("in", 1, tt.taken[1], -1)
		var slow kadm.Offsets
		slow.AddOffset("slow", 0, 0, -1)
		for group, offsets := range map[string]kadm.Offsets{"g": at, "d": slow} {
			if got, err := adm.CommitOffsets(t.Context(), group, offsets); err != nil || got.Error() != nil {
				t.Fatal(err, got.Error())
			}
		}
		found, err := l.look(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, c := range found {
			lines = append(lines, fmt.Sprint(c.Stage, " ", now.Sub(c.Since)))
		}
		if got := strings.Join(lines, ","); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestLagOfOthers: a stage that cannot be asked about is as it was, and hides nobody else.
func TestLagOfOthers(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	now := schemas.MillisOf(time.Now())
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Timestamp: now.Add(-9 * time.Minute).Time()}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	adm := kadm.NewClient(cl)
	var at kadm.Offsets
	at.AddOffset("in", 0, 0, -1)
	for _, group := range []string{"secret", "open"} {
		if got, err := adm.CommitOffsets(t.Context(), group, at); err != nil || got.Error() != nil {
			t.Fatal(err, got.Error())
		}
	}
	c.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		r := req.(*kmsg.OffsetFetchRequest)
		if r.Group != "secret" && !slices.ContainsFunc(r.Groups, func(g kmsg.OffsetFetchRequestGroup) bool { return g.Group == "secret" }) {
			return nil, nil, false
		}
		resp := r.ResponseKind().(*kmsg.OffsetFetchResponse)
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		for range r.Groups {
			resp.Groups = append(resp.Groups, kmsg.OffsetFetchResponseGroup{Group: "secret", ErrorCode: kerr.GroupAuthorizationFailed.Code})
		}
		return resp, nil, true
	})
	read, err := stream.OpenReader(stream.ReadConfig{Brokers: c.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(read.Close)
	state := State{Alerts: map[string]*Alert{"oncall": {Standing: map[string]*Standing{
		"a": {Subject: Subject{Event: schemas.AlertLag, Stage: "hidden"}, On: true, Since: 7},
		"b": {Subject: Subject{Event: schemas.AlertLag, Stage: "over"}, Since: 7},
	}}}}
	l := &laggards{adm: adm, read: read, behind: state.behind(), empty: make(map[stream.Partition][2]int64), stages: []Stage{
		{Name: "hidden", Group: "secret"}, {Name: "over", Group: "secret"}, {Name: "stage", Group: "open"},
	}}
	for range 2 {
		found, err := l.look(t.Context(), now)
		if err == nil || !strings.Contains(err.Error(), "how far hidden is behind") {
			t.Errorf("who may not be asked: %v", err)
		}
		var names []string
		for _, c := range found {
			names = append(names, c.Stage)
		}
		if got := strings.Join(names, ","); got != "hidden,stage" {
			t.Errorf("behind are %q", got)
		}
	}
}

// TestBehindMetric: who sends alerts shows each stage, with 0 where it is not
// behind; who stands by shows none of it.
func TestBehindMetric(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newMetrics(reg)
	all := []Stage{{Name: "admission"}, {Name: "sink"}}
	shows := func(want ...float64) {
		t.Helper()
		for i, s := range all {
			if got := value(t, m.behind.WithLabelValues(s.Name)); got != want[i] {
				t.Errorf("%s: %v, want %v", s.Name, got, want[i])
			}
		}
	}
	now := schemas.Millis(1_000_000)
	shows(0, 0)
	m.stages(all, []Condition{{Subject: Subject{Stage: "sink"}, Since: now.Add(-150 * time.Second)}}, now)
	shows(0, 150)
	m.stages(all, nil, now)
	shows(0, 0)
	m.stages(all, []Condition{{Subject: Subject{Stage: "admission"}, Since: now.Add(-time.Hour)}}, now)
	m.standby(all)
	shows(0, 0)
}

func value(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var d dto.Metric
	if err := m.Write(&d); err != nil {
		t.Fatal(err)
	}
	return d.GetCounter().GetValue() + d.GetGauge().GetValue()
}

// TestLagOfDeleted: where a group stands before the start of a log, such as of an input
// that is bound no more, what was deleted does not wait, and what is there does.
func TestLagOfDeleted(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "in"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	now := schemas.MillisOf(time.Now())
	adm := kadm.NewClient(cl)
	at, gone := make(kadm.Offsets), make(kadm.Offsets)
	for n := range int32(3) {
		for _, age := range []time.Duration{9 * time.Minute, time.Duration(8-n) * time.Minute} {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Partition: n, Timestamp: now.Add(-age).Time()}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		at.AddOffset("in", n, 0, -1)
		gone.AddOffset("in", n, []int64{2, 1, 1}[n], -1)
	}
	if _, err := adm.DeleteRecords(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if got, err := adm.CommitOffsets(t.Context(), "g", at); err != nil || got.Error() != nil {
		t.Fatal(err, got.Error())
	}
	read, err := stream.OpenReader(stream.ReadConfig{Brokers: c.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(read.Close)
	l := &laggards{adm: adm, read: read, empty: make(map[stream.Partition][2]int64), stages: []Stage{{Name: "stage", Group: "g"}}}
	found, err := l.look(t.Context(), now)
	if err != nil || len(found) != 1 || now.Sub(found[0].Since) != 7*time.Minute {
		t.Errorf("%v, %v, want behind by 7 minutes", found, err)
	}
}
