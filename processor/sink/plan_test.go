package sink_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirhq/weir/processor/sink"
)

const topicID = "AAAAAAAAAAAAAAAAAAAAAQ"

func TestPlanMetadata(t *testing.T) {
	for _, tt := range []struct {
		name string
		plan sink.Plan
		want string
	}{
		{"confirmation", sink.Plan{Topic: topicID, Partition: 3, From: 10, To: 10}, "weir-sink 1 topic=" + topicID},
		{"plan", sink.Plan{Topic: topicID, Partition: 3, From: 10, To: 60, Encoder: 1, Made: 1763699000000, Expires: 1763700000000, Try: 2},
			"weir-sink 1 topic=" + topicID + " to=60 encoder=1 made=1763699000000 expires=1763700000000 try=2"},
		{"of the first records", sink.Plan{Topic: topicID, From: 16, To: 17, Encoder: 1, Made: 1, Expires: 2, First: true}, "weir-sink 1 topic=" + topicID + " to=17 encoder=1 made=1 expires=2 try=0 first=1"},
		{"from the start", sink.Plan{Topic: topicID, From: 0, To: 1, Encoder: 1, Made: 1, Expires: 2}, "weir-sink 1 topic=" + topicID + " to=1 encoder=1 made=1 expires=2 try=0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.plan.Metadata()
			if got != tt.want {
				t.Errorf("metadata %q, want %q: a running group's plans must stay readable", got, tt.want)
			}
			back, err := sink.ParseMetadata(tt.plan.Partition, tt.plan.From, got)
			if err != nil || back != tt.plan {
				t.Errorf("read back %+v, %v; want %+v", back, err, tt.plan)
			}
		})
	}
}

func TestParseMetadataRefuses(t *testing.T) {
	for _, tt := range []struct {
		name     string
		offset   int64
		metadata string
		want     error
	}{
		{"nothing", 5, "", sink.ErrForeignMetadata},
		{"another client's", 5, "consumer-1-6f0c", sink.ErrForeignMetadata},
		{"mark alone", 5, "weir-sink", sink.ErrForeignMetadata},
		{"without an offset", -1, "weir-sink 1 topic=a", sink.ErrForeignMetadata},
		{"without a topic", 5, "weir-sink 1 to=9", sink.ErrForeignMetadata},
		{"end before beginning", 5, "weir-sink 1 topic=a to=4", sink.ErrForeignMetadata},
		{"no number", 5, "weir-sink 1 topic=a to=x", sink.ErrForeignMetadata},
		{"number too large", 5, "weir-sink 1 topic=a to=99999999999999999999", sink.ErrForeignMetadata},
		{"negative try", 5, "weir-sink 1 topic=a to=9 try=-1", sink.ErrForeignMetadata},
		{"newer", 5, "weir-sink 2 anything at=all", sink.ErrNewerMetadata},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if p, err := sink.ParseMetadata(0, tt.offset, tt.metadata); !errors.Is(err, tt.want) {
				t.Errorf("got %+v, %v; want %v", p, err, tt.want)
			}
		})
	}
}

func TestTokens(t *testing.T) {
	base := sink.Plan{Topic: topicID, Partition: 1, From: 10, To: 60}
	seen := map[string]string{}
	for name, p := range map[string]sink.Plan{
		"base": base, "other topic": {Topic: "B", Partition: 1, From: 10, To: 60}, "other partition": {Topic: topicID, Partition: 11, From: 10, To: 60},
		"other end": {Topic: topicID, Partition: 1, From: 10, To: 61}, "other beginning": {Topic: topicID, Partition: 1, From: 11, To: 60},
		"next try": {Topic: topicID, Partition: 1, From: 10, To: 60, Try: 1},
	} {
		if other, ok := seen[p.Token()]; ok {
			t.Errorf("%s and %s have the same token %s", name, other, p.Token())
		}
		seen[p.Token()] = name
	}
	later := base
	later.Expires = 99
	if later.Token() != base.Token() {
		t.Error("the expiry must not change the token")
	}
}

func FuzzParseMetadata(f *testing.F) {
	f.Add(int64(5), "weir-sink 1 topic=a to=9 encoder=1 expires=1763700000000 try=0")
	f.Add(int64(0), "weir-sink 1 topic=a")
	f.Add(int64(-1), "")
	f.Add(int64(7), "weir-sink 1 topic=a to=9 to=8")
	f.Fuzz(func(t *testing.T, offset int64, metadata string) {
		p, err := sink.ParseMetadata(1, offset, metadata)
		if err != nil {
			if p != (sink.Plan{}) {
				t.Fatalf("an error and a plan: %+v", p)
			}
			return
		}
		if p.From != offset || p.To < p.From || p.Topic == "" || p.Try < 0 || len(p.Metadata()) > 4096 && len(metadata) <= 4000 {
			t.Fatalf("impossible plan %+v", p)
		}
		if p.To > p.From && !strings.ContainsAny(p.Topic, " ") {
			if again, err := sink.ParseMetadata(1, offset, p.Metadata()); err != nil || again != p {
				t.Fatalf("%+v became %+v, %v", p, again, err)
			}
		}
	})
}
