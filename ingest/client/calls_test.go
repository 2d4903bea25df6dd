package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// calls is every call with what it sends; the idempotency key is written KEY.
var calls = []struct {
	name   string
	call   func(context.Context, *client.Client) error
	sends  string // method, path and query, the headers that matter, body
	answer string
}{
	{"send", func(ctx context.Context, c *client.Client) error { _, err := c.Send(ctx, message); return err },
		`POST /v1/messages Content-Type=application/json {"channel":"sms","to":"+8613800000000","body":"code 1","idempotency_key":"KEY"}`, `{}`},
	{"send with a key", func(ctx context.Context, c *client.Client) error {
		own := *message
		own.IdempotencyKey = "order-17"
		_, err := c.Send(ctx, &own)
		return err
	}, `POST /v1/messages Content-Type=application/json {"channel":"sms","to":"+8613800000000","body":"code 1","idempotency_key":"order-17"}`, `{}`},
	{"send and wait", func(ctx context.Context, c *client.Client) error {
		s, err := c.SendAndWait(ctx, message, 1001*time.Millisecond)
		if err == nil && (s.Status != schemas.StatusQueued || len(s.Limits) != 1 || s.Limits[0].Remaining != 4 || s.Limits[0].Reset != 1000) {
			err = fmt.Errorf("%+v", s)
		}
		return err
	}, `POST /v1/messages Content-Type=application/json Prefer=wait=2 {"channel":"sms","to":"+8613800000000","body":"code 1","idempotency_key":"KEY"}`,
		`{"id":"x","status":"queued","limits":[{"limit":"verify","window":"5/1h","n":5,"remaining":4,"reset":"1970-01-01T00:00:01.000Z"}]}`},
	{"decide", func(ctx context.Context, c *client.Client) error { _, err := c.Decide(ctx, message); return err },
		`POST /v1/decisions Content-Type=application/json {"channel":"sms","to":"+8613800000000","body":"code 1","idempotency_key":"KEY"}`, `{}`},
	{"release", func(ctx context.Context, c *client.Client) error {
		d, err := c.Release(ctx, "x", client.Recipient{To: "+86138", Channel: "voice"})
		if err == nil && d.Outcome != "released" {
			err = fmt.Errorf("%+v", d)
		}
		return err
	}, `POST /v1/decisions/x/release?channel=voice&to=%2B86138 `, `{"id":"x","status":"accepted","outcome":"released"}`},
	{"cancel", func(ctx context.Context, c *client.Client) error {
		_, err := c.Cancel(ctx, "x/y", client.Recipient{})
		return err
	},
		`POST /v1/messages/x%2Fy/cancel `, `{}`},
	{"retry", func(ctx context.Context, c *client.Client) error {
		s, err := c.Retry(ctx, "x")
		if err == nil && s.ID != "y" {
			err = fmt.Errorf("%+v", s)
		}
		return err
	}, `POST /v1/messages/x/retry `, `{"id":"y","status":"accepted"}`},
	{"callbacks", func(ctx context.Context, c *client.Client) error {
		r, err := c.Callbacks(ctx, "x")
		if err == nil && r.Statuses != 3 {
			err = fmt.Errorf("%+v", r)
		}
		return err
	}, `POST /v1/messages/x/callbacks `, `{"id":"x","statuses":3}`},
	{"get", func(ctx context.Context, c *client.Client) error { _, err := c.Get(ctx, "x"); return err },
		`GET /v1/messages/x `, `{}`},
	{"get one of several", func(ctx context.Context, c *client.Client) error {
		_, err := c.Get(ctx, "x", client.Recipient{To: "+86138"})
		return err
	}, `GET /v1/messages/x?to=%2B86138 `, `{}`},
	{"list", func(ctx context.Context, c *client.Client) error {
		p, err := c.List(ctx, client.MessageQuery{To: "+86138", Status: []schemas.Status{"sent", "failed"}, Class: "verify", From: 1000, Until: 2000, Limit: 3, Cursor: "c"})
		if err == nil && (len(p.Messages) != 1 || p.NextCursor != "d") {
			err = fmt.Errorf("%+v", p)
		}
		return err
	}, `GET /v1/messages?class=verify&cursor=c&from=1970-01-01T00%3A00%3A01.000Z&limit=3&status=sent%2Cfailed&to=%2B86138&until=1970-01-01T00%3A00%3A02.000Z `,
		`{"messages":[{"id":"x","timeline":[]}],"next_cursor":"d"}`},
	{"quota", func(ctx context.Context, c *client.Client) error {
		_, err := c.Quota(ctx, client.QuotaQuery{To: "+86138", Channel: "sms", Class: "verify", Metadata: map[string]string{"ip": "::1"}})
		return err
	}, `GET /v1/quota?channel=sms&class=verify&metadata.ip=%3A%3A1&to=%2B86138 `, `{"limits":[]}`},
	{"stats", func(ctx context.Context, c *client.Client) error {
		_, err := c.Stats(ctx, client.StatsQuery{From: 1000, Channel: "sms", By: []string{"class", "provider"}, Days: 7, Latency: new(bool)})
		return err
	}, `GET /v1/stats?by=class%2Cprovider&channel=sms&days=7&from=1970-01-01T00%3A00%3A01.000Z&latency=false `, `{}`},
	{"errors", func(ctx context.Context, c *client.Client) error {
		a, err := c.Errors(ctx, client.ErrorsQuery{From: 1000, Until: 2000, Provider: "aliyun", Class: "verify"})
		if err == nil && (len(a.Errors) != 1 || a.Errors[0].ErrorCode != "21610" || a.Errors[0].Events != 3) {
			err = fmt.Errorf("%+v", a)
		}
		return err
	}, `GET /v1/stats/errors?class=verify&from=1970-01-01T00%3A00%3A01.000Z&provider=aliyun&until=1970-01-01T00%3A00%3A02.000Z `, `{"errors":[{"provider":"aliyun","error_code":"21610","example":"e","events":3}]}`},
	{"refused", func(ctx context.Context, c *client.Client) error {
		a, err := c.Refused(ctx, client.RefusedQuery{From: 1000, Class: "verify", Limit: 5})
		if err == nil && (len(a.Recipients) != 1 || a.Recipients[0].LastAt != 1000 || a.Recipients[0].Limit != "verify") {
			err = fmt.Errorf("%+v", a)
		}
		return err
	}, `GET /v1/stats/recipients?class=verify&from=1970-01-01T00%3A00%3A01.000Z&limit=5 `, `{"recipients":[{"to":"+86…","refused":3,"last_at":"1970-01-01T00:00:01.000Z","limit":"verify"}]}`},
	{"health", func(ctx context.Context, c *client.Client) error {
		a, err := c.ProvidersHealth(ctx)
		if err == nil && (len(a.Providers) != 1 || a.Providers[0].Share != 0.25 || a.Providers[0].Lanes[0].Breaker != schemas.BreakerOpen) {
			err = fmt.Errorf("%+v", a)
		}
		return err
	}, `GET /v1/health `, `{"providers":[{"name":"aliyun","share":0.25,"lanes":[{"lane":0,"breaker":"open"}]}]}`},
	{"proof", func(ctx context.Context, c *client.Client) error {
		a, err := c.Proof(ctx)
		if err == nil && (a.Audit == nil || a.Audit.Audit.Outcome != schemas.AuditProven || len(a.Sinks) != 1 || a.StatusLag != 40) {
			err = fmt.Errorf("%+v", a)
		}
		return err
	}, `GET /v1/proof `, `{"audit":{"at":"1970-01-01T00:00:01.000Z","by":"me","audit":{"outcome":"proven"}},"sinks":[{"sink":{"rows":3}}],"status_lag_ms":40}`},
	{"delays", func(ctx context.Context, c *client.Client) error {
		a, err := c.Delays(ctx)
		if err == nil && (len(a.Tiers) != 1 || a.Tiers[0].Wait != 1000 || a.Tiers[0].OldestAt != 1000) {
			err = fmt.Errorf("%+v", a)
		}
		return err
	}, `GET /v1/delays `, `{"tiers":[{"name":"1s","wait_ms":1000,"waiting":2,"oldest_at":"1970-01-01T00:00:01.000Z"}]}`},
	{"backlog", func(ctx context.Context, c *client.Client) error {
		a, err := c.Backlog(ctx)
		if err == nil && (a.Waiting != 410_000 || len(a.Queues) != 1 || *a.Queues[0].PerMinute != 1200 || a.Queues[0].Drain != 90_000 || len(a.Stalled) != 1) {
			err = fmt.Errorf("%+v", a)
		}
		return err
	}, `GET /v1/backlog `, `{"at":"1970-01-01T00:00:01.000Z","waiting":410000,"queues":[{"stage":"lanes","provider":"p","queue":"normal","waiting":410000,"per_minute":1200,"drain_ms":90000}],"stalled":["q"]}`},
	{"try limits", func(ctx context.Context, c *client.Client) error {
		a, err := c.TryLimits(ctx, client.LimitTry{Since: schemas.Duration(24 * time.Hour), Remove: []string{"old"}, Limits: []schemas.Limit{{Name: "verify", Per: []string{"recipient"}, Allow: []schemas.Window{{Kind: schemas.WindowRolling, N: 5, Length: time.Hour}}}}})
		if err == nil && (a.NewlyRefused != 7 || a.ByLimit[0].Now != 9) {
			err = fmt.Errorf("%+v", a)
		}
		return err
	}, `POST /v1/limits/try Content-Type=application/json {"limits":[{"name":"verify","per":["recipient"],"allow":["5/1h"]}],"remove":["old"],"since":"24h"}`, `{"newly_refused":7,"by_limit":[{"limit":"verify","now":9}]}`},
	{"suppressions", func(ctx context.Context, c *client.Client) error {
		a, err := c.Suppressions(ctx, client.SuppressionQuery{To: "+86138", Channel: "sms", Class: "ads", Reason: "stop", Tenant: "acme", Limit: 5, Cursor: "c"})
		if err == nil && (len(a.Suppressions) != 1 || a.Suppressions[0].ExpiresAt != 1000 || a.NextCursor != "d") {
			err = fmt.Errorf("%+v", a)
		}
		return err
	}, `GET /v1/suppressions?channel=sms&class=ads&cursor=c&limit=5&reason=stop&tenant=acme&to=%2B86138 `, `{"suppressions":[{"to":"+86138","at":"1970-01-01T00:00:00.000Z","expires_at":"1970-01-01T00:00:01.000Z"}],"next_cursor":"d"}`},
	{"suppress", func(ctx context.Context, c *client.Client) error {
		a, err := c.Suppress(ctx, client.SuppressRequest{To: "+86138", Channel: "sms", Class: "ads", ExpiresAt: 1000, Reason: "asked"})
		if err == nil && (a.To != "+86138" || a.Outcome != "suppress") {
			err = fmt.Errorf("%+v", a)
		}
		return err
	}, `PUT /v1/suppressions Content-Type=application/json {"to":"+86138","channel":"sms","class":"ads","expires_at":"1970-01-01T00:00:01.000Z","reason":"asked"}`, `{"to":"+86138","status":"accepted","outcome":"suppress"}`},
	{"unsuppress", func(ctx context.Context, c *client.Client) error {
		_, err := c.Unsuppress(ctx, client.SuppressionQuery{To: "+86138", Class: "ads"})
		return err
	}, `DELETE /v1/suppressions?class=ads&to=%2B86138 `, `{"to":"+86138","status":"accepted","outcome":"not_suppressed"}`},
	{"import suppressions", func(ctx context.Context, c *client.Client) error {
		a, err := c.ImportSuppressions(ctx, []byte("to\n+86138\n"), true)
		if err == nil && (a.Accepted != 1 || a.Results[0].Line != 2) {
			err = fmt.Errorf("%+v", a)
		}
		return err
	}, "POST /v1/suppressions/import?dry_run=true Content-Type=text/csv to\n+86138\n", `{"accepted":1,"refused":0,"dry_run":true,"results":[{"line":2,"status":"valid"}]}`},
	{"dead letters", func(ctx context.Context, c *client.Client) error {
		_, err := c.DeadLetters(ctx, client.DeadLetterQuery{Provider: "aliyun", Oldest: true, Limit: 5})
		return err
	}, `GET /v1/dlq?limit=5&order=oldest&provider=aliyun `, `{"entries":[]}`},
	{"redrive", func(ctx context.Context, c *client.Client) error {
		_, err := c.Redrive(ctx, client.RedriveRequest{Provider: "aliyun", DryRun: true})
		return err
	}, `POST /v1/dlq/redrive Content-Type=application/json {"provider":"aliyun","dry_run":true}`, `{}`},
	{"revisions", func(ctx context.Context, c *client.Client) error { _, err := c.Revisions(ctx, "c", 5); return err },
		`GET /v1/revisions?cursor=c&limit=5 `, `{"revisions":[]}`},
	{"revision", func(ctx context.Context, c *client.Client) error {
		r, err := c.Revision(ctx, 3)
		if err == nil && (r.Revision != 3 || r.Policy.Limits[0].Name != "verify") {
			err = fmt.Errorf("%+v", r)
		}
		return err
	}, `GET /v1/revisions/3 `, `{"revision":3,"policy":{"limits":[{"name":"verify","per":[],"allow":["1/60s"]}]}}`},
	{"rollback", func(ctx context.Context, c *client.Client) error {
		r, err := c.Rollback(ctx, 3, client.Change{DryRun: true, Loss: true})
		if err == nil && (r.Revision != 5 || !r.DryRun || len(r.Changes) != 1) {
			err = fmt.Errorf("%+v", r)
		}
		return err
	}, `POST /v1/revisions/3/rollback?accept_loss=true&dry_run=true `, `{"revision":5,"dry_run":true,"changes":[{"op":"add","kind":"class","name":"c"}]}`},
	{"get a limit", func(ctx context.Context, c *client.Client) error {
		l, err := c.Limits().Get(ctx, "verify")
		if err == nil && (l.ETag != `"3"` || l.Revision != 3 || l.Value.Allow[0].N != 5) {
			err = fmt.Errorf("%+v", l)
		}
		return err
	}, `GET /v1/limits/verify `, `{"etag":"\"3\"","revision":3,"value":{"name":"verify","per":["recipient"],"allow":["5/1h"]}}`},
	{"put a limit", func(ctx context.Context, c *client.Client) error {
		_, err := c.Limits().Put(ctx, "verify", schemas.Limit{Name: "verify", Per: []string{"recipient"}, Allow: []schemas.Window{{Kind: schemas.WindowRolling, N: 5, Length: time.Hour}}}, client.Change{IfMatch: `"3"`, DryRun: true, Before: "notice"})
		return err
	}, `PUT /v1/limits/verify?before=notice&dry_run=true Content-Type=application/json If-Match="3" {"name":"verify","per":["recipient"],"allow":["5/1h"]}`, `{}`},
	{"put one only where there is none", func(ctx context.Context, c *client.Client) error {
		_, err := c.Tenants().Put(ctx, "acme", schemas.Tenant{Name: "acme"}, client.Change{IfNone: true})
		return err
	}, `PUT /v1/tenants/acme Content-Type=application/json If-None-Match=* {"name":"acme"}`, `{}`},
	{"delete a limit", func(ctx context.Context, c *client.Client) error {
		return c.Limits().Delete(ctx, "verify", client.Change{IfMatch: `"3"`})
	}, `DELETE /v1/limits/verify If-Match="3" `, ``},
	{"limits", func(ctx context.Context, c *client.Client) error { _, err := c.Limits().List(ctx); return err },
		`GET /v1/limits `, `{"items":[]}`},
	{"providers", func(ctx context.Context, c *client.Client) error { _, err := c.Providers().List(ctx); return err },
		`GET /v1/providers `, `{"items":[]}`},
	{"routes", func(ctx context.Context, c *client.Client) error { _, err := c.Routes().List(ctx); return err },
		`GET /v1/routes `, `{"items":[]}`},
	{"templates", func(ctx context.Context, c *client.Client) error { _, err := c.Templates().List(ctx); return err },
		`GET /v1/templates `, `{"items":[]}`},
	{"classes", func(ctx context.Context, c *client.Client) error { _, err := c.Classes().List(ctx); return err },
		`GET /v1/classes `, `{"items":[]}`},
	{"tenants", func(ctx context.Context, c *client.Client) error { _, err := c.Tenants().List(ctx); return err },
		`GET /v1/tenants `, `{"items":[]}`},
	{"keys", func(ctx context.Context, c *client.Client) error { _, err := c.Keys().List(ctx); return err },
		`GET /v1/keys `, `{"items":[]}`},
	{"inputs", func(ctx context.Context, c *client.Client) error { _, err := c.Inputs().List(ctx); return err },
		`GET /v1/inputs `, `{"items":[]}`},
	{"make a key", func(ctx context.Context, c *client.Client) error {
		k, err := c.Keys().Put(ctx, "shop", schemas.Key{Tenant: "acme", Scopes: []string{"send"}}, client.Change{Force: true})
		if err == nil && k.Secret != "s" {
			err = fmt.Errorf("%+v", k)
		}
		return err
	}, `PUT /v1/keys/shop?force=true Content-Type=application/json {"scopes":["send"],"tenant":"acme"}`, `{"secret":"s"}`},
	{"rotate a key", func(ctx context.Context, c *client.Client) error {
		k, err := c.RotateKey(ctx, "shop", time.Hour)
		if err == nil && k.Secret != "s" {
			err = fmt.Errorf("%+v", k)
		}
		return err
	}, `POST /v1/keys/shop/rotate Content-Type=application/json {"overlap":"1h"}`, `{"secret":"s"}`},
	{"batch", func(ctx context.Context, c *client.Client) error {
		for r, err := range c.Batch(ctx, func(yield func(*schemas.Request) bool) { yield(message) }) {
			if err != nil || r.ID != "x" {
				return fmt.Errorf("%+v %w", r, err)
			}
		}
		return nil
	}, `POST /v1/messages/batch Content-Type=application/x-ndjson {"channel":"sms","to":"+8613800000000","body":"code 1","idempotency_key":"KEY"}
`, "NDJSON" + `{"index":0,"id":"x","status":"accepted"}`},
	{"events", func(ctx context.Context, c *client.Client) error {
		for range c.Events(ctx, client.EventQuery{Class: "verify"}) {
		}
		return nil
	}, `GET /v1/events?class=verify `, ``},
	{"alerts", func(ctx context.Context, c *client.Client) error { _, err := c.Alerts().List(ctx); return err },
		`GET /v1/alerts `, `{"items":[]}`},
}

