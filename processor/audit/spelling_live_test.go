package audit_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const spelledPolicy = `
limits:
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [3/1h, 5/calendar-day]}
  - {name: everyone, per: [recipient], allow: [6/24h]}
classes:
  - {name: verify, retries: [1s]}
providers:
  - {name: sim, type: simulated, channels: [email], pace: [500/1s], settings: {latency: 1ms-2ms}}
`

// aged makes the ledgers those of a version from before keys ignored letter case,
// with a suppression under such a key. No admission runs.
func (l *live) aged(optOut string) {
	l.t.Helper()
	last := make(map[int32]*kgo.Record)
	for _, r := range l.topic(l.names.Ledger()) {
		if string(r.Key) == "meta" {
			last[r.Partition] = r
		}
	}
	var out []*kgo.Record
	for n, r := range last {
		var m map[string]any
		if err := json.Unmarshal(r.Value, &m); err != nil {
			l.t.Fatal(err)
		}
		if m["spellings"] == nil {
			l.t.Fatalf("the meta record of partition %d says nothing of spellings: %s", n, r.Value)
		}
		delete(m, "spellings")
		delete(m, "sums") // or what is written here would not be the state that it counts
		b, err := json.Marshal(m)
		if err != nil {
			l.t.Fatal(err)
		}
		out = append(out, &kgo.Record{Topic: l.names.Ledger(), Partition: n, Key: r.Key, Value: b})
	}
	sum := sha256.Sum256([]byte(optOut))
	out = append(out, &kgo.Record{Topic: l.names.Ledger(), Partition: schemas.PartitionOf(optOut, parts), Key: append([]byte{'s'}, sum[:16]...),
		Value: fmt.Appendf(nil, `{"v":2,"to":%q,"scopes":[{"at":"2026-01-02T03:04:05Z","reason":"stop"}]}`, optOut)})
	if err := l.cl.ProduceSync(l.t.Context(), out...).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
}

// mail writes a request that spells an address so, at a partition.
func (l *live) mail(partition int32, to, extra string) {
	l.t.Helper()
	if err := l.cl.ProduceSync(l.t.Context(), &kgo.Record{Topic: l.names.Requests(), Partition: partition,
		Value: fmt.Appendf(nil, `{"channel":"email","to":%q,"class":"verify","subject":"s","body":"x"%s}`, to, extra)}).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
}

