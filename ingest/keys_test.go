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
	within("ended elsewhere", func() bool { return good(b, third.Secret) && !good(b, rotated.Secret) }) // in this order: bad keys are counted

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
	const demoted = `{"tenant":"default","scopes":["read"]}`
	for _, query := range []string{"", "?dry_run=true"} {
		w.do("DELETE", "/v1/keys/admin"+query, "", admin).problem(409, "last_admin_key")
		w.do("PUT", "/v1/keys/admin"+query, demoted, admin).problem(409, "last_admin_key")
	}
	second := read[client.RawResource](w.do("PUT", "/v1/keys/second", `{"tenant":"default","scopes":["admin"]}`, admin), 201)
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

// TestReferencesOverHTTP: whoever edits the policy over HTTP reads no file and no
// variable of the host, and does not learn which there are.
func TestReferencesOverHTTP(t *testing.T) {
	w := newWorld(t, settings{server: func(s *Server) { s.secrets.Dir = "/run/secrets" }})
	provider := func(value string) string {
		return `{"type":"http","channels":["sms"],"settings":{"url":"https://example.com/","headers":{"X-Key":"` + value + `"}}}`
	}
	details := make(map[string]bool)
	for _, value := range []string{"file:/etc/passwd", "file:/etc/there-is-none", "file:/run/secrets/../../etc/passwd", "${HOME}", "${THERE_IS_NONE}"} {
		for _, query := range []string{"", "?dry_run=true"} {
			p := w.do("PUT", "/v1/providers/leak"+query, provider(value)).problem(403, "forbidden_reference")
			details[strings.ReplaceAll(p.Errors[0].Detail, value, "")] = true
		}
	}
	if len(details) != 2 {
		t.Errorf("the answers tell references apart: %v", details)
	}
	w.do("PUT", "/v1/alerts/leak", `{"to":{"type":"webhook","url":"https://example.com/${HOME}"},"when":["breaker.open"]}`).problem(403, "forbidden_reference")
	w.do("PUT", "/v1/tenants/leak", `{"callback":{"url":"https://example.com/","secret":"${HOME}"}}`).problem(403, "forbidden_reference")
	if r := w.do("PUT", "/v1/providers/mine", provider("file:/run/secrets/key")); r.code != 201 {
		t.Errorf("%d %s", r.code, r.body)
	}
}

// TestScopesOfThePolicy: each scope does its own, admin all three, and no key makes,
// changes or rotates one that may do more. It may revoke one.
func TestScopesOfThePolicy(t *testing.T) {
	w := newWorld(t, settings{policy: keyedPolicy, keys: true})
	admin := "Authorization: Bearer " + adminKey
	make := func(name, body string) string {
		t.Helper()
		return "Authorization: Bearer " + read[client.RawResource](w.do("PUT", "/v1/keys/"+name, body, admin), 201).Secret
	}
	of := map[string]string{"admin": admin}
	for _, s := range []string{"policy", "keys", "operate"} {
		of[s] = make(s, `{"tenant":"default","scopes":["`+s+`"]}`)
	}
	for path, scope := range map[string]string{"/v1/limits": "policy", "/v1/revisions": "policy", "/v1/keys": "keys", "/v1/health": "operate", "/v1/delays": "operate"} {
		for who, key := range of {
			r := w.do("GET", path, "", key)
			if may := who == scope || who == "admin"; may && r.code == 403 || !may && r.code != 403 {
				t.Errorf("GET %s with %s: %d", path, who, r.code)
			}
		}
	}
	for _, tt := range []struct{ method, path, body string }{
		{"PUT", "/v1/keys/more", `{"tenant":"default","scopes":["keys","policy"]}`},
		{"PUT", "/v1/keys/more", `{"tenant":"default","scopes":["admin"]}`},
		{"PUT", "/v1/keys/more", `{"tenant":"acme","scopes":["send"]}`},
		{"PUT", "/v1/keys/admin", `{"tenant":"default","scopes":["keys","read"]}`},
		{"POST", "/v1/keys/admin/rotate", ""},
		{"POST", "/v1/keys/acme/rotate", ""},
	} {
		w.do(tt.method, tt.path, tt.body, of["keys"]).problem(403, "forbidden_scope")
	}
	if r := w.do("PUT", "/v1/keys/same", `{"tenant":"acme","scopes":["keys"]}`, of["keys"]); r.code != 201 {
		t.Errorf("%d %s", r.code, r.body)
	}
	if r := w.do("DELETE", "/v1/keys/policy", "", of["keys"]); r.code != 204 {
		t.Errorf("%d %s", r.code, r.body)
	}
	soon := make("soon", `{"tenant":"default","scopes":["keys"],"expires_at":"2098-01-01T00:00:00Z"}`)
	for body, code := range map[string]int{
		`{"tenant":"default","scopes":["keys"]}`:                                     403,
		`{"tenant":"default","scopes":["keys"],"expires_at":"2099-01-01T00:00:00Z"}`: 403,
		`{"tenant":"default","scopes":["keys"],"expires_at":"2097-01-01T00:00:00Z"}`: 201,
	} {
		if r := w.do("PUT", "/v1/keys/later", body, soon); r.code != code {
			t.Errorf("%s: %d, want %d: %s", body, r.code, code, r.body)
		}
	}
	// A test key makes test keys.
	trial := make("trial", `{"tenant":"default","scopes":["keys"],"test":true}`)
	w.do("PUT", "/v1/keys/live", `{"tenant":"default","scopes":["keys"]}`, trial).problem(403, "forbidden_scope")
}

