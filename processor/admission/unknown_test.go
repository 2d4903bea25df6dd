package admission

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// TestStrictTenant: a request of a strict tenant that has an unknown field is rejected,
// where it comes in and where it is forwarded to. An opt-out counts nevertheless, and
// another tenant's request passes.
func TestStrictTenant(t *testing.T) {
	b := newBench(t)
	b.apply(2, waitPolicy+"tenants:\n  - {name: acme, strict: true}\n  - {name: lax}\n")
	const misspelt = `{"tenant":"%s","channel":"sms","to":"+8613800000000","clas":"slow","body":"x"}`
	o := b.want(b.request(misspelt, "acme"), "rejected reject unknown_field > dlq")
	if !strings.Contains(o.event.Error, "/clas: is not a field of a request; did you mean class?") {
		t.Error(o.event.Error)
	}
	b.want(b.request(misspelt, "lax"), "queued admit > dispatch.one.normal")
	o = b.request(`{"action":"suppress","tenant":"acme","to":"+8613800000000","clas":"slow"}`)
	if o.event.Decision.Verdict != schemas.VerdictSuppress {
		t.Errorf("an opt-out ends %s %s", o.event.Decision.Verdict, o.event.Reason)
	}
	o = b.request(`{"action":"cancel","tenant":"acme","to":"+8613800000000","id":"6f0c3a0e-3c1f-4a51-9d59-0d6e6ff0a001","clas":"slow"}`)
	if o.event.Decision.Verdict != schemas.VerdictReject || o.event.Status != "" {
		t.Errorf("a cancel ends %s %s", o.event.Decision.Verdict, o.event.Status)
	}
}

// TestActionsOfUndeclaredClasses: a class that the policy does not declare is a reason to
// reject a message, and never an opt-out, a cancel or what was sent elsewhere.
func TestActionsOfUndeclaredClasses(t *testing.T) {
	b := newBench(t)
	b.apply(2, strings.Replace(waitPolicy, "classes:", "classes:\n  - {name: slow}\n  - {name: default, unknown: reject}", 1))
	const id = "6f0c3a0e-3c1f-4a51-9d59-0d6e6ff0a001"
	for _, of := range []struct{ action, more string }{
		{"suppress", ""}, {"unsuppress", ""}, {"cancel", `,"id":"` + id + `"`}, {"release", `,"id":"` + id + `"`}, {"record", `,"channel":"sms","at":"2026-01-01T00:00:00Z"`},
	} {
		o := b.request(`{"action":"%s","to":"+8613800000000","class":"slwo"%s}`, of.action, of.more)
		if o.event.Decision.Verdict == schemas.VerdictReject {
			t.Errorf("%s is rejected: %s %s", of.action, o.event.Reason, o.event.Error)
		}
	}
	b.want(b.send("slwo", "+8613800000001"), "rejected reject unknown_class > dlq")
}
