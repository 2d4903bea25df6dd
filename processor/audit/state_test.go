package audit

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	limiter "github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// ledgerOf is a limit table beside the audit's places: what both have of the same decisions
// must agree under any policies.
type ledgerOf struct {
	t       *testing.T
	table   *limiter.Table
	rules   *limiter.Rules
	pol     *schemas.Policy
	since   map[string]map[string]schemas.Millis
	now     schemas.Millis
	p       *partition
	records map[string][]byte // the last of each key
	log     []*kgo.Record
}

func newLedgerOf(t *testing.T) *ledgerOf {
	l := &ledgerOf{t: t, table: limiter.NewTable(), pol: &schemas.Policy{}, now: start, records: make(map[string][]byte)}
	t.Cleanup(l.table.Close)
	l.p = newPartition(0, &bounds{found: newFindings(), metas: &metas{}, ledger: "weir.ledger", seenTopic: "weir.seen"}, nil, nil)
	l.p.started, l.p.judged, l.p.rec = true, true, &kgo.Record{}
	l.publish(l.pol)
	return l
}

func (l *ledgerOf) publish(next *schemas.Policy) {
	l.t.Helper()
	l.since = limiter.NextSince(l.pol, l.since, next, l.now)
	l.pol = next
	l.compile()
	l.now++ // as a marker does
}

func (l *ledgerOf) compile() {
	l.t.Helper()
	var err error
	if l.rules, err = limiter.Compile(l.pol, limiter.Retained(l.since, l.now)); err != nil {
		l.t.Fatal(err)
	}
	if l.p.rules, err = newRules(l.pol, l.since, l.now); err != nil {
		l.t.Fatal(err)
	}
	l.p.revision, l.p.since, l.p.t = 1, l.since, l.now
}

// wait lets time pass.
func (l *ledgerOf) wait(by schemas.Millis) {
	l.now += by
	if at := l.rules.Lapses(); at > 0 && l.now >= at {
		l.compile()
	}
	l.p.t = l.now
	l.p.e = &schemas.Event{Decision: &schemas.Decision{T: l.now}}
	if l.now-l.p.swept > 3_600_000 {
		l.p.sweep()
	}
}

// send decides a message, and returns its charges.
func (l *ledgerOf) send(to string, parts int64) []schemas.Charge {
	res := l.table.Decide(l.rules, &limiter.Subject{Recipient: to, Tenant: "t", Channel: "sms", Segments: parts}, nil, l.now)
	l.p.to, l.p.key = to, sumOf(to, l.now.String())
	for _, c := range res.Charges {
		l.p.stand(l.p.rules.byName[c.Limit], c.Scope, c.T, c.Cost)
	}
	return res.Charges
}

func (l *ledgerOf) giveBack(charges []schemas.Charge) {
	returned, _ := l.table.GiveBack(l.rules, charges, l.now)
	for _, c := range returned {
		l.p.places.take(scopeKey(c.Limit, c.Scope), c.T, c.Cost)
	}
}

// commit writes what changed.
func (l *ledgerOf) commit() {
	l.table.Sweep(l.rules, l.now, 4)
	l.table.Dirty(func(key, value []byte) {
		l.log = append(l.log, &kgo.Record{Key: key, Value: value, Offset: int64(len(l.log))})
		l.records[string(key)] = value
	})
	l.table.Commit()
}

// compare compares records with what the audit counted. later are those beyond the cut.
func (l *ledgerOf) compare(records, later []*kgo.Record) *Report {
	l.p.found = newFindings()
	s := newState(newView(l.p, l.now))
	for _, r := range records {
		s.take(r)
	}
	if is, should := s.hashes[partPlaces], l.table.Sum(); later == nil && len(records) == len(l.log) && (is.Records != should.Records || is.Hash != should.Hash) {
		l.t.Errorf("the hash is %v, and the limiter's is %v", is, should)
	}
	s.later = make(map[stateKey]uint32)
	for _, r := range later {
		s.take(r)
	}
	l.p.contents(s, &known{}, &ledgerMeta{Seq: 1}, true, func(at int64) scopeRecord {
		r, _ := readScope(l.log[at].Key, l.log[at].Value)
		return r
	})
	return l.p.found.finish()
}

