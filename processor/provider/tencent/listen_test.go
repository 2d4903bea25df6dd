package tencent_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/hookjson/hookjsontest"
	"github.com/weirhq/weir/processor/provider/tencent"
	"github.com/weirhq/weir/schemas"
)

var poster = hookjsontest.Poster{
	Type: "tencent-sms", Of: tencent.Type, Settings: settings("http://127.0.0.1:1"), Env: "TENCENT_RECEIPT_SECRET", Token: token, Answered: `{"result":0,"errmsg":"OK"}`,
}

func TestReceipts(t *testing.T) {
	at := schemas.MillisOf(time.Date(2015, 10, 17, 0, 3, 4, 0, time.UTC)) // 08:03:04 in Shanghai
	plain := func(status schemas.Status, code, text string) provider.Receipt {
		return provider.Receipt{Provider: "cn", ProviderMessageID: "5000:1045", To: "+8613800000000", Status: status, At: at, Code: code, Text: text}
	}
	with := func(more string) string {
		return `[{"user_receive_time":"2015-10-17 08:03:04","nationcode":"86","mobile":"13800000000","sid":"5000:1045","description":"用户短信送达成功",` + more + `}]`
	}
	referred := hookjsontest.Ref.Receipt("cn")
	referred.ProviderMessageID, referred.Status, referred.At = "5000:1045", schemas.StatusDelivered, at
	for _, tt := range []struct {
		name, body string
		want       []provider.Receipt
	}{
		{"delivered", with(`"report_status":"SUCCESS","errmsg":"DELIVRD"`), []provider.Receipt{plain(schemas.StatusDelivered, "", "")}},
		{"with what was given", with(`"report_status":"SUCCESS","errmsg":"DELIVRD","ext":"` + hookjsontest.Ref.String() + `"`), []provider.Receipt{referred}},
		{"with somebody else's", with(`"report_status":"SUCCESS","errmsg":"DELIVRD","ext":"order-17"`), []provider.Receipt{plain(schemas.StatusDelivered, "", "")}},
		{"switched off", with(`"report_status":"FAIL","errmsg":"002"`), []provider.Receipt{plain(schemas.StatusUndelivered, "002", "switched off, suspended, or out of reach")}},
		{"a carrier's own code", with(`"report_status":"FAIL","errmsg":"MK:0001"`), []provider.Receipt{plain(schemas.StatusUndelivered, "MK:0001", "")}},
		{"no code", with(`"report_status":"FAIL"`), []provider.Receipt{plain(schemas.StatusUndelivered, "", "")}},
		{"a code that may be anything", with(`"report_status":"FAIL","errmsg":"13800000000 关机"`), []provider.Receipt{plain(schemas.StatusUndelivered, "", "")}},
		{"abroad", `[{"user_receive_time":"2015-10-17 08:03:04","nationcode":"852","mobile":"51234567","sid":"5000:1045","report_status":"SUCCESS"}]`, []provider.Receipt{func() provider.Receipt {
			r := plain(schemas.StatusDelivered, "", "")
			r.To = "+85251234567"
			return r
		}()}},
		{"other types", `[{"nationcode":86,"mobile":13800000000,"sid":1045,"report_status":"SUCCESS","errmsg":0,"user_receive_time":null,"new":[{}]}]`, []provider.Receipt{{Provider: "cn", ProviderMessageID: "1045", To: "+8613800000000", Status: schemas.StatusDelivered, At: schemas.MillisOf(hookjsontest.Came)}}},
		{"a number that is none", `[{"nationcode":"86","mobile":"138****0000","sid":"5000:1045","report_status":"SUCCESS","user_receive_time":"2015-10-17 08:03:04"}]`, []provider.Receipt{func() provider.Receipt {
			r := plain(schemas.StatusDelivered, "", "")
			r.To = ""
			return r
		}()}},
		{"no sid", `[{"report_status":"SUCCESS","user_receive_time":"2015-10-17 08:03:04","ext":"` + hookjsontest.Ref.String() + `"}]`, []provider.Receipt{func() provider.Receipt {
			r := referred
			r.ProviderMessageID = ""
			return r
		}()}},
		{"none", `[]`, nil},
	} {
		poster.Receipts(t, tt.name, tt.body, tt.want)
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	const good = `{"report_status":"SUCCESS","sid":"5000:1045"}`
	for _, tt := range []struct {
		name, body   string
		want, unread int
	}{
		{"nothing", ``, -1, 0},
		{"a form", `sid=1`, -1, 0},
		{"half", `[` + good, -1, 0},
		{"null", `null`, -1, 0},
		{"numbers", `[1,2]`, -1, 2},
		{"no id at all", `[{"report_status":"SUCCESS","nationcode":"86","mobile":"13800000000"}]`, -1, 1},
		{"no status", `[{"sid":"5000:1045","mobile":"13800000000"}]`, -1, 1},
		{"another status", `[{"sid":"5000:1045","report_status":"13800000000"}]`, -1, 1},
		{"a reply sent to the wrong address", `{"extend":"1","mobile":"13800000000","nationcode":"86","sign":"x","text":"TD","time":1457336869}`, -1, 1},
		{"one of three has a list for a code", `[` + good + `,{"report_status":"FAIL","sid":"7","errmsg":["13800000000"]},` + good + `]`, 2, 1},
		{"one of two is a text", `["13800000000",` + good + `]`, 1, 1},
	} {
		poster.Unread(t, tt.name, tt.body, tt.want, tt.unread)
	}
}

// TestBatchOf500: Tencent pushes 100 at most today.
func TestBatchOf500(t *testing.T) {
	mobile := func(i int) string { return fmt.Sprintf("138000%05d", i) }
	poster.Batch(t, 500, func(i int) any {
		return map[string]any{
			"user_receive_time": "2026-11-22 08:03:05", "nationcode": "86", "mobile": mobile(i), "sid": fmt.Sprintf("5000:%d", i),
			"report_status": map[bool]string{true: "SUCCESS", false: "FAIL"}[i%2 == 0], "errmsg": "002",
		}
	}, func(i int, r *provider.Receipt) bool {
		return r.To == "+86"+mobile(i) && r.ProviderMessageID == fmt.Sprintf("5000:%d", i)
	})
}

func TestWhoCalls(t *testing.T) {
	const body = `[{"report_status":"SUCCESS","sid":"5000:1045"}]`
	poster.WhoCalls(t, body, hookjsontest.Caller{Name: "GET", Hook: hookjsontest.Hook(http.MethodGet, token, body), Err: provider.ErrHook})
}

func TestInbound(t *testing.T) {
	in := func(from string, at time.Time) provider.Inbound {
		return provider.Inbound{From: from, To: "12", Channel: schemas.ChannelSMS, Text: hookjsontest.Text, At: at}
	}
	at := time.Unix(1457336869, 0)
	element := func(nation, mobile, at string) string {
		return `{"extend":"12","mobile":` + mobile + `,"nationcode":` + nation + `,"sign":"微尔","text":"TD 退订","time":` + at + `}`
	}
	for _, tt := range []struct {
		name, body string
		want       []provider.Inbound
		unread     int
	}{
		{"one", element(`"86"`, `"13800000000"`, `1457336869`), []provider.Inbound{in("+8613800000000", at)}, 0},
		{"in an array", `[` + element(`"86"`, `"13800000000"`, `1457336869`) + `]`, []provider.Inbound{in("+8613800000000", at)}, 0},
		{"other types", element(`86`, `13800000000`, `"1457336869"`), []provider.Inbound{in("+8613800000000", at)}, 0},
		{"abroad", element(`"852"`, `"51234567"`, `1457336869`), []provider.Inbound{in("+85251234567", at)}, 0},
		{"a time that is none", element(`"86"`, `"13800000000"`, `1e400`), nil, 1},
		{"a time below 0", element(`"86"`, `"13800000000"`, `-5`), []provider.Inbound{in("+8613800000000", hookjsontest.Came)}, 0},
		{"a time in milliseconds", element(`"86"`, `"13800000000"`, `1457336869000`), []provider.Inbound{in("+8613800000000", hookjsontest.Came)}, 0},
		{"no number", `{"text":"TD","time":1457336869}`, nil, 1},
		{"a receipt sent to the wrong address", `[{"report_status":"SUCCESS","sid":"5000:1045"}]`, nil, 1},
	} {
		poster.Inbound(t, tt.name, tt.body, tt.want, tt.unread)
	}
}

func FuzzListener(f *testing.F) {
	poster.Fuzz(f, func(in provider.Inbound) bool { return strings.HasPrefix(in.From, "+") && !in.At.IsZero() },
		`[{"report_status":"SUCCESS","sid":"5000:1045","ext":"`+hookjsontest.Ref.String()+`","user_receive_time":"2015-10-17 08:03:04","nationcode":"86","mobile":"13800000000"}]`,
		`{"extend":"12","mobile":"13800000000","nationcode":"86","sign":"x","text":"TD","time":1457336869}`,
		`[{"report_status":"FAIL","sid":1,"errmsg":"X"},null,[],"x",5]`)
}
