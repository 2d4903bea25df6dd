package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/schemas"
)

// Suppressions of the store are its events' recipients, in their order.
func (s *store) Suppressions(ctx context.Context, q history.Suppressions) (out []history.Suppressed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := ctx.Deadline(); !ok {
		return nil, errors.New("asked without a deadline")
	}
	for _, e := range ofTenant(q.Tenant, s.events) {
		n := history.Suppressed{To: e.To, Suppression: schemas.Suppression{Tenant: q.Tenant, Channel: e.Channel, Class: e.Class, At: e.At, Reason: e.ErrorCode}}
		if e.To > q.After.To && (q.Class == "" || q.Class == e.Class) && len(out) < q.Limit {
			out = append(out, n)
		}
	}
	return out, s.err
}

// suppressed is what the server tells of a recipient, at the time of asking.
func (w *world) suppressed(query string, headers ...string) []client.Suppression {
	w.t.Helper()
	return read[client.SuppressionPage](w.do("GET", "/v1/suppressions?"+query, "", headers...), http.StatusOK).Suppressions
}

// TestSuppressionsByHTTP: what is asked for is decided by the real admission, and
// told of the recipient at once.
func TestSuppressionsByHTTP(t *testing.T) {
	w := decided(t, settings{policy: limited, keys: true})
	const to = "+8613800000001"
	change := func(method, query, body string, more ...string) client.SuppressionDone {
		t.Helper()
		return read[client.SuppressionDone](w.do(method, "/v1/suppressions"+query, body, append(more, auth)...), http.StatusAccepted)
	}
	until := schemas.MillisOf(time.Now().Add(time.Hour))
	full := fmt.Sprintf(`{"to":"138 0000 0001","channel":"sms","class":"ads","expires_at":%q,"reason":"asked by phone"}`, until)
	want := client.SuppressionDone{To: to, Channel: "sms", Class: "ads", ExpiresAt: until, Reason: "asked by phone", Status: schemas.StatusAccepted, Outcome: "suppress"}
	if d := cmp.Diff(want, change("PUT", "", full)); d != "" {
		t.Error(d)
	}
	if got := change("PUT", "", full); got.Outcome != "repeated" {
		t.Errorf("%+v", got)
	}
	got := w.suppressed("to=%2B8613800000001", auth)
	if len(got) != 1 || got[0].At == 0 {
		t.Fatalf("%+v", got)
	}
	got[0].At = 0
	if d := cmp.Diff(client.Suppression{To: to, Tenant: "acme", Channel: "sms", Class: "ads", ExpiresAt: until, Reason: "asked by phone", Provider: "api:acme"}, got[0]); d != "" {
		t.Error(d)
	}
	for query, n := range map[string]int{"channel=sms": 1, "channel=voice": 0, "class=ads": 1, "class=verify": 0, "reason=asked+by+phone": 1, "reason=stop": 0} {
		if got := w.suppressed("to=%2B8613800000001&"+query, auth); len(got) != n {
			t.Errorf("%s: %+v", query, got)
		}
	}
	// A message meets it, and is told until when.
	p := w.post(`{"channel":"sms","to":"+8613800000001","class":"ads","body":"b"}`, auth, "Prefer: wait=5").problem(422, "message_suppressed")
	if p.RetryAt != until || !strings.Contains(p.Detail, until.String()) {
		t.Errorf("%+v", p)
	}
	if got := change("DELETE", "?to=%2B8613800000001", ""); got.Outcome != "not_suppressed" {
		t.Errorf("another scope is lifted: %+v", got)
	}
	if got := change("DELETE", "?to=8613800000001&channel=sms&class=ads", ""); got.Outcome != "unsuppress" || got.To != to {
		t.Errorf("%+v", got)
	}
	if got := w.suppressed("to=%2B8613800000001", auth); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if got := change("PUT", "", `{"to":"a@example.com"}`, "Prefer: respond-async"); got.Outcome != "" || got.Status != schemas.StatusAccepted {
		t.Errorf("%+v", got)
	}
	w.until("suppressed", func() bool { return len(w.suppressed("to=a@example.com", auth)) == 1 })
	if got := w.suppressed("to=a@example.com", "Authorization: Bearer "+otherKey); len(got) != 0 {
		t.Errorf("another tenant's are shown: %+v", got)
	}
	// As often as one recipient may have them.
	for i := range 20 {
		change("PUT", "", fmt.Sprintf(`{"to":"b@example.com","class":"c%d"}`, i), "Prefer: respond-async")
	}
}

