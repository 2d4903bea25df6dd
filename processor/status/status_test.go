package status_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/status"
	"github.com/weirhq/weir/schemas"
)

func TestLives(t *testing.T) {
	for _, tt := range []struct{ name, events, end string }{
		{"sent", "queued sending sent", "sent"},
		{"sent and delivered", "queued sending sent delivered", "delivered"},
		{"undelivered, then delivered after all", "queued sending sent undelivered delivered", "delivered"},
		{"delivered, then a late undelivered", "queued sending sent delivered undelivered", "delivered"},
		{"the receipt is faster than the send", "queued sending delivered sent", "delivered"},
		{"retried", "queued sending retrying queued sending sent", "sent"},
		{"retried into a limit, then out of time", "queued sending retrying deferred deferred expired", "expired"},
		{"scheduled", "scheduled queued sending failed", "failed"},
		{"scheduled into a limit", "scheduled limited", "limited"},
		{"stale", "queued queued sending sent", "sent"},
		{"held", "queued sending unknown delivered", "delivered"},
		{"a permit that expired", "queued sending sending sent", "sent"},
		{"limited", "limited", "limited"},
		{"nothing follows failed", "queued sending failed !sent !delivered !queued", "failed"},
		{"nothing but receipts follows sent", "queued sending sent !retrying !failed !sent !expired", "sent"},
		{"nothing but receipts follows unknown", "queued sending unknown !failed !sent", "unknown"},
		{"decided without sending", "sent !sending !queued", "sent"},
		{"handed over after it waited", "scheduled deferred sent delivered", "delivered"},
		{"handed over after an attempt", "queued sending retrying sent", "sent"},
		{"nothing is sending undecided", "!sending !delivered", ""},
		{"accepted is never a record", "!accepted queued !accepted", "queued"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			current := status.None
			for e := range strings.FieldsSeq(tt.events) {
				name, refused := strings.CutPrefix(e, "!")
				next, ok := status.Next(current, schemas.Status(name))
				if ok == refused {
					t.Fatalf("%s after %q: %v", name, current, ok)
				}
				if refused && next != current {
					t.Fatalf("%s was refused after %q, and yet it is %q", name, current, next)
				}
				current = next
			}
			if string(current) != tt.end {
				t.Errorf("ends %q, want %q", current, tt.end)
			}
		})
	}
}

// FuzzNext: whatever comes, nothing but receipts changes an end, and what is known
// never falls in rank.
func FuzzNext(f *testing.F) {
	f.Add([]byte{3, 4, 6, 7})
	f.Add([]byte{3, 4, 5, 3, 4, 10, 8, 7})
	f.Fuzz(func(t *testing.T, events []byte) {
		current, ended := status.None, status.None
		for _, b := range events {
			e := schemas.Statuses[int(b)%len(schemas.Statuses)]
			next, ok := status.Next(current, e)
			if !ok && next != current {
				t.Fatalf("refused %s changed %q to %q", e, current, next)
			}
			receipt := e == schemas.StatusDelivered || e == schemas.StatusUndelivered
			if ended != "" && !receipt && next != current {
				t.Fatalf("%s changed %s, after the end %s, to %s", e, current, ended, next)
			}
			if ok && e.End() {
				ended = e
			}
			if next.Rank() < current.Rank() {
				t.Fatalf("%s after %s fell in rank", next, current)
			}
			current = next
		}
	})
}

func TestEvent(t *testing.T) {
	at := schemas.Millis(1_780_000_000_000)
	for name, r := range map[string]provider.Receipt{
		"no receipt": {Provider: "p", MessageID: "m", To: "+8613800000000", Status: schemas.StatusSent, At: at},
		"of nothing": {Provider: "p", To: "+8613800000000", Status: schemas.StatusDelivered, At: at},
		"of nobody":  {Provider: "p", MessageID: "m", Status: schemas.StatusDelivered, At: at},
	} {
		if e, ok := status.Event(r); ok {
			t.Errorf("%s: %+v", name, e)
		}
	}
	got, ok := status.Event(provider.Receipt{Provider: "p", MessageID: "m", ProviderMessageID: "x", To: "+8613800000000", Tenant: "default", Channel: schemas.ChannelSMS, Class: "verify", Attempt: 1, Status: schemas.StatusUndelivered, At: at, Code: "off"})
	want := schemas.Event{Kind: schemas.KindStatus, MessageID: "m", Tenant: "default", Channel: "sms", Class: "verify", To: "+8613800000000", Status: schemas.StatusUndelivered,
		At: at, Reason: "receipt", Attempt: 1, Provider: "p", ProviderMessageID: "x", ErrorCode: "off"}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Error(diff)
	}
}
