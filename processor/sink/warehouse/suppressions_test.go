package warehouse_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

// TestSuppressions: a list has what stands by the latest decision on each scope, of
// the tenant and no other, page by page, whichever log the decisions came by and in
// whatever order.
func TestSuppressions(t *testing.T) {
	conn := open(t)
	rnd := rand.New(rand.NewPCG(9, 9))
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	type scope struct{ tenant, to, channel, class string }
	latest := make(map[scope]history.Suppressed)
	lifted := make(map[scope]bool)
	rows := map[string][]string{}
	const n = 200
	for i := range n {
		sc := scope{pick("acme", "acme", "other", ""), fmt.Sprintf("+861380000%04d", rnd.IntN(20)), pick("", "sms", "email"), pick("", "ads")}
		at := t0 + schemas.Millis(i/20) // some at the same time
		s := history.Suppressed{To: sc.to, Suppression: schemas.Suppression{Tenant: sc.tenant, Channel: sc.channel, Class: sc.class, At: at, Reason: pick("", "stop", "hard_bounce"), Provider: pick("", "ses")}}
		if rnd.IntN(2) == 0 {
			s.Until = t0 + schemas.Millis(rnd.IntN(4000))
		}
		action := "suppress"
		if lifted[sc] = rnd.IntN(3) == 0; lifted[sc] {
			action, s.Until = "unsuppress", 0
		}
		latest[sc] = s
		log := pick("status_log", "status_log_2")
		rows[log] = append(rows[log], fmt.Sprintf("('decision', '%s', '%s', '%s', '%s', '%s', '%s', '%s', 'suppress', %s, %s, 0, %d, %d)",
			sc.tenant, sc.channel, sc.class, sc.to, action, s.Reason, s.Provider,
			fmt.Sprintf("fromUnixTimestamp64Milli(%d)", at), fmt.Sprintf("fromUnixTimestamp64Milli(%d)", s.Until), i, i))
	}
	// What is no suppression, or does not change one; and one from before keys ignored
	// letter case, which admission moved to the key.
	rows["status_log_2"] = append(rows["status_log_2"],
		"('status', 'acme', 'sms', '', '+8613800000000', 'suppressed', 'stop', '', 'suppress', fromUnixTimestamp64Milli(1795248999000), 0, 0, 9001, 9001)",
		"('decision', 'acme', 'sms', '', '+8613800000001', 'repeated', 'stop', '', 'nothing', fromUnixTimestamp64Milli(1795248999000), 0, 0, 9002, 9002)",
		"('decision', 'acme', 'email', '', 'Ann@example.com', 'suppress', 'stop', '', 'suppress', fromUnixTimestamp64Milli(1795248999000), 0, 0, 9003, 9003)")
	for log, all := range rows {
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for part := range slices.Chunk(all, 50) {
			// One part after another, so that merges have not brought it together.
			if err := conn.Exec(t.Context(), "INSERT INTO "+log+" (kind, tenant, channel, class, `to`, reason, error_code, provider, decision_verdict, at, retry_at, decision_partition, decision_seq, status_offset) VALUES "+strings.Join(part, ",")); err != nil {
				t.Fatal(err)
			}
		}
	}
	h := warehouse.History{Conn: conn}
	for _, q := range []history.Suppressions{
		{Tenant: "acme"}, {Tenant: "acme", At: t0 + 2000}, {Tenant: "acme", At: t0 + 9999}, {Tenant: "other", At: t0}, {Tenant: "acme", Channel: "sms"}, {Tenant: "acme", Class: "ads"},
		{Tenant: "acme", Reason: "stop"}, {Tenant: "acme", Channel: "email", Class: "ads", Reason: "hard_bounce", At: t0 + 1000}, {Tenant: "nobody"},
	} {
		var want []history.Suppressed
		for sc, s := range latest {
			if sc.tenant == q.Tenant && !lifted[sc] && (s.Until == 0 || s.Until > q.At) &&
				(q.Channel == "" || q.Channel == sc.channel) && (q.Class == "" || q.Class == sc.class) && (q.Reason == "" || q.Reason == s.Reason) {
				want = append(want, s)
			}
		}
		slices.SortFunc(want, func(a, b history.Suppressed) int {
			return cmp.Or(strings.Compare(a.To, b.To), strings.Compare(a.Channel, b.Channel), strings.Compare(a.Class, b.Class))
		})
		if len(want) == 0 && q.Tenant != "nobody" {
			t.Fatalf("%+v: the test shows nothing", q)
		}
		for _, limit := range []int{1, 7, 1000} {
			var got []history.Suppressed
			q.Limit, q.After = limit, history.Suppressed{}
			for {
				page, err := h.Suppressions(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, page...); len(page) < limit {
					break
				}
				q.After = page[len(page)-1]
			}
			if d := gocmp.Diff(want, got); d != "" {
				t.Fatalf("%+v by %d: %s", q, limit, d)
			}
		}
	}
	var shown uint64
	if err := conn.QueryRow(t.Context(), "SELECT count() FROM suppressions WHERE tenant = 'acme' AND isNull(until)").Scan(&shown); err != nil {
		t.Fatal(err)
	}
	stand := 1 // the view has the old spelling, too
	for sc, s := range latest {
		if sc.tenant == "acme" && !lifted[sc] && s.Until == 0 {
			stand++
		}
	}
	if int(shown) != stand {
		t.Errorf("the view has %d without an end, want %d", shown, stand)
	}
}
