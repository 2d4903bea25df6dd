package limit

import (
	"maps"
	"testing"

	"github.com/weirhq/weir/schemas"
)

func TestBucketLife(t *testing.T) {
	r, table := rulesOf(t, perRecipient(t, "a", "bucket 2 refill 0.3/s")), NewTable() // 3 tokens every 10 s
	begin := at(t, "2026-11-21T12:00:00Z")
	held := passes(t, table, r, begin)
	passes(t, table, r, begin)
	const third = 3334 // ms until one token is there
	refuses(t, table, r, begin, begin+third, "bucket 2 refill 0.3/s")
	refuses(t, table, r, begin+third-1, begin+third, "bucket 2 refill 0.3/s")

	// It never gives back, and says nothing of it; a retry draws again.
	if returned, missing := table.GiveBack(r, held, begin); len(returned)+len(missing) > 0 {
		t.Errorf("returned %v, missing %v", returned, missing)
	}
	refuses(t, table, r, begin+third-1, begin+third, "bucket 2 refill 0.3/s")
	res := table.Decide(r, one, held, begin+third)
	if !res.OK || len(res.Charges) != 1 || len(res.Returned)+len(res.Missing) > 0 {
		t.Fatalf("%+v", res)
	}
	// The two parts of ten thousand that were over are not lost: every third
	// token comes after 3333 ms.
	now := begin + third
	for i := range schemas.Millis(300) {
		now = begin + (i+2)*10_000/3
		if (i+2)*10_000%3 != 0 {
			now++
		}
		refuses(t, table, r, now-1, now, "bucket 2 refill 0.3/s")
		passes(t, table, r, now)
	}
	if left := table.Peek(r, one, now); left[0].Left != 0 || left[0].Reset <= now || left[0].Reset > now+third {
		t.Errorf("left %+v", left)
	}
	if left := table.Peek(r, one, now+2*third); left[0].Left != 2 || left[0].Reset != 0 {
		t.Errorf("full: %+v", left)
	}
	// Full again it is nothing to keep.
	table.Commit()
	if n := table.Sweep(r, now+6666-2, 4000); n != 0 {
		t.Error("swept before it was full")
	}
	if n := table.Sweep(r, now+2*third, 4000); n != 1 {
		t.Errorf("swept %d", n)
	}
}

// A change keeps the level, clipped; a bucket that was full is full after it,
// swept or not; a limit that was off starts full.
func TestBucketChanges(t *testing.T) {
	const second = 1000
	policy := func(change func(*schemas.Limit), allow ...string) *schemas.Policy {
		l := perRecipient(t, "a", allow...)
		if change != nil {
			change(&l)
		}
		return &schemas.Policy{Limits: []schemas.Limit{l}}
	}
	left := func(t *testing.T, r *Rules, table *Table, now schemas.Millis) int64 {
		all := table.Peek(r, one, now)
		return all[len(all)-1].Left
	}
	for _, test := range []struct {
		name   string
		next   *schemas.Policy
		idle   schemas.Millis // before the change
		after  schemas.Millis // the change
		before []int64        // what is left then: at the change, and after it
	}{
		{"more", policy(nil, "bucket 20 refill 1/s"), 2 * second, 3 * second, []int64{2, 5}},
		{"fewer", policy(nil, "bucket 3 refill 1/s"), 8 * second, second, []int64{3, 3}},
		{"faster", policy(nil, "bucket 10 refill 2/s"), second, second, []int64{2, 4}},
		{"slower", policy(nil, "bucket 10 refill 1/m"), 5 * second, 60 * second, []int64{0, 1}},
		{"more, of a full one", policy(nil, "bucket 20 refill 1/s"), 10 * second, second, []int64{20, 20}},
		{"observed", policy(func(l *schemas.Limit) { l.Mode = schemas.ModeObserve }, "bucket 10 refill 1/s"), 2 * second, second, []int64{2, 3}},
		{"another match", policy(func(l *schemas.Limit) { l.Match.Class = []string{"verify"} }, "bucket 10 refill 1/s"), second, 1, []int64{10, 10}},
		{"override", policy(func(l *schemas.Limit) {
			l.Overrides = []schemas.Override{{To: one.Recipient, Allow: windows(t, "bucket 5 refill 1/s")}}
		}, "bucket 10 refill 1/s"), 2 * second, second, []int64{2, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, sweep := range []bool{false, true} {
				first := policy(nil, "bucket 10 refill 1/s")
				begin := at(t, "2026-11-21T12:00:00Z")
				since := NextSince(nil, nil, first, begin-1)
				r, err := Compile(first, since)
				if err != nil {
					t.Fatal(err)
				}
				table := NewTable()
				for range 10 {
					passes(t, table, r, begin)
				}
				refuses(t, table, r, begin, begin+second, "bucket 10 refill 1/s")
				now := begin + test.idle
				if sweep {
					table.Sweep(r, now, 4000)
					table.Commit()
				}
				since = NextSince(first, since, test.next, now)
				if r, err = Compile(test.next, since); err != nil {
					t.Fatal(err)
				}
				for i, at := range []schemas.Millis{now, now + test.after} {
					if got := left(t, r, table, at); got != test.before[i] {
						t.Errorf("swept %v, %v after the change: %d left, want %d", sweep, at-now, got, test.before[i])
					}
				}
				// Off and on again it starts anew.
				off := &schemas.Policy{Limits: []schemas.Limit{{Name: "a", Mode: schemas.ModeOff, Per: first.Limits[0].Per, Allow: first.Limits[0].Allow}}}
				since = NextSince(test.next, since, off, now+1)
				since = NextSince(off, since, first, now+2)
				if r, err = Compile(first, since); err != nil {
					t.Fatal(err)
				}
				if got := left(t, r, table, now+3); got != 10 {
					t.Errorf("after off: %d left", got)
				}
			}
		})
	}
}

