package tencent_test

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
	"github.com/weirhq/weir/processor/provider/tencent"
	"github.com/weirhq/weir/schemas"
)

var came = time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC)

// listener is opened with nothing but the secret of receipts: who listens has no
// need of the keys.
func listener(t testing.TB) (provider.Listener, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	l, err := provider.Types{"tencent-sms": tencent.Type}.Listen(schemas.Provider{Name: "cn", Type: "tencent-sms", Settings: settings("http://127.0.0.1:1")}, provider.Deps{
		Getenv: func(k string) string { return map[string]string{"TENCENT_RECEIPT_SECRET": token}[k] },
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

func TestReceipts(t *testing.T) {
	at := schemas.MillisOf(time.Date(2015, 10, 17, 0, 3, 4, 0, time.UTC)) // 08:03:04 in Shanghai
	plain := func(status schemas.Status, code, text string) provider.Receipt {
		return provider.Receipt{Provider: "cn", ProviderMessageID: "5000:1045", To: "+8613800000000", Status: status, At: at, Code: code, Text: text}
	}
	with := func(more string) string {
		return `[{"user_receive_time":"2015-10-17 08:03:04","nationcode":"86","mobile":"13800000000","sid":"5000:1045","description":"用户短信送达成功",` + more + `}]`
	}
	referred := ref.Receipt("cn")
	referred.ProviderMessageID, referred.Status, referred.At = "5000:1045", schemas.StatusDelivered, at
	for _, tt := range []struct {
		name, body string
		want       []provider.Receipt
	}{
		{"delivered", with(`"report_status":"SUCCESS","errmsg":"DELIVRD"`), []provider.Receipt{plain(schemas.StatusDelivered, "", "")}},
		{"with what was given", with(`"report_status":"SUCCESS","errmsg":"DELIVRD","ext":"` + ref.String() + `"`), []provider.Receipt{referred}},
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
		{"other types", `[{"nationcode":86,"mobile":13800000000,"sid":1045,"report_status":"SUCCESS","errmsg":0,"user_receive_time":null,"new":[{}]}]`, []provider.Receipt{{Provider: "cn", ProviderMessageID: "1045", To: "+8613800000000", Status: schemas.StatusDelivered, At: schemas.MillisOf(came)}}},
		{"a number that is none", `[{"nationcode":"86","mobile":"138****0000","sid":"5000:1045","report_status":"SUCCESS","user_receive_time":"2015-10-17 08:03:04"}]`, []provider.Receipt{func() provider.Receipt {
			r := plain(schemas.StatusDelivered, "", "")
			r.To = ""
			return r
		}()}},
		{"no sid", `[{"report_status":"SUCCESS","user_receive_time":"2015-10-17 08:03:04","ext":"` + ref.String() + `"}]`, []provider.Receipt{func() provider.Receipt {
			r := referred
			r.ProviderMessageID = ""
			return r
		}()}},
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
			if reply.Status != 200 || string(reply.Body) != `{"result":0,"errmsg":"OK"}` || !strings.HasPrefix(reply.ContentType, "application/json") {
				t.Errorf("%d %s %s", reply.Status, reply.ContentType, reply.Body)
			}
			if log.Len() > 0 {
				t.Errorf("it was said: %s", log)
			}
		})
	}
}

// TestWhatCannotBeRead is left out of a batch and said so; where it is all of it,
// Tencent is told, and nothing of it is repeated anywhere.
func TestWhatCannotBeRead(t *testing.T) {
	const good = `{"report_status":"SUCCESS","sid":"5000:1045"}`
	for _, tt := range []struct {
		name, body string
		want       int // receipts; below 0: refused
		unread     int
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
			if said := log.String(); tt.unread == 0 && said != "" || tt.unread > 0 && !strings.Contains(said, fmt.Sprintf(`"provider":"cn","unread":%d,`, tt.unread)) {
				t.Errorf("it was said: %q, want %d unread", said, tt.unread)
			}
			if strings.Contains(log.String(), "13800000000") || err != nil && strings.Contains(err.Error(), "13800000000") {
				t.Errorf("a recipient was told: %s, %v", log, err)
			}
		})
	}
}

// TestBatchOf500 is read whole and in order. Tencent pushes 100 at most today.
func TestBatchOf500(t *testing.T) {
	const n = 500
	elements := make([]map[string]any, n)
	for i := range elements {
		elements[i] = map[string]any{
			"user_receive_time": "2026-11-22 08:03:05", "nationcode": "86", "mobile": fmt.Sprintf("138000%05d", i), "sid": fmt.Sprintf("5000:%d", i),
			"report_status": map[bool]string{true: "SUCCESS", false: "FAIL"}[i%2 == 0], "errmsg": "002",
		}
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
		if r.To != "+86"+elements[i]["mobile"].(string) || r.ProviderMessageID != elements[i]["sid"] || r.Status != want {
			t.Fatalf("receipt %d: %+v", i, r)
		}
	}
}

