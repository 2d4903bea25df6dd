package aliyun_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/aliyun"
	"github.com/weirhq/weir/processor/provider/hookjson/hookjsontest"
	"github.com/weirhq/weir/schemas"
)

var poster = hookjsontest.Poster{
	Type: "aliyun-sms", Of: aliyun.Type, Settings: settings("http://127.0.0.1:1"), Env: "ALIYUN_RECEIPT_SECRET", Token: token, Answered: `{"code":0,"msg":"成功"}`,
}

func receiptOf(status schemas.Status, at time.Time, code, text string, suppress schemas.SuppressReason) provider.Receipt {
	r := hookjsontest.Ref.Receipt("cn")
	r.ProviderMessageID, r.Status, r.At, r.Code, r.Text, r.Suppress = "9006^0", status, schemas.MillisOf(at), code, text, suppress
	return r
}

func TestReceipts(t *testing.T) {
	// 08:03:05 in Shanghai is 00:03:05 UTC.
	at := time.Date(2026, 11, 22, 0, 3, 5, 0, time.UTC)
	with := func(more string) string {
		return `[{"phone_number":"13800000000","send_time":"2026-11-22 08:03:04","report_time":"2026-11-22 08:03:05","sms_size":"1","biz_id":"9006^0","out_id":"` + hookjsontest.Ref.String() + `",` + more + `}]`
	}
	for _, tt := range []struct {
		name, body string
		want       []provider.Receipt
	}{
		{"delivered", with(`"success":true,"err_code":"DELIVERED","err_msg":"用户接收成功"`), []provider.Receipt{receiptOf(schemas.StatusDelivered, at, "", "", "")}},
		{"delivered, whatever the code", with(`"success":true,"err_code":"0"`), []provider.Receipt{receiptOf(schemas.StatusDelivered, at, "", "", "")}},
		{"switched off", with(`"success":false,"err_code":"MOBILE_NOT_ON_SERVICE","err_msg":"停机"`), []provider.Receipt{receiptOf(schemas.StatusUndelivered, at, "MOBILE_NOT_ON_SERVICE", "switched off, out of reach, suspended, or no such number", "")}},
		{"refused", with(`"success":false,"err_code":"USER_REJECT"`), []provider.Receipt{receiptOf(schemas.StatusUndelivered, at, "USER_REJECT", "the number's owner refused such messages, or has no such service", schemas.SuppressOptedOut)}},
		{"on the black list", with(`"success":false,"err_code":"MOBILE_IN_BLACK"`), []provider.Receipt{receiptOf(schemas.StatusUndelivered, at, "MOBILE_IN_BLACK", "the number is on the carrier's black list: its owner refused the signature, or a rule of the carrier's", "")}},
		{"a carrier's own code", with(`"success":false,"err_code":"MK:0001"`), []provider.Receipt{receiptOf(schemas.StatusUndelivered, at, "MK:0001", "", "")}},
		{"no code", with(`"success":false`), []provider.Receipt{receiptOf(schemas.StatusUndelivered, at, "", "", "")}},
		{"a code that may be anything", with(`"success":false,"err_code":"13800000000 关机"`), []provider.Receipt{receiptOf(schemas.StatusUndelivered, at, "", "", "")}},
		{"the carrier has said nothing", with(`"success":false,"err_code":"REQUEST_SUCCESS"`), nil},
		{"other types", `[{"success":"true","sms_size":2,"report_time":"20261122080305","biz_id":9006,"out_id":null,"new":{"a":[1]}}]`, []provider.Receipt{{Provider: "cn", ProviderMessageID: "9006", Status: schemas.StatusDelivered, At: schemas.MillisOf(at)}}},
		{"no time", `[{"success":true,"biz_id":"9006^0"}]`, []provider.Receipt{{Provider: "cn", ProviderMessageID: "9006^0", Status: schemas.StatusDelivered, At: schemas.MillisOf(hookjsontest.Came)}}},
		{"a time that is none", `[{"success":true,"biz_id":"9006^0","report_time":"yesterday"}]`, []provider.Receipt{{Provider: "cn", ProviderMessageID: "9006^0", Status: schemas.StatusDelivered, At: schemas.MillisOf(hookjsontest.Came)}}},
		{"somebody else's out_id", `[{"success":true,"biz_id":"9006^0","out_id":"order-17","report_time":"2026-11-22 08:03:05"}]`, []provider.Receipt{{Provider: "cn", ProviderMessageID: "9006^0", Status: schemas.StatusDelivered, At: schemas.MillisOf(at)}}},
		{"no biz_id", `[{"success":true,"out_id":"` + hookjsontest.Ref.String() + `","report_time":"2026-11-22 08:03:05"}]`, []provider.Receipt{func() provider.Receipt {
			r := receiptOf(schemas.StatusDelivered, at, "", "", "")
			r.ProviderMessageID = ""
			return r
		}()}},
		{"the same key in other letters", `[{"Success":true,"BIZ_ID":"9006^0","report_time":"2026-11-22 08:03:05"}]`, []provider.Receipt{{Provider: "cn", ProviderMessageID: "9006^0", Status: schemas.StatusDelivered, At: schemas.MillisOf(at)}}},
		{"none", `[]`, nil},
	} {
		poster.Receipts(t, tt.name, tt.body, tt.want)
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	const good = `{"success":true,"biz_id":"9006^0"}`
	for _, tt := range []struct {
		name, body   string
		want, unread int
	}{
		{"nothing", ``, -1, 0},
		{"not JSON", `success=true`, -1, 0},
		{"half", `[` + good, -1, 0},
		{"an object", good, 1, 0},
		{"null", `null`, -1, 0},
		{"a text", `"x"`, -1, 0},
		{"numbers", `[1,2]`, -1, 2},
		{"nulls", `[null]`, -1, 1},
		{"no id at all", `[{"success":true,"phone_number":"13800000000"}]`, -1, 1},
		{"success is missing", `[{"biz_id":"9006^0","err_msg":"13800000000"}]`, -1, 1},
		{"one of three has a list for a code", `[` + good + `,{"success":false,"biz_id":"7","err_code":["13800000000"]},` + good + `]`, 2, 1},
		{"one of two is a text", `["13800000000",` + good + `]`, 1, 1},
		{"one has an object for an id", `[{"success":true,"biz_id":{"13800000000":1}},` + good + `]`, 1, 1},
		{"one is unread, one tells nothing", `[5,{"success":false,"biz_id":"7","err_code":"REQUEST_SUCCESS"}]`, 0, 1},
		{"an id of 300 bytes", `[{"success":true,"biz_id":"` + strings.Repeat("1", 300) + `"},` + good + `]`, 1, 1},
	} {
		poster.Unread(t, tt.name, tt.body, tt.want, tt.unread)
	}
}

func TestBatchOf500(t *testing.T) {
	id := func(i int) string { return fmt.Sprintf("0199b2a0-5c00-7000-8000-%012d", i) }
	poster.Batch(t, 500, func(i int) any {
		r := hookjsontest.Ref
		r.MessageID = id(i)
		return map[string]any{"phone_number": "13800000000", "success": i%2 == 0, "err_code": "MOBILE_SEND_LIMIT", "biz_id": fmt.Sprintf("9006%d^0", i), "out_id": r.String(), "report_time": "2026-11-22 08:03:05", "sms_size": "1"}
	}, func(i int, r *provider.Receipt) bool {
		return r.MessageID == id(i) && r.ProviderMessageID == fmt.Sprintf("9006%d^0", i)
	})
}

func TestWhoCalls(t *testing.T) {
	poster.WhoCalls(t, `[{"success":true,"biz_id":"9006^0"}]`,
		hookjsontest.Caller{Name: "the console tries the address", Hook: hookjsontest.Hook(http.MethodGet, token, "")})
}

func TestInbound(t *testing.T) {
	at := time.Date(2026, 11, 22, 0, 3, 5, 0, time.UTC)
	in := func(from string) provider.Inbound {
		return provider.Inbound{ID: "1234567890", From: from, To: "1234", Channel: schemas.ChannelSMS, Text: hookjsontest.Text, At: at}
	}
	element := func(number string) string {
		return `{"phone_number":` + number + `,"send_time":"2026-11-22 08:03:05","content":"TD 退订","sign_name":"微尔","dest_code":"1234","sequence_id":1234567890}`
	}
	for _, tt := range []struct {
		name, body string
		want       []provider.Inbound
		unread     int
	}{
		{"one", `[` + element(`"13800000000"`) + `]`, []provider.Inbound{in("+8613800000000")}, 0},
		{"with the country", `[` + element(`"8613800000000"`) + `,` + element(`"+8613800000001"`) + `,` + element(`"008613800000002"`) + `]`, []provider.Inbound{in("+8613800000000"), in("+8613800000001"), in("+8613800000002")}, 0},
		{"a number for a number", `[` + element(`13800000000`) + `]`, []provider.Inbound{in("+8613800000000")}, 0},
		{"one that cannot be read among others", `[` + element(`"13800000000 or so"`) + `,` + element(`"13800000000"`) + `]`, []provider.Inbound{in("+8613800000000")}, 1},
		{"none", `[]`, nil, 0},
		{"no number", `[{"content":"TD"}]`, nil, 1},
		{"receipts sent to the wrong address", `[{"success":true,"biz_id":"9006^0","err_code":"DELIVERED"}]`, nil, 1},
		{"an object", element(`"13800000000"`), []provider.Inbound{in("+8613800000000")}, 0},
	} {
		poster.Inbound(t, tt.name, tt.body, tt.want, tt.unread)
	}
}

func FuzzListener(f *testing.F) {
	poster.Fuzz(f, func(in provider.Inbound) bool { return strings.HasPrefix(in.From, "+86") },
		`[{"success":true,"biz_id":"9006^0","out_id":"`+hookjsontest.Ref.String()+`","report_time":"2026-11-22 08:03:05","err_code":"DELIVERED"}]`,
		`[{"phone_number":"13800000000","send_time":"20261122080305","content":"TD","dest_code":"1","sequence_id":1e30}]`,
		`[{"success":false,"biz_id":1,"err_code":"isv.X"},null,[],"x",5]`)
}