// A message recorded as of the past draws as of then.
func TestBucketRecord(t *testing.T) {
	r, table := rulesOf(t, perRecipient(t, "a", "bucket 3 refill 1/s")), NewTable()
	begin := at(t, "2026-11-21T12:00:00Z")
	left := func(now schemas.Millis, want int64) {
		t.Helper()
		if got := table.Peek(r, one, now)[0].Left; got != want {
			t.Errorf("%d left, want %d", got, want)
		}
	}
	table.Record(r, one, begin-10_000, begin) // full since
	left(begin, 3)
	table.Record(r, one, begin-500, begin)
	left(begin, 2)
	left(begin+500, 3)
	for range 9 { // more than there was
		table.Record(r, one, begin, begin)
	}
	left(begin, 0)
	refuses(t, table, r, begin, begin+1000, "bucket 3 refill 1/s")
	table.Record(r, one, begin-300, begin+1500) // before the last place: as of that
	left(begin+1500, 1)
}

// Beside four counters and many places the bucket stands in the arena's block.
func TestBucketBesideAllElse(t *testing.T) {
	l := perRecipient(t, "a", "500/31d", "900/calendar-month", "400/calendar-day", "300/calendar-hour", "200/calendar-minute", "bucket 50 refill 1/1ms")
	l.Count = schemas.CountSegments
	r, table := rulesOf(t, l), NewTable()
	now := at(t, "2026-11-21T12:00:00Z")
	var held []schemas.Charge
	for i := range 60 {
		res := table.Decide(r, &Subject{Recipient: one.Recipient, Segments: 1 + int64(i%3)}, nil, now)
		if !res.OK {
			t.Fatalf("%d: %+v", i, res.Refused)
		}
		if got := table.Peek(r, one, now)[5].Left; got != 50-1-int64(i%3) {
			t.Fatalf("%d: %d left in the bucket", i, got)
		}
		held = append(held, res.Charges...)
		now += 3
	}
	var keys, records [][]byte
	table.Dirty(func(k, v []byte) { keys, records = append(keys, k), append(records, v) })
	if len(records) != 1 || records[0][1] != ledgerBuckets {
		t.Fatalf("%d records", len(records))
	}
	again := NewTable()
	if err := again.Load(keys[0], records[0]); err != nil {
		t.Fatal(err)
	}
	for _, c := range held { // all but what was drawn comes back
		if returned, _ := again.GiveBack(r, []schemas.Charge{c}, now-3); len(returned) != 1 {
			t.Fatalf("%v stayed", c)
		}
	}
	for i, m := range again.Peek(r, one, now-3) {
		if want := []int64{500, 900, 400, 300, 200, 47}[i]; m.Left != want {
			t.Errorf("%s: %d left, want %d", m.Window, m.Left, want)
		}
	}
}

func TestObserve(t *testing.T) {
	watch := perRecipient(t, "watch", "1/60s", "5/1h")
	watch.Mode = schemas.ModeObserve
	r, table := rulesOf(t, watch, perRecipient(t, "hold", "2/60s")), NewTable()
	now := at(t, "2026-11-21T12:00:00Z")
	first := table.Decide(r, one, nil, now)
	if !first.OK || len(first.Charges) != 2 || len(first.Observed) != 0 {
		t.Fatalf("%+v", first)
	}
	second := table.Decide(r, one, nil, now+1)
	if !second.OK || len(second.Charges) != 1 || second.Charges[0].Limit != "hold" || len(second.Observed) != 1 || second.Observed[0].Window != "1/60s" || second.RetryAt != 0 {
		t.Fatalf("%+v", second)
	}
	// What an enforced limit refuses takes nothing in the observed one either.
	third := table.Decide(r, &Subject{Recipient: one.Recipient}, nil, now+2)
	if third.OK || len(third.Refused) != 1 || third.RetryAt != now+60_000 {
		t.Fatalf("%+v", third)
	}
	left := table.Peek(r, one, now+2)
	if left[0].Left != 0 || left[1].Left != 4 || left[2].Left != 0 {
		t.Errorf("left %+v", left)
	}
	// A retry that it would have refused gives up the place it had there.
	table = NewTable()
	a := table.Decide(r, one, nil, now)
	table.Decide(r, one, nil, now+60_000)
	moved := table.Decide(r, one, a.Charges, now+60_001)
	if !moved.OK || len(moved.Charges) != 1 || len(moved.Observed) != 1 {
		t.Fatalf("%+v", moved)
	}
	if left := table.Peek(r, one, now+60_001); left[1].Left != 4 {
		t.Errorf("left %+v", left)
	}
}