// TestTotalRatesAreTheOperators: a tenant's key neither removes nor raises what bounds its tenant.
func TestTotalRatesAreTheOperators(t *testing.T) {
	w := newWorld(t, settings{keys: true, policy: keyedPolicy})
	admin := "Authorization: Bearer " + adminKey
	w.do("PUT", "/v1/keys/boss", `{"tenant":"acme","scopes":["policy"]}`, admin)
	boss := "Authorization: Bearer " + read[client.RawResource](w.do("POST", "/v1/keys/boss/rotate", "", admin), 200).Secret
	const bound = `{"default_region":"CN","total_rates":{"write":"10/1s"}}`
	if r := w.do("PUT", "/v1/tenants/acme", bound, admin); r.code != 200 {
		t.Fatalf("%d %s", r.code, r.body)
	}
	for body, code := range map[string]int{
		`{"default_region":"CN"}`:                                                403,
		`{"default_region":"CN","total_rates":{"write":"1000/1s"}}`:              403,
		`{"default_region":"CN","total_rates":{"write":"10/1s","batch":"1/1s"}}`: 403,
		`{"default_region":"US","total_rates":{"write":"10/1s"}}`:                200,
	} {
		if r := w.do("PUT", "/v1/tenants/acme", body, boss); r.code != code {
			t.Errorf("%s: %d, want %d: %s", body, r.code, code, r.body)
		}
	}
}

// TestUnavailableIsTheOperators: a tenant's key frees no other from the limits while Kafka
// is away, but where it is free of them itself.
func TestUnavailableIsTheOperators(t *testing.T) {
	w := newWorld(t, settings{keys: true, policy: keyedPolicy})
	admin := "Authorization: Bearer " + adminKey
	secret := func(name, body string) string {
		w.do("PUT", "/v1/keys/"+name, body, admin)
		return "Authorization: Bearer " + read[client.RawResource](w.do("POST", "/v1/keys/"+name+"/rotate", "", admin), 200).Secret
	}
	bound := secret("bound", `{"tenant":"acme","scopes":["keys","send"]}`)
	free := secret("free", `{"tenant":"acme","scopes":["keys","send"],"on_unavailable":"allow"}`)
	const other = `{"tenant":"acme","scopes":["send"],"on_unavailable":"allow"}`
	w.do("PUT", "/v1/keys/gate", other, bound).problem(403, "forbidden_scope")
	if r := w.do("PUT", "/v1/keys/gate", other, free); r.code != 201 {
		t.Errorf("%d %s", r.code, r.body)
	}
}

