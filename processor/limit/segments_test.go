package limit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/schemas"
)

// dump returns every record that the table's state is in the ledger.
func dump(t *Table) map[string]string {
	out := map[string]string{}
	for i := range t.shards {
		sh := &t.shards[i]
		for j := range sh.size() {
			if s := t.at(sh, j); s.used() && !s.empty() {
				key := appendKey(nil, s.key)
				out[string(key)] = string(appendRecord(nil, key, t.open(s)))
			}
		}
	}
	for k, l := range t.longs {
		for i := range l.segs {
			st := &standing{limit: l.limit, part: true}
			t.lay(st, &l.segs[i])
			key := appendSegmentKey(nil, k, l.segs[i].number)
			out[string(key)] = string(appendRecord(nil, key, st))
		}
	}
	return out
}

// integrity tells what is wrong with a table in which no transaction is open:
// of the arena's blocks each has one owner, and what is said of places beside
// them is true.
func integrity(t *Table) error {
	var errs []error
	failf := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(t.undo)+len(t.saved)+len(t.words) > 0 {
		failf("something is left to undo")
	}
	owners := map[[2]uint32]int{}
	for i := range t.shards {
		sh := &t.shards[i]
		for j := range sh.size() {
			s := t.at(sh, j)
			if !s.used() {
				continue
			}
			if s.dirty() || s.empty() {
				failf("a slot is dirty or empty")
			}
			if s.size >= spilled {
				owners[[2]uint32{uint32(s.class()), s.w[0]}]++
			}
			if s.long() && len(t.longOf(s.key).segs) == 0 {
				failf("a slot has no segment")
			}
		}
	}
	for key, l := range t.longs {
		n, cost := 0, int64(0)
		numbers := map[uint32]bool{}
		if s := t.find(key); len(l.segs) == 0 || l.key != key || s == nil || !s.long() || s.limit != l.limit {
			failf("segments without a slot, or none")
		}
		for i := range l.segs {
			sg := &l.segs[i]
			owners[[2]uint32{uint32(sg.class), sg.block}]++
			if sg.dirty || numbers[sg.number] || sg.number >= l.next || sg.n == 0 || int(sg.n) > max(t.perSegment, segmentPlaces) {
				failf("segment %+v of %+v", *sg, *l)
				continue
			}
			numbers[sg.number] = true
			st := &standing{}
			t.lay(st, sg)
			total := int64(0)
			for _, c := range st.costs {
				total += int64(c)
			}
			if !slices.IsSorted(st.times) || st.times[0] != sg.first || st.times[sg.n-1] != sg.last || total != sg.cost || sg.base > sg.first {
				failf("segment %+v has %v, %v", *sg, st.times, st.costs)
			}
			if i > 0 && l.segs[i-1].last > sg.first {
				failf("segments are out of order: %+v", l.segs)
			}
			n, cost = n+int(sg.n), cost+sg.cost
		}
		if n != l.n || cost != l.cost {
			failf("%d places of %d, said are %d of %d", n, cost, l.n, l.cost)
		}
	}
	for class := range t.blocks.classes {
		c := &t.blocks.classes[class]
		for _, block := range c.free {
			owners[[2]uint32{uint32(class), block}]++
		}
		for block := range c.next {
			if n := owners[[2]uint32{uint32(class), block}]; n != 1 {
				failf("block %d of class %d has %d owners", block, class, n)
			}
		}
	}
	return errors.Join(errs...)
}

// crowd drives one scope with many places, and a plain list of them, through
// what data says.
type crowd struct {
	t      testing.TB
	data   []byte
	table  *Table
	behind *Table // it only loads
	ledger map[string][]byte
	per    int
	rules  []*Rules // of several n
	allow  [][]schemas.Window
	r      int
	days   bool // a window is a day's
	now    schemas.Millis
	list   []listed // what stands, oldest first, and perhaps what no window sees

	was       []listed
	wasDump   map[string]string
	in        bool
	admitted  int
	refused   int
	segments  int
	committed int
}

