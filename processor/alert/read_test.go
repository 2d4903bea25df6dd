package alert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

func event(i int, s schemas.Status) *schemas.Event {
	e := &schemas.Event{
		Kind: schemas.KindStatus, MessageID: "0192f0c1-7e1a-7000-8000-0123456789ab", Tenant: "acme", Channel: "sms", Class: "verify", To: fmt.Sprintf("+86138%08d", i),
		Status: s, At: minute, Provider: "aliyun", AcceptedAt: minute, Segments: 1,
		Source: &schemas.Source{Topic: "weir.requests", Partition: 3, Offset: 99},
		Decision: &schemas.Decision{Verdict: schemas.VerdictAdmit, Partition: 3, Seq: 7, T: minute, Revision: 2,
			Charges: []schemas.Charge{{Limit: "verify", Scope: "+8613800000000", T: minute, Cost: 1}, {Limit: "day", Scope: "+8613800000000", T: minute, Cost: 1}}},
	}
	return e
}

func evidence(limits ...string) (out []schemas.Evidence) {
	for _, l := range limits {
		out = append(out, schemas.Evidence{Limit: l, Window: "1/60s", N: 1, Count: 1, Cost: 1})
	}
	return out
}

func TestOfStatus(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(e *schemas.Event)
		want string
	}{
		{"queued", func(*schemas.Event) {}, "[]"},
		{"limited", func(e *schemas.Event) { e.Status, e.Limit, e.Window = "limited", "a", "1/60s" }, "[limit.refused a]"},
		{"by two windows of one limit, and another", func(e *schemas.Event) {
			e.Status, e.Limit, e.Decision.Evidence = "limited", "a", evidence("a", "a", "b")
		}, "[limit.refused a limit.refused b]"},
		{"deferred by a limit", func(e *schemas.Event) { e.Status, e.Reason, e.Limit = "deferred", "limited", "a" }, "[limit.refused a]"},
		{"deferred for quiet hours", func(e *schemas.Event) { e.Status, e.Reason = "deferred", "quiet_hours" }, "[]"},
		{"observed", func(e *schemas.Event) { e.Observed, e.Decision.Evidence = true, evidence("a") }, "[limit.observed a]"},
		{"only a decision", func(e *schemas.Event) {
			e.Kind, e.Status, e.Observed, e.Decision.Evidence = schemas.KindDecision, "", true, evidence("a")
		}, "[]"},
		{"a class that looks like a field", func(e *schemas.Event) { e.Class = `"status":"limited","observed":true` }, "[]"},
	} {
		e := event(1, schemas.StatusQueued)
		tt.edit(e)
		var got []string
		for _, h := range ofStatus(nil, schemas.AppendEvent(nil, e)) {
			got = append(got, h.Event+" "+h.Limit)
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
	for _, torn := range []string{"", "{", `{"kind":"status","status":"limited"`, `null`} {
		if got := ofStatus(nil, []byte(torn)); len(got) != 0 {
			t.Errorf("%q: %v", torn, got)
		}
	}
}

func TestOfDLQ(t *testing.T) {
	header := func(kv ...string) (all []kgo.RecordHeader) {
		for i := 0; i < len(kv); i += 2 {
			all = append(all, kgo.RecordHeader{Key: kv[i], Value: []byte(kv[i+1])})
		}
		return all
	}
	request := `{"channel":"sms","to":"+8613800000000","class":"verify","tenant":"globex","body":"x"}`
	for _, tt := range []struct {
		name    string
		headers []kgo.RecordHeader
		value   string
		want    string // reason, provider, tenant, class, recipient
	}{
		{"a message", header(schemas.HeaderReason, "gave_up", schemas.HeaderProvider, "p", schemas.HeaderTenant, "acme", schemas.HeaderKey, "+8613800000000"), request, "gave_up p acme verify +8613800000000"},
		{"its tenant by its request alone", header(schemas.HeaderReason, "gave_up"), request, "gave_up  globex verify "},
		{"no class", nil, `{"channel":"sms","to":"+8613800000000","body":"x"}`, "unknown  default default "},
		{"bytes", header(schemas.HeaderReason, "not_json", "other", "x"), "{", "not_json  default  "},
		{"a long reason", header(schemas.HeaderReason, strings.Repeat("r", 200)), "{", strings.Repeat("r", maxText) + "…  default  "},
	} {
		got := ofDLQ(nil, &kgo.Record{Timestamp: minute.Time(), Headers: tt.headers, Value: []byte(tt.value)})
		if len(got) != 1 || got[0].Event != schemas.AlertDLQRecord || got[0].At != minute {
			t.Errorf("%s: %+v", tt.name, got)
			continue
		}
		h := got[0]
		if said := fmt.Sprintf("%s %s %s %s %s", h.Reason, h.Provider, h.Tenant, h.Class, h.To); said != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, said, tt.want)
		}
	}
}

// BenchmarkOfStatus is what a record costs that tells nothing, and one that does.
func BenchmarkOfStatus(b *testing.B) {
	refused := event(1, schemas.StatusLimited)
	refused.Limit, refused.Decision.Evidence = "verify", evidence("verify")
	for name, value := range map[string][]byte{"nothing": schemas.AppendEvent(nil, event(1, schemas.StatusQueued)), "refused": schemas.AppendEvent(nil, refused)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			var dst []Happening
			for b.Loop() {
				dst = ofStatus(dst[:0], value)
			}
		})
	}
}
