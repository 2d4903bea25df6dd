package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

const livePolicyText = `
limits:
  - {name: verify, per: [recipient], allow: [%d/60s]}
providers:
  - {name: sim, type: simulated, channels: [email], settings: {latency: 1ms-2ms}}
`

// livePolicy applies one revision after another while two workers decide, and
// looks when each partition first decides under it.
func livePolicy(t *testing.T, brokers []string, sc scale) {
	s := newSite(t, brokers, "policy", fmt.Sprintf(livePolicyText, 1))
	type key struct {
		revision int64
		number   int32
	}
	var mu sync.Mutex
	first := make(map[key]schemas.Millis) // under a revision, in a partition
	s.follow(func(r Record) {
		d := r.Event.Decision
		if d == nil || d.Verdict == schemas.VerdictMarker {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if _, ok := first[key{d.Revision, d.Partition}]; !ok {
			first[key{d.Revision, d.Partition}] = d.T
		}
	})
	everywhere := func(revision int64) bool {
		mu.Lock()
		defer mu.Unlock()
		for n := range int32(partitions) {
			if _, ok := first[key{revision, n}]; !ok {
				return false
			}
		}
		return true
	}
	workers := []*Process{s.run(0, "admission,lanes,delay"), s.run(1, "admission,lanes,delay")}

	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(s.names.Requests()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var traffic sync.WaitGroup
	traffic.Go(func() { // some to every partition, all the time
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			to := fmt.Sprintf("r%d@example.com", i)
			cl.Produce(ctx, &kgo.Record{Key: []byte(to), Value: schemas.RequestJSON(&schemas.Request{Channel: schemas.ChannelEmail, To: to, Subject: "s", Body: "x"})}, nil)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	defer traffic.Wait()
	defer cancel()

	if !poll(t, 60*time.Second, func() bool { return everywhere(1) }) {
		t.Fatal("not every partition decides")
	}
	s.stable(2)
	var took []time.Duration
	for revision := int64(2); revision <= 4; revision++ {
		s.apply(fmt.Sprintf(livePolicyText, revision))
		if !poll(t, 30*time.Second, func() bool { return everywhere(revision) }) {
			t.Fatalf("revision %d is not in force everywhere", revision)
		}
	}
	var out struct {
		Revisions []struct {
			Revision int64          `json:"revision"`
			At       schemas.Millis `json:"at"`
		} `json:"revisions"`
	}
	if err := json.Unmarshal([]byte(s.weir("get", "--json", "revisions")), &out); err != nil || len(out.Revisions) != 4 {
		t.Fatalf("%d revisions, %v", len(out.Revisions), err)
	}
	mu.Lock()
	for _, r := range out.Revisions {
		for n := range int32(partitions) {
			if r.Revision > 1 {
				took = append(took, max(first[key{r.Revision, n}].Sub(r.At), 0))
			}
		}
	}
	mu.Unlock()
	slices.Sort(took)
	t.Logf("POLICY from weir apply to the first decision under it, %d revisions in %d partitions of 2 workers: p50 %.0f ms, max %.0f ms",
		len(out.Revisions)-1, partitions, ms(took[len(took)/2]), ms(took[len(took)-1]))
	if worst := took[len(took)-1]; worst > sc.most(time.Second) {
		t.Errorf("a revision took %v to be in force", worst)
	}
	cancel()
	traffic.Wait()
	s.stop(workers...)
}
