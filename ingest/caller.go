package ingest

import (
	"net/http"
	"strings"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/ingest/throttle"
	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/schemas"
)

// scope is what a key may do. Those of schemas.KeyScopes are given to keys.
type scope string

const (
	scopeNone scope = ""     // no key is asked for
	scopeAny  scope = "any"  // any key will do
	scopeSend scope = "send" // messages and decisions, and taking them back
	scopeRead scope = "read" // what the caller's own tenant sent, and what became of it

	// The scope admin of a key is these three.
	scopePolicy  scope = "policy"  // the policy without its keys
	scopeKeys    scope = "keys"    // keys: none may do more than the caller's
	scopeOperate scope = "operate" // how Weir and its providers are, over all tenants
)

// pace is the kind of call by which the API's own limits count.
type pace = throttle.Kind

const (
	paceNone   = throttle.None
	paceLogin  = throttle.Login
	paceQuery  = throttle.Query
	paceWrite  = throttle.Write
	paceBatch  = throttle.Batch
	paceImport = throttle.Import
)

// caller is who asks.
type caller struct {
	tenant string
	key    *schemas.Key // nil where none is asked for
	test   bool         // a weir_test_ key: its messages go to simulated providers
	named  string       // the tenant that an operator names in a question; see about
}

// by names the caller in revisions and logs.
func (c *caller) by() string {
	if c.key == nil {
		return "without a key"
	}
	return revise.ByKey + c.key.Name
}

// prefer is what the caller's key prefers where a request says nothing.
func (c *caller) prefer() string {
	if c.key == nil {
		return ""
	}
	return c.key.Prefer
}

// may returns nil if the caller may use the scope.
func (c *caller) may(s scope) *client.Problem {
	switch {
	case s == scopeAny || c.has(string(s)):
		return nil
	case c.key.May(string(s)):
		return everyTenants()
	}
	return forbiddenScope.problem("The key lacks the scope " + string(s) + ".")
}

// keyless is everyone's caller where no key is asked for.
var keyless = &caller{tenant: schemas.DefaultTenant}

// identify tells who asks, by the request's header alone. A key that is given
// must be good, also where none is needed, and a session where one is. A key that is
// not good counts as a guess of its address, which may take a few.
func (s *Server) identify(w http.ResponseWriter, r *http.Request) (*caller, *client.Problem) {
	token, given := bearer(r.Header)
	guess := token != ""
	session := false
	if !given {
		var p *client.Problem
		if token, session, p = s.sessions.token(r); p != nil {
			return nil, p
		}
		given = session
	}
	if !given {
		if s.keyless {
			return keyless, nil
		}
		return nil, unauthenticated.problem("Send Authorization: Bearer and an API key.")
	}
	if c := s.keys.find(s.policy.Latest(), token, schemas.MillisOf(time.Now())); c != nil {
		return c, nil
	}
	if session && s.keyless { // a session of another day, or of another server on this host: it takes nothing away
		return keyless, nil
	}
	p := unauthenticated.problem("The API key or the session is unknown, was revoked, or has expired.")
	if !guess { // what stands in a session was a good key: a page that outlives it must not keep its reader from signing in
		return nil, p
	}
	return nil, s.pace.guessed(w, r, p)
}

// bearer returns the key of the Authorization or the X-API-Key header. Whatever
// stands there was given, though it be no key.
func bearer(h http.Header) (token string, given bool) {
	auth, other := h["Authorization"], h["X-Api-Key"]
	switch {
	case len(auth)+len(other) == 0:
		return "", false
	case len(auth) == 1 && len(other) == 0:
		if scheme, token, ok := strings.Cut(auth[0], " "); ok && strings.EqualFold(scheme, "Bearer") {
			return strings.TrimLeft(token, " "), true
		}
	case len(other) == 1 && len(auth) == 0:
		return other[0], true
	}
	return "", true // two keys, or another scheme: which one counts would be a guess
}