// TestSpellingsAreProven: messages under old keys, their places and opt-outs go to the
// partition of the new key, and the audit follows.
func TestSpellingsAreProven(t *testing.T) {
	l := newLive(t)
	l.publish(spelledPolicy)
	stop := l.start()
	for i := range 40 { // every partition has decided something
		l.mail(int32(i%parts), fmt.Sprintf("delivered%d@example.com", i), "")
	}
	// As an older version left them: on their way, with old keys.
	l.settled()
	at := schemas.MillisOf(l.topic(l.names.Status())[0].Timestamp)
	for i := range 12 {
		key := fmt.Sprintf("Ann%d@example.com", i%6)
		env := schemas.Envelope{ID: fmt.Sprintf("0b6f0e7e-0000-4000-8000-%012d", i), Key: key, Tenant: "default", Reason: schemas.ReadmitDue,
			Origin: schemas.Source{Topic: l.names.Requests()}, AcceptedAt: at, ExpiresAt: at + 24*3_600_000, Priority: "normal"}
		r := &kgo.Record{Topic: l.names.Readmit(), Partition: schemas.PartitionOf(key, parts), Key: []byte(key),
			Value: fmt.Appendf(nil, `{"channel":"email","to":%q,"class":"verify","subject":"s","body":"x"}`, key)}
		env.Each(func(k string, v []byte) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: v}) })
		if err := l.cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	l.settled()
	stop()
	l.aged("Eve@example.com")
	stop = l.start()
	for i := range 6 {
		for n, to := range []string{"Ann%d@Example.com", "ann%d@example.com", "ANN%d@example.com", "aNN%d@example.com"} {
			l.mail(int32(i+n)%parts, fmt.Sprintf(to, i), `,"idempotency_key":"`+fmt.Sprint(n)+`"`)
			l.settled()
		}
	}
	l.mail(0, "EVE@example.com", "")
	l.mail(1, "eve@example.com", "")
	for n, action := range []string{"suppress", "unsuppress", "suppress"} {
		if err := l.cl.ProduceSync(t.Context(), &kgo.Record{Topic: l.names.Requests(), Partition: int32(n), Value: fmt.Appendf(nil, `{"action":%q,"to":"Ann1@example.com"}`, action)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		l.settled()
	}
	l.settled()
	stop()
	c := l.proven().Checked
	shows(t, map[string]int64{"moved with a message": c.Reinstated, "put in": c.Restored})
	if c.Reinstated != 24 || c.Restored != 24 { // two places of six, each in two limits
		t.Errorf("%d places went, and %d came, want 24", c.Reinstated, c.Restored)
	}
	// Of three in an hour two were taken before: one message of four went on.
	ends := make(map[schemas.Status]int)
	for _, r := range l.topic(l.names.Status()) {
		if e, err := schemas.DecodeEvent(r.Value); err == nil && e.Status.End() && e.Kind == schemas.KindStatus {
			ends[e.Status]++
		}
	}
	if ends[schemas.StatusSent] != 40+12+6 || ends[schemas.StatusLimited] != 18 || ends[schemas.StatusSuppressed] != 2 {
		t.Errorf("ends: %v", ends)
	}
	// What the audit would miss, it does not.
	logs := l.logs()
	where := func(pick func(*schemas.Event) bool) int32 {
		for n, rs := range logs[l.names.Status()] {
			if slices.ContainsFunc(rs, func(r *kgo.Record) bool {
				e, err := schemas.DecodeEvent(r.Value)
				return err == nil && pick(e)
			}) {
				return n
			}
		}
		t.Fatal("no decision to falsify")
		return 0
	}
	from, into := where(leaves), where(putsIn)
	for _, lie := range []change{
		{name: "nothing changed", topic: topics.Names.Status, do: func(rs []*kgo.Record) []*kgo.Record { return rs }},
		{name: "a place stays behind", topic: topics.Names.Status, want: audit.KindReturned, do: event(leaves, func(e *schemas.Event) {
			e.Decision.Returned, e.Decision.Reinstated = e.Decision.Returned[1:], e.Decision.Reinstated[1:]
		})},
		{name: "a place of no one goes along", topic: topics.Names.Status, want: audit.KindReturned, do: event(leaves, func(e *schemas.Event) { e.Decision.Returned[0].T++; e.Decision.Reinstated[0].T++ })},
		{name: "a place comes that did not leave", topic: topics.Names.Status, want: audit.KindReturned, do: event(leaves, func(e *schemas.Event) {
			e.Decision.Returned, e.Decision.Reinstated = nil, nil
		})},
		{name: "a place goes elsewhere", topic: topics.Names.Status, want: audit.KindRestored, do: event(leaves, func(e *schemas.Event) { e.Decision.Reinstated[0].Scope = "bob@example.com" })},
		{name: "a place is not put in", topic: topics.Names.Status, want: audit.KindRestored, do: event(putsIn, func(e *schemas.Event) {
			e.Decision.Restored = e.Decision.Restored[1:]
		})},
	} {
		if lie.partition = from; lie.want == audit.KindRestored && strings.Contains(lie.name, "put in") {
			lie.partition = into
		}
		t.Run(lie.name, func(t *testing.T) { lie.copied(t, logs, spelledPolicy) })
	}
}

func leaves(e *schemas.Event) bool {
	return e.Decision != nil && e.Decision.Verdict == schemas.VerdictForward && len(e.Decision.Returned) > 0
}

func putsIn(e *schemas.Event) bool { return e.Decision != nil && len(e.Decision.Restored) > 0 }
