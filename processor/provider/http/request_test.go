package http_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	httpprovider "github.com/weirhq/weir/processor/provider/http"
	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/schemas"
)

// TestContractOfAForm: the contract again, for an address that takes a form, wants
// it signed in a way of its own and answers in its own words.
func TestContractOfAForm(t *testing.T) {
	const secret = "hunter2-of-the-form"
	var ids atomic.Int64
	providertest.Check(t, providertest.Adapter{
		Name: "http", Type: httpprovider.Type, Channels: []schemas.Channel{schemas.ChannelSMS}, To: map[schemas.Channel]string{schemas.ChannelSMS: "+8613800000000"},
		Settings: func(endpoint string) map[string]any {
			return map[string]any{
				"url": endpoint,
				"request": map[string]any{
					"method":  "PUT",
					"headers": map[string]any{"X-Sender": "w-{{attempt}}"},
					"form":    map[string]any{"apikey": "${FORM_KEY}", "mobile": "{{to}}", "text": "{{body}}", "sender": "{{from}}", "ext": "{{id}}"},
				},
				"answer": map[string]any{"id": "/result/0/sms~1id"},
				"sign":   map[string]any{"secret": "${FORM_KEY}", "header": "X-Sig", "signs": "body", "prefix": "sha256="}, "receipt_secret": "${FORM_KEY}",
			}
		},
		Env: map[string]string{"FORM_KEY": secret}, Optional: []string{"request", "answer", "sign", "receipt_secret"}, UnknownCode: "600", Lacks: []providertest.Lack{providertest.LacksAccount}, Receipts: "-", Idempotency: "-",
		Start: func(t providertest.T) providertest.Server {
			return providertest.HTTP{
				Take: func(r *http.Request, body []byte) (providertest.Message, providertest.Answer, error) {
					form, err := url.ParseQuery(string(body))
					if err != nil || r.Method != "PUT" || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || form.Get("apikey") != secret || len(form) != 5 || !strings.HasPrefix(r.Header.Get("X-Sig"), "sha256=") || !strings.HasPrefix(r.Header.Get("X-Sender"), "w-") {
						return providertest.Message{}, providertest.Answer{}, fmt.Errorf("%s %v %v", r.Method, r.Header, form)
					}
					return providertest.Message{To: form.Get("mobile"), From: form.Get("sender"), Body: form.Get("text"), Key: r.Header.Get("Idempotency-Key"), Reference: form.Get("ext")},
						providertest.Answer{Body: fmt.Sprintf(`{"result": [{"sms/id": %d}]}`, ids.Add(1))}, nil
				},
				Refuse: func(_ *http.Request, _ []byte, b providertest.Behaviour) providertest.Answer {
					return refused(b, `{"code": "`+secret+`", "error": "no +8613800000000"}`)
				},
				Garbage: garbage,
			}.Start(t)
		},
	})
}

// asked is what came of a request of settings.request.
type asked struct {
	outcome provider.Outcome
	method  string
	header  http.Header
	body    string
}

func ask(t *testing.T, request map[string]any, c provider.Call) asked {
	t.Helper()
	var got asked
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got.method, got.header, got.body = r.Method, r.Header, string(b)
	}))
	defer srv.Close()
	got.outcome = open(t, map[string]any{"url": srv.URL, "request": request}).Send(t.Context(), &c)
	return got
}

// evil is text that ends a string in every language that a body may be in.
const evil = "\"}],\\u0000'</x>&to=+1\r\nX-Injected: 1 {{id}} ${TOKEN}"

