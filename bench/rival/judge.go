package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// sending is one message that went out, and when, by the limiter's own stamps: one
// for each limit, in microseconds.
type sending struct {
	id     string
	tenant string
	at     [2]int64
}

// refusal is one message that did not.
type refusal struct {
	id     string
	tenant string
	at     int64
	by     int // the limit that says it was full; -1 where none is named
}

// outcome is what a run came to, counted from its log alone.
type outcome struct {
	System   string  `json:"system"`
	Seed     uint64  `json:"seed"`
	Requests int     `json:"requests"`
	Sent     int     `json:"sent"`      // sendings
	Refused  int     `json:"refused"`   // messages that were refused and never sent
	Over     int     `json:"over"`      // sendings with which a window held more than n sendings
	OverOnce int     `json:"over_once"` // the same if a message counts at its first sending only
	Densest  float64 `json:"densest"`   // the fullest window, as a part of its n
	Wrong    int     `json:"wrong"`     // refused, though no window of any limit was full of sendings
	WrongOwn int     `json:"wrong_own"` // the same of the limit alone that said it was full, where one did
	Room     int     `json:"room"`      // the most places that were free in the fullest window when one was refused wrongly
	Lost     int     `json:"lost"`      // neither sent nor refused
	Again    int     `json:"again"`     // sendings of messages that were sent before
	// Of Weir alone: refusals by a limit that was not full even of the places that
	// stood in its owner's log, among them those of messages under way; and how long
	// places stood that were given back, in milliseconds.
	Groundless int     `json:"groundless,omitempty"`
	GivenBack  int     `json:"given_back,omitempty"`
	HeldMedian int64   `json:"held_median,omitempty"`
	HeldP99    int64   `json:"held_p99,omitempty"`
	Audit      string  `json:"audit,omitempty"`
	Seconds    float64 `json:"seconds"`
}

// judge counts. made are the tenants of all requests. A grace above 0 is in the
// system's favour, wherever two clocks or two commands of one decision could
// differ: windows are shorter by it for who went over, and longer on both sides
// for who was refused.
func judge(made map[string]string, sent []sending, refused []refusal, grace time.Duration) outcome {
	o := outcome{Requests: len(made), Sent: len(sent)}
	slack := grace.Microseconds()

	first := make(map[string]sending, len(sent))
	for _, s := range sent {
		if was, ok := first[s.id]; ok {
			o.Again++
			if was.at[0] < s.at[0] {
				continue
			}
		}
		first[s.id] = s
	}
	var firsts []sending
	for _, s := range first {
		firsts = append(firsts, s)
	}
	all := shelve(sent)
	o.Over, o.Densest = over(all, len(sent), slack)
	o.OverOnce, _ = over(shelve(firsts), len(firsts), slack)

	turned := make(map[string]bool)
	for _, r := range refused {
		if _, ok := first[r.id]; ok || turned[r.id] {
			continue // the last word on a message is that it was sent; refused twice is refused
		}
		turned[r.id] = true
		o.Refused++
		if n := room(all, r, -1, slack); n > 0 {
			o.Wrong++
			o.Room = max(o.Room, int(n))
		}
		if room(all, r, r.by, slack) > 0 {
			o.WrongOwn++
		}
	}
	for id := range made {
		if _, ok := first[id]; !ok && !turned[id] {
			o.Lost++
		}
	}
	return o
}

// shelf is one scope of one limit.
type shelf struct {
	limit int
	scope string
}

// stamp is a place on a shelf: when, and which sending.
type stamp struct {
	at      int64
	sending int
}

func shelve(sent []sending) map[shelf][]stamp {
	all := make(map[shelf][]stamp)
	for i, s := range sent {
		for l := range limits {
			k := shelf{l, limits[l].scope(s.tenant)}
			all[k] = append(all[k], stamp{s.at[l], i})
		}
	}
	for _, stamps := range all {
		slices.SortFunc(stamps, func(a, b stamp) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.sending, b.sending)) })
	}
	return all
}

// over counts the sendings with which some window held more than n, and finds the
// fullest window.
func over(all map[shelf][]stamp, sendings int, slack int64) (count int, densest float64) {
	bad := make([]bool, sendings)
	for k, stamps := range all {
		for _, w := range limits[k.limit].windows {
			oldest := 0
			for i, s := range stamps {
				for stamps[oldest].at <= s.at-w.length.Microseconds()+slack && oldest < i {
					oldest++
				}
				held := int64(i - oldest + 1)
				densest = max(densest, float64(held)/float64(w.n))
				if held > w.n {
					bad[s.sending] = true
				}
			}
		}
	}
	for _, b := range bad {
		if b {
			count++
		}
	}
	return count, densest
}

// room is how many sendings fewer than n the fullest window of one limit, or with
// -1 of any, held when a message was refused; 0 or less is none.
func room(all map[shelf][]stamp, r refusal, by int, slack int64) int64 {
	least := int64(math.MaxInt64)
	for l := range limits {
		if by >= 0 && by != l {
			continue
		}
		stamps := all[shelf{l, limits[l].scope(r.tenant)}]
		through, _ := slices.BinarySearchFunc(stamps, r.at+slack+1, func(s stamp, at int64) int { return cmp.Compare(s.at, at) })
		for _, w := range limits[l].windows {
			from, _ := slices.BinarySearchFunc(stamps, r.at-w.length.Microseconds()-slack+1, func(s stamp, at int64) int { return cmp.Compare(s.at, at) })
			least = min(least, w.n-int64(through-from))
		}
	}
	return least
}
