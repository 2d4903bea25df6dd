//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhq/weir/deploy/local"
	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/topics"
)

// tail is the end of some topics that the broker acknowledged and lost. Where weir audit says
// proven then, no recipient got more than the limits allow, no message was called twice, and
// none is lost. Else the worker or the audit names what it found.
type tail struct {
	name   string
	topics func(topics.Names) []string
	dies   bool // the worker dies with the broker, and starts again when the log is longer than what it had read
}

func only(topic func(topics.Names) string) func(topics.Names) []string {
	return func(n topics.Names) []string { return []string{topic(n)} }
}

func dispatches(n topics.Names) (all []string) {
	for _, q := range topics.Queues {
		all = append(all, n.Dispatch("phone", q))
	}
	return all
}

func delayTopics(n topics.Names) (all []string) {
	for _, tier := range topics.Tiers {
		all = append(all, n.Delay(tier.Name))
	}
	return all
}

var tails = []tail{
	{name: "nothing", topics: func(topics.Names) []string { return nil }},
	{name: "requests", topics: only(topics.Names.Requests)},
	{name: "readmit", topics: only(topics.Names.Readmit)},
	{name: "status", topics: only(topics.Names.Status)},
	{name: "ledger", topics: only(topics.Names.Ledger)},
	{name: "seen", topics: only(topics.Names.Seen)},
	{name: "dispatch", topics: dispatches},
	{name: "journal", topics: only(func(n topics.Names) string { return n.Journal("phone") })},
	{name: "delay", topics: delayTopics},
	{name: "dlq", topics: only(topics.Names.DLQ)},
}

func init() {
	for _, c := range tails {
		for _, c.dies = range []bool{false, true} {
			name := "tail of " + c.name + " lost"
			if c.dies {
				name += " with the worker"
			}
			scenarios = append(scenarios, scenario{name, local.Options{Apart: true}, c.run, nil})
		}
	}
}

func sum(offsets kadm.ListedOffsets) (n int64) {
	offsets.Each(func(at kadm.ListedOffset) { n += at.Offset })
	return n
}

// unread notes which requests are lost before anyone decided them: those at a mark or after it.
// Nothing but their producer can know of them.
func (x *traffic) unread(acked map[string]Offset, marks kadm.ListedOffsets) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, at := range acked {
		if mark, ok := marks.Lookup(x.names.Requests(), at.Partition); ok && at.Offset >= mark.Offset {
			x.gone[id] = true
		}
	}
}

// decided takes back what unread noted of requests that were decided before.
func (x *traffic) decided() {
	x.t.Helper()
	ends, _ := x.ends()
	x.mu.Lock()
	defer x.mu.Unlock()
	for id := range ends {
		delete(x.gone, id)
	}
}

// logEnds are the ends of all partitions of some topics.
func (x *traffic) logEnds(names []string) kadm.ListedOffsets {
	x.t.Helper()
	if len(names) == 0 {
		return nil
	}
	var all kadm.ListedOffsets
	var err error
	if !poll(x.t, brokersStart, func() bool { // leaders may be dead, and not yet replaced
		if all, err = x.adm.ListEndOffsets(x.t.Context(), names...); err == nil {
			err = all.Error()
		}
		return err == nil
	}) {
		x.t.Fatal(err)
	}
	return all
}

// beyond waits until 1,500 requests have ended, and the topics have 40 records more than at the
// marks: much of what is to be lost has been read and decided.
func (x *traffic) beyond(marks kadm.ListedOffsets, names []string) {
	x.t.Helper()
	if !poll(x.t, brokersStart, func() bool {
		x.wait(time.Second)
		ended, _ := x.ends()
		return len(ended) >= 1_500 && (len(names) == 0 || sum(x.logEnds(names)) >= sum(marks)+40)
	}) {
		x.t.Fatalf("too little comes to %v", names)
	}
}

// run is traffic, a broker that is killed and comes back without the tails, traffic again,
// and a worker that is killed and restores what is left.
func (c tail) run(t *testing.T, k *local.Kafka, _ scale) figures {
	x := newTraffic(t, k.Addrs(), "tail", "", 5)
	w := x.run(0, roles)
	x.stable(1)
	x.start(150)
	x.until(1_000)
	names := c.topics(x.names)
	marks := x.logEnds(names)
	x.beyond(marks, names)
	k.Kill(0)
	if c.dies {
		w.Kill()
	}
	x.unread(x.acked, marks)
	batches := 0
	marks.Each(func(at kadm.ListedOffset) {
		n, err := k.CutTail(0, at.Topic, at.Partition, at.Offset)
		if err != nil {
			t.Fatal(err)
		}
		batches += n
	})
	x.note("the broker is killed, and %d batches of %s are cut", batches, c.name)
	if batches == 0 && len(names) > 0 {
		t.Fatal("nothing was cut: this run shows nothing")
	}
	ctx, cancel := context.WithTimeout(t.Context(), brokersStart)
	defer cancel()
	if err := k.Restart(ctx, 0); err != nil {
		t.Fatal(err)
	}
	x.decided()
	x.until(x.count() + 1_500)
	if c.dies {
		w = x.run(0, roles)
	}
	return x.survives(w)
}

// survives goes on with a worker whose logs have lost something: traffic, a kill and a restore
// of what is left, and a repair where the worker asks for one. It judges at the end.
func (x *traffic) survives(w *Process) figures {
	t := x.t
	t.Helper()
	x.until(x.count() + 500)
	x.finish()

	var stops []string
	stopped := false
	for restored := false; ; restored = true {
		if x.quiet(w) == nil {
			if restored {
				x.stop(w)
				break
			}
			w.Kill()
			x.note("killed, to restore what is left")
		} else {
			last := w.Tail(1)
			x.note("the worker ended: %s", last)
			stops = append(stops, last)
			stopped = true
			repair := []string{"ledger", "repair", "--skip-deleted"}
			switch has := func(err error) bool { return strings.Contains(last, err.Error()) }; {
			case len(stops) > 2:
				repair = nil
			case has(admission.ErrPositions), has(admission.ErrLedgerLost):
				repair = append(repair, "--forget")
			case has(stream.ErrDataLoss) && strings.Contains(last, "requests.admission"), strings.Contains(last, "weir ledger repair"):
			default:
				repair = nil
			}
			if repair == nil {
				break
			}
			out, err := x.try(repair...)
			x.note("weir %s: %v\n%s", strings.Join(repair, " "), err, out)
			if err != nil {
				break
			}
		}
		stopped = false
		w = x.run(0, roles)
		x.more(300)
	}
	f := x.judge()
	f.sound(t, stopped)
	return figures{said: fmt.Sprintf("%s; stops %q", f, slices.Compact(stops))}
}
