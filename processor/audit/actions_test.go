package audit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// act writes messages with ids, some scheduled, and actions on them, to
// partitions at random.
func (l *live) act(seed uint64, n int) {
	l.t.Helper()
	r := rand.New(rand.NewPCG(seed, 9))
	var records []*kgo.Record
	ids := make(map[int]string) // to whom
	for i := range n {
		to := fmt.Sprintf("+86138%08d", r.IntN(30))
		if r.IntN(3) == 0 {
			to = fmt.Sprintf("%s@e%d.example.com", []string{"transient-1", "a", "b", "c"}[r.IntN(4)], r.IntN(20)) // few that fail: no breaker opens
		}
		channel, extra := "sms", ""
		if to[0] != '+' {
			channel, extra = "email", `,"subject":"s"`
		}
		id := func(i int) string { return fmt.Sprintf("0b6f0e7e-0000-4000-8000-%04d%08d", seed, i) }
		var value string
		switch k := r.IntN(20); {
		case k < 1:
			value = fmt.Sprintf(`{"action":"suppress","to":%q,"class":"notice"}`, to)
		case k < 2:
			value = fmt.Sprintf(`{"action":"unsuppress","to":%q,"class":"notice"}`, to)
		case k < 5:
			at := schemas.MillisOf(time.Now().Add(-time.Duration(r.IntN(2000)) * time.Millisecond))
			value = fmt.Sprintf(`{"action":"record","channel":%q,"to":%q,"class":"verify","at":%q}`, channel, to, at)
		case k < 9 && i > 0:
			j := r.IntN(i)
			if r.IntN(6) == 0 {
				j = i + r.IntN(20) // not sent yet
			}
			if ids[j] != "" {
				to = ids[j]
			}
			value = fmt.Sprintf(`{"action":"cancel","id":%q,"to":%q}`, id(j), to)
		default:
			if k > 15 {
				extra += fmt.Sprintf(`,"send_at":%q`, schemas.MillisOf(time.Now().Add(time.Duration(r.IntN(2000))*time.Millisecond)))
			}
			class := []string{"verify", "notice"}[r.IntN(2)]
			ids[i] = to
			value = fmt.Sprintf(`{"id":%q,"channel":%q,"to":%q,"class":%q,"body":"code"%s}`, id(i), channel, to, class, extra)
		}
		records = append(records, &kgo.Record{Topic: l.names.Requests(), Partition: int32(r.IntN(parts)), Value: []byte(value)})
	}
	if err := l.cl.ProduceSync(l.t.Context(), records...).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
}

// waiting is how many messages may still be open: what is recorded overfills
// windows, so that a further attempt may have to wait for the next day.
const waiting = 10

// TestRealRunWithActionsIsProven: what is suppressed, cancelled and recorded is
// in the log as the audit recounts it, over restarts too.
func TestRealRunWithActionsIsProven(t *testing.T) {
	l := newLive(t)
	stop := l.start()
	l.act(1, 250)
	for l.audit().Checked.Admitted == 0 { // in the middle of it all
	}
	stop()
	stop = l.start()
	l.act(2, 250)
	l.settledBut(waiting)
	stop()
	r := l.proven()
	for _, s := range []schemas.Status{schemas.StatusCancelled, schemas.StatusSuppressed, schemas.StatusLimited, schemas.StatusSent} {
		if r.Ends[s] == 0 {
			t.Errorf("none ended %s: this run shows too little", s)
		}
	}
}
