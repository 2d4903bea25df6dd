package warehouse_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

// TestRanks: each question on rows of every kind, the answers worked out by hand.
func TestRanks(t *testing.T) {
	conn := open(t)
	const columns = "kind, message_id, tenant, class, to, status, at, provider, error_code, error, limit, window, observed, status_offset"
	var rows []string
	add := func(second int64, tenant, class, to, status, provider, code, text, limit string, more ...string) {
		observed := "false"
		if len(more) > 0 {
			observed = more[0]
		}
		n := len(rows)
		rows = append(rows, fmt.Sprintf("('status', 'm-%d', '%s', '%s', '%s', '%s', fromUnixTimestamp64Milli(%d), '%s', '%s', '%s', '%s', '1/60s', %s, %d)",
			n, tenant, class, to, status, int64(t0)+1000*second, provider, code, text, limit, observed, n))
	}
	add(1, "acme", "verify", "+1", "retrying", "p", "429", "slow down", "")
	add(2, "acme", "verify", "+1", "failed", "p", "429", "", "")
	add(3, "acme", "verify", "+2", "failed", "p", "21610", "blocked", "")
	add(4, "acme", "ads", "+2", "undelivered", "q", "30005", "unknown handset", "")
	add(5, "acme", "ads", "+2", "unknown", "q", "", "timed out", "")
	add(6, "acme", "ads", "+2", "sent", "q", "", "", "")          // no error
	add(7, "acme", "ads", "+2", "rejected", "", "", "bad", "")    // no provider's
	add(8, "other", "ads", "+3", "failed", "p", "secret", "", "") // another tenant's
	add(9, "", "ads", "+3", "failed", "p", "own", "", "")         // the tenant default
	add(10, "acme", "verify", "+1", "limited", "", "", "", "verify")
	add(11, "acme", "verify", "+2", "limited", "", "", "", "verify")
	add(12, "acme", "ads", "+1", "deferred", "", "", "", "ads")
	add(13, "acme", "verify", "+1", "limited", "", "", "", "verify")
	add(14, "acme", "ads", "+4", "queued", "", "", "", "watch", "true") // observed only
	add(15, "acme", "ads", "+4", "deferred", "", "", "", "")            // quiet hours
	add(16, "other", "ads", "+3", "limited", "", "", "", "secret")
	add(86_400, "acme", "ads", "+5", "limited", "", "", "", "late")
	add(86_400, "acme", "ads", "+5", "failed", "p", "late", "", "")
	if err := insertOnce(t.Context(), conn, "a", "status_log_2", columns, strings.Join(rows, ", ")); err != nil {
		t.Fatal(err)
	}
	h := warehouse.History{Conn: conn}
	const until = t0 + 86_400_000
	for _, tt := range []struct {
		name string
		q    history.Errors
		want []history.ErrorCount
	}{
		{"all", history.Errors{Tenant: "acme", From: t0, Until: until, Most: 10}, []history.ErrorCount{
			{Provider: "p", Code: "429", Example: "slow down", Events: 2}, {Provider: "p", Code: "21610", Example: "blocked", Events: 1},
			{Provider: "q", Code: "", Example: "timed out", Events: 1}, {Provider: "q", Code: "30005", Example: "unknown handset", Events: 1},
		}},
		{"the most frequent", history.Errors{Tenant: "acme", From: t0, Until: until, Most: 1}, []history.ErrorCount{{Provider: "p", Code: "429", Example: "slow down", Events: 2}}},
		{"a class of a provider", history.Errors{Tenant: "acme", Provider: "q", Class: "ads", From: t0, Until: t0 + 5000, Most: 10}, []history.ErrorCount{{Provider: "q", Code: "30005", Example: "unknown handset", Events: 1}}},
		{"the tenant that rows need not name", history.Errors{Tenant: "default", From: t0, Until: until, Most: 10}, []history.ErrorCount{{Provider: "p", Code: "own", Events: 1}}},
		{"the end is not in it", history.Errors{Tenant: "acme", From: until, Until: until + 1, Most: 10}, []history.ErrorCount{{Provider: "p", Code: "late", Events: 1}}},
		{"every tenant's", history.Errors{Tenant: history.AllTenants, Provider: "p", From: t0, Until: until, Most: 10}, []history.ErrorCount{
			{Provider: "p", Code: "429", Example: "slow down", Events: 2}, {Provider: "p", Code: "21610", Example: "blocked", Events: 1}, {Provider: "p", Code: "own", Events: 1}, {Provider: "p", Code: "secret", Events: 1},
		}},
		{"text of SQL", history.Errors{Tenant: "acme", Provider: "' OR 1=1 --", From: t0, Until: until, Most: 10}, nil},
	} {
		if got, err := h.Errors(t.Context(), tt.q); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("errors, %s: %v\n%+v\nwant\n%+v", tt.name, err, got, tt.want)
		}
	}
	at := func(second int64) schemas.Millis { return t0 + schemas.Millis(1000*second) }
	for _, tt := range []struct {
		name string
		q    history.Refused
		want []history.RefusedCount
	}{
		{"all", history.Refused{Tenant: "acme", From: t0, Until: until, Most: 10}, []history.RefusedCount{{To: "+1", Refused: 3, LastAt: at(13), Limit: "verify"}, {To: "+2", Refused: 1, LastAt: at(11), Limit: "verify"}}},
		{"the first", history.Refused{Tenant: "acme", From: t0, Until: until, Most: 1}, []history.RefusedCount{{To: "+1", Refused: 3, LastAt: at(13), Limit: "verify"}}},
		{"a class", history.Refused{Tenant: "acme", Class: "ads", From: t0, Until: until, Most: 10}, []history.RefusedCount{{To: "+1", Refused: 1, LastAt: at(12), Limit: "ads"}}},
		{"every tenant's", history.Refused{Tenant: history.AllTenants, Class: "ads", From: t0, Until: until, Most: 10}, []history.RefusedCount{{To: "+3", Refused: 1, LastAt: at(16), Limit: "secret"}, {To: "+1", Refused: 1, LastAt: at(12), Limit: "ads"}}},
		{"nobody's", history.Refused{Tenant: "nobody", From: t0, Until: until, Most: 10}, nil},
	} {
		if got, err := h.Refused(t.Context(), tt.q); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("refused, %s: %v\n%+v\nwant\n%+v", tt.name, err, got, tt.want)
		}
	}
}
