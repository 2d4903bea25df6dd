package ingest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/legacy"
	"github.com/weirhq/weir/schemas"
)

const (
	legacySMS   = `{"messageType": "SMS", "templateCode": "verify_code", "recipient": "13900000000", "variables": {"code": "123456"}}`
	legacyEmail = `{"messageType": "Email", "templateCode": "welcome", "recipient": "a@example.com"}`
)

func (w *world) legacySend(body string, headers ...string) reply {
	w.t.Helper()
	return w.do("POST", "/api/messages/send", body, append(headers, asAcme)...)
}

func (r reply) submitted() (s legacy.Submitted) {
	r.t.Helper()
	if err := json.Unmarshal(r.envelope(200, "消息已提交"), &s); err != nil {
		r.t.Fatal(err)
	}
	if s.TaskID == "" || s.Status != legacy.TaskQueued || s.Message != "消息已提交，正在异步处理" {
		r.t.Errorf("%s", r.body)
	}
	return s
}

func (r reply) again() int {
	r.t.Helper()
	n, err := strconv.Atoi(r.header.Get("Retry-After"))
	if err != nil {
		r.t.Errorf("Retry-After: %v", err)
	}
	return n
}

// patient waits for every decision, on however slow a machine.
func patient(s *Server) { s.legacyWait = 20 * time.Second }

// Without anyone who decides, the answer comes after a second, and is 200.
func TestLegacySend(t *testing.T) {
	w := newWorld(t, settings{policy: legacyPolicy, keys: true})
	s := w.legacySend(`{"MessageType": "sms", "TemplateCode": "VERIFY_CODE", "recipient": "13900000000", "variables": {"code": 123456}, "priority": 9, "channelId": 3}`).submitted()
	q, err := schemas.DecodeRequest(w.requests(1)[0].Value, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	if q.ID != s.TaskID || q.Tenant != "acme" || q.Channel != schemas.ChannelSMS || q.To != "13900000000" || q.Template != "verify-code" || q.Vars["code"] != "123456" || q.Priority != schemas.PriorityUrgent {
		t.Errorf("%+v", q)
	}
	if got := string(w.do("GET", "/api/messages?taskId="+s.TaskID, "", asAcme).envelope(200, "查询成功")); !strings.Contains(got, `"sendStatus":"队列中"`) {
		t.Error(got)
	}
}

func TestLegacySendRefused(t *testing.T) {
	w := newWorld(t, settings{policy: legacyPolicy, keys: true})
	for _, tt := range []struct {
		name, body string
		code       int
		msg        string
	}{
		{"no JSON", "code=1", 400, `请求体不是有效的 JSON 对象，例如 {"messageType": "SMS", "templateCode": "verify_code", "recipient": "13900000000", "variables": {"code": "123456"}}`},
		{"unknown template", strings.Replace(legacySMS, "verify_code", "nope", 1), 400, "templateCode 模板不存在"},
		{"another type's template", strings.Replace(legacySMS, "SMS", "Email", 1), 400, "templateCode 模板不适用于该消息类型"},
		{"missing variables", `{"messageType": "SMS", "templateCode": "verify_code", "recipient": "13900000000"}`, 400, "variables 缺少模板变量 code"},
		{"nobody", strings.Replace(legacySMS, "13900000000", "12345", 1), 400, "请求无效：recipient 不是有效的手机号"},
		{"control characters", `{"messageType": "SMS", "templateCode": "verify_code", "recipient": "1\u0000", "variables": {"code": "1\u0000"}}`, 400, "请求无效：recipient 含有控制字符；variables.code 含有控制字符"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := w.legacySend(tt.body)
			r.t = t
			r.envelope(tt.code, tt.msg)
		})
	}
	w.do("POST", "/api/messages/send", legacySMS, "X-API-Key: "+readKey).envelope(403, "权限不足：该API密钥没有所需的权限")
	w.legacySend(legacySMS, "Idempotency-Key: a", "Idempotency-Key: b").envelope(400, "Idempotency-Key 无效")
}

// Who does not wait is answered without a decision, by a header or by its key's
// preference: here no one decides, and a second is not over.
func TestLegacyRespondAsync(t *testing.T) {
	const hasty = "weir_live_hasty"
	w := newWorld(t, settings{policy: legacyPolicy + `  - {name: hasty, tenant: acme, scopes: [send, read], prefer: respond-async, hash: "` + hashOf(hasty) + `"}
`, keys: true, server: func(s *Server) { s.legacyWait = time.Hour }})
	batch := `{"messages": [` + legacySMS + "," + legacyEmail + `]}`
	for _, tt := range []struct{ name, key, prefer, applied string }{
		{"header", acmeKey, "Prefer: respond-async", "respond-async"},
		{"key", hasty, "X-Nothing: 1", ""},
		{"a wait in place of the key's", hasty, "Prefer: wait=1", "wait=1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			one := w.do("POST", "/api/messages/send", legacySMS, "X-API-Key: "+tt.key, tt.prefer)
			one.t = t
			one.submitted()
			many := w.do("POST", "/api/messages/batch", batch, "X-API-Key: "+tt.key, tt.prefer)
			many.t = t
			many.envelope(200, "批量消息已提交")
			if one.header.Get("Preference-Applied") != tt.applied || many.header.Get("Preference-Applied") != tt.applied {
				t.Errorf("%v %v", one.header, many.header)
			}
		})
	}
}

