package limit

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

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
	text string
	n, i int
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
}

// next returns the next recipient and the time at which it is decided on: 5,000
// a second, so that one of a million returns after some 200 s, of ten after 33 min.
func (a *arrivals) next() (to string, now schemas.Millis) {
	to, now = a.to(a.i), benchStart+schemas.Millis(a.i/5)
	a.i++
	return to, now
}

func (a *arrivals) to(i int) string {
	at := i % a.n * numberSize
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

// BenchmarkDecide is one decision, after each recipient had two.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{1, 10} { // million
		table := func(name string, calendar bool, step func(*benchTable)) {
			b.Run(fmt.Sprintf("recipients=%dM/table/%s", n, name), func(b *testing.B) {
				s := newBenchTable(b, n*million, calendar)
				defer s.t.Close()
				before := inUse(nil)
				s.fill(func() { step(s) })
				b.ReportAllocs()
				used := inUse(s.t) - before
				for b.Loop() {
					step(s)
				}
				b.ReportMetric(used/float64(s.n), "B/recipient")
			})
		}
		table("batched", false, (*benchTable).batched)
		table("single", false, (*benchTable).step)
		table("calendar/batched", true, (*benchTable).batched)
		b.Run(fmt.Sprintf("recipients=%dM/map", n), func(b *testing.B) {
			s := newBenchMap(n * million)
			before := inUse(nil)
			s.fill(s.step)
			b.ReportAllocs()
			used := inUse(nil) - before
			for b.Loop() {
				s.step()
			}
			b.ReportMetric(used/float64(s.n), "B/recipient")
		})
	}
}

// BenchmarkLoad restores a ledger of a million recipients.
func BenchmarkLoad(b *testing.B) {
	s := newBenchTable(b, million, true)
	type record struct {
		key   [16]byte
		value []byte
	}
	var ledger []record
	for range s.n {
		to, now := s.next()
		s.s.Recipient = to
		s.t.DecideInto(&s.res, s.r, &s.s, nil, now)
	}
	s.t.Dirty(func(key [16]byte, value []byte) { ledger = append(ledger, record{key, value}) })
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
