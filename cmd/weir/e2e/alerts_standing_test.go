package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/broker"
	"github.com/weirhq/weir/processor/admission"
)

// clockVar names the file from which a worker built with the tag chaos reads how
// far its clock is off.
const clockVar = "WEIR_CHAOS_CLOCK"

const standingPolicy = `
providers:
  - {name: p, type: simulated, channels: [sms]}
alerts:
  - {name: oncall, to: {type: webhook, url: URL}, when: [lag, clock.stall], at_most: 100/1s}
`

// TestAlertsOfWhatStands: what lasts is told when it begins and when it is over.
// Nearly all of its time is waiting: the alerter asks for lag every 15 s.
func TestAlertsOfWhatStands(t *testing.T) {
	t.Parallel()
	t.Run("lag", func(t *testing.T) { t.Parallel(); alertOfLag(t, backdated(t)) })
	t.Run("clock.stall", func(t *testing.T) { t.Parallel(); alertOfAStall(t, []string{embedded(t).Addr()}) })
}

// backdated starts a broker that keeps the times of producers, so that nobody has
// to wait until a record is old.
func backdated(t *testing.T) []string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	broker.AnswerWholePartitions(c)
	return c.ListenAddrs()
}

// states are the states in which a condition was told, in order.
func (e *ears) states(event, of string) (all []string, texts []string) {
	for _, n := range e.heard() {
		for _, i := range n.Data.Items {
			if i.Event == event && i.Stage+i.Process == of {
				all, texts = append(all, i.State), append(texts, i.Text)
			}
		}
	}
	return all, texts
}

// tells waits until a condition was told in these states.
func (e *ears) tells(t *testing.T, event, of string, want ...string) []string {
	t.Helper()
	poll(t, 40*time.Second, func() bool { got, _ := e.states(event, of); return len(got) >= len(want) })
	got, texts := e.states(event, of)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("told of %s of %s: %v, want %v: %+v", event, of, got, want, e.heard())
	}
	return texts
}

// client is one that produces to requests, and asks the broker.
func (s *site) client() *kgo.Client {
	s.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.DefaultProduceTopic(s.names.Requests()))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(cl.Close)
	return cl
}

// request sends a message to a number, at a producer's time where the broker takes that.
func (s *site) request(cl *kgo.Client, to string, at time.Time) {
	s.t.Helper()
	r := &kgo.Record{Key: []byte(to), Value: fmt.Appendf(nil, `{"channel":"sms","to":%q,"body":"b"}`, to), Timestamp: at}
	if err := cl.ProduceSync(s.t.Context(), r).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// taken is how many records of requests admission has committed.
func (s *site) taken(adm *kadm.Client) (n int64) {
	s.t.Helper()
	at, err := adm.FetchOffsets(s.t.Context(), admission.Group(s.names))
	if errors.Is(err, kerr.GroupIDNotFound) {
		return 0
	}
	if err != nil {
		s.t.Fatal(err)
	}
	for _, o := range at[s.names.Requests()] {
		n += max(o.At, 0)
	}
	return n
}

// alertOfLag: nobody decides, and a request has waited for three minutes; then
// somebody does.
func alertOfLag(t *testing.T, brokers []string) {
	ears := listenForAlerts(t)
	s := newSite(t, brokers, "lag", strings.Replace(standingPolicy, "URL", ears.URL, 1))
	s.env = []string{"WEIR_CALLBACK_ALLOW_PRIVATE=127.0.0.1"}
	cl := s.client()
	adm := kadm.NewClient(cl)
	const to = "+8613800000000"

	work := s.run(0, "admission,lanes,delay")
	waits := time.Now().Add(-3 * time.Minute)
	s.request(cl, to, waits.Add(-time.Second))
	if !poll(t, 30*time.Second, func() bool { return s.taken(adm) == 1 }) {
		t.Fatal("the first request is not decided")
	}
	s.stop(work)

	s.request(cl, to, waits)
	alerter := s.run(1, "alerts") // only now: the first request was as old when it waited
	open := ears.tells(t, "lag", "admission", "open")[0]
	if !strings.Contains(open, "admission") || !strings.Contains(open, waits.UTC().Format("15:04:05")) {
		t.Errorf("the notice does not say what waits since when: %s", open)
	}
	work = s.run(0, "admission,lanes,delay")
	over := ears.tells(t, "lag", "admission", "open", "resolved")[1]
	if s.taken(adm) != 2 {
		t.Error("told that it is over, and the request still waits")
	}
	t.Logf("%s\n%s", open, over)
	s.stop(work, alerter)
}

// alertOfAStall: a worker's clock runs a minute ahead, so that it decides
// nothing; then it is put right.
func alertOfAStall(t *testing.T, brokers []string) {
	bin, err := Build(t.Context(), t.TempDir(), "chaos")
	if err != nil {
		t.Fatal(err)
	}
	ears := listenForAlerts(t)
	s := newSite(t, brokers, "stall", strings.Replace(standingPolicy, "URL", ears.URL, 1))
	file := filepath.Join(s.dir, "clock")
	set := func(off string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(off), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	set("0s")
	s.bin, s.env = bin, []string{"WEIR_CALLBACK_ALLOW_PRIVATE=127.0.0.1", clockVar + "=" + file}
	alerter, work := s.run(1, "alerts"), s.run(7, "admission,lanes,delay")
	cl := s.client()
	adm := kadm.NewClient(cl)
	const to = "+8613800000000"
	s.request(cl, to, time.Now())
	if !poll(t, 30*time.Second, func() bool { return s.taken(adm) == 1 }) {
		t.Fatal("the first request is not decided")
	}
	// Both, or what stands before the first alerter would be told by none.
	if !poll(t, 30*time.Second, func() bool { return strings.Contains(alerter.Output(), alerting) }) {
		t.Fatal("nobody sends alerts")
	}
	set("60s")
	// Not only once: what is decided before the worker reads its clock anew stalls
	// nobody.
	sent := int64(1)
	poll(t, 40*time.Second, func() bool {
		s.request(cl, to, time.Now())
		sent++
		<-time.After(200 * time.Millisecond)
		got, _ := ears.states("clock.stall", "7")
		return len(got) > 0
	})
	open := ears.tells(t, "clock.stall", "7", "open")[0]
	if s.taken(adm) == sent {
		t.Error("told of a stall, and it decides")
	}
	set("0s")
	over := ears.tells(t, "clock.stall", "7", "open", "resolved")[1]
	if !poll(t, 10*time.Second, func() bool { return s.taken(adm) == sent }) {
		t.Error("told that it is over, and it decides nothing")
	}
	t.Logf("%s\n%s", open, over)
	s.stop(work, alerter)
}
