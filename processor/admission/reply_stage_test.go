package admission_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// TestReplies: who waits is told on the partition that it named, and only there;
// an address that is none is nobody's, and no reason to stop.
func TestReplies(t *testing.T) {
	w := newWorld(t)
	w.admit("0")
	const to = "+8613800000000"
	home := schemas.PartitionOf(to, partitions)
	ask := func(partition int32, value string, replyTo ...string) {
		t.Helper()
		r := &kgo.Record{Topic: w.names.Requests(), Partition: partition, Value: []byte(value)}
		for _, at := range replyTo {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: []string{"Weir-Reply", schemas.HeaderReply}[len(r.Headers)%2], Value: []byte(at)})
		}
		if err := w.cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	const request = `{"channel":"sms","to":"` + to + `","class":"verify","body":"code 1"}`
	bad := []string{"3/beyond", "2147483647/x", "-1/x", "x", "", "0/", "0/a b", "0/" + strings.Repeat("x", 65), "\xff\x00"}
	for _, at := range bad {
		ask(home, request, at)
	}
	ask(home, request, "1/limited")
	ask((home+1)%partitions, request, "nonsense", "2/forwarded")
	ask(home, `{"channel":"sms"`, "0/broken")
	w.statuses(len(bad) + 3)

	cl, err := kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.ConsumeTopics(w.names.Replies()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var got []string
	for len(got) < 3 && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			reply, err := schemas.DecodeReply(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range reply.Limits {
				if s.Limit == "verify" && s.Window == "1/60s" && (s.Remaining != 0 || !s.Violated || s.Reset != reply.Event.RetryAt) {
					t.Errorf("%+v beside %+v", s, reply.Event)
				}
			}
			got = append(got, schemas.ReplyTo(r.Partition, string(r.Key))+" "+string(reply.Event.Status))
		})
	}
	slices.Sort(got)
	if want := "0/broken rejected, 1/limited limited, 2/forwarded limited"; strings.Join(got, ", ") != want {
		t.Errorf("told %q, want %q", strings.Join(got, ", "), want)
	}
}