// TestShareOfThePolicy: a tenant's key with the scopes policy and keys makes the tenant's
// own entries no larger than its policy_bytes, which it cannot change. Rotations and the
// edits of others go on.
func TestShareOfThePolicy(t *testing.T) {
	w := newWorld(t, settings{keys: true, policy: keyedPolicy})
	admin := "Authorization: Bearer " + adminKey
	of := func(tenant string) string {
		w.do("PUT", "/v1/keys/boss-"+tenant, `{"tenant":"`+tenant+`","scopes":["policy","keys"]}`, admin)
		return "Authorization: Bearer " + read[client.RawResource](w.do("POST", "/v1/keys/boss-"+tenant+"/rotate", "", admin), 200).Secret
	}
	boss, other := of("acme"), of("other")
	if r := w.do("PUT", "/v1/tenants/acme", `{"default_region":"CN","policy_bytes":4000}`, admin); r.code != 200 {
		t.Fatalf("%d %s", r.code, r.body)
	}
	limit := func(tenant, metadata string) string {
		return `{"match":{"tenant":"` + tenant + `","metadata.x":"` + metadata + `"},"per":["recipient"],"allow":["1/1h"]}`
	}
	large := limit("acme", strings.Repeat("x", 4000))
	for _, query := range []string{"", "?dry_run=true"} {
		p := w.do("PUT", "/v1/limits/large"+query, large, boss).problem(409, "policy_share")
		if len(p.Errors) != 1 || !strings.Contains(p.Errors[0].Detail, "at most 4000; that is its policy_bytes") {
			t.Errorf("%+v", p)
		}
	}
	for _, tt := range []struct {
		who, method, path, body, key string
		code                         int
	}{
		{"a tenant raises its share", "PUT", "/v1/tenants/acme", `{"default_region":"CN","policy_bytes":400000}`, boss, 403},
		{"a tenant takes the default", "PUT", "/v1/tenants/acme", `{"default_region":"CN"}`, boss, 403},
		{"a tenant removes itself", "DELETE", "/v1/tenants/acme", ``, boss, 409},
		{"a smaller limit", "PUT", "/v1/limits/small", limit("acme", "x"), boss, 201},
		{"another tenant's", "PUT", "/v1/limits/theirs", limit("other", strings.Repeat("x", 4000)), other, 201},
		{"the operator's", "PUT", "/v1/limits/large", large, admin, 201},
		{"a tenant beyond its share adds", "PUT", "/v1/limits/more", limit("acme", "y"), boss, 409},
		{"a tenant beyond its share makes a key", "PUT", "/v1/keys/more", `{"tenant":"acme","scopes":["policy"]}`, boss, 409},
		{"a tenant beyond its share rotates", "POST", "/v1/keys/boss-acme/rotate", ``, boss, 200},
		{"a tenant beyond its share removes", "DELETE", "/v1/limits/small", ``, boss, 204},
	} {
		if r := w.do(tt.method, tt.path, tt.body, tt.key); r.code != tt.code {
			t.Errorf("%s: %d, want %d: %s", tt.who, r.code, tt.code, r.body)
		}
	}
}

