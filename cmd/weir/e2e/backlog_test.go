//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/local/localtest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const staleBacklogPolicy = `
classes:
  - {name: mail, priority: bulk, stale_after: 20s, expires_after: 24h}
  - {name: note, priority: normal, stale_after: 20s, expires_after: 24h}
  - {name: code, priority: urgent, stale_after: 20s, expires_after: 24h}
providers:
  - {name: free, type: simulated, channels: [sms], timeout: 5s, concurrency: 256, settings: {latency: 100ms-100ms}}
  - {name: paced, type: simulated, channels: [sms], timeout: 5s, concurrency: 64, pace: [200/1s], settings: {latency: 100ms-100ms}}
tenants:
  - {name: default, default_region: CN}
`

// urgentAtOnce is how many urgent messages come every half second, to all providers
// together.
const urgentAtOnce = 20

// TestChaosBacklog: a backlog that is stale, of a million messages, behind a
// provider without a pace and one with, while a worker is killed again and again
// on a machine with more to do than it can. WEIR_CHAOS_BACKLOG is how many messages,
// WEIR_CHAOS_KILLS how many kills, WEIR_CHAOS_LOAD how many processes do nothing but
// keep a core busy.
func TestChaosBacklog(t *testing.T) {
	given := func(name string, or int) int {
		if v := os.Getenv(name); v != "" {
			n, err := strconv.Atoi(v)
			if err != nil || n < 0 {
				t.Fatalf("%s=%q is not a number", name, v)
			}
			return n
		}
		return or
	}
	line := staleBacklog(t, localtest.ForTest(t), given("WEIR_CHAOS_BACKLOG", 1_000_000), given("WEIR_CHAOS_KILLS", 6), given("WEIR_CHAOS_LOAD", 10))
	verdict := "ok"
	if t.Failed() {
		verdict = "FAILED"
	}
	fmt.Printf("CHAOS %-6s a stale backlog and kills: %s\n", verdict, line)
}

// pinned produces n requests to providers and of classes by turns.
func (s *site) pinned(from, n int, providers, classes []string) {
	s.t.Helper()
	p, err := NewProducer(s.brokers, s.names, Murmur2)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := from; i < from+n; i++ {
		q := schemas.Request{Channel: schemas.ChannelSMS, To: fmt.Sprintf("+86139%08d", i), Provider: providers[i%len(providers)], Class: classes[i/len(providers)%len(classes)], Body: "x"}
		p.Send(s.t.Context(), &q, q.To)
	}
	if at, err := p.Close(s.t.Context()); err != nil || len(at) != n {
		s.t.Fatalf("%d of %d requests acknowledged: %v", len(at), n, err)
	}
}

func staleBacklog(t *testing.T, brokers []string, n, kills, load int) (line string) {
	c := &crew{site: newSite(t, brokers, "backlog", staleBacklogPolicy), workers: make([]*Process, 2)}
	providers := []string{"free", "paced"}
	c.pinned(0, n, providers, []string{"note", "note", "note", "mail"})
	c.workers[1] = c.run(1, "admission,delay")
	count := c.counts(c.names.Status())
	if !poll(t, time.Minute+time.Duration(n)*400*time.Microsecond, func() bool { return count() >= n }) {
		t.Fatalf("%d of %d are decided", count(), n)
	}
	<-time.After(21 * time.Second) // all of it is stale

	for range load {
		busy := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = busy.Process.Kill(); _ = busy.Wait() })
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watching sync.WaitGroup
	longest := map[string]int64{} // of again
	watching.Go(func() {          // and urgent messages to each provider, every half second
		for i := 0; ctx.Err() == nil; i++ {
			c.pinned(50_000_000+urgentAtOnce*i, urgentAtOnce, providers, []string{"code"})
			for _, p := range providers {
				longest[p] = max(longest[p], c.unfinished(ctx, kadm.NewClient(cl), p, c.names.Dispatch(p, topics.QueueAgain)))
			}
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
	calls := map[string]func() int{}
	for _, p := range providers {
		calls[p] = c.counts(c.names.Journal(p))
	}
	going := func(what string) {
		t.Helper()
		for _, p := range providers {
			at := calls[p]()
			if !poll(t, time.Minute, func() bool { return calls[p]() > at }) {
				c.diagnose()
				t.Fatalf("no call of %s within a minute %s", p, what)
			}
		}
	}
	c.workers[0] = c.run(0, "lanes,admission,delay")
	going("of the start")
	var killed []schemas.Millis
	for range kills {
		<-time.After(10 * time.Second)
		killed = append(killed, schemas.MillisOf(time.Now()))
		c.workers[0].Kill()
		c.workers[0] = c.run(0, "lanes,admission,delay")
		going("of a restart")
	}
	<-time.After(10 * time.Second)
	cancel()
	watching.Wait()
	c.stop(c.workers...)

	codes := c.ofClass("code")
	patient := 2 * time.Second * time.Duration(1+load/runtime.NumCPU()) // each of us has so much less of a core
	for _, p := range providers {
		line += c.storyOf(p, c.restores(p), killed, longest[p], codes, patient) + "; "
	}
	return line + fmt.Sprintf("%d messages, %d kill -9, %d busy processes", n, kills, load)
}

// unfinished is how many records of a topic are between the lane's positions and
// its end.
func (s *site) unfinished(ctx context.Context, adm *kadm.Client, provider, topic string) (n int64) {
	done, err := adm.FetchOffsets(ctx, s.names.Journal(provider)+".lane")
	if err != nil {
		return 0
	}
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return 0
	}
	ends.Each(func(o kadm.ListedOffset) {
		if at, ok := done.Lookup(topic, o.Partition); ok {
			n += o.Offset - at.At
		}
	})
	return n
}

// ofClass returns the messages of a class that were decided, with their providers.
func (s *site) ofClass(class string) map[string]string {
	s.t.Helper()
	ids, has := map[string]string{}, []byte(`"class":"`+class+`"`)
	err := ReadCommitted(s.t.Context(), s.brokers, s.names.Status(), func(r *kgo.Record) error {
		if !bytes.Contains(r.Value, has) {
			return nil
		}
		var e schemas.Event
		err := json.Unmarshal(r.Value, &e)
		ids[e.MessageID] = e.Provider
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return ids
}

// storyOf reads a provider's journal: how soon it called after each of these
// moments, how often a message went back, and how long urgent ones waited.
//
// Of two urgent messages that are neighbours on their queue, one transaction wrote
// both, so a lane that reads one reads the other: between their permits may be one
// to another at most, however slow the machine is. (A poll may end between them.)
func (s *site) storyOf(provider string, restored, killed []schemas.Millis, longest int64, codes map[string]string, patient time.Duration) string {
	s.t.Helper()
	again, moved := map[string]int{}, 0
	type sent struct{ life, times int }
	inLife, twice := map[string]sent{}, 0    // of those that went back: how often since the lane was last restored
	early := make([]string, len(restored)+1) // how each life begins
	var permits, urgent []schemas.Millis
	type place struct {
		partition int32
		offset    int64
	}
	type given struct {
		others int // permits to others before this one
		t      schemas.Millis
	}
	others, idle, idlest, worst := 0, 0, 0, 0 // idle: so many went back since a permit
	first := map[place]given{}
	err := ReadCommitted(s.t.Context(), s.brokers, s.names.Journal(provider), func(r *kgo.Record) error {
		var e struct {
			Kind, ID, Outcome, Topic string
			Partition                int32
			Offset                   int64
			T                        schemas.Millis
		}
		if err := json.Unmarshal(r.Value, &e); err != nil {
			return err
		}
		life, _ := slices.BinarySearch(restored, e.T)
		if what := e.Kind + " " + e.Outcome; life > 0 && len(early[life]) < 400 && !strings.HasSuffix(early[life], what) {
			early[life] += fmt.Sprintf(" %v %s", e.T.Sub(restored[life-1]), what)
		}
		switch {
		case e.Kind == "permit":
			permits = append(permits, e.T)
			idle = 0
			if codes[e.ID] == "" {
				others++
				break
			}
			urgent = append(urgent, e.T)
			if e.Topic == s.names.Dispatch(provider, topics.QueueUrgent) {
				first[place{e.Partition, e.Offset}] = given{others, e.T}
			}
		case e.Outcome == "stale":
			again[e.ID]++
			moved++
			n := inLife[e.ID]
			if n.life != life {
				n = sent{life: life}
			}
			n.times++
			if n.times == 2 {
				twice++
			}
			worst = max(worst, n.times)
			inLife[e.ID] = n
			idle++
			idlest = max(idlest, idle)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(permits)
	slices.Sort(urgent)
	for life, what := range early {
		s.t.Logf("%s, life %d begins:%s", provider, life, what)
	}
	most := 0
	for _, n := range again {
		most = max(most, n)
	}
	var waits []time.Duration
	slowest := time.Duration(0)
	for _, at := range restored {
		i, _ := slices.BinarySearch(permits, at)
		if i == len(permits) {
			s.t.Errorf("%s: no permit after %s", provider, at.Time())
			continue
		}
		waits = append(waits, permits[i].Sub(at).Round(10*time.Millisecond))
		slowest = max(slowest, permits[i].Sub(at))
	}
	var lives []time.Duration // from a kill to the next permit
	for _, at := range killed {
		if i, _ := slices.BinarySearch(restored, at); i < len(restored) {
			if j, _ := slices.BinarySearch(permits, restored[i]); j < len(permits) {
				lives = append(lives, permits[j].Sub(at).Round(10*time.Millisecond))
			}
		}
	}
	pairs, behind := 0, 0
	for at, a := range first {
		b, ok := first[place{at.partition, at.offset + 1}]
		if !ok || slices.ContainsFunc(restored, func(t schemas.Millis) bool { return min(a.t, b.t) <= t && t <= max(a.t, b.t) }) {
			continue
		}
		pairs++
		if d := b.others - a.others; d > 1 || d < -1 {
			behind++
		}
	}
	gap := time.Duration(0) // between two permits of urgent messages, of which some come twice a second
	for i := 1; i < len(urgent); i++ {
		gap = max(gap, urgent[i].Sub(urgent[i-1]))
	}
	if slowest > patient {
		s.t.Errorf("%s: the first permit came %v after the lane was restored", provider, slowest)
	}
	// A restart lets what was on its way grow stale once more, and nothing else does.
	if worst > 2 || twice*50 > moved || int64(moved-len(again)) > int64(len(restored))*longest+int64(twice) {
		s.t.Errorf("%s: %d messages went back %d times, one %d times; %d of them twice between two restarts, one %d times", provider, len(again), moved, most, twice, worst)
	}
	if longest > 20_000 {
		s.t.Errorf("%s: %d were on again at once", provider, longest)
	}
	if pairs == 0 || behind*50 > pairs {
		s.t.Errorf("%s: of %d pairs of urgent messages that were read together, %d had more than one permit to others between them", provider, pairs, behind)
	}
	decided := 0
	for _, p := range codes {
		if p == provider {
			decided++
		}
	}
	if 2*len(urgent) < decided {
		s.t.Errorf("%s: of %d urgent messages %d were called", provider, decided, len(urgent))
	}
	return fmt.Sprintf("%s: %d permits in %.0f s, the first after each takeover within %v (%v after the kill); %d went back %.3f times, the most %d, %d of them twice between two restarts, at most %d between two permits; at most %d on again; %d urgent permits for %d messages, at most %v apart, %d pairs, %d of them apart",
		provider, len(permits), permits[len(permits)-1].Sub(permits[0]).Seconds(), waits, lives, len(again), float64(moved)/float64(max(len(again), 1)), most, twice, idlest, longest, len(urgent), decided, gap, pairs, behind)
}