func (c *crowd) byte() int {
	if len(c.data) == 0 {
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return int(b)
}

func newCrowd(t testing.TB, data []byte) *crowd {
	c := &crowd{t: t, data: data, ledger: map[string][]byte{}, now: at(t, "2026-11-21T23:30:00Z")}
	kind := c.byte()
	c.per = 2 + kind%7
	for _, texts := range [][]string{{"150/1h", "60/60s"}, {"40/1h", "60/60s"}, {"400/1h", "250/60s"}} {
		if c.days = kind&16 != 0; c.days {
			texts = append(texts, "700/calendar-day")
		}
		if kind&32 != 0 {
			texts = append(texts, "90/calendar-hour", "bucket 100000 refill 1000/1ms")
		}
		l := perRecipient(t, "a", texts...)
		if kind&64 != 0 {
			l.Count = schemas.CountSegments
		}
		c.rules, c.allow = append(c.rules, rulesOf(t, l)), append(c.allow, l.Allow)
	}
	c.table, c.behind = c.newTable(), c.newTable()
	return c
}

func (c *crowd) newTable() *Table {
	table := NewTable()
	table.perSegment = c.per
	return table
}

func (c *crowd) left(list []listed, w *schemas.Window) int64 {
	left := w.N
	for _, p := range list {
		if p.t > c.now {
			c.t.Fatal("a place of the future")
		}
		switch {
		case w.Kind == schemas.WindowBucket:
		case w.Kind == schemas.WindowRolling && p.t > c.now-schemas.Millis(w.Length.Milliseconds()),
			w.Unit == "day" && p.t/day == c.now/day, w.Unit == "hour" && p.t/hour == c.now/hour:
			left -= int64(p.cost)
		}
	}
	return left
}

// free returns how much the fullest window has left.
func (c *crowd) free(list []listed) int64 {
	least := int64(1 << 60)
	for i := range c.allow[c.r] {
		least = min(least, c.left(list, &c.allow[c.r][i]))
	}
	return least
}

func (c *crowd) add(t, cost schemas.Millis) {
	i := len(c.list)
	for i > 0 && c.list[i-1].t > t {
		i--
	}
	c.list = slices.Insert(slices.Clip(c.list), i, listed{t, cost})
}

func (c *crowd) without(i int) []listed { return slices.Delete(slices.Clone(c.list), i, i+1) }

// standing returns a place that some window sees: of others nothing is promised.
func (c *crowd) standing() (int, schemas.Charge) {
	from, _ := slices.BinarySearchFunc(c.list, c.now-hour+1, func(p listed, at schemas.Millis) int { return int(p.t - at) })
	if n := len(c.list) - from; n > 0 {
		i := from + (c.byte()<<8+c.byte())%n
		return i, schemas.Charge{Limit: "a", Scope: one.Recipient, T: c.list[i].t, Cost: int64(c.list[i].cost)}
	}
	return -1, schemas.Charge{}
}

func (c *crowd) subject() *Subject {
	s := *one
	s.Segments = 1
	if b := c.byte(); b >= 200 {
		s.Segments = int64(b - 198)
	}
	return &s
}

func (c *crowd) cost(s *Subject) int64 {
	if c.rules[c.r].limits[0].segments {
		return s.Segments
	}
	return 1
}

func (c *crowd) decide(old []schemas.Charge, list []listed) (charges []schemas.Charge) {
	s := c.subject()
	var before map[string]string
	if len(old) > 0 {
		before = dump(c.table)
	}
	res := c.table.Decide(c.rules[c.r], s, old, c.now)
	cost := c.cost(s)
	if free := c.free(list); res.OK != (free >= cost) {
		c.t.Fatalf("passed %v, %d are free for %d: %+v", res.OK, free, cost, res)
	}
	if !res.OK {
		c.refused++
		if after := dump(c.table); before != nil {
			if diff := cmp.Diff(before, after); diff != "" {
				c.t.Fatalf("a refusal changed something:\n%s", diff)
			}
		}
		for _, e := range res.Refused {
			for i := range c.allow[c.r] {
				if w := &c.allow[c.r][i]; w.String() == e.Window && e.Count != w.N-c.left(list, w) {
					c.t.Fatalf("%s counted %d, by the list %d are left", e.Window, e.Count, c.left(list, w))
				}
			}
		}
		if res.RetryAt > 0 {
			now := c.now
			if c.now = res.RetryAt; c.free(list) < cost {
				c.t.Fatalf("at retry-at %s it is full", res.RetryAt)
			}
			if c.now = res.RetryAt - 1; c.free(list) >= cost {
				c.t.Fatalf("retry-at %s is late", res.RetryAt)
			}
			c.now = now
		}
		return nil
	}
	c.admitted++
	if len(res.Returned) != len(old) {
		c.t.Fatalf("returned %v of %v", res.Returned, old)
	}
	c.list = list
	c.add(c.now, schemas.Millis(cost))
	i := 0
	for k := range c.allow[c.r] {
		if w := &c.allow[c.r][k]; w.Kind != schemas.WindowBucket && res.Remaining[i].Left != max(0, c.left(c.list, w)) {
			c.t.Fatalf("%s has %d left, by the list %d", w, res.Remaining[i].Left, c.left(c.list, w))
		}
		i++
	}
	return res.Charges
}

func (c *crowd) begin() {
	if !c.in {
		c.in, c.was, c.wasDump = true, slices.Clone(c.list), dump(c.table)
		c.table.Begin()
	}
}

func (c *crowd) whole() {
	if err := integrity(c.table); err != nil {
		c.t.Fatal(err)
	}
	for _, l := range c.table.longs {
		c.segments = max(c.segments, len(l.segs))
		// Any two neighbours have more than half a segment's places, but for some that
		// became neighbours when segments of one millisecond were put back in
		// another order.
		small := 0
		for i := range len(l.segs) - 1 {
			if a, b := &l.segs[i], &l.segs[i+1]; int(a.n+b.n) <= c.per/2 && spans(a.first, b.last) {
				small++
			}
		}
		if small > 1+len(l.segs)/8 {
			c.t.Fatalf("%d of %d segments are small, and so are their neighbours", small, len(l.segs))
		}
	}
}

func (c *crowd) end(commit bool) {
	if !c.in {
		return
	}
	c.in = false
	if !commit {
		c.table.Rollback()
		c.list = c.was
		if diff := cmp.Diff(c.wasDump, dump(c.table)); diff != "" {
			c.t.Fatalf("a rollback left another state:\n%s", diff)
		}
		c.whole()
		if got, want := c.table.Sum(), sumOf(c.ledger); got != want {
			c.t.Fatalf("after a rollback the table's sum is %+v, the ledger's %+v", got, want)
		}
		return
	}
	c.committed++
	type record struct{ key, value []byte }
	var changed []record
	c.table.Dirty(func(key, value []byte) {
		if slices.ContainsFunc(changed, func(r record) bool { return string(r.key) == string(key) }) {
			c.t.Fatalf("%x is written twice", key)
		}
		changed = append(changed, record{key, value})
		if c.ledger[string(key)] = value; value == nil {
			delete(c.ledger, string(key))
		}
	})
	c.table.Commit()
	c.whole()
	for len(changed) > 0 { // in some order
		i := c.byte() % len(changed)
		c.load(c.behind, changed[i].key, changed[i].value)
		changed = slices.Delete(changed, i, i+1)
	}
	c.same()
}

func (c *crowd) load(table *Table, key, value []byte) {
	if err := table.Load(key, value); err != nil {
		c.t.Fatal(err)
	}
}

// same fails unless the table, what follows and the ledger are one.
func (c *crowd) same() {
	ledger := map[string]string{}
	for key, value := range c.ledger {
		ledger[key] = string(value)
	}
	if diff := cmp.Diff(ledger, dump(c.table)); diff != "" {
		c.t.Fatalf("the table (+) is not what is in the ledger (-):\n%s", diff)
	}
	if diff := cmp.Diff(ledger, dump(c.behind)); diff != "" {
		c.t.Fatalf("what follows (+) is not what is in the ledger (-):\n%s", diff)
	}
	if got, behind, want := c.table.Sum(), c.behind.Sum(), sumOf(c.ledger); got != want || behind != want {
		c.t.Fatalf("the table's sum is %+v, that of what follows %+v, the ledger's %+v", got, behind, want)
	}
}

func (c *crowd) run() {
	for len(c.data) > 0 {
		c.begin()
		switch op := c.byte(); {
		case op < 130:
			c.now += schemas.Millis(op % 3 * op)
			c.decide(nil, c.list)
		case op < 160: // a flood
			for range op - 125 {
				c.decide(nil, c.list)
			}
		case op < 185:
			if i, charge := c.standing(); i >= 0 {
				if returned, _ := c.table.GiveBack(c.rules[c.r], []schemas.Charge{charge}, c.now); len(returned) != 1 {
					c.t.Fatalf("%v was not returned", charge)
				}
				c.list = c.without(i)
			}
		case op < 190: // most of it
			for range len(c.list) / 2 {
				if i, charge := c.standing(); i >= 0 {
					c.table.GiveBack(c.rules[c.r], []schemas.Charge{charge}, c.now)
					c.list = c.without(i)
				}
			}
		case op < 205:
			if i, charge := c.standing(); i >= 0 {
				before, old := slices.Clone(c.list), []schemas.Charge{charge}
				charges := c.decide(old, c.without(i))
				if len(charges) == 0 || op%2 == 0 {
					break
				}
				// Another owner refused it.
				if unwound, _ := c.table.Unwind(c.rules[c.r], charges, c.now); len(unwound) != 1 {
					c.t.Fatalf("%v was not returned", charges)
				}
				if restored := c.table.Restore(c.rules[c.r], old, c.now); len(restored) != 1 {
					c.t.Fatalf("%v was not put back", old)
				}
				c.list = before
			}
		case op < 220:
			s := c.subject()
			back := schemas.Millis(c.byte()<<8+c.byte()) * 60
			if len(c.list) > 0 && op%2 == 0 { // in the millisecond of another
				back = max(0, c.now-c.list[c.byte()%len(c.list)].t)
			}
			c.table.Record(c.rules[c.r], s, c.now-back, c.now)
			c.add(c.now-back, schemas.Millis(c.cost(s)))
		case op < 224:
			c.now += schemas.Millis(c.byte()) * 15 * second
		case op < 225:
			c.now += schemas.Millis(c.byte()) * 5 * hour
		case op < 230:
			c.r = op % len(c.rules)
		case op < 235:
			c.table.Sweep(c.rules[c.r], c.now, 1000*(op%2))
		case op < 240:
			c.end(false)
		case op < 254:
			c.end(true)
		default:
			c.end(true)
			c.table, c.behind = c.behind, c.newTable()
			for key, value := range c.ledger {
				c.load(c.behind, []byte(key), value)
			}
			c.same()
		}
		if c.table.Len() > 1 || len(c.table.longs) > 1 {
			c.t.Fatal("one scope is several")
		}
		// What aged out of every window is as good as gone.
		c.list = slices.DeleteFunc(c.list, func(p listed) bool {
			return p.t <= c.now-hour && (!c.days || p.t/day != c.now/day)
		})
	}
	c.end(true)
}

func TestSegmentsAgainstList(t *testing.T) {
	var admitted, refused, committed, segments int
	runs := 128
	if testing.Short() {
		runs = 40
	}
	for seed := range runs {
		rng := rand.New(rand.NewPCG(uint64(seed), 11))
		data := make([]byte, 1500)
		for i := range data {
			data[i] = byte(rng.IntN(256))
		}
		data[0] = byte(seed)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newCrowd(t, data)
			defer func() { c.table.Close(); c.behind.Close() }()
			c.run()
			admitted, refused, committed, segments = admitted+c.admitted, refused+c.refused, committed+c.committed, max(segments, c.segments)
		})
	}
	t.Logf("admitted %d, refused %d, committed %d, up to %d segments", admitted, refused, committed, segments)
	if min(admitted, refused, committed) < 100 || segments < 20 {
		t.Error("the test shows nothing")
	}
}

