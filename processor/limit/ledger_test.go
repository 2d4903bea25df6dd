package limit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// record returns the one record of a slot with rolling and calendar places.
func record(t testing.TB, segments int64) (key, value []byte) {
	l := schemas.Limit{Name: "verify", Per: []string{"recipient"}, Allow: windows(t, "3000/1h", "5000/calendar-day", "90/calendar-month"), Count: schemas.CountSegments}
	if segments == 2 {
		l.Allow = append(l.Allow, windows(t, "bucket 3000 refill 1.001/m")...)
	}
	r, table := rulesOf(t, l), NewTable()
	for i := range schemas.Millis(20) {
		if !table.Decide(r, &Subject{Recipient: "+8613800000000", Segments: segments}, nil, 1_790_000_000_000+i*i).OK {
			t.Fatal("setup")
		}
	}
	table.Dirty(func(k, v []byte) { key, value = k, v })
	return key, value
}

func TestLoadRefusesWhatIsNotWhole(t *testing.T) {
	for _, segments := range []int64{1, 2, 4} { // 2 has a bucket
		key, good := record(t, segments)
		if err := NewTable().Load(key, good); err != nil {
			t.Fatal(err)
		}
		for n := 1; n < len(good); n++ {
			if err := NewTable().Load(key, good[:n]); !errors.Is(err, ErrTorn) && !errors.Is(err, ErrForeign) {
				t.Fatalf("the first %d bytes of %d: %v", n, len(good), err)
			}
		}
		for bit := range len(good) * 8 {
			bad := slices.Clone(good)
			bad[bit/8] ^= 1 << (bit % 8)
			if err := NewTable().Load(key, bad); !errors.Is(err, ErrTorn) && !errors.Is(err, ErrForeign) {
				t.Fatalf("bit %d turned: %v", bit, err)
			}
		}
		if err := NewTable().Load(make([]byte, 16), good); !errors.Is(err, ErrTorn) {
			t.Errorf("under another key: %v", err)
		}
		if err := NewTable().Load(key, append(slices.Clone(good), 0)); !errors.Is(err, ErrTorn) {
			t.Errorf("with a byte more: %v", err)
		}
		for _, foreign := range []string{"{", `{"limit":"verify"}`, "L\x05rest of it all"} {
			if err := NewTable().Load(key, []byte(foreign)); !errors.Is(err, ErrForeign) {
				t.Errorf("%q: %v", foreign, err)
			}
		}
		// A refused record leaves what stands.
		table := NewTable()
		if err := table.Load(key, good); err != nil {
			t.Fatal(err)
		}
		_ = table.Load(key, good[:len(good)-1])
		if table.Len() != 1 {
			t.Error("a torn record removed a good one")
		}
	}
}

func TestLoadInTransaction(t *testing.T) {
	key, value := record(t, 1)
	table := NewTable()
	table.Begin()
	if err := table.Load(key, value); !errors.Is(err, ErrInTx) {
		t.Error(err)
	}
}

func TestDirtyReportsEachKeyOnce(t *testing.T) {
	r, table := rulesOf(t, perRecipient(t, "a", "5/60s")), NewTable()
	begin := at(t, "2026-11-21T12:00:00Z")
	table.Decide(r, &Subject{Recipient: "+2"}, nil, begin)
	table.Commit()
	var held []schemas.Charge
	for range 3 {
		held = passes(t, table, r, begin)
	}
	table.Decide(r, one, held, begin+1) // moves
	table.Decide(r, &Subject{Recipient: "+1"}, nil, begin)
	table.GiveBack(r, []schemas.Charge{{Limit: "a", Scope: "+1", T: begin + 1, Cost: 1}, {Limit: "a", Scope: "+2", T: begin, Cost: 1}}, begin)
	var got []string
	table.Dirty(func(_, value []byte) { got = append(got, fmt.Sprint(value == nil)) })
	if !slices.Equal(got, []string{"false", "true", "true"}) {
		t.Errorf("tombstones: %v", got)
	}
	table.Commit()
	table.Dirty(func(_, _ []byte) { t.Error("dirty after the commit") })
	if table.Len() != 1 {
		t.Errorf("%d slots", table.Len())
	}
}

