package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Tokens of the policy below.
const (
	acmeKey  = "weir_live_acme"
	acmeTest = "weir_test_acme"
	otherKey = "weir_live_other"
	readKey  = "weir_live_reader"
	adminKey = "weir_live_admin"
	oldKey   = "weir_live_old"
)

var keyedPolicy = `
providers:
  - {name: sim, type: simulated, channels: [sms, email]}
tenants:
  - {name: acme, default_region: CN}
  - {name: other}
keys:
  - {name: acme, tenant: acme, scopes: [send, read], hash: "` + hashOf(acmeKey) + `"}
  - {name: acme-test, tenant: acme, scopes: [send, read], hash: "` + hashOf(acmeTest) + `"}
  - {name: other, tenant: other, scopes: [send, read], hash: "` + hashOf(otherKey) + `"}
  - {name: reader, tenant: acme, scopes: [read], hash: "` + hashOf(readKey) + `"}
  - {name: admin, tenant: default, scopes: [send, read, admin], hash: "` + hashOf(adminKey) + `"}
  - {name: old, tenant: default, scopes: [send, read, admin], hash: "` + hashOf(oldKey) + `", expires_at: "2020-01-01T00:00:00Z"}
`

func TestKeys(t *testing.T) {
	const opsKey = "weir_live_ops"
	w := newWorld(t, settings{policy: keyedPolicy + `  - {name: ops, tenant: default, scopes: [admin], hash: "` + hashOf(opsKey) + `"}`, keys: true})
	const message = `{"channel":"sms","to":"+8613800000000","body":"b"}`
	for _, tt := range []struct {
		name, header string
		code         int
		problem      string
	}{
		{"bearer", "Authorization: Bearer " + acmeKey, 202, ""},
		{"the scheme in any case", "Authorization: bearer  " + acmeKey, 202, ""},
		{"X-API-Key", "X-API-Key: " + acmeKey, 202, ""},
		{"none", "", 401, "unauthenticated"},
		{"empty", "Authorization: Bearer ", 401, "unauthenticated"},
		{"another scheme", "Authorization: Basic " + acmeKey, 401, "unauthenticated"},
		{"unknown", "Authorization: Bearer weir_live_nobody", 401, "unauthenticated"},
		{"a beginning", "Authorization: Bearer " + acmeKey[:len(acmeKey)-1], 401, "unauthenticated"},
		{"its hash", "Authorization: Bearer " + hashOf(acmeKey), 401, "unauthenticated"},
		{"with the prefix of a test key", "Authorization: Bearer weir_test_acme2", 401, "unauthenticated"},
		{"expired", "Authorization: Bearer " + oldKey, 401, "unauthenticated"},
		{"without the scope", "Authorization: Bearer " + readKey, 403, "forbidden_scope"},
		{"admin is no send", "Authorization: Bearer " + opsKey, 403, "forbidden_scope"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var headers []string
			if tt.header != "" {
				headers = append(headers, tt.header)
			}
			r := w.post(message, headers...)
			if tt.problem == "" {
				if r.code != tt.code {
					t.Errorf("%d %s", r.code, r.body)
				}
				return
			}
			r.t = t
			r.problem(tt.code, tt.problem)
			if challenge := r.header.Get("WWW-Authenticate"); (challenge != "") != (tt.code == http.StatusUnauthorized) {
				t.Errorf("WWW-Authenticate %q", challenge)
			}
		})
	}
	if r := w.post(message, "Authorization: Bearer "+acmeKey, "X-API-Key: "+otherKey); r.code != http.StatusUnauthorized {
		t.Errorf("two keys: %d", r.code)
	}
	if got := w.requests(3); !strings.Contains(string(got[0].Value), `"tenant":"acme"`) {
		t.Errorf("%s", got[0].Value)
	}
	if log := w.log.String(); strings.Contains(log, acmeKey) || strings.Contains(log, "weir_live") {
		t.Errorf("the log has a key:\n%s", log)
	}
}

// A token is known by its whole hash, not by where the ring looks for it.
func TestTheWholeHashCounts(t *testing.T) {
	sum := sha256.Sum256([]byte(acmeKey))
	near := sum
	near[len(near)-1] ^= 1
	key := func(name string, sum [sha256.Size]byte) schemas.Key {
		return schemas.Key{Name: name, Tenant: name, Hash: "sha256:" + hex.EncodeToString(sum[:])}
	}
	var ring keyring
	if c := ring.find(&schemas.Revision{Policy: schemas.Policy{Keys: []schemas.Key{key("near", near)}}}, acmeKey, 1); c != nil {
		t.Errorf("a hash that differs in its last bit is taken for %s's", c.tenant)
	}
	both := &schemas.Revision{Policy: schemas.Policy{Keys: []schemas.Key{key("near", near), key("own", sum), key("far", sha256.Sum256(nil))}}}
	if c := ring.find(both, acmeKey, 1); c == nil || c.tenant != "own" {
		t.Errorf("%+v", c)
	}
}
