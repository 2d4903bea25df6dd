package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/alert"
	"github.com/weirhq/weir/processor/stream"
)

// alerting is what a process logs when it becomes the alerter.
const alerting = "this process sends the alerts"

// TestAlerterPaused is alertsOverPauses where one broker is all there is.
func TestAlerterPaused(t *testing.T) {
	t.Parallel()
	alertsOverPauses(t, []string{embedded(t).Addr()}, 1)
}

// alertsOverPauses stops the clockwork of the alerter in the middle of a stream of
// refusals, until another has taken its place and told of more, and lets it go on:
// what it held it must neither tell nor write over what the other wrote.
func alertsOverPauses(t *testing.T, brokers []string, rounds int) {
	ears := listenForAlerts(t)
	s := newSite(t, brokers, "paused", strings.Replace(alertPolicy, "URL", ears.URL, 1))
	s.env = []string{"WEIR_CALLBACK_ALLOW_PRIVATE=127.0.0.1"}
	work := s.run(0, "admission,lanes,delay")
	alerters := []*Process{s.run(1, "alerts"), s.run(2, "alerts")}
	cl := s.client()
	adm, group := kadm.NewClient(cl), alert.Group(s.names)
	// leader waits until nothing moves: both have joined, and who began last has
	// written last.
	leader := func() (leads int) {
		t.Helper()
		was := ""
		if !poll(t, 40*time.Second, func() bool {
			all, err := adm.DescribeGroups(t.Context(), group)
			if err != nil || all[group].State != "Stable" || len(all[group].Members) != len(alerters) {
				was = ""
				return false
			}
			terms, wrote := s.terms(alerters), alertersOf(t, s)
			if len(terms) == 0 || len(wrote) == 0 || wrote[len(wrote)-1] != terms[len(terms)-1] {
				return false
			}
			now := fmt.Sprint(len(s.allTerms(alerters)))
			if was != now {
				was = now
				<-time.After(700 * time.Millisecond)
				return false
			}
			return true
		}) {
			t.Fatal("it is not settled who sends alerts")
		}
		terms := s.terms(alerters)
		return slices.IndexFunc(alerters, func(p *Process) bool { return slotOf(p) == terms[len(terms)-1] })
	}
	sent := 0
	var hadBegun, hadWritten int // before anything moves here: what came of the start says nothing
	burst := func(n int) {
		t.Helper()
		var rs []*kgo.Record
		for i := range n {
			to := fmt.Sprintf("+86138%08d", i%10)
			rs = append(rs, &kgo.Record{Key: []byte(to), Value: fmt.Appendf(nil, `{"channel":"sms","to":%q,"body":"b"}`, to)})
		}
		if err := cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		sent += n
	}
	stream := func(bursts int) {
		for range bursts {
			burst(50)
			<-time.After(60 * time.Millisecond)
		}
	}
	for round := range rounds {
		leads := leader()
		if round == 0 {
			hadBegun, hadWritten = len(s.terms(alerters))-1, len(alertersOf(t, s))-1
		}
		old, other := alerters[leads], alerters[1-leads]
		began := func() int { return strings.Count(other.Output(), alerting) }
		ended := func() int {
			out := old.Output()
			return strings.Count(out, "the alerter begins anew") + strings.Count(out, "the alerter ended before it had written")
		}
		stream(8) // it holds some back by now: a second has room for one notice
		before, over := began(), ended()
		if err := old.Pause(); err != nil {
			t.Fatal(err)
		}
		stream(4)
		heard := len(ears.heard()) // before anybody takes over, who tells at once
		if !poll(t, 40*time.Second, func() bool { return began() > before }) {
			t.Fatal("nobody took over")
		}
		// More as long as it tells of one notice only: it may take all that there was at once.
		if !poll(t, patience, func() bool { stream(1); return len(ears.heard()) > heard+1 }) {
			t.Fatal("who took over tells of nothing")
		}
		if err := old.Resume(); err != nil {
			t.Fatal(err)
		}
		if !poll(t, 20*time.Second, func() bool { return ended() > over }) {
			t.Errorf("round %d: who was paused does not say that its time is over:\n%s", round, old.Tail(10))
		}
		stream(4)
	}
	want := int64(sent - 10) // the first of each number is let through
	poll(t, 30*time.Second, func() bool { n, _ := ears.count(); return n >= want })
	<-time.After(1500 * time.Millisecond) // for a notice too many
	n, repeats := ears.count()
	if n != want || repeats > rounds {
		t.Errorf("told of %d refusals, of %d; %d notices were repeated in %d takeovers", n, want, repeats, rounds)
	}
	// Whoever begins writes at once, and nobody writes after another has begun.
	if began, wrote := s.terms(alerters)[hadBegun:], alertersOf(t, s)[hadWritten:]; !slices.Equal(began, wrote) {
		t.Errorf("the alerters in turn were the slots %v, and weir.alerts was written by %v", began, wrote)
	}
	t.Logf("%d refusals, %d takeovers, %d notices repeated", n, rounds, repeats)
	s.stop(append(alerters, work)...)
}

func slotOf(p *Process) string { return strings.TrimPrefix(p.Name, "worker-") }

// allTerms are the slots that became the alerter, in order.
func (s *site) allTerms(of []*Process) (slots []string) {
	type term struct{ at, slot string }
	var all []term
	for _, p := range of {
		for line := range strings.Lines(p.Output()) {
			if at, _, ok := strings.Cut(strings.TrimPrefix(line, "time="), " "); ok && strings.Contains(line, alerting) {
				all = append(all, term{at, slotOf(p)})
			}
		}
	}
	slices.SortFunc(all, func(a, b term) int { return strings.Compare(a.at, b.at) })
	for _, t := range all {
		slots = append(slots, t.slot)
	}
	return slots
}

// terms are the same, each once for as long as no other came between.
func (s *site) terms(of []*Process) []string { return slices.Compact(s.allTerms(of)) }

// alertersOf are the slots that wrote what was told, in order, each once for as
// long as it wrote alone.
func alertersOf(t *testing.T, s *site) (by []string) {
	t.Helper()
	at := []stream.Range{{Partition: stream.Partition{Topic: s.names.Alerts()}}}
	err := stream.Read(t.Context(), stream.ReadConfig{Brokers: s.brokers}, at, func(r *kgo.Record) error {
		var saved alert.Saved
		if err := json.Unmarshal(r.Value, &saved); err != nil {
			return err
		}
		by = append(by, saved.By)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Compact(by)
}