func (l *ledgerOf) agrees(what string) {
	l.t.Helper()
	if r := l.compare(l.log, nil); len(r.Violations) > 0 {
		text, _ := json.MarshalIndent(l.pol.Limits, "", " ")
		l.t.Fatalf("%s at %s: %v\nsince %v\n%s", what, l.now, r.Violations, l.since, text)
	}
}

func window(t *testing.T, text string) schemas.Window {
	t.Helper()
	w, err := schemas.ParseWindow(text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestStateOfAnyPolicy: under any policies, one after another, over days, the records of a
// limit table are what the audit has counted.
func TestStateOfAnyPolicy(t *testing.T) {
	windows := []string{"1/1s", "5/1h", "700/2h", "2/24h", "9/7d", "2/calendar-day", "200/calendar-day", "5/calendar-hour", "150/calendar-hour", "150/calendar-month", "bucket 5 refill 1/s", "bucket 7 refill 1/10m", "bucket 6 refill 1/1h"}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 11))
		l := newLedgerOf(t)
		draw := func() (out []schemas.Window) {
			for _, i := range rng.Perm(len(windows))[:1+rng.IntN(3)] {
				w := window(t, windows[i])
				if !slices.ContainsFunc(out, func(o schemas.Window) bool {
					return o.Kind == w.Kind && (w.Kind == schemas.WindowBucket || o.UnitKey() == w.UnitKey())
				}) {
					out = append(out, w)
				}
			}
			return out
		}
		var sent [][]schemas.Charge
		for step := range 300 {
			if step%40 == 0 {
				next := &schemas.Policy{}
				for _, name := range []string{"a", "b", "c"}[:1+rng.IntN(3)] {
					lim := schemas.Limit{Name: name, Per: [][]string{{"recipient"}, {"recipient", "tenant"}}[rng.IntN(2)], Allow: draw()}
					if rng.IntN(3) == 0 {
						lim.Overrides = []schemas.Override{{To: alice, Allow: draw()}}
					}
					if rng.IntN(4) == 0 {
						lim.Timezone = "Asia/Shanghai"
					}
					lim.Count = []schemas.Count{"", "", schemas.CountSegments, schemas.CountAttempt}[rng.IntN(4)]
					next.Limits = append(next.Limits, lim)
				}
				l.publish(next)
			}
			l.wait([]schemas.Millis{1, 900, 60_000, 3_000_000, 20_000_000}[rng.IntN(5)])
			for range []int{1, 3, 3, 40}[rng.IntN(4)] {
				l.wait(schemas.Millis(rng.IntN(3)))
				if c := l.send([]string{alice, bob, "+1", "+2"}[rng.IntN(4)], 1+rng.Int64N(3)); len(c) > 0 {
					sent = append(sent, c)
				}
			}
			for range rng.IntN(3) {
				if len(sent) > 0 {
					i := max(len(sent)-1-rng.IntN(8), 0)
					l.giveBack(sent[i])
					sent = slices.Delete(sent, i, i+1)
				}
			}
			l.commit()
			l.agrees(fmt.Sprintf("seed %d, step %d", seed, step))
		}
	}
}