func FuzzSegments(f *testing.F) {
	for seed := range byte(4) {
		rng := rand.New(rand.NewPCG(uint64(seed), 12))
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(rng.IntN(256))
		}
		data[0] = seed << 4
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := newCrowd(t, data[:min(len(data), 400)])
		defer func() { c.table.Close(); c.behind.Close() }()
		c.run()
	})
}

// A scope of a hundred thousand a day costs the ledger a few kilobytes a batch,
// and a record of an earlier version, which has all places in one, becomes
// segments when a place comes.
func TestLedgerOfMany(t *testing.T) {
	const n = 100_000
	r := rulesOf(t, perRecipient(t, "a", "100000/24h"))
	begin := at(t, "2026-11-21T00:00:00Z")
	old := &standing{limit: nameHash("a")}
	for i := range n {
		old.times, old.costs = append(old.times, begin+schemas.Millis(i*864)), append(old.costs, 1)
	}
	table := NewTable()
	defer table.Close()
	key := appendKey(nil, table.keyOf("a", one.Recipient))
	value := appendRecord(nil, key, old)
	if err := table.Load(key, value); err != nil {
		t.Fatal(err)
	}
	if got := dump(table); len(got) != 1 || got[string(key)] != string(value) {
		t.Fatal("what was loaded is not what stands")
	}
	written := func() (records, bytes int) {
		table.Dirty(func(key, value []byte) { records, bytes = records+1, bytes+len(key)+len(value) })
		table.Commit()
		if err := integrity(table); err != nil {
			t.Fatal(err)
		}
		return records, bytes
	}
	now := begin + 24*hour
	passes(t, table, r, now)
	if records, bytes := written(); records != 1+n/segmentPlaces+1 {
		t.Errorf("%d records, %d bytes: the places are not in segments", records, bytes)
	}
	now += 864
	charges := passes(t, table, r, now)
	refuses(t, table, r, now, now+864, "100000/24h")
	if records, bytes := written(); records > 3 || bytes > 4096 {
		t.Errorf("a place costs %d records, %d bytes", records, bytes)
	}
	if returned, _ := table.GiveBack(r, charges, now); len(returned) != 1 {
		t.Error("not given back")
	}
	if records, bytes := written(); records != 2 || bytes > 2048 {
		t.Errorf("a give-back costs %d records, %d bytes", records, bytes)
	}
	// A batch of a minute's places.
	most := 0
	for range 200 {
		for range 70 {
			now += 864
			passes(t, table, r, now)
		}
		_, bytes := written()
		most = max(most, bytes)
	}
	if t.Logf("a batch of 70 places costs up to %d bytes", most); most > 4096 {
		t.Errorf("a batch of 70 places costs %d bytes", most)
	}
	if l := table.longs[readKey(key)]; l.n >= n+segmentPlaces {
		t.Errorf("%d places are kept for %d", l.n, n)
	}
	// None is seen: the whole scope ends.
	table.Sweep(r, now+24*hour, 1<<17)
	table.Commit()
	if err := integrity(table); err != nil || table.Len() != 0 || len(table.longs) != 0 {
		t.Errorf("%d slots, %d with segments: %v", table.Len(), len(table.longs), err)
	}
}

