package admission_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/delay"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
)

const actionID = "0b6f0e7e-0000-4000-8000-000000000001"

// decision reads until a decision that is no status and no forward or marker
// was seen, and returns it with all events.
func (w *world) decision() (last *schemas.Event, events []*schemas.Event) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	for last == nil {
		fetches := w.cl.PollFetches(ctx)
		if ctx.Err() != nil {
			w.t.Fatalf("saw no decision: %s", text(events))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			e, err := schemas.DecodeEvent(r.Value)
			if err != nil {
				w.t.Fatal(err)
			}
			events = append(events, e)
			if v := e.Decision.Verdict; e.Kind == schemas.KindDecision && v != schemas.VerdictForward && v != schemas.VerdictMarker {
				last = e
			}
		})
	}
	return last, events
}

// elsewhere is a partition that does not own the recipient.
func elsewhere(to string) int32 { return (schemas.PartitionOf(to, partitions) + 1) % partitions }

// TestActionsOutliveTheirOwner: suppressions, waiting messages, early cancels
// and decisions without sending are restored by a new owner; actions find their owner from any
// partition.
func TestActionsOutliveTheirOwner(t *testing.T) {
	w := newWorld(t)
	pol := w.pol.Latest().Policy
	pol.Limits = append(slices.Clone(pol.Limits), schemas.Limit{Name: "gate", Match: schemas.Match{Class: []string{"gate"}}, Per: []string{"recipient"},
		Allow: []schemas.Window{{Kind: schemas.WindowRolling, N: 1, Length: time.Hour}}})
	pol.Routes = []schemas.Route{{Name: "all", To: []schemas.Target{{Provider: pol.Providers[0].Name, Weight: 1}}}}
	pol.Providers = append(slices.Clone(pol.Providers), schemas.Provider{Name: "nobody", Type: schemas.ProviderNone, Channels: schemas.Channels})
	if _, err := w.pol.Publish(t.Context(), w.cl, w.pol.Latest().Revision, "test", pol); err != nil {
		t.Fatal(err)
	}
	const to, other = "+8613800000000", "+8613800000001"
	var log []*schemas.Event
	slot := 0
	stop := w.admit("0")
	restart := func() {
		stop()
		slot++
		stop = w.admit(fmt.Sprint(slot))
	}
	action := func(value string, want schemas.Verdict, reason string) {
		t.Helper()
		w.request(elsewhere(to), "%s", value)
		e, events := w.decision()
		log = append(log, events...)
		if e.Decision.Verdict != want || e.Reason != reason {
			t.Fatalf("%s: %s %s, want %s %s", value, e.Decision.Verdict, e.Reason, want, reason)
		}
	}
	message := func(want schemas.Status, format string, args ...any) *schemas.Event {
		t.Helper()
		w.request(elsewhere(to), format, args...)
		events := w.statuses(1)
		log = append(log, events...)
		e := lastStatus(events)
		if e.Status != want {
			t.Fatalf("got %s %s, want %s", e.Status, e.Reason, want)
		}
		return e
	}
	message(schemas.StatusSent, `{"id":%q,"channel":"sms","to":%q,"class":"gate","body":"x","provider":"nobody"}`, actionID, to)
	scheduled := message(schemas.StatusScheduled, `{"id":%q,"channel":"sms","to":%q,"class":"verify","body":"x","send_at":%q}`, actionID, other, schemas.MillisOf(time.Now().Add(time.Hour)))
	action(`{"action":"suppress","to":"138 0000 0000","class":"verify"}`, schemas.VerdictSuppress, "suppress")
	action(`{"action":"cancel","id":"0b6f0e7e-0000-4000-8000-000000000002","to":"`+other+`"}`, schemas.VerdictCancel, "remembered")
	action(fmt.Sprintf(`{"action":"record","channel":"sms","to":%q,"class":"verify","at":%q}`, other, schemas.MillisOf(time.Now())), schemas.VerdictRecord, "")
	restart()
	action(fmt.Sprintf(`{"action":"release","id":%q,"to":"138 0000 0000"}`, actionID), schemas.VerdictGiveBack, "released")
	action(`{"action":"suppress","to":"+8613800000000","class":"verify"}`, schemas.VerdictNothing, "repeated")
	message(schemas.StatusSuppressed, `{"channel":"sms","to":"+8613800000000","class":"verify","body":"x"}`)
	message(schemas.StatusCancelled, `{"id":"0b6f0e7e-0000-4000-8000-000000000002","channel":"sms","to":"+8613800000001","class":"verify","body":"x"}`)
	message(schemas.StatusLimited, `{"channel":"sms","to":"+8613800000001","class":"verify","body":"x"}`) // by the record
	if e := message(schemas.StatusCancelled, `{"action":"cancel","id":%q,"to":%q}`, actionID, other); e.MessageID != scheduled.MessageID || *e.Source != *scheduled.Source {
		t.Errorf("ended %+v", e)
	}
	action(`{"action":"unsuppress","to":"+8613800000000","class":"verify"}`, schemas.VerdictSuppress, "unsuppress")
	restart()
	action(fmt.Sprintf(`{"action":"release","id":%q,"to":%q}`, actionID, to), schemas.VerdictNothing, "repeated")
	action(fmt.Sprintf(`{"action":"cancel","id":%q,"to":%q}`, actionID, other), schemas.VerdictNothing, "cancelled")
	message(schemas.StatusQueued, `{"channel":"sms","to":"+8613800000000","class":"verify","body":"x"}`)
	dense(t, log)
}

