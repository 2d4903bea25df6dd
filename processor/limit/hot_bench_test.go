package limit

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// BenchmarkHot is a scope that all messages share, full with 100,000 places of a
// day, decided on again and again: admitted as places leave; refused; a place
// taken and a standing one, of any age, given back; and one moved by a retry.
// Each 1,024 are a transaction, whose records are made and counted: B/batch is
// what the ledger gets.
func BenchmarkHot(b *testing.B) {
	const n, every, batch = 100_000, schemas.Millis(864), 1024
	for _, windows := range []struct {
		name  string
		allow []schemas.Window
	}{
		{"windows=1", []schemas.Window{{Kind: schemas.WindowRolling, N: n, Length: 24 * time.Hour}}},
		{"windows=3", []schemas.Window{{Kind: schemas.WindowRolling, N: n, Length: 24 * time.Hour},
			{Kind: schemas.WindowRolling, N: 60_000, Length: 13 * time.Hour}, {Kind: schemas.WindowRolling, N: 8400, Length: 2 * time.Hour}}},
	} {
		r, err := Compile(&schemas.Policy{Limits: []schemas.Limit{{Name: "hot", Per: []string{}, Allow: windows.allow}}}, nil)
		if err != nil {
			b.Fatal(err)
		}
		asks := []schemas.Ask{{Limit: "hot", Cost: 1}}
		for _, kind := range []string{"admitted", "refused", "given back", "moved"} {
			if len(windows.allow) > 1 && kind != "admitted" && kind != "refused" {
				continue // the shorter windows would fill
			}
			b.Run(windows.name+"/"+kind, func(b *testing.B) {
				t, now := NewTable(), benchStart
				defer t.Close()
				var res Result
				held := make([]schemas.Charge, 0, n) // those that stand
				for range n {
					now += every
					if t.DecideStep(&res, r, nil, asks, nil, nil, now); !res.OK {
						b.Fatal(res.Refused)
					}
					held = append(held, res.Charges[0])
				}
				t.Commit()
				rng := rand.New(rand.NewPCG(1, 2))
				oldest, ops, batches, written := 0, 0, 0, 0
				one := make([]schemas.Charge, 1)
				step := func() {
					at := oldest
					if kind == "given back" || kind == "moved" { // any but those that leave next
						at = n/5 + rng.IntN(n-n/5)
						one[0] = held[at]
						now++
					}
					switch kind {
					case "admitted":
						now += every
						oldest = (oldest + 1) % n
						t.DecideStep(&res, r, nil, asks, nil, nil, now)
					case "refused":
						t.DecideStep(&res, r, nil, asks, nil, nil, now)
					case "given back":
						if returned, _ := t.GiveBack(r, one, now); len(returned) != 1 {
							b.Fatal("not given back")
						}
						t.DecideStep(&res, r, nil, asks, nil, nil, now)
					case "moved":
						t.DecideStep(&res, r, nil, asks, one, nil, now)
					}
					if res.OK == (kind == "refused") {
						b.Fatal("not as meant: ", res)
					}
					if res.OK {
						held[at] = res.Charges[0]
					}
					if ops++; ops%batch == 0 {
						t.Dirty(func(key, value []byte) { written += len(key) + len(value) })
						t.Commit()
						batches++
					}
				}
				for range 3 * batch {
					step()
				}
				batches, written = 0, 0
				benchSteps(b, step, 0)
				b.ReportMetric(float64(written)/float64(max(batches, 1)), "B/batch")
			})
		}
	}
}
