package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/schemas"
)

// Search is what the store of processor/sink/warehouse does, over a slice.
func (s *store) Search(ctx context.Context, q history.Search) (*history.Found, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if _, ok := ctx.Deadline(); !ok {
		return nil, errors.New("asked without a deadline")
	}
	found := &history.Found{}
	all := s.latest(q.Tenant)
	slices.SortFunc(all, func(a, b *schemas.Event) int {
		return cmp.Or(placeOf(b).Compare(placeOf(a)), cmp.Compare(b.To, a.To))
	})
	bound := schemas.Millis(0)
	if s.window > 0 && len(all) > 0 {
		if bound = cmp.Or(q.Before.At, all[0].AcceptedAt+1) - s.window; bound <= q.From {
			bound = 0
		}
	}
	for _, e := range all {
		if e.AcceptedAt != 0 && e.AcceptedAt < bound { // nothing older is looked at now
			found.Reached = &history.Place{At: bound}
			break
		}
		if e.AcceptedAt == 0 || len(q.To) > 0 && !slices.Contains(q.To, e.To) || q.Class != "" && q.Class != e.Class || q.Channel != "" && q.Channel != e.Channel ||
			e.AcceptedAt < q.From || q.Until > 0 && e.AcceptedAt >= q.Until || q.Before != (history.Place{}) && placeOf(e).Compare(q.Before) >= 0 {
			continue
		}
		if s.short > 0 && len(found.Events) == s.short { // as where a status is rare
			p := placeOf(found.Events[s.short-1])
			found.Reached = &p
			break
		}
		if len(q.Statuses) > 0 && !slices.Contains(q.Statuses, e.Status) {
			continue
		}
		if found.Events = append(found.Events, e); len(found.Events) == q.Limit {
			p := placeOf(e)
			found.Reached = &p
			break
		}
	}
	return found, s.err
}

func (s *store) Latest(_ context.Context, tenant string, since schemas.Millis, names []history.Name) (map[history.Name]*schemas.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[history.Name]*schemas.Event)
	for _, e := range s.latest(tenant) {
		if name := (history.Name{ID: e.MessageID, To: e.To}); slices.Contains(names, name) && e.At >= since {
			out[name] = e
		}
	}
	return out, s.err
}

// latest folds a tenant's events by message.
func (s *store) latest(tenant string) (out []*schemas.Event) {
	by := make(map[history.Name]*schemas.Event)
	for _, e := range ofTenant(tenant, s.events) {
		name := history.Name{ID: e.MessageID, To: e.To}
		was := by[name]
		if was == nil {
			was = &schemas.Event{}
		}
		is := *e
		if was.Status.Rank() > e.Status.Rank() {
			is = *was
		}
		is.AcceptedAt, is.Class, is.Channel = cmp.Or(was.AcceptedAt, e.AcceptedAt), cmp.Or(e.Class, was.Class), cmp.Or(e.Channel, was.Channel)
		by[name] = &is
	}
	for _, e := range by {
		out = append(out, e)
	}
	return out
}

func placeOf(e *schemas.Event) history.Place { return history.Place{At: e.AcceptedAt, ID: e.MessageID} }

// walk reads all pages of a list, and calls between after each.
func (w *world) walk(path string, between func(page int)) (out []client.Message) {
	w.t.Helper()
	cursor := ""
	for n := 0; ; n++ {
		page := read[client.MessagePage](w.do("GET", path+cursor, ""), http.StatusOK)
		if page.Partial {
			w.t.Fatal("partial, with a store")
		}
		out = append(out, page.Messages...)
		if page.NextCursor == "" {
			return out
		}
		if cursor = "&cursor=" + page.NextCursor; n > 200 {
			w.t.Fatal("the pages do not end")
		}
		if between != nil {
			between(n)
		}
	}
}

