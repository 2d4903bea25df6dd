package sink

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/schemas"
)

// house is ClickHouse as far as the sink relies on it: tables that are filled one
// after the other, and inserts that were sent and have not landed.
type house struct {
	tables [2]table
	flying []flight
	loads  []busy // of others
}

// table is how often it has each offset, and the tokens it remembers: those of its
// last blocks.
type table struct {
	rows   map[int64]int
	tokens map[string]token
	blocks int
}

type token struct {
	plan  Plan
	block int
}

// What the sink relies on: after as many blocks as renews, a token is still good for a
// plan's life.
const (
	forgets = 1000
	renews  = 500
	atOnce  = 400 // blocks of others in a plan's life
)

// busy is when others inserted how many blocks.
type busy struct {
	at     time.Time
	blocks int
}

type flight struct {
	plan Plan
	rows []*kgo.Record
}

func newHouse() *house {
	h := &house{}
	for i := range h.tables {
		h.tables[i] = table{rows: map[int64]int{}, tokens: map[string]token{}}
	}
	return h
}

// insert fills the tables that are named: not all where it breaks off.
func (h *house) insert(t *rapid.T, p Plan, rows []*kgo.Record, tables ...int) {
	for _, i := range tables {
		tb := &h.tables[i]
		if was, ok := tb.tokens[p.Token()]; ok && tb.blocks-was.block < forgets {
			if was.plan.Encoder != p.Encoder {
				t.Fatalf("token %s has rows of version %d, and then of version %d", p.Token(), was.plan.Encoder, p.Encoder)
			}
			continue
		}
		tb.blocks++
		tb.tokens[p.Token()] = token{p, tb.blocks}
		for _, r := range rows {
			tb.rows[r.Offset]++
		}
	}
}

// broken reports whether an insert broke off, and was not made whole since.
func (h *house) broken() bool { return !maps.Equal(h.tables[0].rows, h.tables[1].rows) }

// others inserts as many blocks of others as may come in a plan's life.
func (h *house) others(now time.Time, life time.Duration) {
	n := atOnce
	for _, l := range h.loads {
		if now.Sub(l.at) <= life {
			n -= l.blocks
		}
	}
	h.loads = append(h.loads, busy{now, n})
	for i := range h.tables {
		h.tables[i].blocks += n
	}
}

// since counts the blocks of others since then.
func (h *house) since(made schemas.Millis) (n int) {
	for _, l := range h.loads {
		if schemas.MillisOf(l.at) >= made {
			n += l.blocks
		}
	}
	return n
}

// land lets an insert land that is under way.
func (h *house) land(t *rapid.T, i int, tables ...int) {
	f := h.flying[i]
	h.flying = slices.Delete(h.flying, i, i+1)
	h.insert(t, f.plan, f.rows, tables...)
}

// pass lets time go by until now. What is under way lands while it may.
func (h *house) pass(t *rapid.T, now time.Time, grace time.Duration) {
	for i := len(h.flying) - 1; i >= 0; i-- {
		if schemas.MillisOf(now) >= h.flying[i].plan.Expires.Add(grace) {
			h.land(t, i, 0, 1)
		}
	}
}

// Whatever happens in whatever order (crashes before and after a commit, answers
// that get lost, inserts that break off between two tables, plans that expire, offsets
// that are lost), every record is in every table once in the end, and a record is never
// confirmed before it is. One thing is not played: an insert that broke off, and whose
// token is then forgotten or lost. What one table lacks of it stays away.
func TestPartitionLoadsEveryRecordOnce(t *testing.T) {
	for range 50 { // a hundred stories each; the rarest known mistake takes 500
		rapid.Check(t, story)
	}
}

