package audit

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/schemas"
)

const bucketPolicy = `
limits:
  - {name: drops, match: {class: drops}, per: [recipient], allow: ["bucket 2 refill 1/3s"]}
  - {name: same, match: {class: same}, per: [recipient, content], allow: [1/10s]}
  - {name: parts, match: {class: parts}, per: [recipient], allow: [3/10s], count: segments}
  - {name: weight, match: {class: weight}, per: [recipient], allow: [5/10s], count: cost}
  - {name: watched, match: {class: watched}, per: [recipient], allow: [1/10s], mode: observe}
  - {name: later, match: {class: later}, per: [recipient], allow: [1/10s], on_refusal: defer}
providers:
  - {name: sim, type: simulated, channels: [sms]}
tenants:
  - {name: default, default_region: CN}
`

func newBucketSheet(t *testing.T) *sheet {
	s := &sheet{place: make(map[string][]schemas.Charge), partitions: 1}
	s.policies = []schemas.Policy{policyOf(t, bucketPolicy)}
	s.marker(start, bucketSince(start))
	return s
}

func bucketSince(t schemas.Millis) map[string]map[string]schemas.Millis {
	return map[string]map[string]schemas.Millis{"drops": {"bucket refill 20/m": t, "bucket": t}, "same": {"10s": t}, "parts": {"10s": t}, "weight": {"10s": t}, "watched": {"10s": t}, "later": {"10s": t}}
}

// takes is an admission with the place that its class takes.
func (s *sheet) takes(name, class, body string, cost int64, at schemas.Millis) *schemas.Event {
	e, in := s.request(name, alice, class, at)
	s.requests[len(s.requests)-1].value = fmt.Sprintf(`{"id":%q,"channel":"sms","to":%q,"class":%q,"body":%q}`, id(name), alice, class, body)
	e.Status, e.Provider, e.Segments = schemas.StatusQueued, "sim", schemas.Segments(body)
	s.place[name] = []schemas.Charge{{Limit: class, Scope: scopeIn(class, body), T: at, Cost: cost}}
	s.decide(e, schemas.VerdictAdmit, at, in).Charges = s.place[name]
	s.dispatched(e)
	return e
}

// weighs is takes for a message whose request says a cost.
func (s *sheet) weighs(name string, cost int, at schemas.Millis) *schemas.Event {
	e := s.takes(name, "weight", "x", int64(cost), at)
	s.costs(e, cost)
	return e
}

// costs has the last request say a cost, and its event.
func (s *sheet) costs(e *schemas.Event, cost int) {
	r := &s.requests[len(s.requests)-1]
	r.value = strings.TrimSuffix(r.value, "}") + fmt.Sprintf(`,"cost":%d}`, cost)
	if cost > 1 {
		e.Cost = cost
	}
}

func scopeIn(class, body string) string {
	if class == "same" {
		return "recipient=" + alice + ",content=" + content.Content{Body: body}.Hash()
	}
	return alice
}

func (s *sheet) dry(class, body string, at, retry schemas.Millis, ev schemas.Evidence) *schemas.Event {
	ev.Limit, ev.Scope, ev.Since = class, scopeIn(class, body), start
	e := s.refuse("r", alice, class, at, retry, ev)
	s.requests[len(s.requests)-1].value = fmt.Sprintf(`{"id":%q,"channel":"sms","to":%q,"class":%q,"body":%q}`, id("r"), alice, class, body)
	e.Segments = schemas.Segments(body)
	return e
}