// Every message comes once, in its place and with its latest status, wherever
// its steps are known: in the store, in the tail, both, or not decided at all;
// and while others arrive and those that are there go on.
func TestList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	h := &store{short: 9}
	var stored, tailed []*schemas.Event
	type want struct {
		id, to, class string
		status        schemas.Status
		accepted      schemas.Millis
	}
	var all []want
	life := []schemas.Status{schemas.StatusQueued, schemas.StatusSending, schemas.StatusSent, schemas.StatusDelivered}
	for i := range 240 {
		m := want{id: fmt.Sprintf("%08x-0000-4000-8000-%012d", rnd.Uint32(), i), to: fmt.Sprintf("+861380000000%d", i%10), class: []string{"verify", "marketing"}[i%2],
			accepted: t0 + schemas.Millis(rnd.IntN(60)*1000)}
		if i%20 == 9 {
			m.id = all[len(all)-1].id // of another recipient
		}
		n := 1 + rnd.IntN(len(life))
		m.status = life[n-1]
		a, b := rnd.IntN(n+1), rnd.IntN(n+1) // the store has those before a, the tail those from b on
		if b > a || i%3 == 0 {
			b = a
		}
		if a == 3 && n == 4 {
			b = min(b, 2) // a receipt alone has no place until the store has it
		}
		for k, s := range life[:n] {
			e := &schemas.Event{Kind: schemas.KindStatus, MessageID: m.id, Tenant: "default", Channel: "sms", Class: m.class, To: m.to, Status: s, At: m.accepted + schemas.Millis(k+1), AcceptedAt: m.accepted}
			if s == schemas.StatusDelivered {
				e.AcceptedAt = 0
			}
			if k < a {
				stored = append(stored, e)
			}
			if k >= b {
				tailed = append(tailed, e)
			}
		}
		if n == 4 && b == 3 && a == 0 { // only a receipt is known: it has no place
			continue
		}
		all = append(all, m)
		if i%7 == 0 { // the same id is another tenant's too
			e := *tailedOr(stored, tailed)
			e.Tenant, e.Status, e.At = "other", schemas.StatusFailed, e.At+1000
			stored, tailed = append(stored, &e), append(tailed, &e)
		}
	}
	h.set(nil, stored...)
	w := newWorld(t, settings{history: h, status: tailed})
	fresh := make(map[string]bool)
	for range 12 {
		fresh[read[client.Sent](w.post(hello), http.StatusAccepted).ID] = true
	}
	order := func(m want) string { return fmt.Sprint(m.accepted, m.id, m.to) }
	slices.SortFunc(all, func(a, b want) int { return -strings.Compare(order(a), order(b)) })
	check := func(name, path string, may func(want) bool, withFresh bool, between func(int)) {
		t.Helper()
		var got, expected []string
		var seen []string
		for _, m := range w.walk(path, between) {
			if fresh[m.ID] {
				seen = append(seen, m.ID)
				continue
			}
			if m.Timeline == nil || len(m.Timeline) > 0 || m.Tenant != "default" {
				t.Fatalf("%s: %+v", name, m)
			}
			got = append(got, fmt.Sprint(m.AcceptedAt, m.ID, m.To, m.Class, m.Status))
		}
		for _, m := range all {
			if may(m) {
				expected = append(expected, fmt.Sprint(m.accepted, m.id, m.to, m.class, m.status))
			}
		}
		if len(expected) < 5 || !slices.Equal(got, expected) {
			t.Errorf("%s: %d messages, want %d", name, len(got), len(expected))
			for i := range min(len(got), len(expected)) {
				if got[i] != expected[i] {
					t.Fatalf("the first that differs is %d: %s, want %s", i, got[i], expected[i])
				}
			}
		}
		slices.Sort(seen)
		if n := len(slices.Compact(seen)); n != len(seen) || withFresh && n != 12 || !withFresh && n != 0 {
			t.Errorf("%s: %d of those that wait for their decision, %d twice", name, n, len(seen)-n)
		}
	}
	any := func(want) bool { return true }
	check("all", "/v1/messages?limit=7", any, true, nil)
	check("by one", "/v1/messages?limit=1&class=marketing", func(m want) bool { return m.class == "marketing" }, false, nil)
	check("at once", "/v1/messages?limit=500", any, true, nil)
	check("a recipient's", "/v1/messages?limit=3&to=%2B8613800000003", func(m want) bool { return m.to == "+8613800000003" }, false, nil)
	check("a status", "/v1/messages?limit=4&status=sent", func(m want) bool { return m.status == schemas.StatusSent }, false, nil)
	check("statuses", "/v1/messages?limit=4&status=delivered,queued", func(m want) bool { return m.status == schemas.StatusDelivered || m.status == schemas.StatusQueued }, false, nil)
	check("a span", "/v1/messages?limit=4&from=2026-11-21T08:00:10Z&until=2026-11-21T08:00:30Z", func(m want) bool { return m.accepted >= t0+10_000 && m.accepted < t0+30_000 }, false, nil)
	h.mu.Lock()
	h.window = 7_000 // a page that looks through it may be empty, and is not the last
	h.mu.Unlock()
	check("a window at a time", "/v1/messages?limit=9&class=verify&until=2026-11-21T08:00:41Z", func(m want) bool { return m.class == "verify" && m.accepted < t0+41_000 }, false, nil)
	h.mu.Lock()
	h.window = 0
	h.mu.Unlock()
	if n := len(w.walk("/v1/messages?limit=5&channel=email", nil)); n != 0 {
		t.Errorf("%d e-mails", n)
	}
	if n := len(w.walk("/v1/messages?limit=5&status=accepted", nil)); n != 12 {
		t.Errorf("%d wait for their decision", n)
	}

	// Between pages those that waited are decided, at times of the past, and
	// new ones come in: nothing that was there comes twice.
	decided := false
	var mark string
	check("while it goes on", "/v1/messages?limit=20", any, true, func(page int) {
		w.post(strings.Replace(hello, "verify", "late", 1))
		if decided {
			return
		}
		decided = true
		for id := range fresh {
			e := event(id, schemas.StatusSent, 30_500)
			e.AcceptedAt = t0 + 30_500
			w.status(e)
			mark = id
		}
		w.until("decided", func() bool { return read[client.Message](w.get(mark), http.StatusOK).Status == schemas.StatusSent })
	})
}