// many returns a table with a scope in segments, and its ledger.
func many(t testing.TB, per int) (*Table, *Rules, map[string][]byte, schemas.Millis) {
	r, table := rulesOf(t, perRecipient(t, "a", "100/1h", "500/calendar-day")), NewTable()
	table.perSegment = per
	now := at(t, "2026-11-21T12:00:00Z")
	for range 100 {
		now += second
		table.Decide(r, one, nil, now)
	}
	ledger := map[string][]byte{}
	table.Dirty(func(key, value []byte) { ledger[string(key)] = value })
	table.Commit()
	return table, r, ledger, now
}

// What an operator gave up with "weir ledger repair --forget" is forgotten, and
// nothing else: of a scope whose own record is gone the places stand, of one
// that lacks a segment all others do.
func TestForgotten(t *testing.T) {
	for _, c := range []struct {
		name    string
		forget  func(key string) bool
		left    int64 // of the hour
		slots   int
		changed int // records that mending writes
	}{
		{"nothing", func(string) bool { return false }, 0, 1, 0},
		{"the scope's record", func(key string) bool { return len(key) == keySize }, 0, 1, 1},
		{"a segment", func(key string) bool { return len(key) == segmentKeySize && key[20] == 1 }, 8, 1, 0},
		{"the segments", func(key string) bool { return len(key) == segmentKeySize }, 100, 1, 0},
		{"all", func(string) bool { return true }, 100, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, r, ledger, now := many(t, 8)
			table := NewTable()
			defer table.Close()
			table.perSegment = 8
			for key, value := range ledger {
				if err := table.Load([]byte(key), value); err != nil {
					t.Fatal(err)
				}
			}
			for key := range ledger {
				if c.forget(key) {
					if err := table.Load([]byte(key), nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, commit := range []bool{false, true} { // mended again after a rollback
				table.Begin()
				if left := table.Peek(r, one, now)[0].Left; left != c.left || table.Len() != c.slots {
					t.Errorf("%d are left in %d slots, want %d in %d", left, table.Len(), c.left, c.slots)
				}
				changed := 0
				table.Dirty(func(key, value []byte) { changed++ })
				if changed != c.changed {
					t.Errorf("%d records are written", changed)
				}
				if commit {
					table.Commit()
				} else {
					table.Rollback()
				}
			}
			table.Decide(r, one, nil, now+hour)
			table.Commit()
			if err := integrity(table); err != nil {
				t.Error(err)
			}
			table.Sweep(r, now+3*day, 1<<17)
			table.Commit()
			if table.Len()+len(table.longs) != 0 {
				t.Errorf("%d slots and segments of %d are never swept", table.Len(), len(table.longs))
			}
		})
	}
}

// Segments that no slot knows of any more, since its record became one without:
// that cannot be if Weir alone writes.
func TestUnknownSegments(t *testing.T) {
	table, r, ledger, now := many(t, 8)
	defer table.Close()
	key := appendKey(nil, table.keyOf("a", one.Recipient))
	few := appendRecord(nil, key, &standing{limit: nameHash("a"), times: []schemas.Millis{now}, costs: []uint32{1}})
	if err := table.Load(key, few); err != nil {
		t.Fatal(err)
	}
	table.Begin()
	if left := table.Peek(r, one, now)[0].Left; left != 99 {
		t.Errorf("%d are left", left)
	}
	tombstones := 0
	table.Dirty(func(key, value []byte) {
		if value == nil {
			tombstones++
		}
	})
	table.Commit()
	if tombstones != len(ledger)-1 || len(table.longs) != 0 {
		t.Errorf("%d tombstones for %d segments, %d stay", tombstones, len(ledger)-1, len(table.longs))
	}
}

func TestLoadRefusesSegmentsThatAreNotWhole(t *testing.T) {
	_, _, ledger, _ := many(t, 30)
	for key, good := range ledger {
		for bit := range len(good) * 8 {
			bad := slices.Clone(good)
			bad[bit/8] ^= 1 << (bit % 8)
			if err := NewTable().Load([]byte(key), bad); !errors.Is(err, ErrTorn) && !errors.Is(err, ErrForeign) {
				t.Fatalf("bit %d of %x turned: %v", bit, key, err)
			}
		}
		for _, other := range []string{"", key[1:], "q" + key[1:], key[:len(key)-1] + "\xff", "p" + key, key + "0000"} {
			if err := NewTable().Load([]byte(other), good); !errors.Is(err, ErrTorn) && !errors.Is(err, ErrForeign) {
				t.Fatalf("%x under %x: %v", key, other, err)
			}
		}
	}
	// Its sum is right, and it is not what a table writes.
	segment := appendSegmentKey(nil, [2]uint64{1, 2}, 3)
	for name, st := range map[string]*standing{
		"no place":       {part: true},
		"fifty days":     {part: true, times: []schemas.Millis{1, 1 + 50*day}, costs: []uint32{1, 1}},
		"a calendar":     {part: true, units: 1, count: [unitCount]uint32{1}, times: []schemas.Millis{1}, costs: []uint32{1}},
		"a bucket":       {part: true, bucket: tokens{1, 1, 1, 1}, times: []schemas.Millis{1}, costs: []uint32{1}},
		"a scope's":      {times: []schemas.Millis{1}, costs: []uint32{1}},
		"a scope's head": {long: true},
	} {
		if err := NewTable().Load(segment, appendRecord(nil, segment, st)); !errors.Is(err, ErrTorn) && !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := NewTable().Load(segment[1:17], appendRecord(nil, segment[1:17], &standing{part: true, times: []schemas.Millis{1}, costs: []uint32{1}})); !errors.Is(err, ErrForeign) {
		t.Errorf("a segment under a scope's key: %v", err)
	}
}

// Places further apart than a segment can tell are in two, whether the later or
// the older comes second, and are never joined.
func TestSegmentsFarApart(t *testing.T) {
	r := rulesOf(t, perRecipient(t, "a", "20/31d"))
	begin := at(t, "2026-01-01T00:00:00Z")
	for _, c := range []struct {
		name  string
		place func(table *Table, held []schemas.Charge) (now schemas.Millis)
		left  int64
	}{
		{"later", func(table *Table, _ []schemas.Charge) schemas.Millis {
			now := begin + 50*day
			passes(t, table, r, now)
			return now
		}, 18},
		{"rejoined", func(table *Table, held []schemas.Charge) schemas.Millis {
			now := begin + 50*day
			held = append(held, passes(t, table, r, now)...)
			held = append(held, passes(t, table, r, now)...)
			for _, c := range held[11:] {
				if c.T >= begin+20*day {
					if returned, _ := table.GiveBack(r, []schemas.Charge{c}, now); len(returned) != 1 {
						t.Errorf("%v was not returned", c)
					}
					break
				}
			}
			return now
		}, 18},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := NewTable()
			defer table.Close()
			table.perSegment = 5
			var held []schemas.Charge
			for range 13 {
				held = append(held, passes(t, table, r, begin)...)
			}
			held = append(held, passes(t, table, r, begin+20*day)...)
			now := c.place(table, held)
			table.Commit()
			if left := table.Peek(r, one, now)[0].Left; left != c.left {
				t.Errorf("%d are left, not %d", left, c.left)
			}
			if err := integrity(table); err != nil {
				t.Error(err)
			}
			again := NewTable()
			defer again.Close()
			for key, value := range dump(table) {
				if err := again.Load([]byte(key), []byte(value)); err != nil {
					t.Error(err)
				}
			}
			if diff := cmp.Diff(dump(table), dump(again)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
