package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/ingest/legacy"
	"github.com/weirhq/weir/schemas"
)

var legacyPolicy = `
providers:
  - {name: ali, type: simulated, channels: [sms], legacy_id: 1}
  - {name: tencent, type: simulated, channels: [sms, email, push], legacy_id: 20}
templates:
  - {name: verify-code, channel: sms, body: "Your code is {{code}}"}
  - {name: welcome, channel: email, subject: Hello, body: Welcome}
routes:
  - {name: sms, match: {channel: sms}, to: [{provider: ali}]}
  - {name: rest, to: [{provider: tencent}]}
tenants:
  - {name: acme, default_region: CN}
  - {name: other}
keys:
  - {name: acme, tenant: acme, scopes: [send, read], rates: {write: 10000/1s, query: 10000/1s, batch: 10000/1s}, hash: "` + hashOf(acmeKey) + `"}
  - {name: other, tenant: other, scopes: [send, read], hash: "` + hashOf(otherKey) + `"}
  - {name: reader, tenant: acme, scopes: [read], hash: "` + hashOf(readKey) + `"}
  - {name: admin, tenant: default, scopes: [admin], rates: {write: 10000/1s, query: 10000/1s}, hash: "` + hashOf(adminKey) + `"}
  - {name: slow, tenant: acme, scopes: [read], rates: {query: 1/1h}, hash: "` + hashOf("weir_live_legacy_slow") + `"}
`

const (
	asAcme  = "X-API-Key: " + acmeKey
	asOther = "X-API-Key: " + otherKey
	asAdmin = "X-API-Key: " + adminKey
)

// envelope reads an answer of the legacy API, of which the status and the code
// are one.
func (r reply) envelope(status int, msg string) json.RawMessage {
	r.t.Helper()
	var e struct {
		Code int
		Msg  string
		Data json.RawMessage
	}
	if err := json.Unmarshal(r.body, &e); err != nil {
		r.t.Fatalf("%d %s: %v", r.code, r.body, err)
	}
	if r.code != status || e.Code != status || e.Msg != msg || status != http.StatusOK && string(e.Data) != "null" {
		r.t.Errorf("%d %s, want %d %s", r.code, r.body, status, msg)
	}
	if got := r.header.Get("Content-Type"); got != "application/json" {
		r.t.Errorf("Content-Type %s", got)
	}
	return e.Data
}

