package admission

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

func randomWaiter(r *rand.Rand) waiter {
	m := waiter{
		Version: waiterVersion,
		Channel: "sms", Class: fmt.Sprint("c", r.IntN(20)), Template: "t", Provider: "one",
		Origin:     schemas.Source{Topic: "weir.requests", Partition: int32(r.IntN(8)), Offset: r.Int64N(1 << 40)},
		AcceptedAt: schemas.Millis(r.Int64N(1 << 41)), Attempt: r.IntN(5),
		Taint:     []schemas.Taint{schemas.TaintNone, schemas.TaintReceived, schemas.TaintUnknown}[r.IntN(3)],
		Cancelled: r.IntN(2) == 0,
	}
	if r.IntN(4) == 0 {
		m.Place = []schemas.Charge{{Limit: "l", Scope: "s", T: schemas.Millis(r.IntN(99)), Cost: 1}}
	}
	if r.IntN(9) == 0 {
		m.RedriveOf = otherID
	}
	return m
}

// TestWaitTableIsAMap holds the table to a map, through transactions kept and
// dropped, and records written and read back.
func TestWaitTableIsAMap(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		w, model := newWaiting(), make(map[stateKey]waiter)
		ledger, records := newWaiting(), make(map[stateKey][]byte)
		key := func() (k stateKey) {
			k[0], k[1], k[15] = byte(r.IntN(2)), byte(r.IntN(4)), byte(r.IntN(40)) // few homes: long probes
			return k
		}
		for range 300 {
			next := make(map[stateKey]*waiter)
			for range r.IntN(6) {
				k := key()
				if r.IntN(5) < 2 {
					w.remove(k)
					next[k] = nil
				} else {
					m := randomWaiter(r)
					w.put(k, m)
					next[k] = &m
				}
			}
			if r.IntN(4) == 0 {
				w.rollback()
			} else {
				if err := w.dirty(func(k stateKey, v []byte) {
					records[k] = v
					if err := ledger.load(k, v); err != nil {
						t.Fatal(err)
					}
				}); err != nil {
					t.Fatal(err)
				}
				w.commit()
				for k, m := range next {
					if delete(model, k); m != nil {
						model[k] = *m
					}
				}
			}
			var sum limit.Sum
			for k, v := range records {
				sum.Replace(k, 0, limit.CheckOf(k[:], v))
			}
			k := key()
			want, stands := model[k]
			for name, x := range map[string]*waiting{"table": w, "restored": ledger} {
				got, ok := x.find(k)
				got.check = 0 // of its record: the model has none
				if ok != stands || !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d: %s has %+v, %v; want %+v, %v", seed, name, got, ok, want, stands)
				}
				if got := x.tally.sum(); got != sum {
					t.Fatalf("seed %d: the sum of the %s is %+v, that of the records %+v", seed, name, got, sum)
				}
			}
		}
		for name, x := range map[string]*waiting{"table": w, "restored": ledger} {
			if x.base.n != len(model) {
				t.Fatalf("seed %d: %s has %d, want %d", seed, name, x.base.n, len(model))
			}
			for k := range model {
				x.base.remove(k)
			}
			if len(x.base.numbers) != 0 || len(x.base.rest) != 0 || len(x.base.free) != len(x.base.profiles) {
				t.Errorf("seed %d: empty, %s keeps %d profiles and %d places", seed, name, len(x.base.numbers), len(x.base.rest))
			}
		}
	}
}

// TestWaitingCosts: at most 64 bytes each, at whatever size.
func TestWaitingCosts(t *testing.T) {
	var worst float64
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tab := newWaitTable()
	r := rand.New(rand.NewPCG(1, 2))
	m := waiter{Channel: "sms", Class: "code", Origin: schemas.Source{Topic: "weir.requests"}}
	for i := range 1_000_000 {
		var k stateKey
		binary.BigEndian.PutUint64(k[:], r.Uint64())
		binary.BigEndian.PutUint64(k[8:], r.Uint64())
		m.Origin.Offset = int64(i)
		tab.add(k, &m)
		if n := i + 1; n >= 200_000 && n%50_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&after)
			worst = max(worst, float64(after.HeapAlloc-before.HeapAlloc)/float64(n))
		}
	}
	t.Logf("at most %.1f bytes a waiting message", worst)
	if worst > 64 {
		t.Errorf("%.1f bytes a waiting message, at most 64 are allowed", worst)
	}
	runtime.KeepAlive(&tab)
}

// TestForeignStateIsRefused: what does not read as a record of this version
// ends a restore, rather than let a recipient's opt-out be lost.
func TestForeignStateIsRefused(t *testing.T) {
	good := suppressionKey(codeTo)
	for _, c := range []struct {
		name  string
		key   string
		value string
	}{
		{"suppression, torn", "s" + string(good[:]), `{"v":1,"to":"+86138`},
		{"suppression of a later version", "s" + string(good[:]), `{"v":3,"to":"+8613800000000","scopes":[{"at":"2026-11-21T09:00:00.000Z"}]}`},
		{"suppression under another's key", "s0123456789abcdef", `{"v":1,"to":"+8613800000000","scopes":[{"at":"2026-11-21T09:00:00.000Z"}]}`},
		{"suppression of nothing", "s" + string(good[:]), `{"v":1,"to":"+8613800000000","scopes":[]}`},
		{"waiting, torn", "w0123456789abcdef", `{"v":1,`},
		{"waiting, of a later version", "w0123456789abcdef", `{"v":2}`},
		{"a kind nobody knows", "x0123456789abcdef", `{"v":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := newBench(t).p.load([]byte(c.key), []byte(c.value)); err == nil {
				t.Error("it was taken")
			}
		})
	}
}
