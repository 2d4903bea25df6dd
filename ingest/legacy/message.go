package legacy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// messageTypes are that API's names of channels, in lower case. It has no others.
var messageTypes = map[string]schemas.Channel{
	"sms":     schemas.ChannelSMS,
	"email":   schemas.ChannelEmail,
	"apppush": schemas.ChannelPush,
}

// Priority is Weir's priority for a number of that API, of which 5 is the
// default and normal: above it is urgent, below it bulk. The old system kept the
// number and did not act on it.
func Priority(n int64) schemas.Priority {
	switch {
	case n > 5:
		return schemas.PriorityUrgent
	case n < 5:
		return schemas.PriorityBulk
	}
	return schemas.PriorityNormal
}

// TemplateName is the name that a policy's template has for a templateCode:
// policies write names with a-z, 0-9 and - only, so verify_code is verify-code.
func TemplateName(code string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(code))
}

// Message is the request of a body of /api/messages/send, as a message of a
// policy's template. It has no tenant and no id, and the rest of a request's
// rules is not checked. The error is an *Invalid.
func Message(p *schemas.Policy, body []byte) (*schemas.Request, error) {
	f, ok := readFields(body)
	if !ok {
		return nil, &Invalid{Problems: []string{`请求体不是有效的 JSON 对象，例如 {"messageType": "SMS", "templateCode": "verify_code", "recipient": "13900000000", "variables": {"code": "123456"}}`}}
	}
	var problems []string
	fault := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	text := func(name string) string {
		s, ok := f.text(name)
		switch {
		case !ok:
			fault("%s 必须为字符串", name)
		case s == "":
			fault("%s 不能为空", name)
		}
		return s
	}

	q := &schemas.Request{}
	if kind := text("messageType"); kind != "" {
		if q.Channel, ok = messageTypes[strings.ToLower(kind)]; !ok {
			fault("messageType 必须为 SMS、Email 或 AppPush")
		}
	}
	if code := text("templateCode"); code != "" {
		switch t, ok := p.Template(TemplateName(code)); {
		case !ok:
			fault("templateCode 模板不存在")
		case q.Channel != "" && t.Channel != q.Channel:
			fault("templateCode 模板不适用于该消息类型")
		default:
			q.Template = t.Name
		}
	}
	q.To = text("recipient")
	switch class, ok := f.text("class"); { // which the old system did not have
	case !ok:
		fault("class 必须为字符串")
	case class != "" && !p.HasClass(class):
		fault("class 分类不存在")
	default:
		q.Class = class
	}
	if v, ok := f.get("variables"); ok && string(v) != "null" {
		if q.Vars, ok = variables(v); !ok {
			fault("variables 必须为对象，其值为字符串、数字、布尔值或 null")
		}
	}
	if v, ok := f.get("priority"); ok && string(v) != "null" {
		n, whole := number(v)
		if !whole {
			fault("priority 必须为整数，5 为普通")
		}
		q.Priority = Priority(n)
	}
	if len(problems) > 0 {
		return nil, &Invalid{Problems: problems}
	}
	return q, nil
}

// variables reads an object of scalars: each becomes text as it is written, and
// null is empty.
func variables(v json.RawMessage) (map[string]string, bool) {
	var given map[string]json.RawMessage
	if json.Unmarshal(v, &given) != nil {
		return nil, false
	}
	vars := make(map[string]string, len(given))
	for name, v := range given {
		text, ok := scalar(v)
		if !ok {
			return nil, false
		}
		vars[name] = text
	}
	return vars, true
}

// MaxBatch is how many messages a batch may have.
const MaxBatch = 1000

// Batch returns the bodies of the messages of a body of /api/messages/batch. The
// error is an *Invalid.
func Batch(body []byte) ([]json.RawMessage, error) {
	var messages []json.RawMessage
	if f, ok := readFields(body); ok {
		v, _ := f.get("messages")
		if json.Unmarshal(v, &messages) != nil {
			messages = nil
		}
	}
	switch {
	case len(messages) == 0:
		return nil, &Invalid{Problems: []string{`请求体必须为 {"messages": [...]}，每项与 /api/messages/send 的请求体相同`}}
	case len(messages) > MaxBatch:
		return nil, &Invalid{Problems: []string{fmt.Sprintf("messages 最多 %d 条", MaxBatch)}}
	}
	return messages, nil
}

// BatchResult is what became of one message of a batch: the envelope that it
// would have had alone.
type BatchResult struct {
	Index int `json:"index"` // of the message in its batch, from 0
	Envelope
	RetryAfterSeconds int64 `json:"retryAfterSeconds,omitempty"` // of a refusal that passes
}

// BatchResults is the answer to a batch.
type BatchResults struct {
	Total        int           `json:"total"`
	SuccessCount int           `json:"successCount"`
	FailureCount int           `json:"failureCount"`
	Results      []BatchResult `json:"results"` // in the order of the batch
}

// BatchOf counts results.
func BatchOf(results []BatchResult) BatchResults {
	out := BatchResults{Total: len(results), Results: results}
	for i := range results {
		if results[i].Code == http.StatusOK {
			out.SuccessCount++
		} else {
			out.FailureCount++
		}
	}
	return out
}