func story(t *rapid.T) {
	var log []*kgo.Record
	var at int64
	for range rapid.IntRange(1, 60).Draw(t, "records") {
		at += int64(rapid.IntRange(1, 3).Draw(t, "gap")) // control records
		log = append(log, &kgo.Record{Offset: at, Value: make([]byte, 10)})
	}
	var (
		lim      = limits{rows: rapid.IntRange(1, 20).Draw(t, "rows"), bytes: 1 << 20, linger: 0, every: time.Second, life: 10 * time.Second, grace: time.Second}
		now      = time.UnixMilli(1_763_719_200_000)
		h        = newHouse()
		offset   = int64(-1) // what the group holds
		metadata string
		p        *partition
		asked    map[int64]struct{} // the answer under way
		doubt    int64
	)
	open := func() {
		plan, err := ParseMetadata(0, offset, metadata)
		if err != nil {
			plan = Plan{Topic: "t", From: offset, To: offset, Doubt: unknown}
		}
		p = newPartition("t", plan, lim)
		asked = nil
	}
	open()
	pass := func(d time.Duration) {
		now = now.Add(d)
		h.pass(t, now, lim.grace)
	}
	read := func() {
		for _, r := range log {
			if r.Offset >= p.read && !p.full() {
				p.add(r, now)
				return
			}
		}
	}
	cut := func() {
		p.expire(now)
		p.makePlan(now, false)
	}
	commit := func() (Plan, bool) {
		pos, ok := p.position()
		if ok {
			for _, r := range log {
				for i, tb := range h.tables {
					if r.Offset < pos.From && tb.rows[r.Offset] != 1 {
						t.Fatalf("confirmed up to %d and offset %d is in table %d %d times", pos.From, r.Offset, i, tb.rows[r.Offset])
					}
					if r.Offset < pos.From && pos.First {
						t.Fatalf("it stands at %d as if nothing was ever loaded", pos.From)
					}
				}
			}
			offset, metadata = pos.From, pos.Metadata()
		}
		return pos, ok
	}
	// as lets another version of Weir be the one that plans. A plan that is made once
	// more keeps its rows.
	as := func(version int) {
		if p.phase == planning && p.plan.Expires == p.plan.Made.Add(lim.life) {
			p.plan.Encoder = version
		}
	}
	slowly := false     // what is sent lands later
	into := []int{0, 1} // the tables that what is sent lands in
	remembered := false // the answer under way
	send := func() bool {
		due, ok := p.wants(now)
		if !ok || due.After(now) {
			return false
		}
		if p.phase == renewing {
			remembered = h.since(p.plan.Made) <= renews
			return true
		}
		if p.phase == looking {
			asked, doubt = map[int64]struct{}{}, p.doubt
			for _, r := range p.rows {
				if h.tables[0].rows[r.Offset] > 0 {
					asked[r.Offset] = struct{}{}
				}
			}
			if doubt == unknown {
				doubt = 0
				for o := range maps.Keys(h.tables[0].rows) {
					doubt = max(doubt, o+1)
				}
			}
			return true
		}
		h.flying = append(h.flying, flight{p.plan, p.rows})
		if !slowly {
			h.land(t, len(h.flying)-1, into...)
		}
		return true
	}
	answer := func() {
		switch p.phase {
		case renewing:
			p.renew(remembered, now)
		case looking:
			p.looked(asked, doubt, now)
		default:
			p.inserted()
		}
	}
	for range rapid.IntRange(0, 150).Draw(t, "steps") {
		step := rapid.SampledFrom([]string{"read", "read", "read", "cut", "cut", "commit", "commit", "commit and crash", "commit unknown", "send", "send", "send and crash", "send slowly and crash", "land", "send breaks off", "send breaks off and crash", "others load", "others load much", "former version", "newer version and crash", "answer lost", "crash", "wait", "wait long", "offsets lost"}).Draw(t, "step")
		switch step {
		case "read":
			read()
		case "cut":
			cut()
		case "commit":
			if _, ok := commit(); ok {
				p.committed()
			}
		case "commit and crash":
			commit()
			open()
		case "commit unknown": // it stands, and the owner does not know
			commit()
		case "send":
			if send() {
				answer()
			}
		case "send and crash":
			send()
			open()
		case "send slowly and crash":
			slowly = true
			send()
			slowly = false
			open()
		case "land":
			if n := len(h.flying); n > 0 {
				h.land(t, rapid.IntRange(0, n-1).Draw(t, "which"), 0, 1)
			}
		case "send breaks off", "send breaks off and crash":
			if p.phase != inserting {
				continue
			}
			into = []int{rapid.IntRange(0, 1).Draw(t, "table")}
			if send() {
				p.failed(now.Add(time.Second))
			}
			into = []int{0, 1}
			if step == "send breaks off and crash" {
				open()
			}
		case "others load":
			if !h.broken() {
				h.others(now, lim.life+lim.grace)
			}
		case "others load much": // all that was remembered is forgotten
			for range forgets/atOnce + 1 {
				if !h.broken() {
					h.others(now, lim.life+lim.grace)
					pass(lim.life + lim.grace + time.Second)
				}
			}
		case "former version":
			as(1)
		case "newer version and crash":
			as(EncoderVersion + 1)
			// It sends no plan that is over, as this one does not.
			if plan, ok := commit(); ok && plan.planned() && schemas.MillisOf(now) < plan.Expires {
				h.flying = append(h.flying, flight{plan, p.rows})
			}
			open()
		case "answer lost":
			if send() {
				p.failed(now.Add(time.Second))
			}
		case "crash":
			open()
		case "wait":
			pass(time.Second)
		case "wait long":
			pass(12 * time.Second)
		case "offsets lost": // by idleness or by hand, so not within the seconds that an insert takes
			for len(h.flying) > 0 {
				h.land(t, 0, 0, 1)
			}
			if !h.broken() {
				offset, metadata = -1, ""
				open()
			}
		}
	}
	for i := 0; offset != at+1; i++ {
		if i > 2000 {
			t.Fatalf("no progress: group at %d, log's end %d, partition %+v", offset, at+1, p)
		}
		pass(time.Second)
		read()
		cut()
		if _, ok := commit(); ok {
			p.committed()
		}
		if send() {
			answer()
		}
	}
	for _, r := range log {
		for i, tb := range h.tables {
			if tb.rows[r.Offset] != 1 {
				t.Fatalf("offset %d is in table %d %d times; rows %v", r.Offset, i, tb.rows[r.Offset], slices.Sorted(maps.Keys(tb.rows)))
			}
		}
	}
	if p.held() != 0 || p.rowsBytes != 0 {
		t.Fatalf("%d bytes are still held", p.held())
	}
}