func TestWhoCalls(t *testing.T) {
	const body = `[{"report_status":"SUCCESS","sid":"5000:1045"}]`
	for _, tt := range []struct {
		name  string
		hook  *provider.Hook
		want  error
		count int
	}{
		{"the token", hook(http.MethodPost, "token="+token, body), nil, 1},
		{"the password", func() *provider.Hook {
			r := &http.Request{Header: http.Header{}}
			r.SetBasicAuth("tencent", token)
			h := hook(http.MethodPost, "", body)
			h.Header = r.Header
			return h
		}(), nil, 1},
		{"nobody", hook(http.MethodPost, "", body), provider.ErrForged, 0},
		{"a wrong token", hook(http.MethodPost, "token=wrong", body), provider.ErrForged, 0},
		{"a wrong token with garbage", hook(http.MethodPost, "token=wrong", "garbage"), provider.ErrForged, 0},
		{"another method", hook(http.MethodGet, "token="+token, body), provider.ErrHook, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := listener(t)
			got, _, err := l.Receipts(tt.hook)
			if !errors.Is(err, tt.want) || len(got) != tt.count {
				t.Errorf("%v, %v", got, err)
			}
			if in, _, err := l.Inbound(tt.hook); tt.want != nil && (!errors.Is(err, tt.want) || in != nil) {
				t.Errorf("inbound: %v, %v", in, err)
			}
		})
	}
	_, err := provider.Types{"tencent-sms": tencent.Type}.Listen(schemas.Provider{Name: "cn", Type: "tencent-sms", Settings: map[string]any{"secret_id": "a"}}, provider.Deps{})
	if err == nil || !strings.Contains(err.Error(), "settings.receipt_secret is missing") {
		t.Errorf("a listener that lets everybody in: %v", err)
	}
}

func TestInbound(t *testing.T) {
	in := func(from string, at time.Time) provider.Inbound {
		return provider.Inbound{From: from, To: "12", Channel: schemas.ChannelSMS, Text: "TD 退订", At: at}
	}
	at := time.Unix(1457336869, 0)
	element := func(nation, mobile, at string) string {
		return `{"extend":"12","mobile":` + mobile + `,"nationcode":` + nation + `,"sign":"微尔","text":"TD 退订","time":` + at + `}`
	}
	for _, tt := range []struct {
		name, body string
		want       []provider.Inbound
		refused    bool
	}{
		{"one", element(`"86"`, `"13800000000"`, `1457336869`), []provider.Inbound{in("+8613800000000", at)}, false},
		{"in an array", `[` + element(`"86"`, `"13800000000"`, `1457336869`) + `]`, []provider.Inbound{in("+8613800000000", at)}, false},
		{"other types", element(`86`, `13800000000`, `"1457336869"`), []provider.Inbound{in("+8613800000000", at)}, false},
		{"abroad", element(`"852"`, `"51234567"`, `1457336869`), []provider.Inbound{in("+85251234567", at)}, false},
		{"a time that is none", element(`"86"`, `"13800000000"`, `1e400`), nil, true},
		{"a time below 0", element(`"86"`, `"13800000000"`, `-5`), []provider.Inbound{in("+8613800000000", came)}, false},
		{"a time in milliseconds", element(`"86"`, `"13800000000"`, `1457336869000`), []provider.Inbound{in("+8613800000000", came)}, false},
		{"no number", `{"text":"TD","time":1457336869}`, nil, true},
		{"a receipt sent to the wrong address", `[{"report_status":"SUCCESS","sid":"5000:1045"}]`, nil, true},
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
			if err != nil || string(reply.Body) != `{"result":0,"errmsg":"OK"}` {
				t.Fatalf("%s, %v", reply.Body, err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
			if s := log.String(); s != "" {
				t.Errorf("it was said: %s", s)
			}
		})
	}
}

// FuzzListener: whatever comes, verified or not, nothing panics, what is not
// verified yields nothing, and what is yields receipts that can be used.
func FuzzListener(f *testing.F) {
	for _, body := range []string{
		``, `[]`, `[{}]`, `{}`, `[{"report_status":"SUCCESS","sid":"5000:1045","ext":"` + ref.String() + `","user_receive_time":"2015-10-17 08:03:04","nationcode":"86","mobile":"13800000000"}]`,
		`{"extend":"12","mobile":"13800000000","nationcode":"86","sign":"x","text":"TD","time":1457336869}`,
		`[{"report_status":"FAIL","sid":1,"errmsg":"X"},null,[],"x",5]`, `[[[[[[`, "\xff\xfe",
	} {
		f.Add(true, body, "POST")
		f.Add(false, body, "POST")
	}
	l, _ := listener(f)
	f.Fuzz(func(t *testing.T, verified bool, body, method string) {
		h := hook(method, "", body)
		h.URL.RawQuery = "token=" + token
		if !verified {
			h.URL.RawQuery = "token=" + body
		}
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
			if r.Provider != "cn" || r.MessageID == "" && r.ProviderMessageID == "" || r.Status != schemas.StatusDelivered && r.Status != schemas.StatusUndelivered || len(r.Code) > 64 {
				t.Fatalf("%+v", r)
			}
			if _, err := json.Marshal(r); err != nil {
				t.Fatal(err)
			}
		}
		for _, in := range inbound {
			if !strings.HasPrefix(in.From, "+") || in.Channel != schemas.ChannelSMS || in.At.IsZero() {
				t.Fatalf("%+v", in)
			}
		}
	})
}