// The body's class wins over the template's, and that over the key's, in both APIs.
func TestClassOfTemplateAndKey(t *testing.T) {
	const plain, classy = "weir_live_plain", "weir_live_classy"
	w := newWorld(t, settings{policy: `
providers:
  - {name: sim, type: simulated, channels: [sms]}
classes:
  - {name: default, unknown: reject}
  - {name: verify}
  - {name: notice}
  - {name: bulk}
templates:
  - {name: code, channel: sms, class: verify, body: b}
  - {name: note, channel: sms, body: b}
keys:
  - {name: plain, tenant: default, scopes: [send], hash: "` + hashOf(plain) + `"}
  - {name: classy, tenant: default, scopes: [send], class: notice, hash: "` + hashOf(classy) + `"}
`, keys: true, server: func(s *Server) { s.legacyWait = time.Millisecond }})
	for _, tt := range []struct{ key, template, body, want string }{
		{plain, "note", "", ""},
		{plain, "code", "", "verify"},
		{classy, "note", "", "notice"},
		{classy, "code", "", "verify"},
		{classy, "code", "bulk", "bulk"},
		{classy, "note", "default", "default"},
	} {
		for _, c := range []struct{ path, body string }{
			{"/api/messages/send", fmt.Sprintf(`{"messageType": "SMS", "templateCode": %q, "recipient": "+8613900000000", "class": %q}`, tt.template, tt.body)},
			{"/v1/messages", fmt.Sprintf(`{"channel": "sms", "template": %q, "to": "+8613900000000"%s}`, tt.template, map[bool]string{true: `, "class": "` + tt.body + `"`}[tt.body != ""])},
		} {
			if r := w.do("POST", c.path, c.body, "X-API-Key: "+tt.key); r.code/100 != 2 {
				t.Fatalf("%s", r.body)
			}
			var q schemas.Request
			if err := json.Unmarshal(w.requests(1)[0].Value, &q); err != nil || q.Class != tt.want {
				t.Errorf("%s, key %s, template %s, body %q: class %q, want %q (%v)", c.path, tt.key, tt.template, tt.body, q.Class, tt.want, err)
			}
		}
	}
	w.do("POST", "/api/messages/send", `{"messageType": "SMS", "templateCode": "note", "recipient": "+8613900000000", "class": "verfy"}`, "X-API-Key: "+plain).
		envelope(400, "class 分类不存在")
}

// TestLegacyLimits: limits that are made and changed over HTTP refuse with the
// window that was full, the global one and the manufacturer's, and are switched
// off and on while messages are decided.
func TestLegacyLimits(t *testing.T) {
	w := decided(t, settings{policy: legacyPolicy, keys: true, server: patient})
	edit := func(method, path, body string) {
		t.Helper()
		if r := w.do(method, path, body, asAdmin); r.code != 200 {
			t.Fatalf("%d %s", r.code, r.body)
		}
	}
	refused := func(what, body, msg string) {
		t.Helper()
		w.until(what, func() bool { return w.legacySend(body).code == http.StatusTooManyRequests })
		r := w.legacySend(body)
		r.envelope(429, msg)
		if want := `{"code":429,"msg":"` + msg + `","data":null}` + "\n"; string(r.body) != want {
			t.Errorf("%s, want %s", r.body, want)
		}
		if n := r.again(); n < 1 || n > 3600 {
			t.Errorf("Retry-After: %d", n)
		}
	}
	passes := func(what, body string) {
		t.Helper()
		w.until(what, func() bool { return w.legacySend(body).code == http.StatusOK })
	}
	w.legacySend(legacySMS).submitted()

	edit("POST", "/api/rate-limits", `{"manufacturerId": 1, "requestsPerMinute": 2, "requestsPerHour": 1000}`)
	refused("the manufacturer's limit is in force", legacySMS, "超出每分钟请求限制 (2)")
	w.legacySend(legacyEmail).submitted() // goes by another

	edit("POST", "/api/rate-limits", `{"manufacturerId": null, "requestsPerHour": 1}`)
	refused("the global limit is in force", legacyEmail, "超出每小时请求限制 (1)")

	edit("PUT", "/api/rate-limits/2", `{"isEnabled": false}`)
	passes("off", legacyEmail)
	edit("PUT", "/api/rate-limits/2", `{"isEnabled": true}`)
	refused("on again", legacyEmail, "超出每小时请求限制 (1)")
	edit("PUT", "/api/rate-limits/2", `{"requestsPerHour": 0}`)
	passes("without a number", legacyEmail)
	edit("PUT", "/api/rate-limits/2", `{"requestsPerSecond": 0, "requestsPerHour": 1}`)
	refused("with one again", legacyEmail, "超出每小时请求限制 (1)")
	edit("DELETE", "/api/rate-limits/2", "")
	passes("removed", legacyEmail)
	refused("the other still stands", legacySMS, "超出每分钟请求限制 (2)")

	// The tasks of refused messages tell the same.
	seen := make(map[string]bool)
	for _, rec := range w.requests(8) {
		var q struct{ ID string }
		if err := json.Unmarshal(rec.Value, &q); err != nil {
			t.Fatal(err)
		}
		var task legacy.Task
		if err := json.Unmarshal(w.do("GET", "/api/messages?taskId="+q.ID, "", asAcme).envelope(200, "查询成功"), &task); err != nil {
			t.Fatal(err)
		}
		if task.SendStatus == legacy.TaskFailed {
			seen[*task.FailureReason] = true
		}
	}
	if !seen["超出每分钟请求限制 (2)"] {
		t.Errorf("%v", seen)
	}
}

