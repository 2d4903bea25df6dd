package ingest

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// overheard is everything that was answered.
type overheard struct {
	*world
	t    *testing.T
	text *strings.Builder
}

func (a overheard) do(method, path, body string, headers ...string) reply {
	a.t.Helper()
	r := a.world.do(method, path, body, headers...)
	a.text.Write(r.body)
	for _, values := range r.header {
		a.text.WriteString(strings.Join(values, " "))
	}
	return r
}

// The life of a key on two instances: made, used, rotated, revoked. No answer
// and no line of the log has a hash, and a secret is in one answer only.
func TestKeysLife(t *testing.T) {
	w := newWorld(t, settings{policy: keyedPolicy, keys: true})
	a := overheard{w, t, new(strings.Builder)}
	b := overheard{w.another(true), t, a.text}
	admin := "Authorization: Bearer " + adminKey
	const rates = `"rates":{"query":"bucket 10000 refill 10000/s"}` // the test asks often
	good := func(at overheard, token string) bool {
		t.Helper()
		r := at.do("GET", "/v1/messages/018f0000-0000-7000-8000-000000000000", "", "Authorization: Bearer "+token)
		if r.code != 404 && r.code != 401 {
			t.Fatalf("%d %s", r.code, r.body)
		}
		return r.code == 404
	}
	within := func(what string, ok func() bool) {
		t.Helper()
		began := time.Now()
		w.until(what, ok)
		if took := time.Since(began); took > time.Minute { // make chaos holds the program to a second
			t.Errorf("%s after %v only", what, took)
		}
	}

	made := read[client.Resource[schemas.Key]](a.do("PUT", "/v1/keys/shop", `{"tenant":"acme","scopes":["send","read"],"prefer":"wait=1",`+rates+`}`, admin), 201)
	if test, ok := schemas.IsSecret(made.Secret); !ok || test || made.Value.Name != "shop" || made.Value.Hash != "" {
		t.Fatalf("secret of %d bytes, %+v", len(made.Secret), made.Value)
	}
	if !good(a, made.Secret) {
		t.Error("the new key is not taken where it was made")
	}
	within("taken elsewhere", func() bool { return good(b, made.Secret) })
	// A PUT without a hash keeps the secret.
	kept := read[client.Resource[schemas.Key]](a.do("PUT", "/v1/keys/shop", `{"tenant":"acme","scopes":["read"],`+rates+`}`, admin, "If-Match: "+made.ETag), 200)
	if kept.Secret != "" || !good(a, made.Secret) {
		t.Errorf("secret of %d bytes", len(kept.Secret))
	}

	rotated := read[client.Resource[schemas.Key]](a.do("POST", "/v1/keys/shop/rotate", `{"overlap":"5s"}`, admin), 200)
	if _, ok := schemas.IsSecret(rotated.Secret); !ok || rotated.Secret == made.Secret || rotated.Value.Previous == nil || rotated.Value.Previous.Hash != "" || rotated.ETag == kept.ETag {
		t.Fatalf("%+v", rotated.Value)
	}
	within("the new one is taken elsewhere", func() bool { return good(b, rotated.Secret) })
	if !good(a, rotated.Secret) || !good(a, made.Secret) || !good(b, made.Secret) {
		t.Error("not both are good during the overlap")
	}
	// What is read in the overlap can be written back, and keeps both.
	got := a.do("GET", "/v1/keys/shop", "", admin)
	value := read[client.RawResource](got, 200).Value
	if same := read[client.RawResource](a.do("PUT", "/v1/keys/shop", string(value), admin), 200); same.ETag != rotated.ETag || len(same.Changes) != 0 {
		t.Errorf("%+v", same)
	}
	if time.Until(rotated.Value.Previous.ExpiresAt.Time()) > 0 && !good(a, made.Secret) {
		t.Error("the secret before ended early")
	}
	w.until("the secret before is good no more", func() bool { return !good(a, made.Secret) && !good(b, made.Secret) })
	if time.Now().Before(rotated.Value.Previous.ExpiresAt.Time()) {
		t.Error("the secret before ended early")
	}
	if !good(a, rotated.Secret) || !good(b, rotated.Secret) {
		t.Error("the new one ended with it")
	}
	// Without an overlap the one before ends at once.
	third := read[client.RawResource](a.do("POST", "/v1/keys/shop/rotate", `{"overlap":"0s"}`, admin), 200)
	if good(a, rotated.Secret) || !good(a, third.Secret) {
		t.Error("a rotation without an overlap left the one before")
	}
	within("ended elsewhere", func() bool { return !good(b, rotated.Secret) && good(b, third.Secret) })

	if r := a.do("DELETE", "/v1/keys/shop", "", admin); r.code != 204 {
		t.Fatalf("%d %s", r.code, r.body)
	}
	if good(a, third.Secret) {
		t.Error("revoked, and taken where it was revoked")
	}
	within("revoked elsewhere", func() bool { return !good(b, third.Secret) })

	test := read[client.RawResource](a.do("PUT", "/v1/keys/ci", `{"tenant":"acme","scopes":["read"],"test":true}`, admin), 201)
	again := read[client.RawResource](a.do("POST", "/v1/keys/ci/rotate", "", admin), 200)
	for _, secret := range []string{test.Secret, again.Secret} {
		if isTest, ok := schemas.IsSecret(secret); !ok || !isTest {
			t.Errorf("a test key's secret begins with %q", secret[:min(len(secret), 10)])
		}
	}

	a.do("GET", "/v1/keys", "", admin)
	a.do("GET", "/v1/revisions", "", admin)
	a.do("GET", "/v1/revisions/3", "", admin)
	if strings.Contains(a.text.String(), "sha256:") {
		t.Error("an answer has a hash")
	}
	for _, secret := range []string{made.Secret, rotated.Secret, third.Secret, test.Secret, again.Secret} {
		if n := strings.Count(a.text.String(), secret); n != 1 {
			t.Errorf("a secret is in %d answers", n)
		}
		if log := w.log.String(); strings.Contains(log, secret) || strings.Contains(log, schemas.HashSecret(secret)) {
			t.Errorf("the log has a secret or its hash:\n%s", log)
		}
	}
	if strings.Contains(w.log.String(), "sha256:") {
		t.Error("the log has a hash")
	}
}