func TestBucketsContentAndParts(t *testing.T) {
	two := func(s *sheet) {
		s.takes("a", "drops", "x", 1, start+1000)
		s.takes("b", "drops", "x", 1, start+1500)
	}
	empty := schemas.Evidence{Window: "bucket 2 refill 20/m", N: 2, Count: 2, Cost: 1}
	rolls := func(w string, n, count, cost int64, oldest schemas.Millis) schemas.Evidence {
		return schemas.Evidence{Window: w, N: n, Count: count, Cost: cost, Oldest: oldest}
	}
	for _, c := range []struct {
		name string
		want Kind
		do   func(s *sheet)
	}{
		{"a bucket that gives what it has", "", two},
		{"drawn from an empty bucket", KindOver, func(s *sheet) { two(s); s.takes("c", "drops", "x", 1, start+2000) }},
		{"drawn a millisecond early", KindOver, func(s *sheet) { two(s); s.takes("c", "drops", "x", 1, start+3999) }},
		{"drawn as soon as a token is there", "", func(s *sheet) { two(s); s.takes("c", "drops", "x", 1, start+4000) }},
		{"the rest of a refill is kept", "", func(s *sheet) {
			two(s)
			s.takes("c", "drops", "x", 1, start+5500)
			s.takes("d", "drops", "x", 1, start+7000)
		}},
		{"no more than the brim", KindOver, func(s *sheet) {
			two(s)
			for i := range 3 {
				s.takes(string(rune('c'+i)), "drops", "x", 1, start+60_000)
			}
		}},
		{"refused by an empty bucket", "", func(s *sheet) { two(s); s.dry("drops", "x", start+2000, start+4000, empty) }},
		{"refused by a bucket with a token", KindRefused, func(s *sheet) { two(s); s.dry("drops", "x", start+4000, start+4000, empty) }},
		{"a wrong level in evidence", KindEvidence, func(s *sheet) {
			two(s)
			ev := empty
			ev.Count = 1
			s.dry("drops", "x", start+2000, start+4000, ev)
		}},
		{"a bucket's retry_at a millisecond late", KindRetryAt, func(s *sheet) { two(s); s.dry("drops", "x", start+2000, start+4001, empty) }},
		{"a place of a bucket given back", KindReturned, func(s *sheet) {
			two(s)
			s.step("b", alice, "drops", schemas.StatusSending, 1, start+1600)
			s.journal = append(s.journal, written{appended: start + 1600, journal: journalled{Kind: "permit", ID: id("b"), Attempt: 1, T: start + 1600}})
			s.step("b", alice, "drops", schemas.StatusFailed, 1, start+1700)
			s.giveBack("b", alice, start+1800)
		}},
		{"other content", "", func(s *sheet) {
			s.takes("a", "same", "x", 1, start+1000)
			s.takes("b", "same", "y", 1, start+1001)
		}},
		{"the same content too soon", KindOver, func(s *sheet) {
			s.takes("a", "same", "x", 1, start+1000)
			s.takes("b", "same", "x", 1, start+10_999)
		}},
		{"the same content under another's name", KindCharges, func(s *sheet) {
			s.takes("a", "same", "x", 1, start+1000)
			e := s.takes("b", "same", "x", 1, start+1001)
			e.Decision.Charges[0].Scope = scopeIn("same", "y")
			s.dispatch[1].env.Place = e.Decision.Charges
		}},
		{"the same content refused", "", func(s *sheet) {
			s.takes("a", "same", "x", 1, start+1000)
			s.dry("same", "x", start+2000, start+11_000, rolls("1/10s", 1, 1, 1, start+1000))
		}},
		{"other content refused", KindRefused, func(s *sheet) {
			s.takes("a", "same", "x", 1, start+1000)
			s.dry("same", "y", start+2000, start+11_000, rolls("1/10s", 1, 1, 1, start+1000))
		}},
		{"two parts", "", func(s *sheet) { s.takes("a", "parts", long, 2, start+1000) }},
		{"too many parts", KindOver, func(s *sheet) {
			s.takes("a", "parts", long, 2, start+1000)
			s.takes("b", "parts", long, 2, start+2000)
		}},
		{"two parts for one", KindCharges, func(s *sheet) { s.takes("a", "parts", long, 1, start+1000) }},
		{"two parts said to be one", KindCharges, func(s *sheet) { s.takes("a", "parts", long, 1, start+1000).Segments = 1 }},
		{"two parts said to be one, and charged as two", KindCharges, func(s *sheet) { s.takes("a", "parts", long, 2, start+1000).Segments = 1 }},
		{"a cost of three", "", func(s *sheet) { s.weighs("a", 3, start+1000) }},
		{"a cost of one", "", func(s *sheet) { s.weighs("a", 1, start+1000) }},
		{"no cost is one", "", func(s *sheet) { s.takes("a", "weight", "x", 1, start+1000) }},
		{"a cost where no limit counts it", "", func(s *sheet) { s.costs(s.takes("a", "drops", "x", 1, start+1000), 7) }},
		{"as much as there is", "", func(s *sheet) {
			s.weighs("a", 3, start+1000)
			s.weighs("b", 2, start+2000)
		}},
		{"more than there is", KindOver, func(s *sheet) {
			s.weighs("a", 3, start+1000)
			s.weighs("b", 3, start+2000)
		}},
		{"a cost of three charged as one", KindCharges, func(s *sheet) { s.costs(s.takes("a", "weight", "x", 1, start+1000), 3) }},
		{"a cost of one charged as three", KindCharges, func(s *sheet) { s.takes("a", "weight", "x", 3, start+1000) }},
		{"a cost of three said to be two", KindCharges, func(s *sheet) { s.weighs("a", 3, start+1000).Cost = 2 }},
		{"a cost of three said to be one", KindCharges, func(s *sheet) { s.weighs("a", 3, start+1000).Cost = 0 }},
		{"a cost that the request does not say, and charged so", KindCharges, func(s *sheet) { s.takes("a", "weight", "x", 3, start+1000).Cost = 3 }},
		{"refused for its cost", "", func(s *sheet) {
			s.weighs("a", 3, start+1000)
			s.costs(s.dry("weight", "x", start+2000, start+11_000, rolls("5/10s", 5, 3, 3, start+1000)), 3)
		}},
		{"refused for another cost", KindEvidence, func(s *sheet) {
			s.weighs("a", 3, start+1000)
			s.costs(s.dry("weight", "x", start+2000, start+11_000, rolls("5/10s", 5, 3, 4, start+1000)), 3)
		}},
		{"refused though there is room for its cost", KindRefused, func(s *sheet) {
			s.weighs("a", 3, start+1000)
			s.costs(s.dry("weight", "x", start+2000, start+11_000, rolls("5/10s", 5, 3, 2, start+1000)), 2)
		}},
		{"refused for ever", "", func(s *sheet) { s.costs(s.dry("weight", "x", start+2000, 0, rolls("5/10s", 5, 0, 6, 0)), 6) }},
		{"deferred", "", func(s *sheet) { s.deferred("later", start+11_000) }},
		{"deferred to its turn, later", "", func(s *sheet) { s.deferred("later", start+21_000) }},
		{"deferred to before the windows open", KindRetryAt, func(s *sheet) { s.deferred("later", start+10_999) }},
		{"deferred by a limit that rejects", KindRefused, func(s *sheet) { s.deferred("same", start+11_000) }},
		{"ended by a limit that defers", KindRefused, func(s *sheet) {
			s.takes("a", "later", "x", 1, start+1000)
			s.dry("later", "x", start+2000, start+11_000, rolls("1/10s", 1, 1, 1, start+1000))
		}},
		{"parts refused", "", func(s *sheet) {
			s.takes("a", "parts", long, 2, start+1000)
			s.dry("parts", long, start+2000, start+11_000, rolls("3/10s", 3, 2, 2, start+1000))
		}},
		{"observed, and said so", "", func(s *sheet) { s.observed() }},
		{"observed, and not said", KindEvidence, func(s *sheet) { e := s.observed(); e.Observed, e.Decision.Evidence = false, nil }},
		{"observed with a wrong count", KindEvidence, func(s *sheet) { s.observed().Decision.Evidence[0].Count = 7 }},
		{"said to be observed", KindEvidence, func(s *sheet) { s.takes("a", "watched", "x", 1, start+1000).Observed = true }},
		{"no place, though nothing was full", KindCharges, func(s *sheet) {
			e := s.takes("a", "watched", "x", 1, start+1000)
			e.Decision.Charges, s.dispatch[0].env.Place = nil, nil
		}},
		{"a place in a full window that only observes", KindOver, func(s *sheet) {
			s.takes("a", "watched", "x", 1, start+1000)
			s.takes("b", "watched", "x", 1, start+1001)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newBucketSheet(t)
			c.do(s)
			s.check(t, c.want)
		})
	}
}

