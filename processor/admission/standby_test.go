package admission_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// said is a log handler that keeps what a worker says, by message.
type said struct {
	mu    sync.Mutex
	lines map[string][]map[string]int64
}

func (*said) Enabled(context.Context, slog.Level) bool { return true }
func (s *said) WithAttrs([]slog.Attr) slog.Handler     { return s }
func (s *said) WithGroup(string) slog.Handler          { return s }
func (s *said) Handle(_ context.Context, r slog.Record) error {
	line := make(map[string]int64)
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindInt64 {
			line[a.Key] = a.Value.Int64()
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines[r.Message] = append(s.lines[r.Message], line)
	return nil
}

func (s *said) all(message string) []map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]map[string]int64(nil), s.lines[message]...)
}

// wait waits until a line with the message fits.
func (s *said) wait(t *testing.T, message string, fits func(map[string]int64) bool) map[string]int64 {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for time.Now().Before(deadline) {
		all := s.all(message)
		if len(all) > 0 && fits(all[len(all)-1]) {
			return all[len(all)-1]
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("it never said what was waited for: %q: %v", message, s.all(message))
	return nil
}

// standby runs an admission worker that follows what it does not own.
func (w *world) standby(slot string) (*said, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	log := &said{lines: make(map[string][]map[string]int64)}
	go func() {
		done <- admission.Run(ctx, admission.Config{
			Stream:     stream.Config{Brokers: w.seeds, TransactionalID: "admission-" + slot, SessionTimeout: 6 * time.Second, BatchBytes: w.names.BatchBytes},
			Read:       stream.ReadConfig{Brokers: w.seeds},
			Names:      w.names,
			Partitions: partitions, DelayPartitions: partitions, DLQPartitions: partitions,
			Standby: true, Logger: slog.New(log),
		}, w.pol)
	}()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				w.t.Errorf("admission %s: %v", slot, err)
			}
		})
	}
	w.t.Cleanup(stop)
	return log, stop
}

func to(i int) string { return fmt.Sprintf("+861380000%04d", i) }

func (w *world) send(i int) {
	w.t.Helper()
	w.request(schemas.PartitionOf(to(i), partitions), `{"channel":"sms","to":%q,"class":"verify","body":"x"}`, to(i))
}

// TestTakeoverFromAStandby: the worker that stays has followed what the other
// owned: it reads only what came after, decides on what the other had decided,
// and what it loses it follows on.
func TestTakeoverFromAStandby(t *testing.T) {
	w := newWorld(t)
	const n = 60
	a, stopA := w.standby("0")
	a.wait(t, "partitions restored", func(l map[string]int64) bool { return l["owned"] == partitions })
	for i := range n {
		w.send(i)
	}
	log := w.statuses(n)
	b, stopB := w.standby("1")
	for _, worker := range []*said{a, b} {
		worker.wait(t, "partitions restored", func(l map[string]int64) bool { return l["owned"] == partitions/2 })
		worker.wait(t, "standby has caught up", func(l map[string]int64) bool { return l["partitions"] == partitions/2 })
	}
	if last := a.all("partitions restored")[1]; last["cold"] != 0 {
		t.Errorf("what came back to a was restored from nothing: %v", last)
	}
	for i := range n {
		w.send(n + i)
	}
	log = append(log, w.statuses(n)...)
	stopA()
	took := b.wait(t, "partitions restored", func(l map[string]int64) bool { return l["owned"] == partitions })
	// Of the ledger's 2n places and dozens of meta records, at most the second
	// half was still to be read.
	if took["cold"] != 0 || took["records"] > 2*n {
		t.Errorf("took over with %v", took)
	}
	for i := range 2 * n {
		w.send(i)
	}
	again := w.statuses(2 * n)
	log = append(log, again...)
	if q, l := only(again, schemas.StatusQueued), only(again, schemas.StatusLimited); len(tooSoon(log)) != 0 || len(q)+len(l) != 2*n {
		t.Fatalf("after the takeover %d queued, %d of them too soon, and %d limited", len(q), len(tooSoon(log)), len(l))
	}
	dense(t, log)
	// Back to a, which starts with nothing but catches up before it owns all.
	c, _ := w.standby("2")
	c.wait(t, "standby has caught up", func(l map[string]int64) bool { return l["partitions"] == partitions/2 })
	stopB()
	if took := c.wait(t, "partitions restored", func(l map[string]int64) bool { return l["owned"] == partitions }); took["cold"] != 0 {
		t.Errorf("took over with %v", took)
	}
	for i := range 2 * n {
		w.send(i)
	}
	log = append(log, w.statuses(2*n)...)
	if q := tooSoon(log); len(q) != 0 {
		t.Fatalf("after the second takeover %d queued too soon", len(q))
	}
	dense(t, log)
}

// tooSoon are the messages that were let through less than the limit's minute after
// another to the same recipient.
func tooSoon(events []*schemas.Event) (out []*schemas.Event) {
	let := only(events, schemas.StatusQueued)
	slices.SortFunc(let, func(a, b *schemas.Event) int { return cmp.Compare(a.Decision.T, b.Decision.T) })
	last := make(map[string]schemas.Millis)
	for _, e := range let {
		if at, ok := last[e.To]; ok && e.Decision.T.Sub(at) < time.Minute {
			out = append(out, e)
		}
		last[e.To] = e.Decision.T
	}
	return out
}

// TestWorkersComeAndGoUnderLoad: whoever owns a partition, one place a recipient
// and minute.
func TestWorkersComeAndGoUnderLoad(t *testing.T) {
	w := newWorld(t)
	const recipients, rounds = 40, 6
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan int, 1)
	go func() {
		n := 0
		for ctx.Err() == nil {
			w.send(n % recipients)
			n++
		}
		sent <- n
	}()
	var logs []*said
	var stops []func()
	for i := range rounds {
		log, stop := w.standby(fmt.Sprint(i))
		logs, stops = append(logs, log), append(stops, stop)
		log.wait(t, "partitions restored", func(l map[string]int64) bool { return l["owned"] > 0 && l["owned"] < partitions || i == 0 })
		if i > 0 { // the first owns everything, and has nothing to follow
			log.wait(t, "standby has caught up", func(l map[string]int64) bool { return true })
			stops[i-1]()
		}
	}
	cancel()
	n := <-sent
	all := w.statuses(n)
	warm := 0
	for _, log := range logs {
		for _, l := range log.all("partitions restored") {
			if l["owned"] > 0 && l["cold"] == 0 {
				warm++
			}
		}
		if anew := append(log.all("state began anew"), log.all("standby began anew")...); len(anew) > 0 {
			t.Errorf("%d states began anew", len(anew))
		}
	}
	queued := make(map[string]int)
	for _, e := range only(all, schemas.StatusQueued) {
		queued[e.To]++
	}
	for i := range recipients {
		if queued[to(i)] == 0 {
			t.Errorf("no message to recipient %d passed of %d", i, n)
		}
	}
	if soon := tooSoon(all); len(soon) > 0 {
		t.Errorf("%d passed within a minute of another", len(soon))
	}
	dense(t, all)
	if warm < rounds-1 {
		t.Errorf("%d takeovers from a standby in %d rounds", warm, rounds)
	}
	t.Logf("%d requests, %d warm takeovers", n, warm)
}
