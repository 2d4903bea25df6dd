package limit

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/schemas"
)

// The benchmarks run with -bench only. Those of ten million recipients take a
// gigabyte for the table, or two for the map.

const (
	million    = 1_000_000
	benchStart = schemas.Millis(1_790_000_000_000)
	benchBatch = 64
)

// benchRules is the rule of all of them: 1/60s 5/1h 10/day, a day being 24 h
// that roll or the calendar's.
func benchRules(tb testing.TB, calendar bool) *Rules {
	l := schemas.Limit{Name: "verify", Per: []string{"recipient"}, Allow: []schemas.Window{
		{Kind: schemas.WindowRolling, N: 1, Length: time.Minute}, {Kind: schemas.WindowRolling, N: 5, Length: time.Hour}}}
	if calendar {
		l.Allow = append(l.Allow, schemas.Window{Kind: schemas.WindowCalendar, N: 10, Unit: "day"})
	} else {
		l.Allow = append(l.Allow, schemas.Window{Kind: schemas.WindowRolling, N: 10, Length: 24 * time.Hour})
	}
	r, err := Compile(&schemas.Policy{Limits: []schemas.Limit{l}}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// arrivals is who is decided on, one after another, in an order that no cache
// helps: of n recipients each has had two decisions, in two orders, before the
// measured ones come in a third. The text of a recipient lies beside that of the
// one before it, as a message lies in what was fetched: what is measured is the
// way to its places, not to its name.
type arrivals struct {
	text  string
	n, i  int
	first int // the i of the text's first recipient: no division is measured
}

const numberSize = len("+8613800000000")

func newArrivals(n int) *arrivals { return &arrivals{n: n, text: arrivalOrder(n, 7368787)} }

func arrivalOrder(n, stride int) string {
	b := make([]byte, 0, n*numberSize)
	for i := range n {
		b = append(b, "+8613800000000"...)
		digits := b[len(b)-8:]
		for v := (i*stride + 17) % n; v > 0; v /= 10 {
			digits[len(digits)-1] += byte(v % 10)
			digits = digits[:len(digits)-1]
		}
	}
	return unsafe.String(&b[0], len(b))
}

// fill has step take the decisions that come before.
func (a *arrivals) fill(step func()) {
	for _, stride := range []int{15485863, 32452843} {
		a.text = arrivalOrder(a.n, stride)
		for range a.n {
			step()
		}
	}
	a.text = arrivalOrder(a.n, 7368787)
	for range 1024 { // what was said of the last holds the text before, which would be counted
		step()
	}
}

// next returns the next recipient and the time at which it is decided on: 5,000
// a second, so that one of a million returns after some 200 s, of ten after 33 min.
func (a *arrivals) next() (to string, now schemas.Millis) {
	if a.i == a.first+a.n {
		a.first = a.i
	}
	to, now = a.to(a.i), benchStart+schemas.Millis(a.i/5)
	a.i++
	return to, now
}

func (a *arrivals) to(i int) string {
	for i -= a.first; i >= a.n; i -= a.n {
	}
	at := i * numberSize
	return a.text[at : at+numberSize]
}

// benchTable decides on one arrival after another, 1,024 a transaction, which
// is committed; what the ledger gets is not written.
type benchTable struct {
	*arrivals
	t   *Table
	r   *Rules
	s   Subject
	res Result

	batch [benchBatch]Subject
}

func newBenchTable(tb testing.TB, n int, calendar bool) *benchTable {
	b := &benchTable{arrivals: newArrivals(n), t: NewTable(), r: benchRules(tb, calendar), s: Subject{Tenant: "default", Channel: "sms", Class: "verify"}}
	for i := range b.batch {
		b.batch[i] = b.s
	}
	return b
}

func (b *benchTable) step() {
	to, now := b.next()
	b.s.Recipient = to
	b.t.DecideInto(&b.res, b.r, &b.s, nil, now)
	if b.i%1024 == 0 {
		b.t.Commit()
	}
}

// batched is step that first touches the recipients of the next 64, once in as
// many.
func (b *benchTable) batched() {
	if b.i%benchBatch == 0 {
		for i := range b.batch {
			b.batch[i].Recipient = b.to(b.i + i)
		}
		b.t.Touch(b.r, b.batch[:])
	}
	b.step()
}

// keys is what of batched makes the keys.
func (b *benchTable) keys() {
	if b.i%benchBatch == 0 {
		q := &b.t.ahead
		q.reset()
		for i := range b.batch {
			b.batch[i].Recipient = b.to(b.i + i)
			q.add(&b.r.limits[0], &b.batch[i])
		}
		q.open()
		for i := 0; i < len(q.keys); i += 2 {
			q.sum(i)
		}
	}
	b.next()
}

// benchMap is the rival: the same rule with 24 rolling hours over a map of
// slices. It has no rules to match, no transaction to undo, no evidence, no
// retry-at and no ledger.
type benchMap struct {
	*arrivals
	places map[string][]int64
}

func newBenchMap(n int) *benchMap {
	return &benchMap{arrivals: newArrivals(n), places: map[string][]int64{}}
}

var benchWindows = [...]struct{ n, w int64 }{{1, 60_000}, {5, 3_600_000}, {10, 86_400_000}}

func (b *benchMap) step() {
	to, at := b.next()
	now := int64(at)
	p, known := b.places[to]
	for len(p) > 0 && p[0] <= now-86_400_000 {
		p = p[1:]
	}
	for _, w := range benchWindows {
		if k := int64(len(p)) - w.n; k >= 0 && p[k] > now-w.w {
			return
		}
	}
	if !known {
		to = strings.Clone(to) // a key that stays must not hold the message it came in
	}
	b.places[to] = append(p, now)
}

// inUse is the memory in use that step's owner made: Go's heap and what is
// mapped beside it.
func inUse(t *Table) float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	size := float64(m.HeapAlloc)
	if t != nil {
		size += float64(len(t.memory.chunks) * chunkSize)
	}
	return size
}

// BenchmarkDecide is one decision, of recipients that have had two: one after
// another, and with Touch for each 64; and the keys of those alone. With -count the same table decides on, so
// that 80 million decisions on ten million recipients fill the last window: give
// -benchtime a number.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{1, 10} { // million
		for _, kind := range []string{"rolling", "calendar"} {
			b.Run(fmt.Sprintf("recipients=%dM/table=%s", n, kind), func(b *testing.B) {
				before := inUse(nil)
				s := newBenchTable(b, n*million, kind == "calendar")
				defer s.t.Close()
				s.fill(s.batched)
				size := inUse(s.t) - before - float64(len(s.text))
				b.Run("batched", func(b *testing.B) { benchSteps(b, s.batched, size/float64(s.n)) })
				b.Run("single", func(b *testing.B) { benchSteps(b, s.step, size/float64(s.n)) })
				if hasSHA {
					b.Run("keys", func(b *testing.B) { benchSteps(b, s.keys, 0) })
				}
			})
		}
		b.Run(fmt.Sprintf("recipients=%dM/map", n), func(b *testing.B) {
			before := inUse(nil)
			s := newBenchMap(n * million)
			s.fill(s.step)
			size := inUse(nil) - before - float64(len(s.text))
			b.Run("single", func(b *testing.B) { benchSteps(b, s.step, size/float64(s.n)) })
		})
	}
}

