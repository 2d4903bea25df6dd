package legacy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/ingest/legacy"
	"github.com/weirhq/weir/schemas"
)

const templates = `
classes:
  - {name: verify}
templates:
  - {name: verify-code, channel: sms, body: "Your code is {{code}}"}
  - {name: welcome, channel: email, subject: Hello, body: "{{name}}"}
  - {name: order-sent, channel: push, title: Sent, body: "{{order}}"}
`

func TestMessage(t *testing.T) {
	p := policyOf(t, templates)
	for _, c := range []struct {
		name, body string
		want       schemas.Request
	}{
		{
			"the manual's", `{"messageType": "SMS", "templateCode": "verify_code", "recipient": "13900000000", "variables": {"code": "123456"}}`,
			schemas.Request{Channel: "sms", Template: "verify-code", To: "13900000000", Vars: map[string]string{"code": "123456"}},
		},
		{
			"names in any case, unknown ones, no variables", `{"MessageType": "Email", "TEMPLATECODE": "Welcome", "Recipient": "a@example.com", "channelId": 7, "variables": null, "priority": null}`,
			schemas.Request{Channel: "email", Template: "welcome", To: "a@example.com"},
		},
		{
			"push; every scalar as text", `{"messageType": "apppush", "templateCode": "ORDER_SENT", "recipient": "token", "priority": 5, "variables": {"order": 17, "f": 1.50, "t": true, "n": null, "s": "\u4f60", "big": 12345678901234567890}}`,
			schemas.Request{Channel: "push", Template: "order-sent", To: "token", Priority: "normal",
				Vars: map[string]string{"order": "17", "f": "1.50", "t": "true", "n": "", "s": "你", "big": "12345678901234567890"}},
		},
		{
			"of two spellings the one in lower case", `{"messagetype": "SMS", "messageType": "Email", "templateCode": "verify_code", "recipient": "1"}`,
			schemas.Request{Channel: "sms", Template: "verify-code", To: "1"},
		},
		{
			"a class", `{"messageType": "SMS", "templateCode": "verify_code", "recipient": "1", "Class": "verify"}`,
			schemas.Request{Channel: "sms", Template: "verify-code", To: "1", Class: "verify"},
		},
		{
			"the class that is always there", `{"messageType": "SMS", "templateCode": "verify_code", "recipient": "1", "class": "default"}`,
			schemas.Request{Channel: "sms", Template: "verify-code", To: "1", Class: "default"},
		},
		{
			"no class", `{"messageType": "SMS", "templateCode": "verify_code", "recipient": "1", "class": null}`,
			schemas.Request{Channel: "sms", Template: "verify-code", To: "1"},
		},
	} {
		q, err := legacy.Message(p, []byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if diff := cmp.Diff(c.want, *q); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestPriority(t *testing.T) {
	p := policyOf(t, templates)
	for text, want := range map[string]schemas.Priority{"5": "normal", "5.0": "normal", "1": "bulk", "4": "bulk", "0": "bulk", "-3": "bulk", "6": "urgent", "10": "urgent", "100": "urgent"} {
		q, err := legacy.Message(p, fmt.Appendf(nil, `{"messageType": "SMS", "templateCode": "verify_code", "recipient": "1", "priority": %s}`, text))
		if err != nil || q.Priority != want {
			t.Errorf("%s: %v %v", text, q, err)
		}
	}
}

func TestRefusesMessages(t *testing.T) {
	p := policyOf(t, templates)
	const good = `"messageType": "SMS", "templateCode": "verify_code", "recipient": "1"`
	for _, c := range []struct{ body, want string }{
		{`[1]`, "请求体不是有效的 JSON 对象"},
		{`{}`, "messageType 不能为空；templateCode 不能为空；recipient 不能为空"},
		{`{"messageType": 1, "templateCode": "verify_code", "recipient": ["1"]}`, "messageType 必须为字符串；recipient 必须为字符串"},
		{`{"messageType": "Voice", "templateCode": "verify_code", "recipient": "1"}`, "messageType 必须为 SMS、Email 或 AppPush"},
		{`{"messageType": "SMS", "templateCode": "nope", "recipient": "1"}`, "templateCode 模板不存在"},
		{`{"messageType": "SMS", "templateCode": "welcome", "recipient": "1"}`, "templateCode 模板不适用于该消息类型"},
		{`{` + good + `, "variables": {"code": {"a": 1}}}`, "variables 必须为对象，其值为字符串、数字、布尔值或 null"},
		{`{` + good + `, "variables": [1]}`, "variables 必须为对象"},
		{`{` + good + `, "class": "verfy"}`, "class 分类不存在"},
		{`{` + good + `, "class": ["verify"]}`, "class 必须为字符串"},
		{`{` + good + `, "priority": "high"}`, "priority 必须为整数，5 为普通"},
		{`{` + good + `, "priority": 5.5}`, "priority 必须为整数"},
	} {
		_, err := legacy.Message(p, []byte(c.body))
		if bad, ok := errors.AsType[*legacy.Invalid](err); !ok || !strings.HasPrefix(bad.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.body, err, c.want)
		}
	}
}

func TestBatch(t *testing.T) {
	all, err := legacy.Batch([]byte(`{"Messages": [{"a": 1}, 2], "other": 0}`))
	if err != nil || len(all) != 2 || string(all[0]) != `{"a": 1}` || string(all[1]) != "2" {
		t.Errorf("%s %v", all, err)
	}
	of := func(n int) []byte {
		return []byte(`{"messages": [` + strings.TrimSuffix(strings.Repeat("0,", n), ",") + `]}`)
	}
	if all, err := legacy.Batch(of(legacy.MaxBatch)); err != nil || len(all) != legacy.MaxBatch {
		t.Errorf("%d %v", len(all), err)
	}
	for body, want := range map[string]string{
		string(of(legacy.MaxBatch + 1)): "messages 最多 1000 条",
		`{"messages": []}`:              "请求体必须为",
		`{"messages": {}}`:              "请求体必须为",
		`{"messages": null}`:            "请求体必须为",
		`[]`:                            "请求体必须为",
		`{}`:                            "请求体必须为",
		`{`:                             "请求体必须为",
	} {
		_, err := legacy.Batch([]byte(body))
		if bad, ok := errors.AsType[*legacy.Invalid](err); !ok || !strings.HasPrefix(bad.Error(), want) {
			t.Errorf("%.20s: %v, want %q", body, err, want)
		}
	}
}

func FuzzMessage(f *testing.F) {
	p := policyOf(f, templates)
	f.Add([]byte(`{"messageType": "SMS", "templateCode": "verify_code", "recipient": "13900000000", "variables": {"code": 1}, "priority": 9}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := legacy.Message(p, body)
		if bad, ok := errors.AsType[*legacy.Invalid](err); err != nil && (!ok || len(bad.Problems) == 0) || (err == nil) != (q != nil) {
			t.Fatalf("%v %v", q, err)
		}
		if q != nil && (q.Channel == "" || q.Template == "" || q.To == "") {
			t.Fatalf("%+v", q)
		}
		if all, err := legacy.Batch(body); err == nil && len(all) == 0 {
			t.Fatal("a batch of nothing")
		}
		legacy.Create(p, body)
	})
}

// What the manual prints is what is printed, byte by byte.
func TestEnvelope(t *testing.T) {
	for _, c := range []struct {
		e    legacy.Envelope
		want string
	}{
		{
			legacy.OK(legacy.MsgAccepted, legacy.Submitted{TaskID: "550e8400-e29b-41d4-a716-446655440000", Status: legacy.StatusOf(schemas.StatusQueued), Message: legacy.MsgQueued}),
			`{"code":200,"msg":"消息已提交","data":{"taskId":"550e8400-e29b-41d4-a716-446655440000","status":"队列中","message":"消息已提交，正在异步处理"}}`,
		},
		{legacy.Refused(429, legacy.Refusal("200/60s")), `{"code":429,"msg":"超出每分钟请求限制 (200)","data":null}`},
		{legacy.Problem(401, "unauthenticated", nil), `{"code":401,"msg":"未授权：API密钥缺失、无效或已过期","data":null}`},
		{
			legacy.Problem(400, "invalid_request", []legacy.Fault{{"/to", "bad_recipient_phone", "x"}, {"/vars/a~1b", "control_character", "y"}, {"", "brand_new", "in plain words"}}),
			`{"code":400,"msg":"请求无效：recipient 不是有效的手机号；variables.a/b 含有控制字符；in plain words","data":null}`,
		},
		{legacy.Problem(422, "message_rejected", []legacy.Fault{{"", "missing_variable", "x"}}), `{"code":422,"msg":"消息无效：缺少模板变量","data":null}`},
		{legacy.Problem(403, "brand_new", nil), `{"code":403,"msg":"权限不足","data":null}`},
		{legacy.Problem(502, "brand_new", nil), `{"code":502,"msg":"服务暂不可用，请稍后重试","data":null}`},
	} {
		got, err := json.Marshal(c.e)
		if err != nil || string(got) != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}
