package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// way is one manner of keeping the limit. open returns a fresh one.
type way struct {
	name string
	open func() func(who int, at int64) bool
}

var ways = []way{
	{"places with their times (Weir)", places},
	{"windows aligned to the clock", aligned},
	{"INCR, and EXPIRE each time", expiring},
	{"sliding counter of two windows", sliding},
	{"GCRA", gcra},
	{"log of attempts, refused ones too", logged},
}

// places is Weir's own table.
func places() func(int, int64) bool {
	doc, err := schemas.ParsePolicy("counting", []byte("limits: [{name: all, per: [recipient], allow: [1/60s, 5/1h, 10/24h]}]"))
	var rules *limit.Rules
	if err == nil {
		rules, err = limit.Compile(&doc.Policy, nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "counting:", err)
		os.Exit(1)
	}
	table := limit.NewTable()
	return func(who int, at int64) bool {
		s := limit.Subject{Recipient: strconv.Itoa(who), Tenant: "default", Channel: "push", Class: "default"}
		return table.Decide(rules, &s, nil, schemas.Millis(at)).OK
	}
}

type key struct {
	who    int
	window int
	start  int64
}

// aligned counts in windows that begin at whole multiples of their length.
func aligned() func(int, int64) bool {
	counts := make(map[key]int64)
	return func(who int, at int64) bool {
		for i, w := range windows {
			if counts[key{who, i, at / w.length}] >= w.n {
				return false
			}
		}
		for i, w := range windows {
			counts[key{who, i, at / w.length}]++
		}
		return true
	}
}

// expiring counts every attempt and arms the expiry anew each time.
func expiring() func(int, int64) bool {
	type counter struct{ n, expires int64 }
	counters := make(map[key]counter)
	return func(who int, at int64) bool {
		ok := true
		for i, w := range windows {
			c := counters[key{who, i, 0}]
			if at >= c.expires {
				c.n = 0
			}
			c.n++
			c.expires = at + w.length
			counters[key{who, i, 0}] = c
			ok = ok && c.n <= w.n
		}
		return ok
	}
}

// sliding weighs the aligned window before by how much of it still overlaps.
func sliding() func(int, int64) bool {
	counts := make(map[key]int64)
	return func(who int, at int64) bool {
		for i, w := range windows {
			now := at / w.length
			left := w.length - at%w.length
			if counts[key{who, i, now - 1}]*left+counts[key{who, i, now}]*w.length > (w.n-1)*w.length {
				return false
			}
		}
		for i, w := range windows {
			counts[key{who, i, at / w.length}]++
		}
		return true
	}
}

// gcra spaces by length/n with a burst of n (ITU-T I.371, as rate limiters use
// it).
func gcra() func(int, int64) bool {
	arrival := make(map[key]int64)
	return func(who int, at int64) bool {
		for i, w := range windows {
			if arrival[key{who, i, 0}]-at > w.length-w.length/w.n {
				return false
			}
		}
		for i, w := range windows {
			k := key{who, i, 0}
			arrival[k] = max(arrival[k], at) + w.length/w.n
		}
		return true
	}
}

// logged keeps the times of all attempts: ZADD before the count.
func logged() func(int, int64) bool {
	times := make(map[int][]int64)
	return func(who int, at int64) bool {
		times[who] = append(times[who], at)
		all := times[who]
		for _, w := range windows {
			if n := int64(len(all)); n > w.n && all[n-1-w.n] > at-w.length {
				return false
			}
		}
		return true
	}
}
