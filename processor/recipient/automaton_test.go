package recipient

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nyaruka/phonenumbers"
)

// The long run tries longer beginnings: go test -beginnings=5.
var beginnings = flag.Int("beginnings", 3, "digits after each calling code of which every combination is compared with the library")

// same fails unless a number that the fast path takes is the same without it;
// and, for some, by the library's plain answer.
func same(t *testing.T, text, country string) {
	t.Helper()
	if r, why := parse(text, noRegion); r != (Recipient{Key: text, Country: country}) {
		t.Fatalf("%s: the fast path says it is canonical and of %q, without it it is %+v %s", text, country, r, why)
	}
	if text[len(text)-1]&3 != 0 {
		return
	}
	if r, err := library(text); err != nil || r.Key != text || r.Country != country {
		t.Fatalf("%s: the fast path says it is canonical and of %q, the library says %+v, %v", text, country, r, err)
	}
}

func callingCodes() []int { return slices.Sorted(maps.Keys(phonenumbers.GetSupportedCallingCodes())) }

// The fast path must be the library's answer for every number that takes it, in
// every calling code that the library knows. Numbers fall into classes, those
// that end in one node of an automaton; each class of every code is tried, by
// each of its last steps and several ways there. But an automaton that is wrong
// has wrong classes. So, without looking into it, every beginning of so many
// digits is tried too, at every length, with a random and an even end.
func TestFastPathIsTheLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	classes, compared := 0, 0
	for _, code := range callingCodes() {
		a := automata[code]()
		// The ways into each node.
		type edge struct {
			from  uint32
			digit byte
		}
		into := make([][]edge, len(a.nodes))
		for n := 1; n < len(a.nodes); n++ {
			for d, to := range a.nodes[n].next {
				if to != 0 {
					into[to] = append(into[to], edge{uint32(n), '0' + byte(d)})
				}
			}
		}
		for n := 1; n < len(a.nodes); n++ {
			if a.nodes[n].answer == 0 {
				continue
			}
			classes++
			for _, last := range into[n] {
				var digits []byte
				for e := last; ; {
					digits = append(digits, e.digit)
					if e.from == 1 {
						break
					}
					ways := into[e.from]
					e = ways[rng.IntN(len(ways))]
				}
				slices.Reverse(digits)
				text := "+" + strconv.Itoa(code) + string(digits)
				country, ok := plain(text)
				if !ok {
					t.Fatalf("%s leads to an answer, and has none", text)
				}
				compared++
				same(t, text, country)
			}
		}
	}
	t.Logf("%d classes in %d calling codes, by %d numbers", classes, len(callingCodes()), compared)
	compared, tried := 0, 0
	every := 1
	for range *beginnings {
		every *= 10
	}
	for _, code := range callingCodes() {
		name := strconv.Itoa(code)
		for beginning := range every {
			for length := *beginnings + 1; length <= maxDigits+1-len(name); length++ {
				text := []byte(fmt.Sprintf("+%s%0*d%s", name, *beginnings, beginning, strings.Repeat("0", length-*beginnings)))
				if tried++; tried%8 != 0 {
					for i := len(text) - (length - *beginnings); i < len(text); i++ {
						text[i] = '0' + byte(rng.IntN(10))
					}
				}
				if country, ok := plain(string(text)); ok {
					compared++
					same(t, string(text), country)
				}
			}
		}
	}
	t.Logf("%d beginnings of %d digits at every length: %d took the fast path", tried, *beginnings, compared)
	if compared < tried/100 {
		t.Error("hardly any took it: the test compares nothing")
	}
}

// Every region has the fast path: the numbers that the library gives as examples
// of each kind, but for those that begin as a national prefix does.
func TestFastPathCoversEveryRegion(t *testing.T) {
	taken, asked := 0, []string{}
	for _, region := range slices.Sorted(maps.Keys(phonenumbers.GetSupportedRegions())) {
		some := false
		for kind := phonenumbers.FIXED_LINE; kind < phonenumbers.UNKNOWN; kind++ {
			ex := phonenumbers.GetExampleNumberForType(region, kind)
			if ex == nil {
				continue
			}
			text := phonenumbers.Format(ex, phonenumbers.E164)
			country, ok := plain(text)
			if !ok {
				asked = append(asked, region+" "+text)
				continue
			}
			taken, some = taken+1, true
			same(t, text, country)
		}
		if !some {
			t.Errorf("%s: no number takes the fast path", region)
		}
	}
	t.Logf("%d examples take it; of %d the library is asked: %v", taken, len(asked), asked)
	if taken < 30*len(asked) {
		t.Errorf("too many are asked of the library")
	}
}
