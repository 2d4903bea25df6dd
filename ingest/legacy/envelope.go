package legacy

import (
	"net/http"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// Envelope is every answer of the API: Code is the HTTP status.
type Envelope struct {
	Code int    `json:"code"`
	Msg  string `json:"msg"` // for people
	Data any    `json:"data"`
}

// What the old system says of what went well.
const (
	MsgAccepted = "消息已提交"
	MsgQueued   = "消息已提交，正在异步处理"
	MsgKnown    = "消息此前已提交"
	MsgFound    = "查询成功"
	MsgCreated  = "创建成功"
	MsgUpdated  = "更新成功"
	MsgDeleted  = "删除成功"
	MsgBatch    = "批量消息已提交"
)

// What its callers did wrong.
const (
	MsgNoTaskID     = "缺少 taskId 参数"
	MsgUnknownTask  = "任务不存在"
	MsgUnknownLimit = "速率限制不存在"
)

// Why a message is not sent.
const (
	msgRejected   = "消息无效"
	msgSuppressed = "收件人已退订"
	msgExpired    = "消息已过期"
	msgCancelled  = "消息已取消"
	msgKeyReused  = "幂等键已用于内容不同的消息"
)

// OK is the answer to a call that went well.
func OK(msg string, data any) Envelope { return Envelope{http.StatusOK, msg, data} }

// Refused is the answer to a call that did not, with the HTTP status.
func Refused(status int, msg string) Envelope { return Envelope{Code: status, Msg: msg} }

// Fault is one thing that is wrong with a body: where by JSON pointer, what by a
// stable code, and what is allowed, for people.
type Fault struct{ Pointer, Code, Detail string }

// Problem says a problem of Weir's own API in this one's words: by its code, and
// a code that is not known here by its status.
func Problem(status int, code string, faults []Fault) Envelope {
	msg, ok := problems[code]
	if !ok {
		msg = statusText(status)
	}
	separator := "："
	for _, f := range faults {
		text := f.text()
		if strings.Contains(msg, text) { // what the whole request suffers from
			continue
		}
		msg += separator + text
		separator = "；"
	}
	return Refused(status, msg)
}

var problems = map[string]string{
	"invalid_request":          "请求无效",
	"malformed_http":           "HTTP 请求格式错误",
	"incomplete_body":          "请求体不完整",
	"bad_idempotency_key":      "Idempotency-Key 无效",
	"idempotency_key_conflict": "两个不同的幂等键",
	"unauthenticated":          "未授权：API密钥缺失、无效或已过期",
	"forbidden_reference":      "不允许：通过HTTP提交的策略不能引用该文件或环境变量",
	"forbidden_scope":          "权限不足：该API密钥没有所需的权限",
	"forbidden_tenant":         "无权访问其他租户",
	"cross_origin":             "禁止跨站请求",
	"not_found":                "接口不存在",
	"message_not_found":        MsgUnknownTask,
	"method_not_allowed":       "不支持的请求方法",
	"request_timeout":          "请求超时：请求体传输过慢",
	"too_large":                "请求体过大",
	"unsupported_media_type":   "不支持的媒体类型，请使用 application/json",
	"unknown_expectation":      "不支持的请求期望",
	"headers_too_large":        "请求头过大",
	"misdirected_host":         "主机名不正确",
	"client_rate":              "请求过于频繁，请稍后再试",
	"idempotency_key_reused":   msgKeyReused,
	"message_rejected":         msgRejected,
	"message_suppressed":       msgSuppressed,
	"message_expired":          msgExpired,
	"message_cancelled":        msgCancelled,
	"no_test_provider":         "测试密钥只能使用模拟厂商，而没有可用的模拟厂商",
	"quota_exceeded":           "超出请求限制",
	"policy_conflict":          "与现有配置冲突，未作任何修改",
	"policy_busy":              "配置正被同时修改，请重试",
	"internal":                 "服务器内部错误",
	"kafka_unavailable":        "服务暂不可用：消息队列无响应，请稍后重试",
	"overloaded":               "服务繁忙，请稍后重试",
	"history_unavailable":      "服务暂不可用：历史记录无法查询，请稍后重试",
	"not_ready":                "服务尚未就绪，请稍后重试",
}

func statusText(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "未授权"
	case http.StatusForbidden:
		return "权限不足"
	case http.StatusNotFound:
		return "资源不存在"
	case http.StatusConflict, http.StatusPreconditionFailed:
		return "与现有数据冲突"
	case http.StatusTooManyRequests:
		return "请求过于频繁，请稍后再试"
	}
	if status >= http.StatusInternalServerError {
		return "服务暂不可用，请稍后重试"
	}
	return "请求无效"
}

// text is a fault with the field's name in this API.
func (f Fault) text() string {
	what, ok := reasons[f.Code]
	if !ok {
		what = f.Detail
	}
	name, rest, nested := strings.Cut(strings.TrimPrefix(f.Pointer, "/"), "/")
	switch name {
	case "":
		return what
	case "to":
		name = "recipient"
	case "channel":
		name = "messageType"
	case "template":
		name = "templateCode"
	case "vars":
		name = "variables"
	}
	if nested {
		name += "." + strings.NewReplacer("~1", "/", "~0", "~").Replace(rest)
	}
	return name + " " + what
}

// reasons are why Weir refuses a request or ends a message, by the stable codes
// of both.
var reasons = map[string]string{
	schemas.ReasonEmpty:            "为空",
	schemas.ReasonTooLarge:         "过大",
	schemas.ReasonNotJSON:          "不是有效的 JSON",
	schemas.ReasonNotObject:        "不是 JSON 对象",
	schemas.ReasonWrongType:        "类型不正确",
	schemas.ReasonBadText:          "含有无效的字符编码",
	schemas.ReasonRequired:         "不能为空",
	schemas.ReasonUnknownValue:     "取值无效",
	schemas.ReasonBadName:          "含有不允许的字符",
	schemas.ReasonTooLong:          "过长",
	schemas.ReasonTooMany:          "过多",
	schemas.ReasonControlCharacter: "含有控制字符",

	"missing_recipient":      "缺少收件人",
	"bad_recipient_phone":    "不是有效的手机号",
	"bad_recipient_email":    "不是有效的邮箱地址",
	"bad_recipient_push":     "不是有效的推送令牌",
	"unknown_template":       "模板不存在",
	"unknown_class":          "分类不存在",
	"template_wrong_channel": "模板不适用于该消息类型",
	"missing_variable":       "缺少模板变量",
	"malformed_template":     "模板格式错误",
	"country_not_allowed":    "不允许发送到该国家或地区",
	"quiet_hours":            "免打扰时段不发送",
	"no_route":               "没有可用的厂商",
	"no_usable_provider":     "暂无可用的厂商",
	"unknown_provider":       "厂商不存在",
	"provider_wrong_channel": "厂商不支持该消息类型",
	"key_reused":             msgKeyReused,
	"permanent":              "厂商拒绝",
	"attempts_exhausted":     "超过最大重试次数",
	"held":                   "发送结果未知",
	"bad_content":            "消息内容无法生成",
	"throttled":              "厂商限流",
	"transient":              "厂商暂时不可用",
	"unknown":                "发送结果未知",
}
