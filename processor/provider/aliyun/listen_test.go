package aliyun_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/aliyun"
	"github.com/weirhq/weir/schemas"
)

var came = time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC)

// listener is opened with nothing but the secret of receipts: who listens has no
// need of the keys.
func listener(t testing.TB) (provider.Listener, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	l, err := provider.Types{"aliyun-sms": aliyun.Type}.Listen(schemas.Provider{Name: "cn", Type: "aliyun-sms", Settings: settings("http://127.0.0.1:1")}, provider.Deps{
		Getenv: func(k string) string { return map[string]string{"ALIYUN_RECEIPT_SECRET": token}[k] },
		Logger: slog.New(slog.NewJSONHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return l, &log
}

func hook(method, query, body string) *provider.Hook {
	return &provider.Hook{
		Method: method, URL: &url.URL{Scheme: "https", Host: "weir.example", Path: "/v1/receipts/cn", RawQuery: query},
		Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body), At: came, Source: "203.0.113.9",
	}
}

var ref = provider.Reference{MessageID: "0199b2a0-5c00-7000-8000-0123456789ab", To: "+8613800000000", Tenant: "acme", Channel: schemas.ChannelSMS, Class: "verify", Template: "login-code", Attempt: 2}

func receiptOf(status schemas.Status, at time.Time, code, text string, suppress schemas.SuppressReason) provider.Receipt {
	r := ref.Receipt("cn")
	r.ProviderMessageID, r.Status, r.At, r.Code, r.Text, r.Suppress = "9006^0", status, schemas.MillisOf(at), code, text, suppress
	return r
}

func TestReceipts(t *testing.T) {
	// 08:03:05 in Shanghai is 00:03:05 UTC.
	at := time.Date(2026, 11, 22, 0, 3, 5, 0, time.UTC)
	with := func(more string) string {
		return `[{"phone_number":"13800000000","send_time":"2026-11-22 08:03:04","report_time":"2026-11-22 08:03:05","sms_size":"1","biz_id":"9006^0","out_id":"` + ref.String() + `",` + more + `}]`
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
		{"no time", `[{"success":true,"biz_id":"9006^0"}]`, []provider.Receipt{{Provider: "cn", ProviderMessageID: "9006^0", Status: schemas.StatusDelivered, At: schemas.MillisOf(came)}}},
		{"a time that is none", `[{"success":true,"biz_id":"9006^0","report_time":"yesterday"}]`, []provider.Receipt{{Provider: "cn", ProviderMessageID: "9006^0", Status: schemas.StatusDelivered, At: schemas.MillisOf(came)}}},
		{"somebody else's out_id", `[{"success":true,"biz_id":"9006^0","out_id":"order-17","report_time":"2026-11-22 08:03:05"}]`, []provider.Receipt{{Provider: "cn", ProviderMessageID: "9006^0", Status: schemas.StatusDelivered, At: schemas.MillisOf(at)}}},
		{"no biz_id", `[{"success":true,"out_id":"` + ref.String() + `","report_time":"2026-11-22 08:03:05"}]`, []provider.Receipt{func() provider.Receipt {
			r := receiptOf(schemas.StatusDelivered, at, "", "", "")
			r.ProviderMessageID = ""
			return r
		}()}},
		{"the same key in other letters", `[{"Success":true,"BIZ_ID":"9006^0","report_time":"2026-11-22 08:03:05"}]`, []provider.Receipt{{Provider: "cn", ProviderMessageID: "9006^0", Status: schemas.StatusDelivered, At: schemas.MillisOf(at)}}},
		{"none", `[]`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, log := listener(t)
			got, reply, err := l.Receipts(hook(http.MethodPost, "token="+token, tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" && len(tt.want)+len(got) > 0 {
				t.Error(d)
			}
			if reply.Status != 200 || string(reply.Body) != `{"code":0,"msg":"成功"}` || !strings.HasPrefix(reply.ContentType, "application/json") {
				t.Errorf("%d %s %s", reply.Status, reply.ContentType, reply.Body)
			}
			if log.Len() > 0 {
				t.Errorf("it was said: %s", log)
			}
		})
	}
}

// TestWhatCannotBeRead is left out of a batch and said so; where it is all of it,
// Aliyun is told, and nothing of it is repeated anywhere.
func TestWhatCannotBeRead(t *testing.T) {
	const good = `{"success":true,"biz_id":"9006^0"}`
	for _, tt := range []struct {
		name, body string
		want       int // receipts; below 0: refused
		unread     int
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
		t.Run(tt.name, func(t *testing.T) {
			l, log := listener(t)
			got, reply, err := l.Receipts(hook(http.MethodPost, "token="+token, tt.body))
			if tt.want < 0 {
				if !errors.Is(err, provider.ErrHook) || got != nil || reply.Body != nil {
					t.Errorf("%v, %v, %v", got, reply, err)
				}
			} else if err != nil || len(got) != tt.want || reply.Status != 200 {
				t.Errorf("%v, %v, %v", got, reply, err)
			}
			if said := log.String(); tt.unread == 0 && said != "" || tt.unread > 0 && !strings.Contains(said, fmt.Sprintf(`"unread":%d,`, tt.unread)) {
				t.Errorf("it was said: %q, want %d unread", said, tt.unread)
			}
			if strings.Contains(log.String(), "13800000000") || err != nil && strings.Contains(err.Error(), "13800000000") {
				t.Errorf("a recipient was told: %s, %v", log, err)
			}
		})
	}
}

// TestBatchOf500 is read whole and in order.
func TestBatchOf500(t *testing.T) {
	const n = 500
	elements := make([]map[string]any, n)
	for i := range elements {
		r := ref
		r.MessageID = fmt.Sprintf("0199b2a0-5c00-7000-8000-%012d", i)
		elements[i] = map[string]any{"phone_number": "13800000000", "success": i%2 == 0, "err_code": "MOBILE_SEND_LIMIT", "biz_id": fmt.Sprintf("9006%d^0", i), "out_id": r.String(), "report_time": "2026-11-22 08:03:05", "sms_size": "1"}
	}
	body, err := json.Marshal(elements)
	if err != nil {
		t.Fatal(err)
	}
	l, _ := listener(t)
	got, _, err := l.Receipts(hook(http.MethodPost, "token="+token, string(body)))
	if err != nil || len(got) != n {
		t.Fatalf("%d receipts, %v", len(got), err)
	}
	for i, r := range got {
		want := map[bool]schemas.Status{true: schemas.StatusDelivered, false: schemas.StatusUndelivered}[i%2 == 0]
		if r.MessageID != elements[i]["out_id"] && r.MessageID != fmt.Sprintf("0199b2a0-5c00-7000-8000-%012d", i) || r.ProviderMessageID != elements[i]["biz_id"] || r.Status != want {
			t.Fatalf("receipt %d: %+v", i, r)
		}
	}
}

func TestWhoCalls(t *testing.T) {
	const body = `[{"success":true,"biz_id":"9006^0"}]`
	for _, tt := range []struct {
		name  string
		hook  *provider.Hook
		want  error
		count int
	}{
		{"the token", hook(http.MethodPost, "token="+token, body), nil, 1},
		{"the password", func() *provider.Hook {
			r := &http.Request{Header: http.Header{}}
			r.SetBasicAuth("aliyun", token)
			h := hook(http.MethodPost, "", body)
			h.Header = r.Header
			return h
		}(), nil, 1},
		{"the console tries the address", hook(http.MethodGet, "token="+token, ""), nil, 0},
		{"nobody", hook(http.MethodPost, "", body), provider.ErrForged, 0},
		{"a wrong token", hook(http.MethodPost, "token=wrong", body), provider.ErrForged, 0},
		{"a wrong token with GET", hook(http.MethodGet, "token=wrong", ""), provider.ErrForged, 0},
		{"a wrong token with garbage", hook(http.MethodPost, "token=wrong", "garbage"), provider.ErrForged, 0},
		{"another method", hook(http.MethodPut, "token="+token, body), provider.ErrHook, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := listener(t)
			got, reply, err := l.Receipts(tt.hook)
			if !errors.Is(err, tt.want) || len(got) != tt.count || err == nil && string(reply.Body) != `{"code":0,"msg":"成功"}` {
				t.Errorf("%v, %s, %v", got, reply.Body, err)
			}
			if in, _, err := l.Inbound(tt.hook); tt.want == provider.ErrForged && !errors.Is(err, provider.ErrForged) || tt.want != nil && in != nil {
				t.Errorf("inbound: %v, %v", in, err)
			}
		})
	}
	_, err := provider.Types{"aliyun-sms": aliyun.Type}.Listen(schemas.Provider{Name: "cn", Type: "aliyun-sms", Settings: map[string]any{"access_key": "a", "access_secret": "b"}}, provider.Deps{})
	if err == nil || !strings.Contains(err.Error(), "settings.receipt_secret is missing") {
		t.Errorf("a listener that lets everybody in: %v", err)
	}
}

func TestInbound(t *testing.T) {
	at := time.Date(2026, 11, 22, 0, 3, 5, 0, time.UTC)
	in := func(from string) provider.Inbound {
		return provider.Inbound{ID: "1234567890", From: from, To: "1234", Channel: schemas.ChannelSMS, Text: "TD 退订", At: at}
	}
	element := func(number string) string {
		return `{"phone_number":` + number + `,"send_time":"2026-11-22 08:03:05","content":"TD 退订","sign_name":"微尔","dest_code":"1234","sequence_id":1234567890}`
	}
	for _, tt := range []struct {
		name, body string
		want       []provider.Inbound
		refused    bool
	}{
		{"one", `[` + element(`"13800000000"`) + `]`, []provider.Inbound{in("+8613800000000")}, false},
		{"with the country", `[` + element(`"8613800000000"`) + `,` + element(`"+8613800000001"`) + `,` + element(`"008613800000002"`) + `]`, []provider.Inbound{in("+8613800000000"), in("+8613800000001"), in("+8613800000002")}, false},
		{"a number for a number", `[` + element(`13800000000`) + `]`, []provider.Inbound{in("+8613800000000")}, false},
		{"one that cannot be read among others", `[` + element(`"hello"`) + `,` + element(`"13800000000"`) + `]`, []provider.Inbound{in("+8613800000000")}, false},
		{"none", `[]`, nil, false},
		{"no number", `[{"content":"TD"}]`, nil, true},
		{"receipts sent to the wrong address", `[{"success":true,"biz_id":"9006^0","err_code":"DELIVERED"}]`, nil, true},
		{"an object", element(`"13800000000"`), []provider.Inbound{in("+8613800000000")}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, log := listener(t)
			got, reply, err := l.Inbound(hook(http.MethodPost, "token="+token, tt.body))
			if tt.refused {
				if !errors.Is(err, provider.ErrHook) || got != nil {
					t.Errorf("%v, %v", got, err)
				}
				return
			}
			if err != nil || reply.Status != 200 {
				t.Fatalf("%v, %v", reply, err)
			}
			if d := cmp.Diff(tt.want, got); d != "" && len(tt.want)+len(got) > 0 {
				t.Error(d)
			}
			if s := log.String(); strings.Contains(s, "13800000000") || strings.Contains(s, "hello") || strings.Contains(s, "退订") {
				t.Errorf("it was said: %s", s)
			}
		})
	}
}