func TestNextSinceOfBuckets(t *testing.T) {
	type moments = map[string]schemas.Millis
	const a, b = "bucket refill 1/s", "bucket refill 2/s"
	for _, test := range []struct {
		name   string
		change func(l *schemas.Limit)
		want   moments
	}{
		{"nothing", func(*schemas.Limit) {}, moments{a: 5, "bucket": 7, "1h": 5}},
		{"observe", func(l *schemas.Limit) { l.Mode = schemas.ModeObserve }, moments{a: 5, "bucket": 7, "1h": 5}},
		{"n", func(l *schemas.Limit) { l.Allow = windows(t, "bucket 11 refill 1/s", "9/1h") }, moments{a: 5, "bucket": 9, "1h": 5}},
		{"refill", func(l *schemas.Limit) { l.Allow = windows(t, "bucket 10 refill 2/s", "9/1h") }, moments{b: 5, "bucket": 9, "1h": 5}},
		{"no bucket", func(l *schemas.Limit) { l.Allow = windows(t, "9/1h") }, moments{"1h": 5}},
		{"an override without", func(l *schemas.Limit) {
			l.Overrides = []schemas.Override{{To: "+1", Allow: windows(t, "9/1h")}}
		}, moments{a: 5, "bucket": 9, "1h": 5}},
		{"match", func(l *schemas.Limit) { l.Match.Class = []string{"x"} }, moments{a: 9, "bucket": 9, "1h": 9}},
	} {
		prev, next := perRecipient(t, "a", "bucket 10 refill 1/s", "9/1h"), perRecipient(t, "a", "bucket 10 refill 1/s", "9/1h")
		test.change(&next)
		got := NextSince(&schemas.Policy{Limits: []schemas.Limit{prev}}, map[string]moments{"a": {a: 5, "bucket": 7, "1h": 5}}, &schemas.Policy{Limits: []schemas.Limit{next}}, 9)
		if !maps.Equal(got["a"], test.want) {
			t.Errorf("%s: %v, want %v", test.name, got["a"], test.want)
		}
	}
}

// What is swept under one revision must not be missed under the next: the sweep
// also waits until the bucket is full by the numbers of its last place.
func TestBucketSweptBetweenChanges(t *testing.T) {
	begin := at(t, "2026-11-21T12:00:00Z")
	policies := make([]*schemas.Policy, 3)
	for i, allow := range []string{"bucket 10 refill 1/s", "bucket 10 refill 100/s", "bucket 10 refill 1/s"} {
		policies[i] = &schemas.Policy{Limits: []schemas.Limit{perRecipient(t, "a", allow)}}
	}
	for _, sweep := range []bool{false, true} {
		table := NewTable()
		var prev *schemas.Policy
		var since map[string]map[string]schemas.Millis
		for i, p := range policies {
			now := begin + schemas.Millis(i)*2000
			since = NextSince(prev, since, p, now-1)
			r, err := Compile(p, since)
			if err != nil {
				t.Fatal(err)
			}
			prev = p
			switch i {
			case 0:
				for range 10 {
					passes(t, table, r, now)
				}
				table.Commit()
			case 1:
				if left := table.Peek(r, one, now)[0].Left; left != 10 {
					t.Errorf("fast: %d left", left)
				}
				if sweep {
					table.Sweep(r, now, 4000)
					table.Commit()
				}
			case 2:
				if left := table.Peek(r, one, now)[0].Left; left != 4 {
					t.Errorf("slow again, swept %v: %d left, want 4", sweep, left)
				}
			}
		}
	}
}

// Whether a bucket that is full again was swept is not to be seen, by a place
// either that is recorded as of before it was full.
func TestRecordedBeforeSwept(t *testing.T) {
	r := rulesOf(t, perRecipient(t, "a", "bucket 24 refill 1/h"))
	begin := at(t, "2026-11-21T12:00:00Z")
	now := begin + 2*hour + 30*minute
	var left []int64
	for _, sweep := range []bool{true, false} {
		table := NewTable()
		defer table.Close()
		for range 2 {
			table.Decide(r, one, nil, begin)
		}
		table.Commit()
		if sweep {
			table.Sweep(r, now, 1<<17)
			table.Commit()
		}
		if swept := table.Len() == 0; swept != sweep {
			t.Fatalf("swept: %v", swept)
		}
		table.Record(r, one, begin, now)
		left = append(left, table.Peek(r, one, now)[0].Left)
	}
	if left[0] != 24 || left[1] != 24 {
		t.Errorf("left in the swept one and the other: %v", left)
	}
}
