package http_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	httpprovider "github.com/weirhq/weir/processor/provider/http"
	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/schemas"
)

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Adapter{
		Name: "http", Type: httpprovider.Type, Channels: schemas.ProviderTypes["http"],
		To: map[schemas.Channel]string{
			schemas.ChannelSMS: "+8613800000000", schemas.ChannelVoice: "+8613800000000", schemas.ChannelEmail: "zoe@customer.example",
			schemas.ChannelPush: "token-of-a-device-0123456789", schemas.ChannelWebhook: "https://customer.example/hook",
		},
		Settings: func(endpoint string) map[string]any {
			return map[string]any{
				"url": endpoint + "/send", "headers": map[string]any{"Authorization": "Bearer ${SMS_TOKEN}"},
				"sign": map[string]any{"secret": "${SMS_SIGNING}"}, "receipt_secret": "${SMS_RECEIPTS}",
			}
		},
		Env:         map[string]string{"SMS_TOKEN": "hunter2-s3cret-token", "SMS_SIGNING": signing, "SMS_RECEIPTS": "hunter2-of-the-receipts"},
		Optional:    []string{"headers", "sign", "receipt_secret"},
		Start:       contractServer,
		UnknownCode: "600",
		Lacks:       []providertest.Lack{providertest.LacksAccount}, // an address of the operator's own says what its 401 is of: settings.map
		Receipts:    "JSON, signed or with a secret",
		Idempotency: "`Idempotency-Key`",
	})
}

// signing is the secret of settings.sign: Standard Webhooks, verified by its own
// library.
var signing = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))

// contractServer is an address of an operator's, as docs/provider-http.md tells
// whoever writes one.
func contractServer(t providertest.T) providertest.Server {
	var ids atomic.Int64
	type message struct {
		ID       string            `json:"id"`
		To       string            `json:"to"`
		From     string            `json:"from"`
		Channel  string            `json:"channel"`
		Subject  string            `json:"subject"`
		Body     string            `json:"body"`
		HTML     string            `json:"html"`
		Title    string            `json:"title"`
		ReplyTo  string            `json:"reply_to"`
		Data     map[string]string `json:"data"`
		Template string            `json:"template"`
		Vars     map[string]string `json:"vars"`
		Attempt  int               `json:"attempt"`
	}
	parse := func(r *http.Request, body []byte) (m message, err error) {
		if r.Method != http.MethodPost || r.URL.Path != "/send" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Authorization") != "Bearer hunter2-s3cret-token" {
			return m, fmt.Errorf("%s %s", r.Method, r.URL)
		}
		w, err := webhooks.NewWebhook(signing)
		if err != nil {
			return m, err
		}
		if err := w.Verify(body, r.Header); err != nil {
			return m, err
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		return m, d.Decode(&m)
	}
	return providertest.HTTP{
		Take: func(r *http.Request, body []byte) (providertest.Message, providertest.Answer, error) {
			m, err := parse(r, body)
			return providertest.Message{
				To: m.To, From: m.From, Reference: m.ID, Key: r.Header.Get("Idempotency-Key"), Subject: m.Subject, Body: m.Body, HTML: m.HTML, Title: m.Title, ReplyTo: m.ReplyTo, Data: m.Data,
			}, providertest.Answer{Body: fmt.Sprintf(`{"id": "m-%d"}`, ids.Add(1))}, err
		},
		Refuse: func(r *http.Request, body []byte, b providertest.Behaviour) providertest.Answer {
			m, _ := parse(r, body)
			why, _ := json.Marshal(map[string]string{"error": "no " + m.To + ": " + m.Body + " " + r.Header.Get("Authorization"), "code": m.To})
			a := refused(b, string(why))
			a.Header["Content-Type"] = "application/json"
			return a
		},
		Garbage: garbage,
	}.Start(t)
}

// refused is an answer that refuses by its status.
func refused(b providertest.Behaviour, body string) providertest.Answer {
	a := providertest.Answer{Header: map[string]string{}, Body: body}
	switch {
	case b.Forbidden:
		a.Status = http.StatusUnauthorized
	case b.Throttle != 0:
		a.Status = http.StatusTooManyRequests
		if b.Throttle > 0 {
			a.Header["Retry-After"] = strconv.Itoa(int(b.Throttle / time.Second))
		}
	default:
		a.Status, _ = strconv.Atoi(b.Code)
	}
	return a
}

// garbage is no HTTP.
func garbage(w http.ResponseWriter) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		fmt.Fprint(c, "garbage and more of it\r\n\r\n")
		c.Close()
	}
}