// deferred is a message that a full limit lets wait.
func (s *sheet) deferred(class string, until schemas.Millis) {
	s.takes("a", class, "x", 1, start+1000)
	e := s.dry(class, "x", start+2000, until, schemas.Evidence{Window: "1/10s", N: 1, Count: 1, Cost: 1, Oldest: start + 1000})
	e.Status, e.Decision.Verdict = schemas.StatusDeferred, schemas.VerdictDefer
}

var long = fmt.Sprintf("%0161d", 7)

// observed passes a limit that only observes, without a place.
func (s *sheet) observed() *schemas.Event {
	s.takes("a", "watched", "x", 1, start+1000)
	e := s.takes("b", "watched", "x", 1, start+2000)
	e.Observed, e.Limit, e.Window = true, "watched", "1/10s"
	e.Decision.Charges, s.dispatch[1].env.Place, s.place["b"] = nil, nil, nil
	e.Decision.Evidence = []schemas.Evidence{{Limit: "watched", Scope: alice, Window: "1/10s", N: 1, Count: 1, Cost: 1, Oldest: start + 1000, Since: start}}
	return e
}

// Where the log was cut, a bucket's level is known once it must be full, and not
// before.
func TestBucketsOfACutLog(t *testing.T) {
	s := newBucketSheet(t)
	s.takes("a", "drops", "x", 1, start+1000)
	s.takes("b", "drops", "x", 1, start+3000)
	e := s.takes("c", "drops", "x", 1, start+60_000)
	s.takes("d", "drops", "x", 1, start+60_001)
	s.status, s.dispatch = s.status[2:], s.dispatch[1:]
	if r := s.audit(t); r.Outcome != CouldNotTell {
		t.Fatal(show(r))
	}
	s.since = e.At
	s.dispatch = s.dispatch[1:]
	s.check(t, "")
	s.takes("f", "drops", "x", 1, start+60_002)
	s.check(t, KindOver)
}