func TestCalls(t *testing.T) {
	for _, tt := range calls {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r.Method + " " + r.RequestURI + " "
				for _, name := range []string{"Content-Type", "Prefer", "If-Match", "If-None-Match"} {
					if v := r.Header.Get(name); v != "" {
						got += name + "=" + v + " "
					}
				}
				body, _ := io.ReadAll(r.Body)
				if q, err := schemas.DecodeRequestStrict(body); err == nil && len(q.IdempotencyKey) == 36 {
					body = []byte(strings.Replace(string(body), q.IdempotencyKey, "KEY", 1))
				}
				got += string(body)
				if r.Header.Get("Authorization") != "Bearer k" || r.Header.Get("User-Agent") != "shop/2" {
					t.Errorf("%v", r.Header)
				}
				answer, lines := strings.CutPrefix(tt.answer, "NDJSON")
				if lines {
					w.Header().Set("Content-Type", "application/x-ndjson")
				}
				if answer == "" {
					w.WriteHeader(http.StatusNoContent)
				}
				io.WriteString(w, answer)
			}))
			defer srv.Close()
			c := client.New(srv.URL, "k", once, client.WithUserAgent("shop/2"))
			defer c.Close()
			if err := tt.call(t.Context(), c); err != nil {
				t.Error(err)
			}
			if got != tt.sends {
				t.Errorf("sends\n%s\nwant\n%s", got, tt.sends)
			}
		})
	}
}