func TestTemplates(t *testing.T) {
	c := provider.Call{
		ID: "m1", Attempt: 2, To: "+8613800000000", From: "Weir", Channel: schemas.ChannelSMS, Tenant: "acme", Class: "verify", Template: "login",
		Content: content.Content{Body: evil, Subject: "s", HTML: "<b>", Title: "t"}, ReplyTo: "r@x.example", Vars: map[string]string{"code": evil}, Data: map[string]string{"k": "v"},
	}
	all := map[string]any{
		"msg":  map[string]any{"to": "{{to}}", "text": "{{body}}", "n": "{{attempt}}", "n is": "n={{attempt}}"},
		"list": []any{"{{id}}", "fixed", 5, true, nil, "${TOKEN}-{{ channel }}"}, "vars": "{{vars}}", "data": "{{data}}", "code": "<{{vars.code}}>", "d": "{{data.k}}",
		"rest": "{{from}}{{subject}}{{html}}{{title}}{{reply_to}}{{template}}{{tenant}}{{class}}", "reference": "{{reference}}",
	}
	got := ask(t, map[string]any{"json": all}, c)
	var body map[string]any
	if err := json.Unmarshal([]byte(got.body), &body); err != nil {
		t.Fatalf("%v: %s", err, got.body)
	}
	want := map[string]any{
		"msg":  map[string]any{"to": "+8613800000000", "text": evil, "n": 2.0, "n is": "n=2"},
		"list": []any{"m1", "fixed", 5.0, true, nil, "s3cret-sms"}, "vars": map[string]any{"code": evil}, "data": map[string]any{"k": "v"}, "code": "<" + evil + ">", "d": "v",
		"rest": "Weirs<b>tr@x.exampleloginacmeverify", "reference": c.Reference().String(),
	}
	if diff := cmp.Diff(want, body); diff != "" || got.method != "POST" || got.header.Get("Content-Type") != "application/json" {
		t.Error(got.method, diff)
	}

	got = ask(t, map[string]any{"form": map[string]any{"to": "{{to}}", "text": "a {{body}}", "x": "fixed"}}, c)
	if form, err := url.ParseQuery(got.body); err != nil || cmp.Diff(url.Values{"to": {c.To}, "text": {"a " + evil}, "x": {"fixed"}}, form) != "" {
		t.Errorf("%v: %v", form, err)
	}

	c.Vars, c.Data = nil, nil
	if got = ask(t, map[string]any{"json": map[string]any{"v": "{{vars}}", "d": "{{data}}"}}, c); got.body != `{"d":{},"v":{}}` {
		t.Errorf("without variables: %s", got.body)
	}
}

// TestWhatCannotBeRequested: nothing is sent with a hole, and nothing in a header
// that ends it.
func TestWhatCannotBeRequested(t *testing.T) {
	for name, tt := range map[string]struct {
		request map[string]any
		code    string
	}{
		"a variable that is missing":         {map[string]any{"json": map[string]any{"a": []any{"{{vars.code}}"}}}, "missing_variable"},
		"a variable of a form":               {map[string]any{"form": map[string]any{"a": "{{vars.code}}"}}, "missing_variable"},
		"a variable of a header":             {map[string]any{"headers": map[string]any{"X-A": "{{vars.code}}"}}, "missing_variable"},
		"data that is missing":               {map[string]any{"json": "{{data.code}}"}, "missing_variable"},
		"a header's end in a header's value": {map[string]any{"headers": map[string]any{"X-A": "{{body}}"}}, "bad_content"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, tt.request, provider.Call{Content: content.Content{Body: evil}})
			if o := got.outcome; o.Kind != provider.Permanent || o.MayBeReceived || o.Code != tt.code || got.method != "" {
				t.Errorf("%+v, and the server was asked: %q", o, got.method)
			}
		})
	}
}