// TestTenantsKeyEditsItsTenantOnly: it does not see the entries of other tenants, and
// changes none that concern another tenant, not by their order either.
func TestTenantsKeyEditsItsTenantOnly(t *testing.T) {
	w := newWorld(t, settings{keys: true, server: func(s *Server) { s.secrets.EnvPrefix = "WEIR_SECRET_" }, policy: keyedPolicy + `limits:
  - {name: all, per: [recipient], allow: [1/1h]}
  - {name: mine, match: {tenant: acme}, per: [recipient], allow: [1/1h]}
  - {name: both, match: {tenant: [acme, other]}, per: [recipient], allow: [1/1h]}
  - {name: theirs, match: {tenant: other}, per: [recipient], allow: [1/1h]}
alerts:
  - {name: page, to: {type: webhook, url: "https://example.com/"}, when: [lag]}
inputs:
  - {topic: acme.in, tenant: acme}
  - {topic: other.in, tenant: other}
`})
	admin := "Authorization: Bearer " + adminKey
	w.do("PUT", "/v1/keys/boss", `{"tenant":"acme","scopes":["send","read","admin"]}`, admin)
	r := read[client.RawResource](w.do("POST", "/v1/keys/boss/rotate", "", admin), 200)
	boss := "Authorization: Bearer " + r.Secret

	for path, want := range map[string]string{"/v1/limits": "all mine both", "/v1/tenants": "acme", "/v1/keys": "acme acme-test reader boss", "/v1/providers": "sim", "/v1/alerts": ""} {
		list := read[client.ResourceList[struct{ Name string }]](w.do("GET", path, "", boss), 200)
		var names []string
		for _, v := range list.Items {
			names = append(names, v.Value.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	limit := func(tenant string) string { return `{` + tenant + `"per":["recipient"],"allow":["2/1h"]}` }
	for _, tt := range []struct {
		method, path, body string
		code               int
	}{
		{"GET", "/v1/limits/theirs", "", 404},
		{"GET", "/v1/keys/other", "", 404},
		{"DELETE", "/v1/limits/theirs", "", 404},
		{"DELETE", "/v1/keys/other", "", 404},
		{"POST", "/v1/keys/other/rotate", "", 404},
		{"POST", "/v1/keys/admin/rotate", "", 404},
		{"PUT", "/v1/limits/theirs", limit(`"match":{"tenant":["acme"]},`), 403},
		{"PUT", "/v1/limits/all", limit(`"match":{"tenant":["acme"]},`), 403},
		{"PUT", "/v1/limits/both", limit(`"match":{"tenant":["acme"]},`), 403},
		{"PUT", "/v1/limits/mine", limit(""), 403},
		{"PUT", "/v1/limits/new", limit(`"match":{"tenant":["other"]},`), 403},
		{"PUT", "/v1/limits/all?before=mine", `{"per":["recipient"],"allow":["1/1h"]}`, 200}, // it is there already
		{"PUT", "/v1/limits/both?before=all", `{"match":{"tenant":["acme","other"]},"per":["recipient"],"allow":["1/1h"]}`, 403},
		{"PUT", "/v1/alerts/page", `{"to":{"type":"webhook","url":"https://example.com/"},"when":["lag"]}`, 403},
		{"GET", "/v1/alerts/page", "", 404},
		{"GET", "/v1/inputs/acme.in", "", 200},
		{"GET", "/v1/inputs/other.in", "", 404},
		{"DELETE", "/v1/inputs/acme.in", "", 403},
		{"PUT", "/v1/tenants/acme", `{"default_region":"GB","callback":{"url":"https://example.com/${WEIR_SECRET_OTHER}","secret":"${WEIR_SECRET_OTHER}"}}`, 403},
		{"DELETE", "/v1/limits/all", "", 403},
		{"PUT", "/v1/providers/sim", `{"type":"simulated","channels":["sms"]}`, 403},
		{"PUT", "/v1/classes/new", `{}`, 403},
		{"PUT", "/v1/inputs/topic", `{"tenant":"acme"}`, 403},
		{"PUT", "/v1/tenants/new", `{}`, 403},
		{"PUT", "/v1/tenants/other", `{}`, 403},
		{"PUT", "/v1/keys/new", `{"tenant":"other","scopes":["send"]}`, 403},
		{"PUT", "/v1/keys/new", `{"tenant":"default","scopes":["send"]}`, 403},
		{"GET", "/v1/revisions", "", 403},
		{"GET", "/v1/revisions/1", "", 403},
		{"GET", "/v1/delays", "", 403},
		{"GET", "/v1/health", "", 403},
		{"GET", "/v1/proof", "", 403},
		{"POST", "/v1/limits/try", `{}`, 403},
		{"GET", "/api/rate-limits", "", 403},
		{"PUT", "/v1/limits/mine", limit(`"match":{"tenant":["acme"]},`), 200},
		{"PUT", "/v1/limits/more?before=all", limit(`"match":{"tenant":["acme"]},`), 201},
		{"PUT", "/v1/tenants/acme", `{"default_region":"GB"}`, 200},
		{"PUT", "/v1/keys/new", `{"tenant":"acme","scopes":["send","policy"]}`, 201},
		{"POST", "/v1/keys/new/rotate", "", 200},
		{"DELETE", "/v1/keys/new", "", 204},
	} {
		if r := w.do(tt.method, tt.path, tt.body, boss); r.code != tt.code {
			t.Errorf("%s %s %s: %d, want %d: %s", tt.method, tt.path, tt.body, r.code, tt.code, r.body)
		}
	}
}