// notCalled are routes that programs have no use for.
var notCalled = map[string]string{
	"GET /v1/session":    "for the console's pages",
	"POST /v1/session":   "likewise",
	"DELETE /v1/session": "likewise",

	"GET /v1/receipts/{provider}":  "for providers",
	"POST /v1/receipts/{provider}": "likewise",
	"GET /v1/inbound/{provider}":   "likewise",
	"POST /v1/inbound/{provider}":  "likewise",
}

// Every route under /v1 has a call, and every call a route.
func TestEveryRouteHasACall(t *testing.T) {
	var document struct {
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal(schemas.OpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	called := make(map[string]bool) // requests
	for _, tt := range calls {
		method, rest, _ := strings.Cut(tt.sends, " ")
		path, _, _ := strings.Cut(rest, " ")
		path, _, _ = strings.Cut(path, "?")
		called[method+" "+path] = true
		if path == "/v1/limits/try" {
			continue // of limits only
		}
		// Resources are alike.
		for _, k := range schemas.ResourceKinds {
			called[method+" "+strings.Replace(path, "/v1/limits", "/v1/"+k.Plural(), 1)] = true
		}
	}
	known := make(map[string]bool)
	for path, operations := range document.Paths {
		for method := range operations {
			route := strings.ToUpper(method) + " " + path
			if !strings.HasPrefix(path, "/v1/") || notCalled[route] != "" {
				continue
			}
			form := regexp.MustCompile("^" + regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(route, "[^/]+") + "$")
			for c := range called {
				if form.MatchString(c) {
					known[c], known[route] = true, true
				}
			}
			if !known[route] {
				t.Errorf("no call makes %s", route)
			}
		}
	}
	if len(known) < 40 {
		t.Errorf("only %d routes and calls: the search is broken", len(known))
	}
	for c := range called {
		if !known[c] {
			t.Errorf("%s is no route", c)
		}
	}
}

// A 429 of a recipient's limit says all that there is to know; a 412 has the
// version in force.
func TestProblemsInFull(t *testing.T) {
	c := handler(problem(429, "Retry-After: 57", `{"type":"`+client.TypeQuotaExceeded+`","title":"T","status":429,"code":"quota_exceeded","id":"x",
		"limits":[{"limit":"verify","window":"1/60s","n":1,"remaining":0,"reset":"2026-11-21T12:00:57.000Z","violated":true}],
		"violated-policies":["verify 1/60s"],"retry_at":"2026-11-21T12:00:57.000Z","retryAfter":57}`)).client()
	_, err := c.SendAndWait(t.Context(), message, time.Second)
	p, ok := errors.AsType[*client.Problem](err)
	if !ok || p.ID != "x" || p.RetryAfter != 57*time.Second || p.RetryAfterSeconds != 57 || p.RetryAt.String() != "2026-11-21T12:00:57.000Z" ||
		len(p.ViolatedPolicies) != 1 || p.ViolatedPolicies[0] != "verify 1/60s" || len(p.Limits) != 1 || !p.Limits[0].Violated || p.Temporary() {
		t.Errorf("%+v", p)
	}
	c = handler(problem(412, "", `{"current":{"etag":"\"4\"","revision":4,"value":{"name":"verify"}}}`)).client()
	_, err = c.Limits().Put(t.Context(), "verify", schemas.Limit{}, client.Change{IfMatch: `"3"`})
	p, ok = errors.AsType[*client.Problem](err)
	if !ok || p.Current == nil || p.Current.ETag != `"4"` || p.Current.Revision != 4 || string(p.Current.Value) != `{"name":"verify"}` {
		t.Errorf("%+v", p)
	}
}

// What may have been done is done again only where that changes nothing.
func TestChangesAreNotRepeatedBlindly(t *testing.T) {
	limit := schemas.Limit{Name: "verify"}
	key := schemas.Key{Name: "shop"}
	put := func(o client.Change) func(context.Context, *client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			_, err := c.Limits().Put(ctx, "verify", limit, o)
			return err
		}
	}
	putKey := func(ctx context.Context, c *client.Client) error {
		_, err := c.Keys().Put(ctx, "shop", key, client.Change{})
		return err
	}
	tests := []struct {
		name  string
		call  func(context.Context, *client.Client) error
		fault int // of all but the second try
		tries int
		ok    bool
	}{
		{"a change", put(client.Change{}), 503, 2, true},
		{"of one version, that may have been made", put(client.Change{IfMatch: `"3"`}), 503, 1, false},
		{"where there was none, likewise", put(client.Change{IfNone: true}), 504, 1, false},
		{"of one version, only looked at", put(client.Change{IfMatch: `"3"`, DryRun: true}), 503, 2, true},
		{"of one version, that was not looked at", put(client.Change{IfMatch: `"3"`}), 429, 2, true},
		{"a key, that may have been made", putKey, 503, 1, false},
		{"a key, that was not", putKey, 408, 2, true},
		{"a rotation, that may have been made", func(ctx context.Context, c *client.Client) error {
			_, err := c.RotateKey(ctx, "shop", time.Hour)
			return err
		}, 502, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tries := 0
			c := handler(func(w http.ResponseWriter, r *http.Request) {
				if tries++; tries < 2 {
					problem(tt.fault, "", "")(w, r)
					return
				}
				io.WriteString(w, `{}`)
			}).client(client.WithRetry(quick))
			if err := tt.call(t.Context(), c); (err == nil) != tt.ok || tries != tt.tries {
				t.Errorf("%d tries, %v", tries, err)
			}
		})
	}
	// What is gone after a try that may have removed it was removed.
	for _, tt := range []struct {
		answers []int
		ok      bool
	}{{[]int{503, 404}, true}, {[]int{404}, false}, {[]int{429, 404}, false}, {[]int{503, 204}, true}} {
		tries := 0
		c := handler(func(w http.ResponseWriter, r *http.Request) {
			problem(tt.answers[tries], "", "")(w, r)
			tries++
		}).client(client.WithRetry(quick))
		if err := c.Limits().Delete(t.Context(), "verify", client.Change{}); (err == nil) != tt.ok || tries != len(tt.answers) {
			t.Errorf("%v: %d tries, %v", tt.answers, tries, err)
		}
	}
}

// All goes from page to page, and an error ends it.
func TestAll(t *testing.T) {
	pages := map[string]string{
		"":  `{"messages":[{"id":"a"},{"id":"b"}],"next_cursor":"1"}`,
		"1": `{"messages":[],"next_cursor":"2"}`,
		"2": `{"messages":[{"id":"c"}]}`,
		"x": `{"messages":[{"id":"d"}],"next_cursor":"none"}`,
	}
	c := handler(func(w http.ResponseWriter, r *http.Request) {
		page := pages[r.URL.Query().Get("cursor")]
		if page == "" || r.URL.Query().Get("to") != "+86138" {
			w.WriteHeader(http.StatusBadRequest)
		}
		io.WriteString(w, page)
	}).client()
	for cursor, want := range map[string]string{"": "a b c ", "x": "d error "} {
		got := ""
		for m, err := range c.All(t.Context(), client.MessageQuery{To: "+86138", Cursor: cursor}) {
			if err != nil {
				got += "error "
				continue
			}
			got += m.ID + " "
		}
		if got != want {
			t.Errorf("from %q: %s, want %s", cursor, got, want)
		}
	}
}
