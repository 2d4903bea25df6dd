package ingest

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

func TestSession(t *testing.T) {
	w := newWorld(t, settings{policy: keyedPolicy, keys: true})
	r := w.do("POST", "/v1/session", `{"key":"`+acmeKey+`"}`)
	if got := read[session](r, http.StatusOK); got.Tenant != "acme" || got.Key != "acme" || !slices.Equal(got.Scopes, []string{"send", "read"}) {
		t.Errorf("%+v", got)
	}
	set := r.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} {
		if !strings.Contains(set, want) {
			t.Errorf("%s lacks %s", set, want)
		}
	}
	cookie, _, _ := strings.Cut(set, ";")
	if strings.Contains(cookie, "weir_live") {
		t.Errorf("the cookie shows the key: %s", cookie)
	}
	if got := read[session](w.do("GET", "/v1/session", "", "Cookie: "+cookie), http.StatusOK); got.Tenant != "acme" {
		t.Errorf("%+v", got)
	}
	const message = `{"channel":"sms","to":"+8613800000000","body":"b"}`
	if r := w.post(message, "Cookie: "+cookie, "Sec-Fetch-Site: same-origin"); r.code != http.StatusAccepted {
		t.Errorf("from its own page: %d %s", r.code, r.body)
	}
	w.post(message, "Cookie: "+cookie).problem(403, "cross_origin")
	w.post(message, "Cookie: "+cookie, "Sec-Fetch-Site: cross-site").problem(403, "cross_origin")
	w.post(message, "Cookie: "+cookie, "Origin: http://evil.example").problem(403, "cross_origin")
	w.do("GET", "/v1/session", "", "Cookie: "+cookie[:len(cookie)-2]).problem(401, "unauthenticated")
	w.do("GET", "/v1/session", "", "Cookie: weir_session=").problem(401, "unauthenticated")
	w.do("GET", "/v1/session", "").problem(401, "unauthenticated")
	// Where no key is needed, a session that is over takes nothing away, and a key that is
	// none is still refused.
	open := newWorld(t, settings{})
	for _, old := range []string{cookie, "weir_session=", "weir_session=x"} {
		if got := read[session](open.do("GET", "/v1/session", "", "Cookie: "+old), http.StatusOK); got.Tenant != schemas.DefaultTenant {
			t.Errorf("%+v", got)
		}
	}
	open.do("GET", "/v1/session", "", "Cookie: "+cookie, "Authorization: Basic x").problem(401, "unauthenticated")
	open.do("GET", "/v1/session", "", "Authorization: Bearer weir_live_nobody").problem(401, "unauthenticated")
	w.do("POST", "/v1/session", `{"key":"weir_live_nobody"}`).problem(401, "unauthenticated")
	w.do("POST", "/v1/session", `{}`).problem(400, "invalid_request")
	if r := w.do("DELETE", "/v1/session", ""); r.code != http.StatusNoContent || !strings.Contains(r.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("%d %v", r.code, r.header)
	}
}

func TestSessionAge(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := newSessions("secret", func() time.Time { return now })
	value := s.cookie("k")
	ask := func(s *sessions) string {
		r, _ := http.NewRequest("GET", "/", nil)
		r.AddCookie(&http.Cookie{Name: sessionCookie, Value: value})
		token, _, _ := s.token(r)
		return token
	}
	if got := ask(newSessions("secret", s.now)); got != "k" {
		t.Errorf("another instance reads %q", got)
	}
	if got := ask(newSessions("other", s.now)); got != "" {
		t.Errorf("one with another secret reads %q", got)
	}
	now = now.Add(sessionAge)
	if got := ask(s); got != "" {
		t.Errorf("after its age it is %q", got)
	}
}
