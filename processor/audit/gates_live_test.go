package audit_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// TestRealRunWithGatesIsProven: what classes keep from countries and from quiet
// hours, and what comes twice, is in the log as the audit finds it again.
func TestRealRunWithGatesIsProven(t *testing.T) {
	l := newLive(t)
	clock := func(h int) string { return time.Now().Add(time.Duration(h) * time.Hour).UTC().Format("15:04") }
	l.publish(strings.Replace(firstPolicy, "  - {name: verify, retries: [1s]}", fmt.Sprintf(`  - {name: verify, retries: [1s], countries: [CN]}
  - {name: night, quiet_hours: {from: %q, to: %q}}
  - {name: asleep, expires_after: 2h, quiet_hours: {from: %q, to: %q, timezone: recipient}}
  - {name: curt, countries: [CN, US, SG], quiet_hours: {from: %q, to: %q, then: reject}}
  - {name: day, quiet_hours: {from: %q, to: %q, timezone: Asia/Kolkata}}`, clock(-2), clock(3), "22:00", "10:00", clock(-1), clock(1), "00:00", "00:01"), 1))
	stop := l.start()
	r := rand.New(rand.NewPCG(3, 3))
	var records []*kgo.Record
	for range 400 {
		to := []string{fmt.Sprintf("+86138%08d", r.IntN(200)), "+12125550123", "+18005551234", "+6591234567", "+5511987654321", fmt.Sprintf("+33612%06d", r.IntN(1000))}[r.IntN(6)]
		class := []string{"verify", "night", "asleep", "curt", "day"}[r.IntN(5)]
		extra := ""
		switch r.IntN(4) {
		case 0:
			extra = fmt.Sprintf(`,"idempotency_key":"k%d"`, r.IntN(4))
		case 1:
			extra = fmt.Sprintf(`,"id":"0b6f0e7e-0000-4000-8000-%012d"`, r.IntN(5))
		}
		records = append(records, &kgo.Record{Topic: l.names.Requests(), Partition: int32(r.IntN(parts)),
			Value: fmt.Appendf(nil, `{"channel":"sms","to":%q,"class":%q,"body":"code"%s}`, to, class, extra)})
	}
	if err := l.cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	l.settledBut(400) // what waits for morning
	stop()
	rep := l.proven()
	if rep.Checked.Deferred == 0 || rep.Checked.Admitted == 0 || rep.Ends[schemas.StatusRejected] == 0 || rep.Ends[schemas.StatusDuplicate] == 0 {
		t.Error("this run shows too little")
	}
}