// Whatever Load takes, the table writes back as it was, and decides on without
// a panic.
func FuzzLoad(f *testing.F) {
	for _, segments := range []int64{1, 2, 4} {
		key, value := record(f, segments)
		f.Add(key, value[:len(value)-4])
	}
	f.Add([]byte("0123456789abcdef"), []byte("L\x03\x12abcd\x05\x05\x05\x05\x05\x05"))
	f.Add([]byte("p0123456789abcdef0123"), []byte("L\x04\x00abcd\x02\x05\x05"))
	f.Add([]byte("p0123456789abcdef0123"), []byte("L\x04\x80abcd\x02\x05\x01\x05\x02"))
	f.Add([]byte("0123456789abcdef"), []byte("L\x01\x00abcd\x01\x05"))
	f.Add([]byte("0123456789abcdef"), []byte("L\x01\x81abcd\x05\x05\x01\x05\x05"))
	f.Add([]byte("0123456789abcdef"), []byte("L\x02\x10abcd\x05\x05\x05\x05\x00"))
	r := rulesOf(f, perRecipient(f, "verify", "5/60s", "5/calendar-day", "3/calendar-hour", "bucket 7 refill 3/m"))
	f.Fuzz(func(t *testing.T, k, body []byte) {
		if len(k) > keySize {
			fuzzSegment(t, r, k, body)
			return
		}
		key := make([]byte, keySize)
		copy(key, k)
		value := appendSum(key, body)
		table := NewTable()
		if err := table.Load(key, value); err != nil {
			if !errors.Is(err, ErrTorn) && !errors.Is(err, ErrForeign) {
				t.Fatal(err)
			}
			return
		}
		st := standing{}
		newest, err := readRecord(&st, key, value)
		if err != nil {
			t.Fatal(err)
		}
		counted := false
		for _, c := range st.count {
			counted = counted || c > 0
		}
		s := table.find([2]uint64{be(key[:8]), be(key[8:])})
		if s == nil {
			if len(st.times) > 0 || counted && st.from[0] == newest {
				t.Fatal("lost what was loaded")
			}
			return
		}
		again := appendRecord(nil, key, table.open(s))
		if len(st.times) > 0 && st.times[0] >= newest-keep && !slices.Contains(st.count[:], 0) && !bytes.Equal(again, value) {
			t.Fatalf("loaded % x, wrote % x", value, again)
		}
		// A record that the table wrote is read back as itself.
		second := NewTable()
		if err := second.Load(key, again); err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
		if s = second.find([2]uint64{be(key[:8]), be(key[8:])}); s == nil || !bytes.Equal(appendRecord(nil, key, second.open(s)), again) {
			t.Fatal("a record changed on its way")
		}
		table.Sweep(r, newest, 4000)
		table.Rollback()
		s = table.find([2]uint64{be(key[:8]), be(key[8:])})
		if !bytes.Equal(appendRecord(nil, key, table.open(s)), again) {
			t.Fatal("a rollback did not restore the slot")
		}
	})
}

// fuzzSegment is the same of a segment: what is loaded is what stands, whether
// its slot came before, after, or never.
func fuzzSegment(t *testing.T, r *Rules, k, body []byte) {
	key := make([]byte, segmentKeySize)
	copy(key, k)
	key[0] = segmentKind
	value := appendSum(key, body)
	head := appendRecord(nil, key[1:1+keySize], &standing{limit: nameHash("verify"), long: true})
	for _, when := range []string{"before", "after", "never"} {
		table := NewTable()
		defer table.Close()
		if when == "before" {
			if err := table.Load(key[1:1+keySize], head); err != nil {
				t.Fatal(err)
			}
		}
		if err := table.Load(key, value); err != nil {
			if !errors.Is(err, ErrTorn) && !errors.Is(err, ErrForeign) {
				t.Fatal(err)
			}
			return
		}
		if when == "after" {
			if err := table.Load(key[1:1+keySize], head); err != nil {
				t.Fatal(err)
			}
		}
		if stands := dump(table); stands[string(key)] != string(value) {
			t.Fatalf("loaded % x, it stands as % x", value, stands[string(key)])
		}
		table.Begin()
		before := dump(table)
		table.Sweep(r, table.last+40*day, 1<<17)
		if len(dump(table)) != 0 {
			t.Fatal("it is never swept")
		}
		table.Rollback()
		if after := dump(table); when != "never" && after[string(key)] != before[string(key)] {
			t.Fatal("a rollback did not restore it")
		}
	}
}

func appendSum(key, body []byte) []byte {
	sum := recordSum(key, body)
	return append(slices.Clone(body), byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
}

func be(b []byte) (v uint64) {
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v
}
