package limit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/schemas"
)

// world drives a table and the oracle through the same random life.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	table  *Table
	oracle *oracle
	ledger map[string][]byte
	stands map[string]string // what stood when the open transaction began
	behind *Table            // it only loads, as a standby does
	per    int               // places a segment
	policy *schemas.Policy
	since  map[string]map[string]schemas.Millis
	rules  *Rules
	limits []oracleLimit
	now    int64
	held   [][]schemas.Charge // by message: what it was charged
	spent  [][]schemas.Charge // what it was charged before, and gave back or moved
	who    map[string]string  // limit and scope text → the oracle's key
	steps  []string

	// The world at the beginning of the open transaction.
	oracleBefore *oracle
	heldBefore   [][]schemas.Charge

	older map[string][]byte // some earlier records of the ledger

	retry int64 // the latest retry-at

	admitted, refused, returned, restored, never, rolledBack, observed, drawn, recorded, parts, told, unknown, lapsed int
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, s := range w.steps[max(0, len(w.steps)-12):] {
		w.t.Log(s)
	}
	w.t.Logf("policy: %+v since %v", w.policy.Limits, w.since)
	w.t.Fatalf(format, args...)
}

func (w *world) note(format string, args ...any) {
	w.steps = append(w.steps, fmt.Sprintf("%d: ", w.now)+fmt.Sprintf(format, args...))
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

var (
	testZones   = []string{"", "Asia/Shanghai", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "America/Havana", "America/St_Johns"}
	testLengths = []time.Duration{time.Millisecond, 50 * time.Millisecond, time.Second, time.Minute, time.Hour, 25 * time.Hour, schemas.MaxWindow}
)

func (w *world) window() schemas.Window {
	n := pick[int64](w.rng, 1, 1, 2, 3, 5, 10, 24)
	switch w.rng.IntN(6) {
	case 0:
		return w.bucket(n)
	case 1, 2:
		return schemas.Window{Kind: schemas.WindowCalendar, N: n, Unit: pick(w.rng, "minute", "hour", "day", "day", "month")}
	}
	return schemas.Window{Kind: schemas.WindowRolling, N: n, Length: pick(w.rng, testLengths...)}
}

var testRefills = []string{"1/s", "0.5/s", "1/d", "3/m", "1.001/m", "1/7s", "10/h", "30/s", "7/1ms", "0.999/h"}

func (w *world) bucket(n int64) schemas.Window {
	b, err := schemas.ParseWindow(fmt.Sprintf("bucket %d refill %s", n, pick(w.rng, testRefills...)))
	if err != nil {
		w.fail("%v", err)
	}
	return b
}

func (w *world) windows() []schemas.Window {
	var out []schemas.Window
	for range 1 + w.rng.IntN(3) {
		next := w.window()
		if next.Kind == schemas.WindowBucket && slices.ContainsFunc(out, func(o schemas.Window) bool { return o.Kind == next.Kind }) {
			continue // a limit has one
		}
		out = append(out, next)
	}
	return out
}

func (w *world) limit(name string) schemas.Limit {
	l := schemas.Limit{Name: name, Allow: w.windows(), Timezone: pick(w.rng, testZones...),
		Per: pick(w.rng, []string{"recipient"}, []string{"recipient"}, []string{"recipient", "class"}, []string{"class", "recipient"}, []string{"tenant", "recipient", "prefix:3", "metadata.ip"})}
	switch w.rng.IntN(8) {
	case 0:
		l.Count = schemas.CountAttempt
	case 1, 2:
		l.Count = schemas.CountSegments
	case 3, 4:
		l.Count = schemas.CountCost
	}
	if w.rng.IntN(3) == 0 {
		l.Match.Class = []string{"verify"}
	}
	if w.rng.IntN(8) == 0 {
		l.Match.Prefix = []string{"8613"}
	}
	if w.rng.IntN(4) == 0 {
		l.Exempt = []string{"+8613800000001"}
	}
	if w.rng.IntN(2) == 0 {
		l.Overrides = []schemas.Override{{To: "+8613800000000", Allow: w.windows()}}
	}
	switch w.rng.IntN(10) {
	case 0:
		l.Mode = schemas.ModeOff
	case 1, 2, 3:
		l.Mode = schemas.ModeObserve
	}
	return l
}

// revise makes the next policy: mostly small changes of the one before.
func (w *world) revise() {
	next := &schemas.Policy{Limits: slices.Clone(w.policy.Limits)}
	for i, name := range []string{"a", "b"} {
		switch {
		case len(next.Limits) <= i:
			if w.rng.IntN(3) > 0 || i == 0 {
				next.Limits = append(next.Limits, w.limit(name))
			}
		case w.rng.IntN(5) == 0:
			next.Limits[i] = w.limit(name)
		default:
			l := &next.Limits[i]
			switch w.rng.IntN(8) {
			case 5:
				l.Mode = pick(w.rng, schemas.ModeEnforce, schemas.ModeObserve, schemas.ModeObserve, schemas.ModeOff)
			case 6, 7: // another refill, or a first bucket
				l.Allow = slices.DeleteFunc(slices.Clone(l.Allow), func(o schemas.Window) bool { return o.Kind == schemas.WindowBucket })
				l.Allow = append(l.Allow, w.bucket(pick[int64](w.rng, 1, 2, 5, 24)))
			case 0:
				l.Allow = w.windows()
			case 1:
				l.Overrides = []schemas.Override{{To: "+8613800000000", Allow: w.windows()}}
			case 2:
				l.Overrides = nil
			case 3:
				l.Allow = slices.Clone(l.Allow)
				l.Allow[0].N = pick[int64](w.rng, 1, 2, 5, 30)
			case 4:
				l.Timezone = pick(w.rng, testZones...)
			}
		}
	}
	w.since = NextSince(w.policy, w.since, next, schemas.Millis(w.now))
	w.policy = next
	rules, err := Compile(next, w.since)
	if err != nil {
		w.fail("compile: %v", err)
	}
	w.rules, w.limits = rules, oracleLimits(next, w.since)
	w.note("revise %+v since %v", next.Limits, w.since)
	if w.rng.IntN(4) > 0 {
		w.now++
	}
}

func (w *world) subject() *Subject {
	s := &Subject{Recipient: pick(w.rng, "+8613800000000", "+8613800000000", "+8613800000001", "+15005550006"),
		Tenant: "t", Class: pick(w.rng, "verify", "verify", "notice"), Segments: pick[int64](w.rng, 0, 1, 1, 2, 3), Cost: pick[int64](w.rng, 0, 0, 0, 2, 5, schemas.MaxCost)}
	if w.rng.IntN(4) == 0 {
		s.Metadata = map[string]string{"ip": pick(w.rng, "1", "1,2", "a=b%")}
	}
	return s
}

// tick moves time on, and lets go of what is retained for long enough.
func (w *world) tick() {
	defer func() {
		if at := w.rules.Lapses(); at > 0 && schemas.Millis(w.now) >= at {
			var err error
			if w.rules, err = Compile(w.policy, Retained(w.since, schemas.Millis(w.now))); err != nil {
				w.fail("compile: %v", err)
			}
			w.note("retained until %d", at)
			w.lapsed++
		}
	}()
	switch w.rng.IntN(16) {
	case 14, 15: // to the latest retry-at, or one before
		if at := w.retry - w.rng.Int64N(2); at > w.now && at < w.now+2*60*60_000 {
			w.now = at
		}
	case 0, 1, 2, 3:
	case 4, 5, 6:
		w.now += w.rng.Int64N(3)
	case 7, 8:
		w.now += w.rng.Int64N(1000)
	case 9, 10: // to where a place leaves a window, or next to it
		if live := len(w.oracle.places); live > 0 {
			p := w.oracle.places[live-1-w.rng.IntN(min(live, 30))]
			if at := p.t + pick(w.rng, testLengths...).Milliseconds() + w.rng.Int64N(3) - 1; at > w.now && at < w.now+2*60*60_000 {
				w.now = at
			}
		}
	case 11:
		w.now += w.rng.Int64N(90 * 60_000)
	case 12: // a whole quarter of an hour: where calendar periods begin
		w.now += 15*60_000 - w.now%(15*60_000) + w.rng.Int64N(3) - 1
	case 13:
		switch w.rng.IntN(30) {
		case 0:
			w.now += w.rng.Int64N(60 * 24 * 60 * 60_000)
		case 1, 2, 3, 4, 5:
			w.now += w.rng.Int64N(26 * 60 * 60_000)
		}
	}
}

func (w *world) decide() {
	s := w.subject()
	message := -1
	var old []schemas.Charge
	if len(w.held) > 0 && w.rng.IntN(4) == 0 {
		message = w.rng.IntN(len(w.held))
		old = w.held[message]
	} else if len(w.spent) > 0 && w.rng.IntN(10) == 0 { // a stale record comes again
		old = w.spent[w.rng.IntN(len(w.spent))]
	}
	t := schemas.Millis(w.now)
	res := w.table.Decide(w.rules, s, old, t)
	w.note("decide %+v old %v: %+v", *s, old, res)

	stands := w.oracle.find(old)
	moved := map[int]bool{}
	for i, j := range stands {
		if j >= 0 && w.movable(old[i]) {
			moved[j] = true
		}
	}
	without := func(j int) bool { return moved[j] }
	full, observed, counts := w.oracle.passes(w.limits, s, without, w.now)
	if res.OK != (len(full) == 0) {
		w.fail("passed: %v, but full are %v", res.OK, full)
	}
	var evidence []string
	for _, e := range res.Refused {
		name := e.Limit + " " + e.Window
		evidence = append(evidence, name)
		if e.Count != counts[name] {
			w.fail("%s: counted %d, there are %d", name, e.Count, counts[name])
		}
	}
	if !slices.Equal(slices.Sorted(slices.Values(evidence)), slices.Sorted(slices.Values(full))) {
		w.fail("evidence %v, full are %v", evidence, full)
	}
	opensLast := strings.Join(evidence[:min(len(evidence), 1)], "")
	evidence = nil
	for _, e := range res.Observed {
		name := e.Limit + " " + e.Window
		evidence = append(evidence, name)
		if e.Count != counts[name] {
			w.fail("observed %s: counted %d, there are %d", name, e.Count, counts[name])
		}
	}
	if !slices.Equal(evidence, observed) {
		w.fail("observed %v, full are %v", evidence, observed)
	}
	if !res.OK {
		w.refused++
		if len(res.Charges)+len(res.Returned)+len(res.Missing) > 0 {
			w.fail("a refusal changed something: %+v", res)
		}
		if res.RetryAt == 0 {
			w.never++
			if !w.impossible(s) {
				w.fail("no retry-at for what is possible")
			}
			return
		}
		w.retry = int64(res.RetryAt)
		if full, _, _ := w.oracle.passes(w.limits, s, without, int64(res.RetryAt)-1); !slices.Contains(full, opensLast) || int64(res.RetryAt) <= w.now {
			w.fail("retry-at %d is late, or %s does not open last: %v", res.RetryAt, opensLast, full)
		}
		if full, _, _ := w.oracle.passes(w.limits, s, without, int64(res.RetryAt)); len(full) > 0 {
			w.fail("at retry-at %d still full: %v", res.RetryAt, full)
		}
		return
	}
	w.admitted++
	w.checkReturned(old, stands, res.Returned, res.Missing)
	for j := range moved {
		w.oracle.places[j].gone = true
	}
	var takes, took []string
	for i := range w.limits {
		l := &w.limits[i]
		if !oracleMatches(l, s) {
			continue
		}
		if slices.ContainsFunc(observed, func(name string) bool { return strings.HasPrefix(name, l.Name+" ") }) {
			w.observed++
			continue
		}
		takes = append(takes, l.Name)
		if w.oracle.draw(l, s, w.now, w.now); w.oracle.drawn[l.Name+"|"+oracleWho(l, s)].left != nil {
			w.drawn++
		}
	}
	for _, c := range res.Charges {
		took = append(took, c.Limit)
	}
	if !slices.Equal(takes, took) {
		w.fail("took places in %v, not %v", took, takes)
	}
	for i, c := range res.Charges {
		var l *oracleLimit
		for k := range w.limits {
			if w.limits[k].Name == c.Limit {
				l = &w.limits[k]
			}
		}
		who := oracleWho(l, s)
		if i > 0 && c.Limit == res.Charges[i-1].Limit || c.T != t || c.Cost != oracleCost(l, s) {
			w.fail("wrong charge %v", c)
		}
		w.take(c, who)
	}
	if message >= 0 {
		w.spent = append(w.spent, old)
		w.held[message] = res.Charges
	} else {
		w.held = append(w.held, res.Charges)
	}
	_, _, counts = w.oracle.passes(w.limits, s, func(int) bool { return false }, w.now)
	k := 0
	for _, m := range res.Remaining {
		k++
		if m.Left != max(m.N-counts[m.Limit+" "+m.Window], 0) {
			w.fail("%s %s: left %d, but %d stand", m.Limit, m.Window, m.Left, counts[m.Limit+" "+m.Window])
		}
	}
	if peek := w.table.Peek(w.rules, s, t); !slices.Equal(peek, res.Remaining) && k > 0 {
		w.fail("peek %v differs from %v", peek, res.Remaining)
	}
}

// record takes the places of a message that was sent elsewhere, mostly of late.
func (w *world) record() {
	s := w.subject()
	back := pick[int64](w.rng, 0, 1, 1000, 60_000, 3_600_000, 26*3_600_000, 40*24*3_600_000, -30_000)
	if back > 1 && w.rng.IntN(2) == 0 {
		back = w.rng.Int64N(back)
	}
	if live := len(w.oracle.places); live > 0 && w.rng.IntN(4) == 0 { // in the millisecond of another
		back = w.now - w.oracle.places[live-1-w.rng.IntN(min(live, 30))].t
	}
	at := min(w.now-back, w.now) // what says that it is of the future is of now
	charges := w.table.Record(w.rules, s, schemas.Millis(w.now-back), schemas.Millis(w.now))
	w.note("record %+v as of %d: %v", *s, at, charges)
	w.recorded++
	k := 0
	for i := range w.limits {
		l := &w.limits[i]
		if !oracleMatches(l, s) {
			continue
		}
		if k == len(charges) || charges[k].Limit != l.Name || int64(charges[k].T) != at || charges[k].Cost != oracleCost(l, s) {
			w.fail("recorded %v, want a place in %s as of %d", charges, l.Name, at)
		}
		w.oracle.draw(l, s, at, w.now)
		w.take(charges[k], oracleWho(l, s))
		k++
	}
	if k != len(charges) {
		w.fail("recorded %v, and %d limits match", charges, k)
	}
	if w.rng.IntN(2) == 0 {
		w.held = append(w.held, charges)
	}
	_, _, counts := w.oracle.passes(w.limits, s, func(int) bool { return false }, w.now)
	for _, m := range w.table.Peek(w.rules, s, schemas.Millis(w.now)) {
		if m.Left != max(m.N-counts[m.Limit+" "+m.Window], 0) {
			w.fail("%s %s: left %d after a record, but %d stand", m.Limit, m.Window, m.Left, counts[m.Limit+" "+m.Window])
		}
	}
}

// take puts a charge into the oracle.
func (w *world) take(c schemas.Charge, who string) {
	if known, ok := w.who[c.Limit+" "+c.Scope]; ok && known != who {
		w.fail("scope %q stands for %s and %s", c.Scope, known, who)
	}
	w.who[c.Limit+" "+c.Scope] = who
	w.oracle.places = append(w.oracle.places, oraclePlace{limit: c.Limit, who: who, scope: c.Scope, t: int64(c.T), cost: c.Cost})
}

func (w *world) impossible(s *Subject) bool {
	for i := range w.limits {
		l := &w.limits[i]
		for _, x := range oracleWindows(l, s) {
			if l.Mode != schemas.ModeObserve && oracleMatches(l, s) && oracleCost(l, s) > x.N {
				return true
			}
		}
	}
	return false
}

func (w *world) movable(c schemas.Charge) bool {
	for i := range w.limits {
		if w.limits[i].Name == c.Limit {
			l := &w.limits[i]
			only := true // buckets
			for _, x := range append([]schemas.Override{{Allow: l.Allow}}, l.Overrides...) {
				for _, y := range x.Allow {
					only = only && y.Kind == schemas.WindowBucket
				}
			}
			for key := range Retained(w.since, schemas.Millis(w.now))[c.Limit] {
				only = only && !strings.HasPrefix(key, "left ")
			}
			return l.Count != schemas.CountAttempt && !only
		}
	}
	return true
}

// checkReturned compares what was said of each place with the oracle, where
// that is determined: of places that no window sees nothing is promised.
func (w *world) checkReturned(charges []schemas.Charge, stands []int, returned, missing []schemas.Charge) {
	for i, c := range charges {
		if !w.movable(c) {
			if slices.Contains(returned, c) {
				w.fail("%v counts attempts and was returned", c)
			}
			continue
		}
		if !w.oracle.seen(w.limits, c.Limit, int64(c.T), w.now) {
			continue
		}
		if stands[i] >= 0 != slices.Contains(returned, c) || stands[i] < 0 != slices.Contains(missing, c) {
			w.fail("%v stands: %v, but returned %v, missing %v", c, stands[i] >= 0, returned, missing)
		}
	}
}

func (w *world) giveBack() {
	if len(w.held) == 0 {
		return
	}
	i := w.rng.IntN(len(w.held))
	charges := w.held[i]
	w.held = slices.Delete(slices.Clone(w.held), i, i+1)
	w.spent = append(w.spent, charges)
	if w.rng.IntN(6) == 0 {
		charges = w.spent[w.rng.IntN(len(w.spent))]
	}
	if len(charges) > 0 && w.rng.IntN(4) == 0 { // and what does not stand
		c := charges[0]
		if w.oracle.seen(w.limits, c.Limit, int64(c.T), w.now) {
			dearer, elsewhere := c, c
			dearer.Cost++
			elsewhere.Scope += "x"
			for _, c := range []schemas.Charge{dearer, elsewhere, c} {
				// Another message may hold just such a place: then it is no error.
				if with := append(slices.Clone(charges), c); w.oracle.find(with)[len(with)-1] < 0 {
					charges = with
				}
			}
		}
	}
	returned, missing := w.table.GiveBack(w.rules, charges, schemas.Millis(w.now))
	w.note("give back %v: %v, missing %v", charges, returned, missing)
	stands := w.oracle.find(charges)
	for i, c := range charges {
		if !w.movable(c) {
			continue
		}
		if stands[i] >= 0 {
			w.oracle.places[stands[i]].gone = true
			w.returned++
		}
	}
	for i, c := range charges {
		if !w.movable(c) {
			continue
		}
		stood := 0
		for j := range charges {
			if charges[j] == c && stands[j] >= 0 {
				stood++
			}
		}
		if w.oracle.seen(w.limits, c.Limit, int64(c.T), w.now) && count(returned, c) != stood {
			w.fail("%v (%d): %d stood, returned were %d", c, i, stood, count(returned, c))
		}
		if count(returned, c)+count(missing, c) != count(charges, c) {
			w.fail("%v is in neither list, or too often", c)
		}
	}
}

func count(list []schemas.Charge, c schemas.Charge) (n int) {
	for _, x := range list {
		if x == c {
			n++
		}
	}
	return n
}

func (w *world) begin() {
	w.table.Begin()
	w.stands = dump(w.table)
	w.oracleBefore, w.heldBefore = w.oracle.clone(), slices.Clone(w.held)
}

func (w *world) end() {
	if w.rng.IntN(4) == 0 {
		w.note("roll back")
		w.rolledBack++
		w.table.Rollback()
		w.oracle, w.held = w.oracleBefore, w.heldBefore
		if diff := cmp.Diff(w.stands, dump(w.table)); diff != "" {
			w.fail("a rollback left another state:\n%s", diff)
		}
		w.whole()
		w.summed(w.table)
		return
	}
	changed := map[string][]byte{}
	w.table.Dirty(func(key, value []byte) {
		if _, twice := changed[string(key)]; twice {
			w.fail("%x is written twice", key)
		}
		changed[string(key)] = value
		if value == nil {
			delete(w.ledger, string(key))
		} else {
			w.ledger[string(key)] = value
		}
	})
	w.note("commit")
	w.table.Commit()
	slots := 0
	for key := range w.ledger {
		if len(key) == keySize {
			slots++
		} else {
			w.parts++
		}
	}
	if w.table.Len() != slots {
		w.fail("table has %d slots, ledger %d records", w.table.Len(), slots)
	}
	w.whole()
	for key, value := range changed { // in any order
		w.load(w.behind, key, value)
	}
	if diff := cmp.Diff(dump(w.table), dump(w.behind)); diff != "" {
		w.fail("a follower has another state:\n%s", diff)
	}
	w.summed(w.table)
	w.summed(w.behind)
}

// summed fails if the table's sum is not that of the ledger's records.
func (w *world) summed(t *Table) {
	if got, want := t.Sum(), sumOf(w.ledger); got != want {
		w.fail("the table's sum is %+v, the ledger's %+v", got, want)
	}
}

// sumOf is the Sum of a ledger, of which each record was written once.
func sumOf(ledger map[string][]byte) (s Sum) {
	for k, value := range ledger {
		key := []byte(k)
		if len(key) == segmentKeySize {
			key = key[1:]
		}
		s.replace(readKey(key), 0, checkOf(value))
	}
	return s
}

// whole fails if the table is not as a table should be.
func (w *world) whole() {
	if err := integrity(w.table); err != nil {
		w.fail("%v", err)
	}
}

func (w *world) load(table *Table, key string, value []byte) {
	if err := table.Load([]byte(key), value); err != nil {
		w.fail("load: %v", err)
	}
}

func (w *world) newTable() *Table {
	table := NewTable()
	table.perSegment = w.per
	return table
}

func (w *world) restore() {
	w.note("restore %d", len(w.ledger))
	w.restored++
	if w.table, w.behind = w.behind, w.newTable(); w.rng.IntN(2) == 0 { // not the one that followed, but a new one
		w.table = w.newTable()
	}
	for _, table := range []*Table{w.table, w.behind} {
		for k, value := range w.ledger { // in any order
			if w.rng.IntN(3) == 0 { // earlier records of another content
				w.load(table, k, w.older[k])
			}
			if w.rng.IntN(5) == 0 {
				w.load(table, k, nil)
			}
			w.load(table, k, value)
		}
		for k, value := range w.older {
			if _, stands := w.ledger[k]; !stands && w.rng.IntN(3) == 0 { // and of what is gone
				w.load(table, k, value)
				w.load(table, k, nil)
			}
		}
	}
	maps.Copy(w.older, w.ledger)
	w.whole()
	if diff := cmp.Diff(dump(w.table), dump(w.behind)); diff != "" {
		w.fail("two restored tables differ:\n%s", diff)
	}
	for key, value := range dump(w.behind) {
		if value != string(w.ledger[key]) {
			w.fail("restored is % x, the ledger has % x", value, w.ledger[key])
		}
	}
}

// begins are moments around which clocks jump, months end, and one where
// uint32 milliseconds since 1970 wrap.
var begins = []string{
	"2026-03-29T00:30:00Z", "2026-10-25T00:30:00Z", // Berlin
	"2018-11-04T02:30:00Z", "2018-02-18T01:30:00Z", // São Paulo, at midnight
	"2026-04-04T14:30:00Z", "2026-10-03T15:00:00Z", // Lord Howe, half an hour
	"2026-03-08T04:30:00Z", "2026-11-01T04:30:00Z", // Havana, at midnight
	"2026-02-28T23:00:00Z", "2026-12-31T15:00:00Z", "2026-11-30T22:00:00Z",
	"2026-10-05T07:13:54Z",
}

func TestTableAgainstOracle(t *testing.T) {
	var admitted, refused, returned, restored, never, rolledBack, observed, drawn, recorded, parts, told, unknown, lapsed int
	runs := 300
	if testing.Short() {
		runs = 40
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 7))
			begin, err := time.Parse(time.RFC3339, begins[seed%len(begins)])
			if err != nil {
				t.Fatal(err)
			}
			w := &world{t: t, rng: rng, oracle: newOracle(), ledger: map[string][]byte{}, older: map[string][]byte{}, policy: &schemas.Policy{}, per: pick(rng, segmentPlaces, 2, 3, 4, 7),
				since: nil, now: begin.UnixMilli() - rng.Int64N(30*60_000), who: map[string]string{}}
			w.table, w.behind = w.newTable(), w.newTable()
			w.revise()
			for range 60 {
				w.begin()
				for range 1 + rng.IntN(12) {
					w.tick()
					switch k := rng.IntN(40); {
					case k < 28:
						w.decide()
					case k < 36:
						w.giveBack()
					case k < 37 && len(w.steps) > 20:
						w.record()
					case k < 38:
						w.states()
					case k < 39 && len(w.steps) > 100:
						w.table.Sweep(w.rules, schemas.Millis(w.now), rng.IntN(50))
						w.note("sweep")
					}
				}
				w.end()
				if rng.IntN(12) == 0 {
					w.restore()
				}
				if rng.IntN(10) == 0 {
					w.now++
					w.revise()
				}
			}
			admitted += w.admitted
			refused += w.refused
			returned += w.returned
			restored += w.restored
			never += w.never
			rolledBack += w.rolledBack
			observed += w.observed
			drawn += w.drawn
			recorded += w.recorded
			parts += w.parts
			told += w.told
			unknown += w.unknown
			lapsed += w.lapsed
		})
	}
	t.Logf("admitted %d (%d past an observing limit, %d from a bucket), refused %d (%d for ever), given back %d, recorded %d, rolled back %d, restored %d, segments at commits %d, states told %d, not asked for %d",
		admitted, observed, drawn, refused, never, returned, recorded, rolledBack, restored, parts, told, unknown)
	if min(admitted, refused, never, returned, rolledBack, restored, observed, drawn, recorded, parts, told, unknown, lapsed) == 0 {
		t.Error("a kind of move never happened: the test shows nothing")
	}
}
