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

// house is ClickHouse as far as the sink relies on it: how often it has each
// offset, the tokens it remembers, and inserts that were sent and have not landed.
type house struct {
	rows   map[int64]int
	tokens map[string]Plan
	flying []flight
}

type flight struct {
	plan Plan
	rows []*kgo.Record
}

func (h *house) insert(t *rapid.T, p Plan, rows []*kgo.Record) {
	if was, ok := h.tokens[p.Token()]; ok {
		if was.Encoder != p.Encoder {
			t.Fatalf("token %s has rows of version %d, and then of version %d", p.Token(), was.Encoder, p.Encoder)
		}
		return
	}
	h.tokens[p.Token()] = p
	for _, r := range rows {
		h.rows[r.Offset]++
	}
}

// land lets an insert land that is under way.
func (h *house) land(t *rapid.T, i int) {
	f := h.flying[i]
	h.flying = slices.Delete(h.flying, i, i+1)
	h.insert(t, f.plan, f.rows)
}

// pass lets time go by until now. What is under way lands while it may, and after
// that a deduplication window forgets.
func (h *house) pass(t *rapid.T, now time.Time, grace time.Duration) {
	over := func(p Plan) bool { return schemas.MillisOf(now) >= p.Expires.Add(grace) }
	for i := len(h.flying) - 1; i >= 0; i-- {
		if over(h.flying[i].plan) {
			h.land(t, i)
		}
	}
	maps.DeleteFunc(h.tokens, func(_ string, p Plan) bool { return over(p) })
}

// Whatever happens in whatever order (crashes before and after a commit, answers
// that get lost, plans that expire, offsets that are lost), every record is there
// once in the end, and a record is never confirmed before it is there.
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
		h        = &house{rows: map[int64]int{}, tokens: map[string]Plan{}}
		offset   = int64(-1) // what the group holds
		metadata string
		p        *partition
		asked    map[int64]struct{} // the answer under way
		none     bool
	)
	open := func() {
		plan, err := ParseMetadata(0, offset, metadata)
		if err != nil {
			start := max(offset, 0)
			plan = Plan{Topic: "t", From: start, To: start, Doubt: 1 << 60}
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
				if r.Offset < pos.From && h.rows[r.Offset] != 1 {
					t.Fatalf("confirmed up to %d and offset %d is there %d times", pos.From, r.Offset, h.rows[r.Offset])
				}
			}
			offset, metadata = pos.From, pos.Metadata()
		}
		return pos, ok
	}
	// as lets another version of Weir be the one that plans.
	as := func(version int) {
		if p.phase == planning {
			p.plan.Encoder = version
		}
	}
	slowly := false // what is sent lands later
	send := func() bool {
		due, ok := p.wants(now)
		if !ok || due.After(now) {
			return false
		}
		if p.phase == looking {
			asked, none = map[int64]struct{}{}, true
			to := p.from
			if len(p.rows) > 0 {
				to = p.rows[len(p.rows)-1].Offset + 1
			}
			for o := range maps.Keys(h.rows) {
				switch {
				case o >= p.from && o < to:
					asked[o] = struct{}{}
				case o >= to:
					none = false
				}
			}
			return true
		}
		h.flying = append(h.flying, flight{p.plan, p.rows})
		if !slowly {
			h.land(t, len(h.flying)-1)
		}
		return true
	}
	answer := func() {
		if p.phase == looking {
			p.looked(asked, none, now)
		} else {
			p.inserted()
		}
	}
	for range rapid.IntRange(0, 150).Draw(t, "steps") {
		switch rapid.SampledFrom([]string{"read", "read", "read", "cut", "cut", "commit", "commit", "commit and crash", "commit unknown", "send", "send", "send and crash", "send slowly and crash", "land", "former version", "newer version and crash", "answer lost", "crash", "wait", "wait long", "offsets lost"}).Draw(t, "step") {
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
				h.land(t, rapid.IntRange(0, n-1).Draw(t, "which"))
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
				h.land(t, 0)
			}
			offset, metadata = -1, ""
			open()
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
		if h.rows[r.Offset] != 1 {
			t.Fatalf("offset %d is there %d times; rows %v", r.Offset, h.rows[r.Offset], slices.Sorted(maps.Keys(h.rows)))
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