// Whatever refuses a call under /api/, the answer is that API's.
func TestLegacyRefusals(t *testing.T) {
	w := newWorld(t, settings{policy: legacyPolicy, keys: true})
	for _, tt := range []struct {
		name, method, path, body string
		headers                  []string
		code                     int
		msg                      string
		header                   string // that the answer has too
	}{
		{"no key", "GET", "/api/messages?taskId=x", "", nil, 401, "未授权：API密钥缺失、无效或已过期", "WWW-Authenticate"},
		{"unknown key", "GET", "/api/rate-limits", "", []string{"X-API-Key: nobody"}, 401, "未授权：API密钥缺失、无效或已过期", "WWW-Authenticate"},
		{"scope", "GET", "/api/rate-limits", "", []string{asAcme}, 403, "权限不足：该API密钥没有所需的权限", ""},
		{"scope in any case of the path", "GET", "/API/Rate-Limits/", "", []string{asAcme}, 403, "权限不足：该API密钥没有所需的权限", ""},
		{"another site's page", "POST", "/api/rate-limits", "{}", []string{asAdmin, "Origin: https://evil.example"}, 403, "禁止跨站请求", ""},
		{"no route", "GET", "/api/nothing", "", []string{asAcme}, 404, "接口不存在", ""},
		{"the root", "GET", "/api/", "", []string{asAcme}, 404, "接口不存在", ""},
		{"no id", "GET", "/api/messages", "", []string{asAcme}, 400, "缺少 taskId 参数", ""},
		{"empty id", "GET", "/api/messages?taskId=", "", []string{asAcme}, 400, "缺少 taskId 参数", ""},
		{"an id that is none", "GET", "/api/messages?taskId=7", "", []string{asAcme}, 404, "任务不存在", ""},
		{"nobody's id", "GET", "/api/messages?taskId=" + theirs, "", []string{asAcme}, 404, "任务不存在", ""},
		{"method", "DELETE", "/api/messages", "", []string{asAcme}, 405, "不支持的请求方法", "Allow"},
		{"method in any case of the path", "PATCH", "/Api/RATE-limits/1", "", []string{asAdmin}, 405, "不支持的请求方法", "Allow"},
		{"too large", "POST", "/api/rate-limits", strings.Repeat(" ", schemas.MaxRequestBytes+1), []string{asAdmin}, 413, "请求体过大", ""},
		{"type", "POST", "/api/rate-limits", "<a/>", []string{asAdmin, "Content-Type: application/xml"}, 415, "不支持的媒体类型，请使用 application/json", ""},
		{"encoding", "POST", "/api/rate-limits", "x", []string{asAdmin, "Content-Encoding: gzip"}, 415, "不支持的媒体类型，请使用 application/json", ""},
		{"no limit of that id", "GET", "/api/rate-limits/7", "", []string{asAdmin}, 404, "速率限制不存在", ""},
		{"an id that is no number", "PUT", "/api/rate-limits/x", "{}", []string{asAdmin}, 404, "速率限制不存在", ""},
		{"id 0", "DELETE", "/api/rate-limits/0", "", []string{asAdmin}, 404, "速率限制不存在", ""},
		{"a body that is none", "POST", "/api/rate-limits", "[]", []string{asAdmin}, 400, `请求体不是有效的 JSON 对象，例如 {"manufacturerId": null, "requestsPerSecond": 10, "isEnabled": true}`, ""},
		{"all that is wrong", "POST", "/api/rate-limits", `{"manufacturerId": 3, "requestsPerHour": -1}`, []string{asAdmin}, 400, "manufacturerId 必须为 null（全局限制），或已有厂商的编号：1（ali）、20（tencent）；requestsPerHour 必须为 0（不限制）到 100000 的整数", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := w.do(tt.method, tt.path, tt.body, tt.headers...)
			r.t = t
			r.envelope(tt.code, tt.msg)
			if tt.header != "" && r.header.Get(tt.header) == "" {
				t.Errorf("no %s", tt.header)
			}
		})
	}
	if r := w.do("GET", "/v1/nothing", ""); r.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("beside it: %s", r.body)
	}
	if r := w.do("GET", "/apis", ""); r.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("beside it: %s", r.body)
	}
	if got := w.pol.Latest().Revision; got != 1 {
		t.Errorf("revision %d", got)
	}
}

// A client that calls too often is told apart from a message that a limit refuses.
func TestLegacyClientRate(t *testing.T) {
	w := newWorld(t, settings{policy: legacyPolicy, keys: true})
	const slow = "X-API-Key: weir_live_legacy_slow"
	w.do("GET", "/api/messages?taskId="+theirs, "", slow).envelope(404, "任务不存在")
	r := w.do("GET", "/api/messages?taskId="+theirs, "", slow)
	r.envelope(429, "请求过于频繁，请稍后再试")
	if r.again() < 3500 {
		t.Errorf("Retry-After: %s", r.header.Get("Retry-After"))
	}
}

func TestLegacyOnLoopback(t *testing.T) {
	w := newWorld(t, settings{})
	w.do("GET", "/api/messages", "", "Host: evil.example").envelope(421, "主机名不正确")
	w.do("GET", "/api/rate-limits", "").envelope(200, "查询成功")
}

// Every problem that this package has is said in Chinese, whoever brings it.
func TestLegacySaysEveryProblem(t *testing.T) {
	for _, k := range kinds {
		e := legacyProblem(k.problem("in English"))
		if e.Code != k.status || e.Msg == "" || strings.ContainsAny(e.Msg, "aeiou") && !strings.Contains(e.Msg, "Idempotency-Key") && !strings.Contains(e.Msg, "application/json") {
			t.Errorf("%s: %+v", k.code, e)
		}
	}
}