func tailedOr(stored, tailed []*schemas.Event) *schemas.Event {
	if len(tailed) > 0 {
		return tailed[len(tailed)-1]
	}
	return stored[len(stored)-1]
}

// A request that is repeated under its key may have been decided long ago.
func TestListKnowsARepeat(t *testing.T) {
	h := &store{}
	w := newWorld(t, settings{history: h})
	id := read[client.Sent](w.post(hello, "Idempotency-Key: k"), http.StatusAccepted).ID
	old := event(id, schemas.StatusSent, 1)
	now := read[client.Message](w.get(id), http.StatusOK).AcceptedAt
	old.AcceptedAt, old.At = now-5000, now-4000
	if got := w.walk("/v1/messages?limit=5", nil); len(got) != 1 || got[0].Status != schemas.StatusAccepted {
		t.Fatalf("%+v", got)
	}
	events := []*schemas.Event{old}
	for i := range 3 { // between the two, so that the first page does not reach the old one
		e := event(fmt.Sprintf("0192f0c1-2a3b-7c4d-8e5f-60718293a4c%d", i), schemas.StatusSent, 1)
		e.AcceptedAt = now - 1000
		events = append(events, e)
	}
	h.set(nil, events...)
	if got := w.walk("/v1/messages?limit=1&status=accepted", nil); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if got := w.walk("/v1/messages?limit=1", nil); len(got) != 4 || got[3].ID != id {
		t.Errorf("%+v", got)
	}
	h.set(nil, old)
	if got := w.walk("/v1/messages?limit=1", nil); len(got) != 1 || got[0].Status != schemas.StatusSent || got[0].AcceptedAt != now-5000 {
		t.Errorf("%+v", got)
	}
}

func TestListWithoutTheStore(t *testing.T) {
	h := &store{}
	sent := event(theirs, schemas.StatusSent, 1)
	w := newWorld(t, settings{history: h, status: []*schemas.Event{sent}})
	first := read[client.MessagePage](w.do("GET", "/v1/messages?limit=1", ""), http.StatusOK)
	for range 3 {
		w.post(hello)
	}
	whole := read[client.MessagePage](w.do("GET", "/v1/messages?limit=2", ""), http.StatusOK)
	if first.Partial || len(first.Messages) != 1 || whole.NextCursor == "" {
		t.Fatalf("%+v", first)
	}
	h.set(errors.New("away"))
	page := read[client.MessagePage](w.do("GET", "/v1/messages?limit=3", ""), http.StatusOK)
	if !page.Partial || len(page.Messages) != 3 || page.NextCursor == "" {
		t.Fatalf("%+v", page)
	}
	for _, path := range []string{"/v1/messages?class=nothing", "/v1/messages?limit=2&cursor=" + whole.NextCursor} {
		if r := w.do("GET", path, ""); r.problem(http.StatusServiceUnavailable, "history_unavailable").RetryAfter != 0 || r.header.Get("Retry-After") == "" {
			t.Errorf("%s: %v", path, r.header)
		}
	}
	h.set(nil, sent)
	// A walk that began in memory stays there.
	if page = read[client.MessagePage](w.do("GET", "/v1/messages?limit=3&cursor="+page.NextCursor, ""), http.StatusOK); !page.Partial || len(page.Messages) != 1 || page.NextCursor != "" {
		t.Errorf("%+v", page)
	}
	none := newWorld(t, settings{})
	if page := read[client.MessagePage](none.do("GET", "/v1/messages", ""), http.StatusOK); !page.Partial || page.Messages == nil {
		t.Errorf("where there is none: %+v", page)
	}
}