func TestSuppressionsRefused(t *testing.T) {
	w := newWorld(t, settings{policy: limited, keys: true, history: &store{}})
	past := schemas.MillisOf(time.Now().Add(-time.Minute))
	for body, want := range map[string]string{
		``:                                       "not_object",
		`[]`:                                     "not_object",
		`null`:                                   "not_object",
		`{}`:                                     "/to required",
		`{"to":7}`:                               "/to wrong_type",
		`{"to":"nobody at all","channel":"sms"}`: "/to ",
		`{"to":"+8613800000001","x":1}`:          "/x unknown_field",
		`{"to":"+8613800000001","tenant":"other"}`:                           "/tenant forbidden_tenant",
		`{"to":"+8613800000001","channel":"fax"}`:                            "/channel unknown_value",
		`{"to":"+8613800000001","class":"a b"}`:                              "/class bad_name",
		`{"to":"+8613800000001","expires_at":"soon"}`:                        "/expires_at bad_time",
		`{"to":"+8613800000001","expires_at":"1970-01-01T00:00:00Z"}`:        "/expires_at expires_at_out_of_range",
		fmt.Sprintf(`{"to":"+8613800000001","expires_at":%q}`, past):         "/expires_at expires_at_out_of_range",
		`{"to":"+8613800000001","reason":"` + strings.Repeat("é", 65) + `"}`: "/reason too_long",
		"{\"to\":\"+8613800000001\",\"reason\":\"\xff\"}":                    "bad_text",
	} {
		r := w.do("PUT", "/v1/suppressions", body, auth)
		p := read[client.Problem](r, r.code)
		var got []string
		for _, e := range p.Errors {
			got = append(got, strings.TrimSpace(e.Pointer+" "+e.Code))
		}
		if len(got) != 1 || !strings.HasPrefix(got[0], want) || r.code != 400 && !strings.Contains(want, "forbidden") {
			t.Errorf("%s: %d %q, want %s", body, r.code, got, want)
		}
		if strings.Contains(string(r.body), "nobody at all") {
			t.Errorf("%s: the answer repeats what was sent", body)
		}
	}
	for _, query := range []string{"", "?to=", "?to=nobody%20at%20all&channel=sms", "?to=%2B8613800000001&channel=fax", "?to=%2B8613800000001&reason=x", "?class=ads", "?to=%zz"} {
		w.do("DELETE", "/v1/suppressions"+query, "", auth).problem(400, "invalid_request")
	}
	for _, query := range []string{"?to=", "?limit=0", "?cursor=x", "?colour=red", "?reason=" + strings.Repeat("a", 65)} {
		w.do("GET", "/v1/suppressions"+query, "", auth).problem(400, "invalid_request")
	}
	w.do("GET", "/v1/suppressions?tenant=other", "", auth).problem(403, "forbidden_tenant")
	if r := newWorld(t, settings{}).do("GET", "/v1/suppressions", ""); r.problem(503, "history_unavailable").Code == "" {
		t.Error(string(r.body))
	}
}