// delay runs a delay worker until the test ends.
func (w *world) delay() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- delay.Run(ctx, delay.Config{
			Stream: stream.Config{Brokers: w.seeds, TransactionalID: "delay-0", SessionTimeout: 6 * time.Second},
			Names:  w.names, Partitions: partitions, DelayPartitions: partitions,
		})
	}()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("delay: %v", err)
		}
	})
}

// TestCancelledComesBack: the record of a cancelled message returns from its
// delay and is nothing but a decision.
func TestCancelledComesBack(t *testing.T) {
	w := newWorld(t)
	w.admit("0")
	w.delay()
	w.request(0, `{"channel":"sms","to":"+8613800000001","class":"verify","body":"x"}`)
	log := w.statuses(1) // by now it decides: what is to wait is scheduled before its time
	w.request(0, `{"id":%q,"channel":"sms","to":"+8613800000000","class":"verify","body":"x","send_at":%q}`, actionID, schemas.MillisOf(time.Now().Add(5*time.Second)))
	w.request(0, `{"action":"cancel","id":%q,"to":"+8613800000000"}`, actionID)
	events := w.statuses(2)
	if e := lastStatus(events); e.Status != schemas.StatusCancelled || e.MessageID != actionID {
		t.Fatalf("not cancelled: %s", text(events))
	}
	e, more := w.decision()
	if e.Decision.Verdict != schemas.VerdictNothing || e.Reason != "cancelled" || e.MessageID != actionID || e.Decision.Input.Topic != w.names.Readmit() {
		t.Errorf("came back as %s", text(more))
	}
	dense(t, slices.Concat(log, events, more))
}

// TestCancelFreesATurnOnABroker: through the delay topics, a message is admitted in
// the turn of the cancelled one before it, and the next in its own old turn.
func TestCancelFreesATurnOnABroker(t *testing.T) {
	w := newWorld(t)
	pol := w.pol.Latest().Policy
	pol.Limits = append(slices.Clone(pol.Limits), schemas.Limit{Name: "slow", Match: schemas.Match{Class: []string{"slow"}}, Per: []string{"recipient"},
		Allow: []schemas.Window{{Kind: schemas.WindowRolling, N: 1, Length: 20 * time.Second}}, OnRefusal: schemas.RefusalDefer})
	if _, err := w.pol.Publish(t.Context(), w.cl, w.pol.Latest().Revision, "test", pol); err != nil {
		t.Fatal(err)
	}
	w.admit("0")
	w.delay()
	id := func(i int) string { return actionID[:len(actionID)-1] + fmt.Sprint(i) }
	const to = "+8613800000000"
	for i := range 4 {
		w.request(schemas.PartitionOf(to, partitions), `{"id":%q,"channel":"sms","to":%q,"class":"slow","body":"x"}`, id(i), to)
	}
	log := w.statuses(4)
	told := make(map[string]schemas.Millis)
	for _, e := range log {
		if e.Kind == schemas.KindStatus {
			told[e.MessageID] = e.RetryAt
		}
	}
	w.request(schemas.PartitionOf(to, partitions), `{"action":"cancel","id":%q,"to":%q}`, id(1), to)
	later := w.statuses(3)
	log = append(log, later...)
	for i, want := range []schemas.Status{schemas.StatusCancelled, schemas.StatusQueued, schemas.StatusQueued} {
		e := only(later, want)[max(i-1, 0)]
		if e.MessageID != id(i+1) || i > 0 && (e.At < told[id(i)] || e.At >= told[id(i+1)]) {
			t.Errorf("%s %s at %s: its turn was at %s, that of the one before it at %s", e.MessageID, e.Status, e.At, told[id(i+1)], told[id(i)])
		}
	}
	dense(t, log)
}

// TestAbortedActionsLeaveNothing: an action in a transaction that the broker
// refused is carried out once, when it is decided anew.
func TestAbortedActionsLeaveNothing(t *testing.T) {
	w := newWorld(t)
	refuse, refused := streamtest.RefuseOffsets(w.broker)
	refuse.Store(2)
	const to = "+8613800000000"
	p := schemas.PartitionOf(to, partitions)
	w.request(p, `{"id":%q,"channel":"sms","to":%q,"class":"verify","body":"x","send_at":%q}`, actionID, to, schemas.MillisOf(time.Now().Add(time.Hour)))
	w.request(p, `{"action":"cancel","id":%q,"to":%q}`, actionID, to)
	w.request(p, `{"action":"suppress","to":%q}`, to)
	w.request(p, `{"channel":"sms","to":%q,"class":"verify","body":"x"}`, to)
	w.admit("0")
	events := w.statuses(3)
	for s, n := range map[schemas.Status]int{schemas.StatusScheduled: 1, schemas.StatusCancelled: 1, schemas.StatusSuppressed: 1} {
		if len(only(events, s)) != n {
			t.Fatalf("after two aborts: %s", text(events))
		}
	}
	suppressed := 0
	for _, e := range events {
		if e.Kind == schemas.KindDecision && e.Decision.Verdict == schemas.VerdictSuppress {
			suppressed++
		}
	}
	if suppressed != 1 {
		t.Errorf("%d suppressions: %s", suppressed, text(events))
	}
	dense(t, events)
	if refused.Load() != 2 {
		t.Fatalf("the broker refused %d commits, want 2", refused.Load())
	}
}
