package alert

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

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