func TestLegacyTask(t *testing.T) {
	w := newWorld(t, settings{policy: legacyPolicy, keys: true})
	id := read[struct{ ID string }](w.post(`{"channel":"sms","to":"+8613800000000","template":"verify-code","vars":{"code":"1"}}`, asAcme), 202).ID
	task := func(query string) string {
		t.Helper()
		return string(w.do("GET", "/api/messages?"+query, "", asAcme).envelope(200, "查询成功"))
	}
	want := func(state string) {
		t.Helper()
		wanted := `{"taskId":"` + id + `",` + state + `}`
		w.until(state, func() bool { return task("taskId="+id) == wanted })
	}
	want(`"sendStatus":"队列中","sendTime":null,"completeTime":null,"retryCount":0,"failureReason":null`)
	step := func(s schemas.Status, at int64, attempt int, text string) {
		e := event(id, s, at)
		e.Tenant, e.Attempt, e.Error = "acme", attempt, text
		w.status(e)
	}
	step(schemas.StatusQueued, 1, 0, "")
	step(schemas.StatusSending, 1000, 1, "")
	want(`"sendStatus":"发送中","sendTime":"2026-11-21T08:00:01Z","completeTime":null,"retryCount":0,"failureReason":null`)
	step(schemas.StatusRetrying, 1500, 1, "busy")
	want(`"sendStatus":"等待重试","sendTime":"2026-11-21T08:00:01Z","completeTime":null,"retryCount":1,"failureReason":"busy"`)
	step(schemas.StatusSending, 6000, 2, "")
	step(schemas.StatusSent, 6250, 2, "")
	want(`"sendStatus":"成功","sendTime":"2026-11-21T08:00:06Z","completeTime":"2026-11-21T08:00:06.25Z","retryCount":1,"failureReason":null`)
	if task("TASKID="+strings.ToUpper(id)) != task("taskId="+id) {
		t.Error("names and ids are not read in any case")
	}
	w.do("GET", "/api/messages?taskId="+id, "", asOther).envelope(404, "任务不存在")
	w.do("GET", "/api/messages?taskId="+id, "", asAdmin).envelope(403, "权限不足：该API密钥没有所需的权限")
}

// Where ClickHouse is away the answer says when to ask again.
func TestLegacyHistoryAway(t *testing.T) {
	w := newWorld(t, settings{policy: legacyPolicy, keys: true, history: failingHistory{}})
	r := w.do("GET", "/api/messages?taskId="+theirs, "", asAcme)
	r.envelope(503, "服务暂不可用：历史记录无法查询，请稍后重试")
	if r.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
	}
}

type failingHistory struct{ History }

func (failingHistory) Message(context.Context, string) ([]*schemas.Event, error) {
	return nil, errors.New("away")
}

