package schemas

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// readsAlike holds EventReader to DecodeEvent, of which it is a faster way.
func readsAlike(t rapid.TB, r *EventReader, value []byte) (own bool) {
	t.Helper()
	want, wantErr := DecodeEvent(value)
	got, err := r.Read(string(value))
	if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
		t.Fatalf("%v, want %v\n%s", err, wantErr, value)
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("%s\n%s", d, value)
	}
	return got == &r.event
}

func TestEventReader(t *testing.T) {
	var r EventReader // one for all: what it read before must not show
	rapid.Check(t, func(rt *rapid.T) {
		value := AppendEvent(nil, genEvent().Draw(rt, "event"))
		readsAlike(rt, &r, value)
		// And of what is not written so.
		if at := rapid.IntRange(0, len(value)-1).Draw(rt, "at"); rapid.Bool().Draw(rt, "cut") {
			value = append(value[:at:at], value[at+1:]...)
		} else {
			value[at] = rapid.SampledFrom([]byte(`"\{}[],:09ae- `+"\x00\xff")).Draw(rt, "byte")
		}
		readsAlike(rt, &r, value)
	})
}

// What stages write most is read without the JSON reader.
func TestEventReaderReadsWhatStagesWrite(t *testing.T) {
	at := Millis(1_763_719_200_123)
	place := []Charge{{Limit: "verify", Scope: "+8613800000000", T: at, Cost: 1}, {Limit: "all", Scope: "", T: at, Cost: 2}}
	source := &Source{Topic: "weir.requests", Partition: 3, Offset: 1 << 40}
	status := Event{Kind: KindStatus, MessageID: "m", Tenant: "acme", Channel: "sms", Class: "verify", Template: "t", To: "+86 1", Status: StatusSent, At: at,
		Reason: "r", Attempt: 3, Provider: "p", ProviderMessageID: "q", ErrorCode: "E", Error: "it's busy", Limit: "verify", Window: "1/60s", RetryAt: at + 1,
		AcceptedAt: at - 1, Segments: 2, Cost: 3, Price: "0.045", Currency: "CNY", DuplicateOf: "d", RedriveOf: "e", Observed: true, Source: source}
	decided := status
	decided.Decision = &Decision{Verdict: VerdictMove, Partition: 31, Seq: 9, T: at, Revision: 7, Input: source, Charges: place, Returned: place, Missing: place,
		Carried: place, Passed: []Ask{{Limit: "a", Scope: "b", Cost: 1, T: at}}, Restored: place, Released: place, Reinstated: place, Onward: new(int32(0)),
		Evidence: []Evidence{{Limit: "verify", Scope: "s", Window: "1/60s", N: 1, Count: 1, Cost: 1, Oldest: at, Start: at, Since: at}, {}}}
	var r EventReader
	for i, e := range []Event{decided, status, {Kind: KindDecision, At: at, Decision: &Decision{Verdict: VerdictForward, T: at}}, decided} {
		value := AppendEvent(nil, &e)
		if !readsAlike(t, &r, value) {
			t.Errorf("%d was left to the JSON reader: %s", i, value)
		}
		if n := testing.AllocsPerRun(10, func() { _, _ = r.Read(string(value)) }); n > 3 {
			t.Errorf("%d: %v allocations", i, n)
		}
	}
}

func FuzzEventReader(f *testing.F) {
	at := Millis(1_763_719_200_123)
	f.Add(AppendEvent(nil, &Event{Kind: KindStatus, At: at, Observed: true, Source: &Source{}, Decision: &Decision{T: at, Charges: []Charge{{T: at}}, Evidence: []Evidence{{}}}}))
	f.Add([]byte(`{"kind":"status","at":"2026-11-22T09:00:00.123Z"}`))
	var r EventReader
	f.Fuzz(func(t *testing.T, value []byte) { readsAlike(t, &r, value) })
}

func BenchmarkReadEvent(b *testing.B) {
	at := Millis(1_763_719_200_123)
	value := string(AppendEvent(nil, &Event{Kind: KindStatus, MessageID: "019a0000-0000-7000-8000-000000000000", Tenant: "acme", Channel: "sms", Class: "verify", To: "+8613800000000",
		Status: StatusQueued, At: at, AcceptedAt: at, Segments: 1, Source: &Source{Topic: "weir.requests", Partition: 3, Offset: 1000},
		Decision: &Decision{Verdict: VerdictAdmit, Partition: 3, Seq: 100, T: at, Revision: 7, Input: &Source{Topic: "weir.requests", Partition: 3, Offset: 1000},
			Charges: []Charge{{Limit: "verify", Scope: "+8613800000000", T: at, Cost: 1}}}}))
	b.Run("reader", func(b *testing.B) {
		var r EventReader
		for b.Loop() {
			if _, err := r.Read(value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := DecodeEvent([]byte(value)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