// TestStateInSegments: a scope with more charges than one record holds.
func TestStateInSegments(t *testing.T) {
	l := newLedgerOf(t)
	l.publish(&schemas.Policy{Limits: []schemas.Limit{{Name: "many", Per: []string{"recipient"}, Allow: []schemas.Window{window(t, "5000/1h")}}}})
	for i := range 3000 {
		l.wait(1000)
		l.send(alice, 1)
		if i%100 == 0 {
			l.commit()
			l.agrees("in segments")
		}
	}
	l.commit()
	segments := slices.DeleteFunc(slices.Clone(l.log), func(r *kgo.Record) bool {
		return len(r.Key) != 21 || string(l.records[string(r.Key)]) != string(r.Value) || len(r.Value) == 0
	})
	if len(segments) < 4 {
		t.Fatalf("%d segments: the test shows nothing", len(segments))
	}
	gone := &kgo.Record{Key: segments[2].Key, Offset: int64(len(l.log))}
	if r := l.compare(append(slices.Clone(l.log), gone), nil); r.Faults[KindState] != 1 {
		t.Errorf("a segment that is missing: %v", r.Violations)
	}
}

// TestStateIsComparedBelowACut: what was written again beyond the cut may be missing below
// it, since the ledger is compacted while it is read. Nothing else may.
func TestStateIsComparedBelowACut(t *testing.T) {
	l := newLedgerOf(t)
	l.publish(&schemas.Policy{Limits: []schemas.Limit{{Name: "a", Per: []string{"recipient"}, Allow: []schemas.Window{window(t, "9/1h")}}}})
	l.wait(10)
	l.send(alice, 1)
	l.send(bob, 1)
	l.commit()
	l.agrees("at the cut")
	of := func(to string) func(*kgo.Record) bool {
		key := scopeKey("a", to)
		return func(r *kgo.Record) bool { k, _, _, _ := keyOf(r.Key); return k.hi == key[0] }
	}
	without := slices.DeleteFunc(slices.Clone(l.log), of(alice))
	if r := l.compare(without, nil); r.Faults[KindState] != 1 || !strings.Contains(r.Violations[0].Text, "missing") {
		t.Errorf("a record is missing: %v", r.Violations)
	}
	i := slices.IndexFunc(l.log, of(alice))
	again := &kgo.Record{Key: l.log[i].Key, Value: l.log[i].Value, Offset: 100}
	if r := l.compare(without, []*kgo.Record{again}); len(r.Violations) > 0 {
		t.Errorf("a record that was written again is said to be missing: %v", r.Violations)
	}
}

// TestStateOfBuckets: a limit that has only a bucket.
func TestStateOfBuckets(t *testing.T) {
	l := newLedgerOf(t)
	l.publish(&schemas.Policy{Limits: []schemas.Limit{{Name: "a", Per: []string{"recipient"}, Allow: []schemas.Window{window(t, "bucket 9 refill 1/1h")}}}})
	l.wait(10)
	l.send(alice, 1)
	l.commit()
	l.agrees("a bucket")
	if r := l.compare(nil, nil); r.Faults[KindState] != 1 || !strings.Contains(r.Violations[0].Text, "bucket") {
		t.Errorf("a bucket is missing: %v", r.Violations)
	}
}

// TestOldKnownKeysAreNotCompared: Kafka may have deleted what is older than a day.
func TestOldKnownKeysAreNotCompared(t *testing.T) {
	ids := &known{all: make(map[knownKey]knownEntry)}
	m := &ledgerMeta{T: 300 * anHour, Sums: stateSums{Known: []spanHash{{Span: 92, hashed: hashed{1, 7}}}}}
	if _, seen := newState(&view{}).differs(m, ids, m.T); !strings.HasPrefix(seen, "1 of 1 records are missing of the 3 hours from ") {
		t.Errorf("a day ago: %q", seen)
	}
	if _, seen := newState(&view{}).differs(m, ids, m.T+anHour); seen != "" {
		t.Errorf("longer ago: %q", seen)
	}
}

// TestKnownUntil: what a later transaction wrote to weir.seen is not of the cut.
func TestKnownUntil(t *testing.T) {
	ids := &known{all: map[knownKey]knownEntry{{sum{1}, 3}: {t: 3*anHour + 5, hash: 7}, {sum{2}, 3}: {t: 3*anHour + 6, hash: 9}}}
	if got := ids.spans(3*anHour + 5); got[1] != (hashed{1, 7}) {
		t.Errorf("until the cut it has %v", got)
	}
}