// TestLegacyRateLimits makes, reads, changes and removes limits over HTTP, and
// sees the policy follow.
func TestLegacyRateLimits(t *testing.T) {
	w := newWorld(t, settings{policy: legacyPolicy, keys: true})
	call := func(method, path, body, msg string) string {
		t.Helper()
		return string(w.do(method, path, body, asAdmin).envelope(200, msg))
	}
	same := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	limits := func() []schemas.Limit { return w.pol.Latest().Policy.Limits }
	same(call("GET", "/api/rate-limits", "", "查询成功"), `[]`)
	// The manual's two.
	global := `{"id":1,"manufacturerId":null,"requestsPerSecond":10,"requestsPerMinute":500,"requestsPerHour":10000,"isEnabled":true}`
	same(call("POST", "/api/rate-limits", `{"manufacturerId": null, "requestsPerSecond": 10, "requestsPerMinute": 500, "requestsPerHour": 10000, "isEnabled": true}`, "创建成功"), global)
	ali := `{"id":2,"manufacturerId":1,"requestsPerSecond":5,"requestsPerMinute":200,"requestsPerHour":5000,"isEnabled":true}`
	same(call("POST", "/api/rate-limits", `{"ManufacturerId": 1, "RequestsPerSecond": 5, "requestsPerMinute": 200, "requestsPerHour": 5000, "isEnabled": true, "createdAt": "x"}`, "创建成功"), ali)
	same(call("GET", "/api/rate-limits", "", "查询成功"), "["+global+","+ali+"]")
	same(call("GET", "/Api/Rate-Limits/2/", "", "查询成功"), ali)
	want, err := schemas.ParsePolicy("want.yaml", []byte(`
limits:
  - {name: legacy-1, per: [], allow: [10/1s, 500/60s, 10000/1h], legacy_id: 1}
  - {name: legacy-2, match: {provider: ali}, per: [provider], allow: [5/1s, 200/60s, 5000/1h], legacy_id: 2}
`+legacyPolicy))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Policy.Limits, limits()); diff != "" {
		t.Error(diff)
	}
	if by := w.pol.Latest().By; by != "key admin" {
		t.Errorf("by %q", by)
	}

	// The manual's PUT changes what it has, and nothing else.
	same(call("PUT", "/api/rate-limits/1", `{"requestsPerMinute": 600, "isEnabled": true}`, "更新成功"),
		`{"id":1,"manufacturerId":null,"requestsPerSecond":10,"requestsPerMinute":600,"requestsPerHour":10000,"isEnabled":true}`)
	same(call("PUT", "/api/rate-limits/1", `{"isEnabled": false}`, "更新成功"),
		`{"id":1,"manufacturerId":null,"requestsPerSecond":10,"requestsPerMinute":600,"requestsPerHour":10000,"isEnabled":false}`)
	if l := limits()[0]; !l.Off() || len(l.Allow) != 3 {
		t.Errorf("off: %+v", l)
	}
	call("PUT", "/api/rate-limits/1", `{"isEnabled": true, "requestsPerSecond": 0, "requestsPerMinute": 0, "requestsPerHour": 0}`, "更新成功")
	if l := limits()[0]; !l.Off() || len(l.Allow) != 0 {
		t.Errorf("without numbers: %+v", l)
	}
	same(call("PUT", "/api/rate-limits/2", `{"manufacturerId": null, "requestsPerSecond": 0}`, "更新成功"),
		`{"id":2,"manufacturerId":null,"requestsPerSecond":0,"requestsPerMinute":200,"requestsPerHour":5000,"isEnabled":true}`)
	if l := limits()[1]; len(l.Match.Provider) != 0 || l.Per == nil || len(l.Per) != 0 || l.Off() {
		t.Errorf("for all: %+v", l)
	}
	// What changes nothing is no revision.
	before := w.pol.Latest().Revision
	call("PUT", "/api/rate-limits/2", `{"requestsPerSecond": 0}`, "更新成功")
	if now := w.pol.Latest().Revision; now != before {
		t.Errorf("revision %d, and %d before", now, before)
	}
	same(call("DELETE", "/api/rate-limits/1", "", "删除成功"), "null")
	w.do("DELETE", "/api/rate-limits/1", "", asAdmin).envelope(404, "速率限制不存在")
	w.do("PUT", "/api/rate-limits/1", `{"isEnabled": true}`, asAdmin).envelope(404, "速率限制不存在")
	if all := limits(); len(all) != 1 || all[0].LegacyID != 2 {
		t.Errorf("%+v", all)
	}
	w.do("PUT", "/api/rate-limits/2", `{"requestsPerHour": "many"}`, asAdmin).envelope(400, "requestsPerHour 必须为 0（不限制）到 100000 的整数")
}

// Callers who edit at the same time each get their limit.
func TestLegacyEditsAtOnce(t *testing.T) {
	w := newWorld(t, settings{policy: legacyPolicy, keys: true})
	const n = 4
	replies := make([]reply, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			replies[i] = w.do("POST", "/api/rate-limits", fmt.Sprintf(`{"requestsPerHour": %d}`, i+1), asAdmin)
		})
	}
	wg.Wait()
	ids, hours := make(map[int64]bool), make(map[int64]bool)
	for _, r := range replies {
		var made legacy.RateLimit
		if err := json.Unmarshal(r.envelope(200, "创建成功"), &made); err != nil {
			t.Fatal(err)
		}
		ids[made.ID] = true
	}
	for _, l := range legacy.RateLimits(&w.pol.Latest().Policy) {
		hours[l.RequestsPerHour] = true
	}
	if len(ids) != n || len(hours) != n {
		t.Errorf("ids %v, limits %v", ids, hours)
	}
}

// Without Kafka an edit is answered, and the answer says what is not known.
func TestLegacyEditWithoutKafka(t *testing.T) {
	w := newWorld(t, settings{policy: legacyPolicy, keys: true, server: func(s *Server) { s.editFor = time.Second }})
	w.line.cut()
	r := w.do("POST", "/api/rate-limits", `{"requestsPerHour": 1}`, asAdmin)
	r.envelope(503, "服务暂不可用：消息队列无响应，请稍后重试")
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	w.line.mend()
	w.until("in force", func() bool {
		return w.do("POST", "/api/rate-limits", `{"requestsPerHour": 2}`, asAdmin).code == 200
	})
}
