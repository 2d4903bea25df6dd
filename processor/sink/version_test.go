package sink

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/schemas"
)

// The rows of version 1 are those of an event without what version 2 added.
func TestFormerVersionsRows(t *testing.T) {
	place := []schemas.Charge{{Limit: "acme", Scope: "tenant=acme", T: 1_763_719_200_000, Cost: 1}}
	old := schemas.Decision{Verdict: schemas.VerdictAdmit, Partition: 3, Seq: 4, T: 1_763_719_200_000, Revision: 5, Charges: place, Returned: place, Missing: place}
	wide := old
	wide.Carried, wide.Restored, wide.Released, wide.Reinstated = place, place, place, place
	wide.Passed, wide.Onward = []schemas.Ask{{Limit: "acme", Scope: "tenant=acme", Cost: 1}}, new(int32(7))
	rows := func(version int, d schemas.Decision) map[string]any {
		b := newBlock([]byte("key"), version)
		// As many bytes whatever is in it: bytes is a column too.
		e := schemas.AppendEvent(nil, &schemas.Event{Kind: schemas.KindDecision, At: d.T, Decision: &d})
		for len(e) < 4000 {
			e = append(e, ' ')
		}
		b.Append(Record{Offset: 1, Appended: d.T, Value: e})
		cols := b.Columns()
		if len(cols) != len(b.log.Columns) {
			t.Fatalf("version %d has %d columns of %d", version, len(cols), len(b.log.Columns))
		}
		out := make(map[string]any)
		for i, name := range b.log.Columns {
			out[name] = cols[i]
		}
		return out
	}
	former := rows(1, old)
	if diff := cmp.Diff(former, rows(1, wide)); diff != "" {
		t.Error("version 1 shows what it did not know", diff)
	}
	now, more := rows(2, old), rows(2, wide)
	for _, name := range []string{"carried.limit", "carried.scope", "carried.t", "carried.cost", "passed", "restored", "released", "reinstated", "onward"} {
		if cmp.Equal(now[name], more[name]) {
			t.Errorf("version 2 does not show %s", name)
		}
		delete(now, name)
	}
	if diff := cmp.Diff(former, now); diff != "" {
		t.Error("version 2 changes an event that has nothing new", diff)
	}
}

// What rows hold of lists is what encoding/json writes, whichever way it is made.
func TestTextIsThatOfEncodingJSON(t *testing.T) {
	at := schemas.Millis(1_763_719_200_000)
	for _, scope := range []string{"+861", "", "a<b>&c", "é", "\u2028", "\xff", `"\`, "\x00\t", "tenant=acme,prefix:3=861"} {
		charges := []schemas.Charge{{Limit: "l", Scope: scope, T: at, Cost: -1}, {}}
		evidence := []schemas.Evidence{{Limit: "l", Scope: scope, Window: "1/60s", N: 1, Oldest: at, Start: at, Since: at}, {Scope: scope}}
		for _, c := range []struct {
			list any
			got  string
		}{{charges, text(charges)}, {evidence, text(evidence)}} {
			want, err := json.Marshal(c.list)
			if err != nil {
				t.Fatal(err)
			}
			if c.got != string(want) {
				t.Errorf("%s, want %s", c.got, want)
			}
		}
	}
}

// A plan of version 2 is carried out with its rows. A row of version 3 has the time of
// the event whose price does not fit: by it a row of version 2 is known to be there.
func TestPriceOfFormerVersions(t *testing.T) {
	const at = schemas.Millis(1_763_719_200_000)
	for version, want := range map[int]string{1: "status", 2: "status", 3: kindPoison} {
		b := newBlock(nil, version)
		for i, price := range []string{"", "0.045", "0.0000005"} {
			e := schemas.AppendEvent(nil, &schemas.Event{Kind: schemas.KindStatus, Status: schemas.StatusSent, At: at, Price: price})
			b.Append(Record{Offset: int64(i), Appended: at + 9, Value: e})
		}
		if !cmp.Equal(b.kind, []string{"status", "status", want}) || !cmp.Equal(b.at, []int64{int64(at), int64(at), int64(at)}) || b.poison > 0 != (want == kindPoison) {
			t.Errorf("version %d: %q at %v, %d of them poison", version, b.kind, b.at, b.poison)
		}
	}
}
