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
	groups := make(map[netip.Addr][]int)
	for i, h := range all {
		groups[h.from] = append(groups[h.from], i)
	}
	// A connection's rank is how many its address has with it, counted from the
	// one that is to be kept longest.
	rank := make([]int, len(all))
	waiting := make([]int, 0, len(all))
	for from, group := range groups {
		slices.SortFunc(group, func(a, b int) int { return cmp.Or(byAge(all[a], all[b]), cmp.Compare(a, b)) })
		for r, i := range group {
			rank[i] = r
			if !from.IsValid() {
				rank[i] = 0
			}
			if all[i].since != 0 {
				waiting = append(waiting, i)
			}
		}
	}
	slices.SortFunc(waiting, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank[b], rank[a]), cmp.Compare(all[a].since, all[b].since), cmp.Compare(a, b))
	})
	return waiting[:min(n, len(waiting))]
}

// byAge puts those first that do not wait, then those that have begun to last.
func byAge(a, b held) int {
	if (a.since == 0) != (b.since == 0) {
		if a.since == 0 {
			return -1
		}
		return 1
	}
	return cmp.Compare(b.since, a.since)
}