func TestAnswerPointers(t *testing.T) {
	for _, tt := range []struct{ at, body, want string }{
		{"/id", `{"id": "a"}`, "a"},
		{"/data/0/id", `{"data": [{"id": 17}]}`, "17"},
		{"/data/1/id", `{"data": [{"id": 17}]}`, ""},
		{"/data/00/id", `{"data": [{"id": 17}]}`, ""},
		{"/data/-/id", `{"data": [{"id": 17}]}`, ""},
		{"/a~1b/c~0d", `{"a/b": {"c~d": "x"}}`, "x"},
		{"/", `{"": "x"}`, "x"},
		{"/a/b", `{"a": "b"}`, ""},
		{"/a", `{"a": {"b": 1}}`, ""},
		{"/a", `garbage`, ""},
		{"/a", `{"a": "not\nprintable"}`, ""},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tt.body) }))
		o := send(t, open(t, map[string]any{"url": srv.URL, "answer": map[string]any{"id": tt.at}}), ample)
		srv.Close()
		if o.Kind != provider.Accepted || o.ProviderMessageID != tt.want {
			t.Errorf("%s in %s: %+v", tt.at, tt.body, o)
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(400)
		_, _ = io.WriteString(w, `{"error": {"code": "E17"}}`)
	}))
	defer srv.Close()
	if o := send(t, open(t, map[string]any{"url": srv.URL, "answer": map[string]any{"code": "/error/code"}}), ample); !strings.HasSuffix(o.Text, "code E17") {
		t.Errorf("%+v", o)
	}
}

func TestRequestSettings(t *testing.T) {
	for name, tt := range map[string]struct {
		setting string
		v       any
		want    string
	}{
		"text":                       {"request", "x", "settings.request must be a mapping"},
		"unknown":                    {"request", map[string]any{"body": "x"}, "settings.request.body is not a setting"},
		"method":                     {"request", map[string]any{"method": "GET"}, "settings.request.method must be one of POST, PUT"},
		"two bodies":                 {"request", map[string]any{"json": map[string]any{}, "form": map[string]any{}}, "a body is one of them"},
		"unknown variable":           {"request", map[string]any{"json": map[string]any{"a": []any{"{{too}}"}}}, "settings.request.json.a[0] asks for {{too}}, which is none of"},
		"object within text":         {"request", map[string]any{"json": "x {{vars}}"}, "settings.request.json asks for {{vars}}, which is none of"},
		"object in a form":           {"request", map[string]any{"form": map[string]any{"a": "{{data}}"}}, "settings.request.form.a asks for {{data}}, which is none of"},
		"braces":                     {"request", map[string]any{"form": map[string]any{"a": "{{to"}}, "settings.request.form.a is no template: a {{ is never closed"},
		"number in a form":           {"request", map[string]any{"form": map[string]any{"a": 5}}, "settings.request.form.a must be text"},
		"secret that is not there":   {"request", map[string]any{"json": map[string]any{"k": "hunter2 ${NOPE} {{to}}"}}, "settings.request.json.k: the environment has no NOPE"},
		"header of Weir":             {"request", map[string]any{"headers": map[string]any{"content-type": "x"}}, "settings.request.headers.content-type is no header's name, or is set by Weir"},
		"no header":                  {"request", map[string]any{"headers": map[string]any{"a b": "x"}}, "is no header's name"},
		"answer":                     {"answer", "id", "settings.answer must be a mapping"},
		"pointer without a slash":    {"answer", map[string]any{"id": "data.id"}, "settings.answer.id must be a JSON pointer"},
		"pointer with another tilde": {"answer", map[string]any{"code": "/a~2"}, "settings.answer.code must be a JSON pointer"},
		"pointer that ends in tilde": {"answer", map[string]any{"code": "/a~"}, "settings.answer.code must be a JSON pointer"},
		"answer of more":             {"answer", map[string]any{"status": "/a"}, "settings.answer.status is not a setting"},
		"sign":                       {"sign", map[string]any{"secret": "hunter2"}, "settings.sign.secret cannot sign: a webhook's secret"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := provider.Types{"http": httpprovider.Type}.Open(schemas.Provider{Name: "p", Type: "http", Settings: map[string]any{"url": "http://x", tt.setting: tt.v}}, provider.Deps{Private: outbound.Loopback})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