// TestSuppressionPages: pages hold together, and a cursor belongs to its filters.
func TestSuppressionPages(t *testing.T) {
	h := &store{}
	var events []*schemas.Event
	for i := range 7 {
		e := event(fmt.Sprint("m", i), schemas.StatusSuppressed, int64(i))
		e.To = fmt.Sprintf("+861380000000%d", i)
		events = append(events, e)
	}
	h.set(nil, events...)
	w := newWorld(t, settings{history: h})
	var got []string
	query := "limit=3"
	for {
		page := read[client.SuppressionPage](w.do("GET", "/v1/suppressions?"+query, ""), http.StatusOK)
		for _, s := range page.Suppressions {
			got = append(got, s.To)
		}
		if page.NextCursor == "" {
			break
		}
		query = "limit=3&cursor=" + page.NextCursor
		w.do("GET", "/v1/suppressions?class=other&"+query, "").problem(400, "invalid_request")
	}
	var want []string
	for _, e := range events {
		want = append(want, e.To)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	h.set(errors.New("away"), events...)
	w.do("GET", "/v1/suppressions", "").problem(503, "history_unavailable")
}

const asCSV = "Content-Type: text/csv; charset=utf-8"

// TestImport: each row has its result, and what is right is written, whatever stands
// beside it.
func TestImport(t *testing.T) {
	w := newWorld(t, settings{})
	table := "\xef\xbb\xbfTo, class,reason,expires_at,channel\r\n" +
		"+8613800000001,ads,asked,2036-01-01T00:00:00Z,sms\r\n" +
		"nobody at all,,,,sms\r\n" +
		"\"a@example.com\",,\"two\nlines\",,\r\n" +
		"b@example.com,,\"a \"\"quote\"\"\",,email\r\n" +
		"c@example.com\r\n" +
		"d@ex\"ample.com,,,,\r\n" +
		"e@example.com,,,yesterday,\r\n" +
		"138 0000 0002,,,,\r\n"
	codes := func(got client.Imported) (out []string) {
		for _, r := range got.Results {
			text := fmt.Sprint(r.Line, " ", r.Status)
			if r.Error != nil {
				text += r.Error.Errors[0].Code
			}
			out = append(out, text)
		}
		return out
	}
	want := []string{"2 accepted", "3 bad_number", "4 control_character", "6 accepted", "7 bad_row", "8 bad_row", "9 bad_time", "10 accepted"}
	for _, dry := range []bool{true, false} {
		ends := w.ends(w.names.Requests())
		query, status := "", http.StatusAccepted
		if dry {
			query, status = "?dry_run=true", http.StatusOK
		}
		r := w.do("POST", "/v1/suppressions/import"+query, table, asCSV)
		got := read[client.Imported](r, status)
		texts := codes(got)
		if dry {
			for i := range texts {
				texts[i] = strings.Replace(texts[i], "valid", "accepted", 1)
			}
		}
		if len(texts) == len(want) && !strings.Contains(texts[1], "accepted") {
			want[1] = texts[1] // whatever the phone library calls it
		}
		if !slices.Equal(texts, want) || got.Accepted != 3 || got.Refused != 5 || got.DryRun != dry {
			t.Errorf("%q, want %q", texts, want)
		}
		if strings.Contains(string(r.body), "nobody at all") || strings.Contains(string(r.body), "example") {
			t.Errorf("the answer repeats what was sent: %s", r.body)
		}
		tracks := w.tracks(ends)
		if dry && len(tracks) > 0 || !dry && len(tracks) != 3 {
			t.Errorf("dry %v: written %q", dry, tracks)
		}
		for _, track := range tracks {
			if !strings.Contains(track, `"action":"suppress","tenant":"default"`) || !strings.Contains(track, `"provider":"api"`) {
				t.Error(track)
			}
		}
	}
	lines := `{"to":"+8613800000003","reason":"asked"}` + "\n\n" + `{"to":7}` + "\n" + `nonsense` + "\n" + `{"to":"x@example.com","tenant":"other"}`
	if got := codes(read[client.Imported](w.do("POST", "/v1/suppressions/import", lines, ndjson), http.StatusAccepted)); !slices.Equal(got, []string{"1 accepted", "3 wrong_type", "4 not_object", "5 forbidden_tenant"}) {
		t.Errorf("%q", got)
	}
	for body, header := range map[string]string{
		"":                       asCSV,
		"class,reason\nads,x\n":  asCSV,
		"to,to\na@b.example,x\n": asCSV,
		"to,tenant\na,b\n":       asCSV,
		"to\"\na@b.example\n":    asCSV,
	} {
		w.do("POST", "/v1/suppressions/import", body, header).problem(400, "invalid_request")
	}
	w.do("POST", "/v1/suppressions/import", `{"to":"a"}`, "Content-Type: application/json").problem(415, "unsupported_media_type")
	w.do("POST", "/v1/suppressions/import?dry_run=perhaps", "to\n", asCSV).problem(400, "invalid_request")
	if got := read[client.Imported](w.do("POST", "/v1/suppressions/import", "to\n", asCSV), http.StatusAccepted); len(got.Results) != 0 || got.Results == nil {
		t.Errorf("%+v", got)
	}
}

// TestImportBounds: as many rows as may be are taken in; of more, the first are, and
// the rest is said to be left out.
func TestImportBounds(t *testing.T) {
	w := newWorld(t, settings{})
	rows := func(n int) string {
		var b strings.Builder
		b.WriteString("to\n")
		for i := range n {
			fmt.Fprintf(&b, "u%d@example.com\n", i)
		}
		return b.String()
	}
	if got := read[client.Imported](w.do("POST", "/v1/suppressions/import", rows(maxImportRows), asCSV), http.StatusAccepted); got.Accepted != maxImportRows || got.Refused != 0 {
		t.Errorf("%d accepted, %d refused", got.Accepted, got.Refused)
	}
	got := read[client.Imported](w.do("POST", "/v1/suppressions/import?dry_run=true", rows(maxImportRows+1), asCSV), http.StatusOK)
	if last := got.Results[len(got.Results)-1]; got.Accepted != maxImportRows || got.Refused != 1 || last.Line != 0 || last.Error.Code != "too_large" {
		t.Errorf("%d accepted, %d refused, %+v", got.Accepted, got.Refused, last)
	}
}

// TestTooManySuppressions: what admission rejects is told with its reason.
func TestTooManySuppressions(t *testing.T) {
	w := decided(t, settings{policy: limited, keys: true})
	var b strings.Builder
	b.WriteString("to,class\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "+8613800000009,c%d\n", i)
	}
	if got := read[client.Imported](w.do("POST", "/v1/suppressions/import", b.String(), asCSV, auth), http.StatusAccepted); got.Accepted != 1000 {
		t.Fatalf("%d accepted", got.Accepted)
	}
	r := w.do("PUT", "/v1/suppressions", `{"to":"+8613800000009","class":"more"}`, auth, "Prefer: wait=5")
	if p := r.problem(http.StatusUnprocessableEntity, "suppression_refused"); len(p.Errors) != 1 || p.Errors[0].Code != "too_many_suppressions" {
		t.Errorf("%+v", p)
	}
}

// TestTestKeySuppressesNobody: what it suppressed would be kept from real messages.
func TestTestKeySuppressesNobody(t *testing.T) {
	const key = "weir_test_tester"
	w := newWorld(t, settings{keys: true, policy: keyedPolicy + "\n  - {name: tester, tenant: acme, scopes: [send, read], hash: \"" + hashOf(key) + "\"}\n"})
	w.do("PUT", "/v1/suppressions", `{"to":"+8613800000001"}`, "Authorization: Bearer "+key).problem(403, "forbidden_scope")
	w.do("DELETE", "/v1/suppressions?to=a@example.com", "", "Authorization: Bearer "+key).problem(403, "forbidden_scope")
}