func TestTheLastAdminKeyStays(t *testing.T) {
	w := newWorld(t, settings{policy: keyedPolicy, keys: true}) // admin, and old which has ended
	admin := "Authorization: Bearer " + adminKey
	const demoted = `{"tenant":"acme","scopes":["read"]}`
	for _, query := range []string{"", "?dry_run=true"} {
		w.do("DELETE", "/v1/keys/admin"+query, "", admin).problem(409, "last_admin_key")
		w.do("PUT", "/v1/keys/admin"+query, demoted, admin).problem(409, "last_admin_key")
	}
	second := read[client.RawResource](w.do("PUT", "/v1/keys/second", `{"tenant":"acme","scopes":["admin"]}`, admin), 201)
	if r := w.do("PUT", "/v1/keys/admin", demoted, admin); r.code != 200 {
		t.Errorf("%d %s", r.code, r.body)
	}
	w.do("GET", "/v1/keys", "", admin).problem(403, "forbidden_scope")
	admin = "Authorization: Bearer " + second.Secret
	w.do("DELETE", "/v1/keys/second", "", admin).problem(409, "last_admin_key")
	w.do("DELETE", "/v1/keys/second?force=maybe", "", admin).problem(400, "invalid_request")
	if r := w.do("DELETE", "/v1/keys/second?force=true", "", admin); r.code != 204 {
		t.Errorf("%d %s", r.code, r.body)
	}
	w.do("GET", "/v1/keys", "", admin).problem(401, "unauthenticated")
}

// Where no key is asked for nobody can lock himself out.
func TestKeysWithoutKeys(t *testing.T) {
	w := newWorld(t, settings{policy: keyedPolicy})
	if r := w.do("DELETE", "/v1/keys/admin", ""); r.code != 204 {
		t.Errorf("%d %s", r.code, r.body)
	}
}

// Only the scope admin reaches the policy.
func TestResourcesNeedAdmin(t *testing.T) {
	w := newWorld(t, settings{policy: keyedPolicy, keys: true})
	for _, rt := range w.srv.resourceRoutes() {
		path := strings.NewReplacer("{name}", "acme", "{revision}", "1").Replace(rt.path)
		if p := w.do(rt.method, path, `{}`, "Authorization: Bearer "+acmeKey).problem(403, "forbidden_scope"); p.Current != nil {
			t.Errorf("%s %s tells %+v", rt.method, rt.path, p)
		}
		w.do(rt.method, path, `{}`).problem(401, "unauthenticated")
	}
}
