package audit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// A scope of very many places answers as a plain list would: the same random
// steps are taken by both.
func TestTallScopesCountAsListsDo(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		p, k := newPlaces(), sumOf("l", "s")
		var all []standing // by time
		now := schemas.Millis(1000)
		for step := range 3000 {
			seen := now - 900
			switch what := r.IntN(20); {
			case what < 12:
				now += schemas.Millis(r.IntN(3))
				at := now
				if what == 0 { // sent elsewhere, a while ago
					at -= schemas.Millis(r.IntN(500))
				}
				pl := standing{at, uint64(step) + 100, int64(1 + r.IntN(3))} // a message stands at most once at a time
				p.add(k, pl.t, pl.cost, pl.message, seen)
				i := slices.IndexFunc(all, func(o standing) bool { return o.t > pl.t })
				if i < 0 {
					i = len(all)
				}
				all = slices.Insert(all, i, pl)
			case what < 15 && len(all) > 0:
				pl := all[r.IntN(len(all))]
				if r.IntN(4) == 0 {
					pl.message = 99
				}
				i := slices.Index(all, pl)
				if pl.t < seen {
					continue // it may have been forgotten
				}
				if got := p.remove(k, pl.t, pl.cost, pl.message); got != (i >= 0) {
					t.Fatalf("seed %d step %d: remove says %v", seed, step, got)
				}
				if i >= 0 {
					all = slices.Delete(all, i, i+1)
				}
			default:
				from, mine := now-schemas.Millis(r.IntN(900)), uint64(0)
				var without []schemas.Charge
				if len(all) > 0 && r.IntN(2) == 0 {
					own := all[r.IntN(len(all))]
					mine = own.message
					without = []schemas.Charge{{T: own.t, Cost: own.cost}}
				}
				away := slices.Clone(without)
				var want []standing
				for _, pl := range all {
					i := slices.IndexFunc(away, func(c schemas.Charge) bool {
						return pl.message == mine && c.T == pl.t && c.Cost == pl.cost
					})
					if i >= 0 {
						away = slices.Delete(away, i, i+1)
					} else if pl.t >= from && pl.t <= now {
						want = append(want, pl)
					}
				}
				n, oldest := int64(0), schemas.Millis(0)
				for i, pl := range want {
					n += pl.cost
					if i == 0 {
						oldest = pl.t
					}
				}
				got, first := p.count(k, from, now, without, mine)
				if got != n || first != oldest {
					t.Fatalf("seed %d step %d: %d from %d, want %d from %d", seed, step, got, first, n, oldest)
				}
				if n == 0 {
					continue
				}
				leave := 1 + r.Int64N(n)
				left, wantAt := leave, schemas.Millis(0)
				for _, pl := range want {
					if left -= pl.cost; left <= 0 {
						wantAt = pl.t
						break
					}
				}
				if at := p.leaving(k, from, now, without, mine, n, leave); at != wantAt {
					t.Fatalf("seed %d step %d: %d of %d leave with the place of %d, want %d", seed, step, leave, n, at, wantAt)
				}
			}
		}
		if p.of(k) == nil {
			t.Fatalf("seed %d: the scope never became tall", seed)
		}
		p.sweep(now + 1)
		if len(p.heads) != 0 || len(p.spare) != 1 {
			t.Errorf("seed %d: a sweep leaves %d scopes, %d spare", seed, len(p.heads), len(p.spare))
		}
	}
}

// BenchmarkHotScope is a place more and a recount in a scope of n places: its
// cost must not grow with n.
func BenchmarkHotScope(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p, k := newPlaces(), sumOf("l", "s")
			now := schemas.Millis(1_000_000_000)
			for range n {
				now++
				p.add(k, now, 1, uint64(now), 0)
			}
			for b.Loop() {
				now++
				p.add(k, now, 1, uint64(now), now-schemas.Millis(n))
				if got, _ := p.count(k, now-schemas.Millis(n)+1, now, nil, 0); got != int64(n) {
					b.Fatal(got)
				}
			}
		})
	}
}