// The integers of a bucket agree with a rational recount that keeps every draw.
func TestTanksAgainstFractions(t *testing.T) {
	windows := []string{"bucket 2 refill 1/3s", "bucket 5 refill 0.7/s", "bucket 3 refill 2/7s", "bucket 9 refill 5/1s"}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		pick := func() schemas.Window {
			w, err := schemas.ParseWindow(windows[r.IntN(len(windows))])
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		w := pick()
		now, changed := schemas.Millis(1000), schemas.Millis(0)
		var k tank
		exact, at, brimmed := (*big.Rat)(nil), schemas.Millis(0), schemas.Millis(0)
		every := int64(0)
		level := func() *big.Rat {
			n := big.NewRat(w.N, 1)
			if exact == nil || brimmed <= changed {
				return n
			}
			left := exact
			if every != w.RefillEvery { // read in whole parts of the new token
				parts := new(big.Rat).Mul(exact, big.NewRat(w.RefillEvery, 1))
				left = new(big.Rat).SetFrac(new(big.Int).Quo(parts.Num(), parts.Denom()), big.NewInt(w.RefillEvery))
			}
			have := new(big.Rat).Add(left, new(big.Rat).Mul(big.NewRat(int64(now-at), 1), big.NewRat(w.RefillTokens, w.RefillEvery)))
			if have.Cmp(n) > 0 {
				return n
			}
			return have
		}
		for step := range 400 {
			now += schemas.Millis(r.IntN(1500))
			if r.IntN(40) == 0 {
				w, changed = pick(), now
				now++
			}
			want := level()
			got := k.level(&w, 0, changed, now)
			if want.Cmp(big.NewRat(got, w.RefillEvery)) != 0 {
				t.Fatalf("seed %d step %d: %d parts of %d, want %s", seed, step, got, w.RefillEvery, want)
			}
			if got < w.RefillEvery {
				continue
			}
			k = k.drawn(&w, 0, changed, now, 1)
			exact, at, every = want.Sub(want, big.NewRat(1, 1)), now, w.RefillEvery
			missing := new(big.Rat).Sub(big.NewRat(w.N, 1), exact)
			missing.Mul(missing, big.NewRat(w.RefillEvery, w.RefillTokens))
			whole, rest := new(big.Int).QuoRem(missing.Num(), missing.Denom(), new(big.Int))
			if brimmed = now + schemas.Millis(whole.Int64()); rest.Sign() > 0 {
				brimmed++
			}
		}
	}
}

// TestTanksRecordedLongAgo: what was sent elsewhere so long ago that a bucket is
// full again since draws nothing from one that is full, whenever that was last
// drawn from; from one that is not, as of its last place.
func TestTanksRecordedLongAgo(t *testing.T) {
	w, err := schemas.ParseWindow("bucket 10 refill 10/s")
	if err != nil {
		t.Fatal(err)
	}
	all := []schemas.Window{w}
	l, k := &limit{bucket: true}, sumOf("l", "s")
	for now, want := range map[schemas.Millis]int64{1200: 10, 1050: 4} {
		b := newTanks()
		b.draw(k, l, all, 1000, 1000, 1)
		for range 5 {
			b.draw(k, l, all, 200, now, 1)
		}
		if level, _ := b.level(k, l, &w, now); level/w.RefillEvery != want {
			t.Errorf("at %d there are %d tokens", now, level/w.RefillEvery)
		}
	}
}