// FuzzListener: whatever comes, verified or not, nothing panics, what is not
// verified yields nothing, and what is yields receipts that can be used.
func FuzzListener(f *testing.F) {
	for _, body := range []string{
		``, `[]`, `[{}]`, `{}`, `[{"success":true,"biz_id":"9006^0","out_id":"` + ref.String() + `","report_time":"2026-11-22 08:03:05","err_code":"DELIVERED"}]`,
		`[{"phone_number":"13800000000","send_time":"20261122080305","content":"TD","dest_code":"1","sequence_id":1e30}]`,
		`[{"success":false,"biz_id":1,"err_code":"isv.X"},null,[],"x",5]`, `[[[[[[`, "\xff\xfe",
	} {
		f.Add(true, body, "POST")
		f.Add(false, body, "POST")
	}
	f.Add(true, "", "GET")
	l, _ := listener(f)
	f.Fuzz(func(t *testing.T, verified bool, body, method string) {
		query := "token=" + token
		if !verified {
			query = "token=" + body
		}
		h := hook(method, "", body)
		h.URL.RawQuery = query
		receipts, reply, err := l.Receipts(h)
		inbound, _, err2 := l.Inbound(h)
		if !verified && !strings.Contains(body, token) {
			if !errors.Is(err, provider.ErrForged) || !errors.Is(err2, provider.ErrForged) || receipts != nil || inbound != nil {
				t.Fatalf("%v %v %v %v", receipts, inbound, err, err2)
			}
			return
		}
		if (err == nil) != (reply.Status == 200) || err != nil && !errors.Is(err, provider.ErrHook) && !errors.Is(err, provider.ErrForged) {
			t.Fatalf("%v, %v", reply, err)
		}
		for _, r := range receipts {
			if r.Provider != "cn" || r.MessageID == "" && r.ProviderMessageID == "" || r.Status != schemas.StatusDelivered && r.Status != schemas.StatusUndelivered || r.Status == schemas.StatusDelivered && r.Suppress != "" || len(r.Code) > 64 {
				t.Fatalf("%+v", r)
			}
			if _, err := json.Marshal(r); err != nil {
				t.Fatal(err)
			}
		}
		for _, in := range inbound {
			if !strings.HasPrefix(in.From, "+86") || in.Channel != schemas.ChannelSMS {
				t.Fatalf("%+v", in)
			}
		}
	})
}