func TestRangesAreCut(t *testing.T) {
	now := time.UnixMilli(1_763_719_200_000)
	lim := limits{rows: 3, bytes: 10_000, linger: 50 * time.Millisecond, every: time.Second, life: time.Minute, grace: time.Second}
	rec := func(o int64, n int) *kgo.Record { return &kgo.Record{Offset: o, Value: make([]byte, n)} }
	for _, tt := range []struct {
		name    string
		recs    []*kgo.Record
		lastCut time.Duration // ago; 0 is never
		after   time.Duration
		pressed bool
		want    Plan
	}{
		{name: "nothing", after: time.Hour},
		{name: "one, too soon", recs: []*kgo.Record{rec(7, 1)}, after: 49 * time.Millisecond},
		{name: "one, after the linger", recs: []*kgo.Record{rec(7, 1)}, after: 50 * time.Millisecond, want: Plan{From: 5, To: 8}},
		{name: "one, within a second of the last", recs: []*kgo.Record{rec(7, 1)}, lastCut: 500 * time.Millisecond, after: 499 * time.Millisecond},
		{name: "one, a second after the last", recs: []*kgo.Record{rec(7, 1)}, lastCut: 500 * time.Millisecond, after: 500 * time.Millisecond, want: Plan{From: 5, To: 8}},
		{name: "full of rows", recs: []*kgo.Record{rec(5, 1), rec(6, 1), rec(9, 1), rec(10, 1)}, lastCut: time.Millisecond, want: Plan{From: 5, To: 10}},
		{name: "full of bytes", recs: []*kgo.Record{rec(5, 9900), rec(6, 1)}, want: Plan{From: 5, To: 6}},
		{name: "one larger than a range", recs: []*kgo.Record{rec(5, 99_000)}, want: Plan{From: 5, To: 6}},
		{name: "memory is short", recs: []*kgo.Record{rec(5, 1)}, pressed: true, want: Plan{From: 5, To: 6}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPartition("t", Plan{Topic: "t", Partition: 2, From: 5, To: 5}, lim)
			if tt.lastCut > 0 {
				p.cut = now.Add(-tt.lastCut)
			}
			for _, r := range tt.recs {
				p.add(r, now)
			}
			p.makePlan(now.Add(tt.after), tt.pressed)
			if p.plan.From != tt.want.From || p.plan.To != tt.want.To {
				t.Errorf("planned [%d,%d), want [%d,%d)", p.plan.From, p.plan.To, tt.want.From, tt.want.To)
			}
		})
	}
}

// TestReadAgain: the client may hand over what it has handed over before, such as
// after its position was set back; a block has each record once.
func TestReadAgain(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := newPartition("topic", Plan{From: 5, To: 5}, limits{rows: 10, bytes: 1 << 20, life: time.Minute})
	for _, offset := range []int64{5, 6, 5, 6, 7, 4} {
		p.add(&kgo.Record{Offset: offset}, now)
	}
	p.makePlan(now, true)
	var got []int64
	for _, r := range p.rows {
		got = append(got, r.Offset)
	}
	if !slices.Equal(got, []int64{5, 6, 7}) || p.plan.To != 8 {
		t.Errorf("planned %v up to %d", got, p.plan.To)
	}
}

