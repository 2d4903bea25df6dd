package limit

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

const benchRecipients = 1_000_000

// benchRules are the verification codes of weir dev's policy, without and with
// the calendar window.
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

var benchNumbers = sync.OnceValue(func() []string {
	out := make([]string, benchRecipients)
	for i := range out {
		out[i] = fmt.Sprintf("+86138%08d", i)
	}
	return out
})

// benchNext visits recipients in an order that no cache helps.
func benchNext(i int) int { return (i*7368787 + 17) % benchRecipients }

const benchStart = schemas.Millis(1_790_000_000_000)

// BenchmarkDecide decides over a million recipients, one after another in no
// order, 1,000 a transaction and 5,000 a second of its time, so that a recipient
// returns after some 200 s and most pass. map is the same rule over a Go map of
// slices, without undo, ledger or calendar.
func BenchmarkDecide(b *testing.B) {
	numbers := benchNumbers()
	for name, calendar := range map[string]bool{"table/rolling": false, "table/calendar": true} {
		b.Run(name, func(b *testing.B) {
			r, t := benchRules(b, calendar), NewTable()
			s, res := Subject{Tenant: "default", Channel: "sms", Class: "verify"}, Result{}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			i := 0
			step := func() {
				s.Recipient = numbers[benchNext(i)]
				t.DecideInto(&res, r, &s, nil, benchStart+schemas.Millis(i/5))
				if i++; i%1000 == 0 {
					t.Commit()
				}
			}
			for range benchRecipients {
				step()
			}
			t.Commit()
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/benchRecipients, "B/recipient")
			runtime.KeepAlive(t)
		})
	}
	b.Run("map", func(b *testing.B) {
		places := map[string][]int64{}
		windows := []struct{ n, w int64 }{{1, 60_000}, {5, 3_600_000}, {10, 86_400_000}}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		i := 0
		step := func() {
			now, key := int64(benchStart)+int64(i/5), numbers[benchNext(i)]
			i++
			p := places[key]
			for len(p) > 0 && p[0] <= now-86_400_000 {
				p = p[1:]
			}
			for _, w := range windows {
				if k := int64(len(p)) - w.n; k >= 0 && p[k] > now-w.w {
					return
				}
			}
			places[key] = append(p, now)
		}
		for range benchRecipients {
			step()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportAllocs()
		for b.Loop() {
			step()
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/benchRecipients, "B/recipient")
	})
}

// BenchmarkLoad restores a ledger of a million recipients.
func BenchmarkLoad(b *testing.B) {
	r, t, numbers := benchRules(b, true), NewTable(), benchNumbers()
	type record struct {
		key   [16]byte
		value []byte
	}
	var ledger []record
	for i, to := range numbers {
		t.Decide(r, &Subject{Recipient: to}, nil, benchStart+schemas.Millis(i/5))
	}
	t.Dirty(func(key [16]byte, value []byte) { ledger = append(ledger, record{key, value}) })
	b.ReportAllocs()
	for b.Loop() {
		restored := NewTable()
		for i := range ledger {
			if err := restored.Load(ledger[i].key, ledger[i].value); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*benchRecipients/b.Elapsed().Seconds(), "records/s")
}
