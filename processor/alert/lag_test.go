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

	"github.com/weirhq/weir/processor/backlog"
	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
)

// newLaggards looks at these queues, under a policy with a provider p.
func newLaggards(t *testing.T, c *kfake.Cluster, queues []backlog.Queue) *laggards {
	t.Helper()
	looker, err := backlog.Open(c.ListenAddrs())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(looker.Close)
	return &laggards{
		looker: looker, queues: func() []backlog.Queue { return queues }, health: func() route.Health { return nil },
		policy: func() *schemas.Revision {
			return &schemas.Revision{Policy: schemas.Policy{Providers: []schemas.Provider{{Name: "p", Type: "simulated"}}}}
		},
	}
}

// TestAbsent: what no process runs is behind where a record waits, or makes no calls, also
// where it never ran; and the alert says that no process runs it.
func TestAbsent(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in", "calls"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl := streamtest.Client(t, kgo.SeedBrokers(c.ListenAddrs()...))
	now := schemas.MillisOf(time.Now())
	for _, topic := range []string{"in", "calls", "calls"} {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Timestamp: now.Add(-3 * time.Minute).Time()}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	l := newLaggards(t, c, []backlog.Queue{{Stage: backlog.Admission, Topic: "in", Group: "a"}, {Stage: backlog.Lanes, Provider: "p", Topic: "calls", Group: "l"}})
	look := func(runs, lanes string) {
		t.Helper()
		found, err := l.look(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		since := clock(now.Add(-3 * time.Minute))
		want := fmt.Sprintf(" admission %d the oldest record that waits in in is of %s%s", now.Add(-3*time.Minute), since, runs)
		if got := told(found.behind); len(got) != 1 || " "+got[0] != want {
			t.Errorf("behind: %q, want %q", got, want)
		}
		want = fmt.Sprintf("p  %d 2 messages in its queues%s", now.Add(-3*time.Minute), lanes)
		if got := told(found.stalled); len(got) != 1 || got[0] != want {
			t.Errorf("stalled: %q, want %q", got, want)
		}
	}
	look("; no process runs this stage", "; no process has its lanes")
	for group, topic := range map[string]string{"a": "in", "l": "calls"} {
		streamtest.Client(t, kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		a, _ := l.looker.Members(t.Context(), "a")
		n, _ := l.looker.Members(t.Context(), "l")
		if a == 1 && n == 1 {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("no members")
		}
	}
	look("", "")
}

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
	adm := kadm.NewClient(cl)
	l := newLaggards(t, c, []backlog.Queue{
		{Stage: "stage", Topic: "in", Group: "g"}, {Stage: "never ran, and need not", Topic: "in", Group: "n", Bound: true},
		{Stage: "delay", Topic: "slow", Group: "d", Wait: 8 * time.Minute},
	})
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
		for _, c := range found.behind {
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
	state := State{Alerts: map[string]*Alert{"oncall": {Standing: map[string]*Standing{
		"a": {Subject: Subject{Event: schemas.AlertLag, Stage: "hidden"}, On: true, Since: 7},
		"b": {Subject: Subject{Event: schemas.AlertLag, Stage: "over"}, Since: 7},
	}}}}
	l := newLaggards(t, c, []backlog.Queue{
		{Stage: "hidden", Topic: "in", Group: "secret"}, {Stage: "over", Topic: "in", Group: "secret"}, {Stage: "stage", Topic: "in", Group: "open"},
	})
	l.behind = state.behind()
	for range 2 {
		found, err := l.look(t.Context(), now)
		if err == nil || !strings.Contains(err.Error(), "how far hidden is behind") {
			t.Errorf("who may not be asked: %v", err)
		}
		var names []string
		for _, c := range found.behind {
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
	all := []string{"admission", "sink"}
	shows := func(want ...float64) {
		t.Helper()
		for i, s := range all {
			if got := value(t, m.behind.WithLabelValues(s)); got != want[i] {
				t.Errorf("%s: %v, want %v", s, got, want[i])
			}
		}
	}
	now := schemas.Millis(1_000_000)
	shows(0, 0)
	m.stages([]Condition{{Subject: Subject{Stage: "sink"}, Since: now.Add(-150 * time.Second)}}, now)
	shows(0, 150)
	m.stages(nil, now)
	shows(0, 0)
	m.stages([]Condition{{Subject: Subject{Stage: "admission"}, Since: now.Add(-time.Hour)}}, now)
	m.standby()
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
	found, err := newLaggards(t, c, []backlog.Queue{{Stage: "stage", Topic: "in", Group: "g"}}).look(t.Context(), now)
	if err != nil || len(found.behind) != 1 || now.Sub(found.behind[0].Since) != 7*time.Minute {
		t.Errorf("%v, %v, want behind by 7 minutes", found, err)
	}
}

// TestTextOfWaiting: a notice says what waits and since when, and once it is over what it was.
func TestTextOfWaiting(t *testing.T) {
	for _, tt := range []struct {
		st   Standing
		want string
	}{
		{Standing{Subject: Subject{Event: schemas.AlertLag, Stage: "admission"}, On: true, Begun: 1, Since: minute, Detail: "d"}, "Stage admission has been behind since 1970-01-01 00:01:00 UTC (3 min): d."},
		{Standing{Subject: Subject{Event: schemas.AlertLag, Stage: "admission"}, Begun: 1, Since: minute, Until: 3 * minute, Detail: "d"}, "Resolved: Stage admission is up to date again since 1970-01-01 00:03:00 UTC, after 2 min; it was: d."},
		{Standing{Subject: Subject{Event: schemas.AlertProviderStalled, Provider: "p"}, On: true, Begun: 1, Since: minute, Detail: "d"}, "Provider p has not been called although messages wait since 1970-01-01 00:01:00 UTC (3 min): d."},
		{Standing{Subject: Subject{Event: schemas.AlertProviderStalled, Provider: "p"}, Begun: 1, Since: minute, Until: 3 * minute}, "Resolved: Provider p is called again, or nothing waits for it, since 1970-01-01 00:03:00 UTC, after 2 min."},
	} {
		if got := standingItem(&tt.st, 4*minute); got.Text != tt.want || got.Next == "" {
			t.Errorf("%q, want %q", got.Text, tt.want)
		}
	}
}
