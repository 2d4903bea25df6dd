package admission

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// TestTooLongIsRejected: what is over its channel's limit ends before it takes a
// place, with its bytes in the DLQ; what its variables make too long likewise. What
// is already on its way is not held to it.
func TestTooLongIsRejected(t *testing.T) {
	const rejected = "rejected reject too_long > dlq"
	x := strings.Repeat
	b := newBench(t)
	b.apply(2, `
providers:
  - {name: one, type: simulated, channels: [sms, email, push, voice]}
limits:
  - {name: code, match: {class: code}, per: [recipient], allow: [1/60s]}
templates:
  - {name: t, channel: sms, body: "Hello {{name}}"}
  - {name: m, channel: email, subject: "Hello {{name}}", body: b}
`)
	for _, tt := range []struct{ name, request, want string }{
		{"an SMS of eleven parts", `{"channel":"sms","to":"+8613800000000","class":"code","body":"` + x("a", 1531) + `"}`, rejected},
		{"by its variables", `{"channel":"sms","to":"+8613800000000","class":"code","template":"t","vars":{"name":"` + x("a", 1525) + `"}}`, rejected},
		{"a subject by its variables", `{"channel":"email","to":"a@example.com","class":"code","template":"m","vars":{"name":"` + x("a", 993) + `"}}`, rejected},
		{"a push", `{"channel":"push","to":"device:abcdef","class":"code","title":"t","body":"` + x("b", 4096) + `"}`, rejected},
		{"a call", `{"channel":"voice","to":"+8613800000000","class":"code","body":"` + x("b", 4097) + `"}`, rejected},
		{"an SMS of ten parts, into the place that none has taken", `{"channel":"sms","to":"+8613800000000","class":"code","body":"` + x("a", 1530) + `"}`, "queued admit +1 > dispatch.one.normal"},
		{"ten parts by its variables", `{"channel":"sms","to":"+8613800000001","class":"code","template":"t","vars":{"name":"` + x("a", 1524) + `"}}`, "queued admit +1 > dispatch.one.normal"},
		{"a push that fits", `{"channel":"push","to":"device:abcdef","class":"code","title":"t","body":"` + x("b", 4095) + `"}`, "queued admit +1 > dispatch.one.normal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := b.request("%s", tt.request)
			if got := brief(o); got != tt.want {
				t.Errorf("got %s, want %s: %s", got, tt.want, o.event.Error)
			}
			if o.event.Status == schemas.StatusRejected && (strings.Contains(o.event.Error, "aaa") || !strings.Contains(o.event.Error, "at most")) {
				t.Errorf("the error %q repeats the message, or does not say what is allowed", o.event.Error)
			}
		})
	}
}

// TestLongOnesOnTheirWayGoOn: a message that an earlier version let through is sent
// again as it was.
func TestLongOnesOnTheirWayGoOn(t *testing.T) {
	b := newBench(t)
	value := `{"channel":"sms","to":"+8613800000000","class":"code","body":"short"}`
	first := b.want(b.request("%s", value), "queued admit +1 > dispatch.one.normal")
	long := strings.Replace(value, "short", strings.Repeat("a", 2000), 1)
	b.now += 30_000
	b.want(b.back(schemas.ReadmitRetry, first.send[0], long, func(e *schemas.Envelope) { e.Attempt = 1 }), "queued move +1 -1 > dispatch.one.again")
}