func TestListRefuses(t *testing.T) {
	w := newWorld(t, settings{history: &store{}})
	w.post(hello)
	w.post(hello)
	cursor := read[client.MessagePage](w.do("GET", "/v1/messages?limit=1", ""), http.StatusOK).NextCursor
	for query, detail := range map[string]string{
		"limit=0": `"limit"`, "limit=501": `"limit"`, "limit=x": `"limit"`, "status=gone": `"status"`, "status=sent,": `"status"`, "channel=fax": `"channel"`,
		"from=yesterday": `"from"`, "until=1": `"until"`, "to=": `"to"`, "class=": `"class"`, "tenant=": `"tenant" is a name`, "tenant=*": `"tenant" is one tenant here`, "tenant=a&tenant=a": `"tenant" stands more than once`, "x-y=1": `"" is unknown`,
		"limit=1&limit=2": `"limit" stands more than once`, "to=a@example.com&to=b@example.com": `"to" stands more than once`,
		"channel=sms&to=nonsense": `"to" is nobody on this channel`, "channel=email&to=%2B8613800000000": `"to"`, "%zz": "", "to=%ff": `"to"`,
		"cursor=x": "", "class=verify&cursor=" + cursor: "", "cursor=" + cursor[1:]: "",
	} {
		p := w.do("GET", "/v1/messages?"+query, "").problem(http.StatusBadRequest, "invalid_request")
		if detail != "" && (len(p.Errors) != 1 || !strings.Contains(p.Errors[0].Detail, detail)) {
			t.Errorf("%s: %+v", query, p.Errors)
		}
	}
	read[client.MessagePage](w.do("GET", "/v1/messages?limit=7&cursor="+cursor, ""), http.StatusOK) // the limit may change
}

// A message from before keys ignored letter case has its address as it was spelled.
func TestOldSpellingsAreTheirs(t *testing.T) {
	for to, want := range map[string]bool{
		"ann@example.com": true, "Ann@example.com": true, "ANN@example.com": true, "joann@example.com": false, "token": true, "Token": false, "": false,
	} {
		if got := among([]string{"ann@example.com", "token"}, to); got != want {
			t.Errorf("%q: %v", to, got)
		}
	}
}

func TestRecipientsOfAQuery(t *testing.T) {
	const phone, mail = "+8613800000000", "some.one@example.com"
	for _, tt := range []struct {
		query, region, channel string
		want                   []string
	}{
		{"%2B8613800000000", "", "", []string{phone}},
		{"+8613800000000", "", "", []string{phone}}, // a raw + is a space
		{"+8613800000000", "US", "sms", []string{phone}},
		{"%208613800000000", "CN", "", []string{phone}},
		{"8613800000000", "CN", "", []string{phone}},
		{"8613800000000", "US", "", []string{phone}},
		{"8613800000000", "", "voice", []string{phone}},
		{"138%200000%200000", "CN", "", []string{phone}},
		{"138+0000+0000", "CN", "", []string{phone}},
		{"%2B86+138-0000-0000", "DE", "", []string{phone}},
		{"Some.One@EXAMPLE.com", "CN", "", []string{mail}},
		{"some.one@example.com", "CN", "email", []string{"some.one@example.com"}},
		{"https://EXAMPLE.com", "", "webhook", []string{"https://example.com/"}},
		{"token-1", "CN", "", []string{"token-1"}},
	} {
		v, err := url.ParseQuery("to=" + tt.query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := recipients(schemas.Channel(tt.channel), v.Get("to"), tt.region)
		// Without a channel the text may be a push token too.
		if tt.channel == "" && !slices.Contains(tt.want, v.Get("to")) {
			got = slices.DeleteFunc(got, func(k string) bool { return k == v.Get("to") })
		}
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%q in %q on %q: %q, %v", tt.query, tt.region, tt.channel, got, err)
		}
	}
}
