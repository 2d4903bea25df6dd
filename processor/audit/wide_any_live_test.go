package audit_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/topics"
)

// anyWide is a policy of any limits, with and without recipient, in any order.
// Names come again in other policies, as a rule with the same per.
func anyWide(r *rand.Rand) string {
	pers := []string{"[]", "[tenant]", "[class]", "[channel]", "[country]", "[metadata.ip]", "[provider]", "[tenant, class]", "[recipient]", "[recipient, class]", "[recipient, tenant]", "[prefix:5]", "[content]"}
	var b strings.Builder
	b.WriteString("limits:\n")
	for _, k := range r.Perm(12)[:4+r.IntN(6)] {
		per := pers[k]
		if r.IntN(2) == 0 {
			per = pers[r.IntN(len(pers))]
		}
		n := 8 + r.IntN(40)
		if strings.Contains(per, "recipient") {
			n = 3 + r.IntN(6)
		}
		allow := []string{
			fmt.Sprintf("%d/1s", n), fmt.Sprintf("%d/1s, %d/60s", n, n*6), fmt.Sprintf("%d/1s, %d/calendar-hour", n, n*10),
			fmt.Sprintf(`"bucket %d refill %d/s"`, n, n), fmt.Sprintf("%d/500ms, %d/3s", n, n*2),
		}[r.IntN(5)]
		extra := []string{"", "", ", mode: observe", ", count: attempt", ", count: segments", ", count: cost", ", on_refusal: defer", ", match: {class: verify}", ", mode: observe, match: {class: verify}"}[r.IntN(9)]
		fmt.Fprintf(&b, "  - {name: l%d, per: %s, allow: [%s]%s}\n", k, per, allow, extra)
	}
	b.WriteString(`classes:
  - {name: verify, retries: [1s, 1s]}
providers:
  - {name: sim, type: simulated, channels: [sms, email], settings: {latency: 1ms-2ms}}
  - {name: sim2, type: simulated, channels: [sms, email], settings: {latency: 1ms-2ms}}
  - {name: nobody, type: none, channels: [sms]}
tenants: [{name: t0, default_region: CN}, {name: t1, default_region: CN}, {name: t2, default_region: CN}, {name: t3, default_region: CN}]
`)
	return b.String()
}

// sendAndTakeBack writes n messages with ids, some of them again, some for later,
// and cancels, releases and suppressions on their heels.
func (l *live) sendAndTakeBack(r *rand.Rand, n int) {
	l.t.Helper()
	var records []*kgo.Record
	put := func(format string, args ...any) {
		records = append(records, &kgo.Record{Topic: l.names.Requests(), Partition: int32(r.IntN(parts)), Value: fmt.Appendf(nil, format, args...)})
	}
	var ids []string
	for i := range n {
		to, tenant := fmt.Sprintf("+86138%08d", 200+r.IntN(60)), fmt.Sprintf("t%d", r.IntN(4))
		id := uuid.Must(uuid.NewV7()).String()
		if len(ids) > 0 && r.IntN(5) == 0 {
			id = ids[r.IntN(len(ids))]
		}
		ids = append(ids, id)
		at := ""
		if r.IntN(4) == 0 {
			at = fmt.Sprintf(`,"send_at":%q`, time.Now().Add(time.Second).UTC().Format("2006-01-02T15:04:05.000Z07:00"))
		}
		put(`{"id":%q,"channel":"sms","tenant":%q,"to":%q,"class":"verify","body":"x %d","metadata":{"ip":"10.0.0.%d"}%s}`, id, tenant, to, i, r.IntN(5), at)
		switch r.IntN(6) {
		case 0, 1:
			put(`{"action":"cancel","id":%q,"channel":"sms","tenant":%q,"to":%q}`, id, tenant, to)
		case 2:
			put(`{"action":"release","id":%q,"channel":"sms","tenant":%q,"to":%q}`, id, tenant, to)
		case 3:
			put(`{"action":"suppress","channel":"sms","tenant":%q,"to":%q}`, tenant, to)
			put(`{"action":"unsuppress","channel":"sms","tenant":%q,"to":%q}`, tenant, to)
		}
	}
	if err := l.cl.ProduceSync(l.t.Context(), records...).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
}

// TestWideAnyPolicyIsProven plays messages, and what takes them back, under any
// policies that come into force while they are on their way. Such runs found faults
// of admission and of the audit.
func TestWideAnyPolicyIsProven(t *testing.T) {
	for _, seed := range []uint64{3, 25} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			l := newLive(t)
			pol := parse(t, anyWide(r))
			adm := kadm.NewClient(l.cl)
			diff, err := topics.Plan(t.Context(), adm, topics.Catalogue(topics.Config{Partitions: parts, Replication: 1}, &pol))
			if err == nil {
				err = topics.Apply(t.Context(), l.cl, diff, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			var policies []string
			publish := func() {
				policies = append(policies, anyWide(r))
				l.publish(policies[len(policies)-1])
			}
			publish()
			stop := l.start()
			for i := range 12 {
				if i%3 == 2 {
					publish()
				}
				l.sendWide(seed*100+uint64(i), 40)
				l.sendAndTakeBack(r, 20)
				if rep := l.audit(); rep.Outcome == audit.Violated {
					t.Fatal(text(rep), strings.Join(policies, "\n"))
				}
			}
			l.settled()
			stop()
			if rep := l.audit(); rep.Outcome != audit.Proven || rep.Checked.Carried == 0 {
				t.Fatal(text(rep), strings.Join(policies, "\n"))
			}
		})
	}
}