// A limit of the policy that is none of that API's refuses in the same form.
func TestLegacyOtherLimits(t *testing.T) {
	w := decided(t, settings{policy: legacyPolicy + `
limits:
  - {name: daily, match: {template: verify-code}, per: [recipient], allow: [1/calendar-day], timezone: Asia/Shanghai}
`, keys: true, server: patient})
	w.legacySend(legacySMS, "Idempotency-Key: a").submitted()
	w.legacySend(legacySMS).envelope(429, "超出每日请求限制 (1)")
	again := w.legacySend(legacySMS, "Idempotency-Key: a")
	if again.code != 200 {
		t.Errorf("a repeat under its key: %s", again.body)
	}
	w.legacySend(strings.Replace(legacySMS, "123456", "654321", 1), "Idempotency-Key: a").envelope(409, "幂等键已用于内容不同的消息")
}

func TestLegacyBatch(t *testing.T) {
	w := decided(t, settings{policy: legacyPolicy + `
limits:
  - {name: legacy-1, match: {provider: ali}, per: [provider], allow: [2/1h], legacy_id: 1}
`, keys: true, server: patient})
	batch := func(body string, headers ...string) reply {
		t.Helper()
		return w.do("POST", "/api/messages/batch", body, append(headers, asAcme)...)
	}
	of := func(items ...string) string { return `{"messages": [` + strings.Join(items, ",") + `]}` }
	r := batch(of(legacySMS, "7", legacyEmail, strings.Replace(legacySMS, "verify_code", "nope", 1), legacySMS, legacySMS))
	var got legacy.BatchResults
	if err := json.Unmarshal(r.envelope(200, "批量消息已提交"), &got); err != nil {
		t.Fatal(err)
	}
	var all []string
	sms := 0
	for i, one := range got.Results {
		if one.Index != i {
			t.Errorf("%d stands at %d", one.Index, i)
		}
		if (one.Code == 429) != (one.RetryAfterSeconds > 0) {
			t.Errorf("%+v", one)
		}
		if one.Code == 200 && i != 2 {
			sms++
		}
		all = append(all, fmt.Sprintf("%d %s", one.Code, one.Msg))
	}
	if got.Total != 6 || got.SuccessCount != 3 || got.FailureCount != 3 || sms != 2 ||
		!strings.HasPrefix(all[1], "400 请求体不是有效的 JSON 对象") || all[2] != "200 消息已提交" || all[3] != "400 templateCode 模板不存在" {
		t.Errorf("%s", r.body)
	}
	batch(`{}`).envelope(400, `请求体必须为 {"messages": [...]}，每项与 /api/messages/send 的请求体相同`)
	batch(of(strings.Repeat("0,", legacy.MaxBatch)+"0")).envelope(400, "messages 最多 1000 条")
	batch(`{"messages": ["`+strings.Repeat("x", maxLegacyBatchBytes)+`"]}`).envelope(413, "请求体过大")

	// Again under its key: the same tasks.
	tasks := func() (ids []string) {
		var got struct {
			Results []struct{ Data legacy.Submitted }
		}
		if err := json.Unmarshal(batch(of(legacyEmail, legacyEmail), "Idempotency-Key: b").envelope(200, "批量消息已提交"), &got); err != nil {
			t.Fatal(err)
		}
		for _, one := range got.Results {
			ids = append(ids, one.Data.TaskID)
		}
		return ids
	}
	if first, again := tasks(), tasks(); fmt.Sprint(first) != fmt.Sprint(again) || first[0] == first[1] || first[0] == "" {
		t.Errorf("%v, then %v", first, again)
	}
}

// Without Kafka a message and a batch are refused alike, and the answer says when
// to try again.
func TestLegacySendWithoutKafka(t *testing.T) {
	w := newWorld(t, settings{policy: legacyPolicy, keys: true, cut: true})
	var wg sync.WaitGroup
	for _, path := range []string{"send", "batch"} {
		wg.Go(func() {
			body := legacySMS
			if path == "batch" {
				body = `{"messages": [` + legacySMS + "," + legacyEmail + `]}`
			}
			r := w.do("POST", "/api/messages/"+path, body, asAcme)
			r.envelope(503, "服务暂不可用：消息队列无响应，请稍后重试")
			if r.again() < 1 {
				t.Errorf("%s: Retry-After %q", path, r.header.Get("Retry-After"))
			}
		})
	}
	wg.Wait()
}
