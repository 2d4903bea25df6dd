package admission

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// TestUnknownClass: where the policy says so, a message of a class that nobody
// declared is rejected, and one that was let in before is not.
func TestUnknownClass(t *testing.T) {
	const policy = waitPolicy + "\n"
	declared := strings.Replace(policy, "classes:", "classes:\n  - {name: slow}\n  - {name: default, unknown: reject}", 1)
	b := newBench(t)
	b.apply(2, declared)
	const to = "+8613800000000"
	b.want(b.send("slow", to), "queued admit +1 > dispatch.one.normal")
	o := b.want(b.send("slwo", to), "rejected reject unknown_class > dlq")
	if !strings.Contains(o.event.Error, "did you mean slow?") {
		t.Errorf("%q", o.event.Error)
	}
	waits := b.want(b.send("slow", to), "deferred defer limited > delay.30s")
	b.apply(3, strings.Replace(declared, "  - {name: slow}\n", "", 1))
	b.now = waits.event.RetryAt
	b.want(b.back(schemas.ReadmitDue, waits.send[0], `{"channel":"sms","to":"+8613800000000","class":"slow","body":"x"}`, nil), "queued admit +1 > dispatch.one.normal")
	b.apply(4, policy)
	b.want(b.send("slwo", to), "queued admit > dispatch.one.normal")
}
