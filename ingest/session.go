package ingest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

const (
	sessionCookie = "weir_session"
	sessionAge    = 12 * time.Hour
	maxTokenBytes = 200 // a key has 54
)

// sessions seals keys into cookies for browsers, which a page's script cannot
// read. Nothing is kept: a session ends with its key, or by its age.
type sessions struct {
	seal cipher.AEAD
	now  func() time.Time
}

func newSessions(secret string, now func() time.Time) *sessions {
	var key [sha256.Size]byte
	if secret == "" {
		rand.Read(key[:])
	} else {
		key = sha256.Sum256([]byte("weir session\x00" + secret))
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has the right length
	}
	seal, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return &sessions{seal, now}
}

// cookie is a token, sealed with the time.
func (s *sessions) cookie(token string) string {
	plain := binary.BigEndian.AppendUint64(nil, uint64(s.now().Unix()))
	nonce := make([]byte, s.seal.NonceSize())
	rand.Read(nonce)
	return base64.RawURLEncoding.EncodeToString(s.seal.Seal(nonce, nonce, append(plain, token...), nil))
}

// token returns the key of the request's session, if it has one. One that was
// sealed elsewhere, or is too old, is none that anybody has. A change must come
// from a page of this server: a browser says so, and nothing but a browser has
// a session.
func (s *sessions) token(r *http.Request) (token string, given bool, p *client.Problem) {
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return "", false, nil
	}
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	if !safe && r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
		return "", false, crossOrigin.problem("A change under a session must come from a page of this server: programs send their key.")
	}
	sealed, err := base64.RawURLEncoding.DecodeString(c.Value)
	if n := s.seal.NonceSize(); err == nil && len(sealed) > n {
		plain, err := s.seal.Open(nil, sealed[:n], sealed[n:], nil)
		if err == nil && len(plain) > 8 && s.now().Sub(time.Unix(int64(binary.BigEndian.Uint64(plain)), 0)) < sessionAge {
			return string(plain[8:]), true, nil
		}
	}
	return "", true, nil
}

// session is what a caller may know of himself.
type session struct {
	Tenant    string         `json:"tenant"`
	Key       string         `json:"key,omitempty"`
	Scopes    []string       `json:"scopes"`
	Test      bool           `json:"test,omitempty"`
	ExpiresAt schemas.Millis `json:"expires_at,omitzero"`
	Tenants   []string       `json:"tenants,omitempty"` // whose messages an operator may read
}

func (c *caller) session(p *schemas.Policy) session {
	of := c.described()
	if c.has(string(scopeOperate)) {
		of.Tenants = []string{schemas.DefaultTenant}
		for i := range p.Tenants {
			of.Tenants = append(of.Tenants, p.Tenants[i].Name)
		}
		slices.Sort(of.Tenants)
		of.Tenants = slices.Compact(of.Tenants)
	}
	return of
}

func (c *caller) described() session {
	scopes := slices.DeleteFunc(slices.Clone(schemas.KeyScopes), func(s string) bool { return !c.has(s) })
	if c.key == nil {
		return session{Tenant: c.tenant, Scopes: scopes}
	}
	return session{Tenant: c.tenant, Key: c.key.Name, Scopes: scopes, Test: c.test, ExpiresAt: c.key.ExpiresAt}
}

func (s *Server) getSession(w http.ResponseWriter, _ *http.Request, c *caller) {
	answer(w, http.StatusOK, "application/json", c.session(&s.policy.Latest().Policy))
}

// postSession signs a browser in.
func (s *Server) postSession(w http.ResponseWriter, r *http.Request, _ *caller) {
	body, p := readUpTo(w, r, 4<<10, func() *client.Problem { return tooLarge.problem("It has a key, and nothing else.") })
	if p != nil {
		refuse(w, r, p)
		return
	}
	var in struct{ Key string }
	if json.Unmarshal(body, &in) != nil || in.Key == "" || len(in.Key) > maxTokenBytes {
		refuse(w, r, invalidRequest.problem(`The body is {"key": "weir_live_…"}.`, client.FieldError{Pointer: "/key", Code: schemas.ReasonRequired, Detail: "is required: an API key"}))
		return
	}
	c := s.keys.find(s.policy.Latest(), in.Key, schemas.MillisOf(time.Now()))
	if c == nil {
		refuse(w, r, s.pace.guessed(w, r, unauthenticated.problem("The API key is unknown, was revoked, or has expired.")))
		return
	}
	http.SetCookie(w, s.sealed(r, s.sessions.cookie(in.Key), sessionAge))
	answer(w, http.StatusOK, "application/json", c.session(&s.policy.Latest().Policy))
}

func (s *Server) deleteSession(w http.ResponseWriter, r *http.Request, _ *caller) {
	http.SetCookie(w, s.sealed(r, "", -time.Second))
	w.WriteHeader(http.StatusNoContent)
}

// sealed is the session's cookie. Only over HTTPS it may be Secure, or browsers
// would not send it back on loopback.
func (s *Server) sealed(r *http.Request, value string, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: sessionCookie, Value: value, Path: "/", MaxAge: int(age / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
}
