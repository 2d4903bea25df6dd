package ingest

import (
	"cmp"
	"net/netip"
	"slices"
)

// held is an open connection, as victims sees it.
type held struct {
	from  netip.Addr // of IPv6 the /64; the zero Addr counts each by itself
	since int64      // when it began to wait for its client; 0 while it does not
}

// victims chooses up to n connections to close: among those that wait for their
// clients, of the addresses that have most open until they have no more than
// others, and of an address the one that has waited longest. So whoever has a few
// keeps them, whatever anyone else opens; and where everyone has one, it is the
// slowest that goes. It returns their indexes.
func victims(all []held, n int) []int {
	type one struct {
		since int64
		at    int
	}
	many := make(map[netip.Addr]int) // of each address, so far
	waiting := make([]one, 0, len(all))
	for i, h := range all {
		if h.since != 0 {
			waiting = append(waiting, one{h.since, i})
		} else if h.from.IsValid() {
			many[h.from]++
		}
	}
	slices.SortFunc(waiting, func(a, b one) int {
		return cmp.Or(cmp.Compare(b.since, a.since), cmp.Compare(b.at, a.at))
	})
	// A connection's rank is how many its address has without it that are to be kept
	// rather than it.
	var ranks [][]int
	for _, w := range waiting {
		rank := 0
		if from := all[w.at].from; from.IsValid() {
			rank = many[from]
			many[from]++
		}
		for len(ranks) <= rank {
			ranks = append(ranks, nil)
		}
		ranks[rank] = append(ranks[rank], w.at)
	}
	out := make([]int, 0, min(n, len(waiting)))
	for _, rank := range slices.Backward(ranks) {
		for _, at := range slices.Backward(rank) {
			if len(out) == cap(out) {
				return out
			}
			out = append(out, at)
		}
	}
	return out
}
