package admission

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// A scope with many places is in the ledger as several records: they are read in
// any order, a torn one is found, and what is said of it is what a repair does.
func TestLedgerOfSegments(t *testing.T) {
	const places = 1200
	env := environment{names: topics.Names{}, partitions: 1}
	rev := &schemas.Revision{Policy: schemas.Policy{Limits: []schemas.Limit{{Name: "a", Per: []string{"tenant"}, Allow: windowsOf(t, "2000/24h")}}}}
	partitionOf := func() *partition {
		p, err := newPartition(0, env)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.close)
		if err := p.adopt(rev); err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := partitionOf()
	asks := []schemas.Ask{{Limit: "a", Scope: "tenant=acme", Cost: 1}}
	now := schemas.Millis(1_790_000_000_000)
	var res limit.Result
	p.begin()
	for range places {
		now += 100
		if p.table.DecideStep(&res, p.base.rules, nil, asks, nil, nil, now); !res.OK {
			t.Fatal(res.Refused)
		}
	}
	var records []*kgo.Record
	var segment *kgo.Record
	if err := p.changes(func(key, value []byte) {
		r := &kgo.Record{Topic: "weir.ledger", Offset: int64(len(records)), Key: key, Value: value}
		if records = append(records, r); len(key) == 21 {
			segment = r
		}
	}, nil); err != nil {
		t.Fatal(err)
	}
	p.commit()
	if segment == nil || segment.Key[0] != 'p' || len(segment.Value) > 4096 {
		t.Fatalf("no segment among %d records, or a large one", len(records))
	}
	for _, k := range []byte{suppressionKind, waitingKind, heldKind} {
		if segment.Key[0] == k {
			t.Errorf("segments have the kind %q of others", k)
		}
	}
	count := func(p *partition) int64 { // by what is refused
		p.begin()
		defer p.rollback()
		dear := []schemas.Ask{{Limit: "a", Scope: "tenant=acme", Cost: 2001}}
		if p.table.DecideStep(&res, p.base.rules, nil, dear, nil, nil, now); len(res.Refused) != 1 {
			t.Fatalf("%+v", res)
		}
		return res.Refused[0].Count
	}
	slices.Reverse(records)
	q := partitionOf()
	for _, r := range records {
		q.loadLedger(r)
	}
	if n := count(q); n != places || len(q.damaged)+len(q.strays) > 0 {
		t.Fatalf("%d places were read of %d; damaged %v, strays %v", n, places, q.damaged, q.strays)
	}
	torn := *segment
	torn.Offset, torn.Value = 100, segment.Value[:len(segment.Value)/2]
	q.loadLedger(&torn)
	key := damageKey{0, string(segment.Key)}
	if err := q.damaged.err(); !errors.Is(err, ErrLedgerRecord) || !errors.Is(err, limit.ErrTorn) || !strings.Contains(err.Error(), keyText(segment.Key)) {
		t.Fatalf("a torn segment: %v", err)
	}
	in := &inspection{damaged: q.damaged, good: map[damageKey][]byte{key: segment.Value}}
	if whole := in.damage(key, q.damaged[key]); whole.Consent != ConsentNone || len(whole.Write) != 1 || !bytes.Equal(whole.Write[0].Value, segment.Value) {
		t.Errorf("a torn segment whose record before is in the log: %+v", whole)
	}
	in.good = nil
	forget := in.damage(key, q.damaged[key])
	if forget.Consent != ConsentForget || len(forget.Write) != 1 || forget.Write[0].Value != nil || !bytes.Equal(forget.Write[0].Key, segment.Key) {
		t.Errorf("a torn segment of which nothing else is left: %+v", forget)
	}
	for _, r := range forget.Write {
		q.loadLedger(r)
	}
	if n := count(q); n >= places || n < places-512 || len(q.damaged) > 0 {
		t.Errorf("%d places stand after a segment of %d was forgotten; damaged %v", n, places, q.damaged)
	}
}

func windowsOf(t *testing.T, texts ...string) (out []schemas.Window) {
	t.Helper()
	for _, text := range texts {
		w, err := schemas.ParseWindow(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, w)
	}
	return out
}