// A plan may be over by the clock of whoever reads it, and not by that of its maker,
// whose insert is under way: what is there is looked for only when a plan's life has
// passed that this process has seen pass.
func TestALookWaits(t *testing.T) {
	lim := limits{rows: 10, bytes: 1 << 20, life: time.Minute, grace: time.Second}
	for _, tt := range []struct {
		name    string
		encoder int
		made    schemas.Millis
	}{
		{"its token may be forgotten", EncoderVersion, 1},
		{"of a version that did not say when it was made", EncoderVersion, 0},
		{"of a newer version", EncoderVersion + 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1_800_000_000, 0)
			p := newPartition("t", Plan{Topic: "t", From: 5, To: 6, Encoder: tt.encoder, Made: tt.made, Expires: 2}, lim)
			p.add(&kgo.Record{Offset: 5}, now)
			p.expire(now)
			if p.phase == renewing {
				p.renew(false, now)
			}
			if at, ok := p.wants(now); p.phase != looking || !ok || at.Before(now.Add(lim.life+lim.grace)) {
				t.Errorf("%s at %v, after %v", p.phase, at, at.Sub(now))
			}
		})
	}
}

// A database that was emptied may get rows yet of a plan that stood there.
func TestALookWaitsWhereItBeginsAnew(t *testing.T) {
	lim := limits{rows: 10, bytes: 1 << 20, life: time.Minute, grace: time.Second}
	for _, planned := range []bool{false, true} {
		now := time.Unix(1_800_000_000, 0)
		p := newPartition("t", Plan{Topic: "t", From: atStart, To: atStart, Doubt: unknown}, lim)
		want := now
		if planned {
			p.settle(now)
			want = now.Add(lim.life + lim.grace)
		}
		p.add(&kgo.Record{Offset: 5}, now)
		p.makePlan(now, true)
		if at, ok := p.wants(now); p.phase != looking || !ok || !at.Equal(want) {
			t.Errorf("planned %v: %s after %v", planned, p.phase, at.Sub(now))
		}
	}
}

// However many partitions there are, ClickHouse remembers the blocks that come in a
// plan's life.
func TestBlocksInALife(t *testing.T) {
	for _, of := range []int{1, 24, 29, 30, 300, 10_000} {
		cfg := Config{}.withDefaults()
		lim := cfg.limits(of)
		if blocks := float64(of) * (lim.life + lim.grace).Seconds() / lim.every.Seconds(); blocks > blocksInALife*1.001 {
			t.Errorf("%d partitions: %.0f blocks", of, blocks)
		}
		if (lim.every == cfg.Every) != (of < 30) {
			t.Errorf("%d partitions: every %v", of, lim.every)
		}
	}
}

// TestBehindMarkers: the group stands behind the markers of transactions where nothing
// else is, and never behind a row that ClickHouse may lack.
func TestBehindMarkers(t *testing.T) {
	lim := limits{rows: 10, bytes: 1 << 20, life: time.Minute, grace: time.Second}
	now := time.Unix(1_800_000_000, 0)
	p := newPartition("t", Plan{Topic: "t", From: 5, To: 5}, lim)
	stands := func(what string, want int64) {
		t.Helper()
		if at, ok := p.position(); ok != (want >= 0) || ok && (at.From != want || p.phase == gathering && at.To != want) {
			t.Errorf("%s: %v, %v, want %d", what, at, ok, want)
		}
	}
	p.pass(5, now)
	stands("a marker where the group stands", 6)
	p.committed()
	stands("that is committed", -1)
	p.add(&kgo.Record{Offset: 6}, now)
	p.pass(7, now)
	stands("a row before it is not there", -1)
	p.makePlan(now, true)
	p.committed()
	p.pass(8, now)
	stands("nor is it yet", -1)
	p.add(&kgo.Record{Offset: 9}, now)
	p.pass(10, now)
	p.inserted()
	stands("a row behind it is not there", 7)
	p.committed()
	p.makePlan(now, true)
	if p.plan.From != 7 || p.plan.To != 10 {
		t.Errorf("the plan is %v, want all from where the group stands", p.plan)
	}
	p.committed()
	p.inserted()
	stands("all rows are there", 11)
	p.pass(3, now)
	stands("a marker that was read before", 11)

	p = newPartition("t", Plan{Topic: "t", From: atStart, To: atStart}, lim)
	p.pass(0, now)
	stands("nothing was ever loaded", -1)

	p = newPartition("t", Plan{Topic: "t", From: 5, To: 6, Encoder: EncoderVersion, Made: 1, Expires: schemas.MillisOf(now.Add(time.Minute))}, lim)
	p.add(&kgo.Record{Offset: 5}, now)
	p.pass(6, now)
	stands("another's plan", -1)
	p.inserted()
	stands("it is carried out", 7)
}