func benchSteps(b *testing.B, step func(), size float64) {
	b.ReportAllocs()
	began := cpuTime()
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64(cpuTime()-began)/float64(b.N), "cpu-ns/op")
	if size > 0 {
		b.ReportMetric(size, "B/recipient")
	}
}

// cpuTime is what this process used of the processors so far: on a machine that
// is shared it says more than the clock.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCollect is a full cycle of the garbage collector with ten million
// recipients in memory, as runtime.GC takes it.
func BenchmarkCollect(b *testing.B) {
	b.Run("recipients=10M/table", func(b *testing.B) {
		s := newBenchTable(b, 10*million, false)
		defer s.t.Close()
		s.fill(s.batched)
		runtime.GC()
		b.Run("cycle", benchCycle)
	})
	b.Run("recipients=10M/map", func(b *testing.B) {
		s := newBenchMap(10 * million)
		s.fill(s.step)
		runtime.GC()
		b.Run("cycle", benchCycle)
		runtime.KeepAlive(s.places)
	})
}

func benchCycle(b *testing.B) {
	for b.Loop() {
		runtime.GC()
	}
}

// BenchmarkPauses reports the longest of the steps that a table of ten million
// recipients takes now and then: to grow a shard, while it is filled, and to
// look at so many slots for those that no window sees, all of which it empties.
func BenchmarkPauses(b *testing.B) {
	const slots = 1024
	for b.Loop() {
		s := newBenchTable(b, 10*million, false)
		var grow, sweep []time.Duration
		to := arrivalOrder(s.n, 15485863)
		for s.text, s.i = to, 0; s.i < s.n; {
			size := s.t.memory.next - uint32(len(s.t.memory.free))
			began := time.Now()
			s.step()
			if took := time.Since(began); s.t.memory.next-uint32(len(s.t.memory.free)) != size {
				grow = append(grow, took)
			}
		}
		s.t.Commit()
		later := benchStart + schemas.Millis(s.n) + 2*day
		for dropped := 0; dropped < s.n; {
			began := time.Now()
			dropped += s.t.Sweep(s.r, later, slots)
			sweep = append(sweep, time.Since(began))
			s.t.Commit()
		}
		s.t.Close()
		for name, steps := range map[string][]time.Duration{"grow": grow, "sweep": sweep} {
			slices.Sort(steps)
			b.ReportMetric(float64(steps[len(steps)-1].Microseconds()), name+"-max-µs")
			b.ReportMetric(float64(steps[len(steps)*99/100].Microseconds()), name+"-p99-µs")
			b.ReportMetric(float64(steps[len(steps)/2].Microseconds()), name+"-p50-µs")
		}
	}
}

// BenchmarkLoad restores a ledger of a million recipients.
func BenchmarkLoad(b *testing.B) {
	s := newBenchTable(b, million, true)
	type record struct {
		key, value []byte
	}
	var ledger []record
	for range s.n {
		to, now := s.next()
		s.s.Recipient = to
		s.t.DecideInto(&s.res, s.r, &s.s, nil, now)
	}
	s.t.Dirty(func(key, value []byte) { ledger = append(ledger, record{key, value}) })
	s.t.Close()
	b.ReportAllocs()
	for b.Loop() {
		restored := NewTable()
		for i := range ledger {
			if err := restored.Load(ledger[i].key, ledger[i].value); err != nil {
				b.Fatal(err)
			}
		}
		restored.Close()
	}
	b.ReportMetric(float64(b.N)*million/b.Elapsed().Seconds(), "records/s")
}
