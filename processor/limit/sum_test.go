package limit

import (
	"math/rand/v2"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// TestSumOfCloseKeys holds the sum of a table to that of its ledger where keys are close
// neighbours, so that slots move when one is removed and when their shard grows.
func TestSumOfCloseKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	table, ledger := NewTable(), map[string][]byte{}
	defer table.Close()
	for range 20_000 {
		key := appendKey(nil, [2]uint64{uint64(rng.UintN(8)) << 50, uint64(rng.UintN(120))}) // all of one shard
		var value []byte
		if rng.IntN(3) > 0 {
			value = appendRecord(nil, key, &standing{limit: 1, times: []schemas.Millis{benchStart + schemas.Millis(rng.UintN(1000))}, costs: []uint32{1}})
			ledger[string(key)] = value
		} else {
			delete(ledger, string(key))
		}
		if err := table.Load(key, value); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := table.Sum(), sumOf(ledger); got != want || got.Records < 500 {
		t.Errorf("the table's sum is %+v, the ledger's %+v", got, want)
	}
}

// TestSum: it depends on each key and value, and on nothing else.
func TestSum(t *testing.T) {
	type record struct{ key, value string }
	of := func(records ...record) (s Sum) {
		had := map[string]Check{}
		for _, r := range records {
			is := CheckOf([]byte(r.key), []byte(r.value))
			s.Replace([16]byte([]byte(r.key)), had[r.key], is)
			had[r.key] = is
		}
		return s
	}
	a, b := "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"
	want := of(record{a, "1"}, record{b, "2"})
	for name, same := range map[string]Sum{
		"another order":         of(record{b, "2"}, record{a, "1"}),
		"versions before":       of(record{a, "7"}, record{b, "2"}, record{a, ""}, record{a, "1"}),
		"a record that is gone": of(record{a, "1"}, record{"cccccccccccccccc", "3"}, record{b, "2"}, record{"cccccccccccccccc", ""}),
	} {
		if same != want {
			t.Errorf("%s: %+v, want %+v", name, same, want)
		}
	}
	for name, other := range map[string]Sum{
		"a value":          of(record{a, "1"}, record{b, "3"}),
		"exchanged values": of(record{a, "2"}, record{b, "1"}),
		"a missing record": of(record{a, "1"}),
		"an empty ledger":  of(),
	} {
		if other == want {
			t.Errorf("%s is not noticed", name)
		}
	}
}
