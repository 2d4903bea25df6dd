package smtp_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/smtp"
	"github.com/weirhq/weir/schemas"
)

var came = time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC)

func listen(t *testing.T) provider.Listener {
	t.Helper()
	l, err := provider.Types{"smtp": smtp.Type}.Listen(schemas.Provider{Name: "mail", Type: "smtp", Settings: map[string]any{
		"host": "h", "from": "weir@weir.example", "receipt_secret": "${SECRET}", "unsubscribe_secret": "${UNSUBSCRIBE}",
	}}, provider.Deps{Private: outbound.Loopback, PublicURL: "https://weir.example", Getenv: func(k string) string {
		return map[string]string{"SECRET": "s3cret-s3cret-16", "UNSUBSCRIBE": "0123456789abcdef"}[k]
	}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func hook(body string, header ...string) *provider.Hook {
	h := &provider.Hook{Method: http.MethodPost, URL: &url.URL{Path: "/v1/receipts/mail"}, Header: http.Header{}, Body: []byte(strings.ReplaceAll(body, "\n", "\r\n")), At: came}
	for i := 0; i+1 < len(header); i += 2 {
		h.Header.Set(header[i], header[i+1])
	}
	return h
}

// bounce is a notification as Postfix writes it.
func bounce(envelope, final, action, status, messageID string) string {
	return `Return-Path: <>
Date: Sun, 22 Nov 2026 03:55:00 +0000 (UTC)
From: MAILER-DAEMON@relay.weir.example (Mail Delivery System)
Subject: Undelivered Mail Returned to Sender
To: bounces@weir.example
Auto-Submitted: auto-replied
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status;
	boundary="4bX.1795/relay.weir.example"

This is a MIME-encapsulated message.

--4bX.1795/relay.weir.example
Content-Description: Notification
Content-Type: text/plain; charset=us-ascii

<zoe@example.com>: host mx.example.com said: 550 5.1.1 no such user

--4bX.1795/relay.weir.example
Content-Description: Delivery report
Content-Type: message/delivery-status

Reporting-MTA: dns; relay.weir.example
` + envelope + `X-Postfix-Queue-ID: 4bX

Final-Recipient: rfc822; ` + final + `
Original-Recipient: rfc822;` + final + `
Action: ` + action + `
Status: ` + status + `
Diagnostic-Code: smtp; 550 5.1.1 no such user

--4bX.1795/relay.weir.example
Content-Description: Undelivered Message Headers
Content-Type: text/rfc822-headers

Message-ID: <` + messageID + `>
To: <zoe@example.com>
Subject: hello

--4bX.1795/relay.weir.example--
`
}

func TestReceipts(t *testing.T) {
	ref := call.Reference()
	env := "Original-Envelope-Id: " + ref.String() + "\n"
	id := call.ID + "@weir.example"
	at := schemas.MillisOf(time.Date(2026, 11, 22, 3, 55, 0, 0, time.UTC))
	full := func(change func(*provider.Receipt)) []provider.Receipt {
		r := ref.Receipt("mail")
		r.At = at
		change(&r)
		return []provider.Receipt{r}
	}
	noTenant := ref
	noTenant.Tenant, noTenant.To = "", ""
	arf := func(kind string) string {
		s := bounce("", "zoe@example.com", "failed", "5.1.1", id)
		i, j := strings.Index(s, "Content-Description: Delivery report"), strings.Index(s, "\n--4bX.1795/relay.weir.example\nContent-Description: Undelivered")
		return strings.Replace(s[:i], "report-type=delivery-status", "report-type=feedback-report", 1) + "Content-Type: message/feedback-report\n\nFeedback-Type: " + kind + "\nVersion: 1\nOriginal-Rcpt-To: <zoe@example.com>\n" + s[j:]
	}
	for _, tt := range []struct {
		name string
		body string
		kind string // Content-Type of the request
		want []provider.Receipt
	}{
		{"a hard bounce with the reference", bounce(env, "zoe@example.com", "failed", "5.1.1", id), "", full(func(r *provider.Receipt) {
			r.Status, r.Code, r.Text, r.Suppress = schemas.StatusUndelivered, "5.1.1", "the mailbox does not exist", schemas.SuppressHardBounce
		})},
		{"only the part that tells", "Reporting-MTA: dns; x\n" + env + "\nFinal-Recipient: rfc822; zoe@example.com\nAction: failed\nStatus: 5.2.2 (full)\nLast-Attempt-Date: Sun, 22 Nov 2026 03:55:00 +0000\n", "message/delivery-status", full(func(r *provider.Receipt) {
			r.Status, r.Code, r.Text = schemas.StatusUndelivered, "5.2.2", "the mailbox is full"
		})},
		{"without the reference, by the letter's id", bounce("", "zoe@example.com", "failed", "5.1.1", id), "message/rfc822", []provider.Receipt{{
			Provider: "mail", ProviderMessageID: id, Channel: "email", At: at, Status: schemas.StatusUndelivered, Code: "5.1.1", Text: "the mailbox does not exist", Suppress: schemas.SuppressHardBounce,
		}}},
		{"a letter of Weir's own", bounce("Original-Envelope-Id: "+noTenant.String()+"\n", "zoe@example.com", "failed", "5.1.1", id), "", nil},
		{"delivered", bounce(env, "zoe@example.com", "delivered", "2.0.0", id), "", full(func(r *provider.Receipt) { r.Status = schemas.StatusDelivered })},
		{"given up after days", bounce(env, "zoe@example.com", "failed", "4.4.7", id), "", full(func(r *provider.Receipt) {
			r.Status, r.Code, r.Text = schemas.StatusUndelivered, "4.4.7", "it could not be delivered in time"
		})},
		{"a status that is none", bounce(env, "zoe@example.com", "failed", "zoe@example.com", id), "", full(func(r *provider.Receipt) { r.Status = schemas.StatusUndelivered })},
		{"delayed: still on its way", bounce(env, "zoe@example.com", "delayed", "4.4.1", id), "", nil},
		{"handed on to a system that does not tell", bounce(env, "zoe@example.com", "relayed", "2.0.0", id), "", nil},
		{"a complaint", arf("abuse"), "", []provider.Receipt{{
			Provider: "mail", ProviderMessageID: id, Channel: "email", At: at, Code: "abuse", Text: "marked as spam (RFC 5965)", Suppress: schemas.SuppressComplaint,
		}}},
		{"not spam after all", arf("not-spam"), "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, reply, err := listen(t).Receipts(hook(tt.body, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("x:s3cret-s3cret-16")), "Content-Type", tt.kind))
			if err != nil || reply.Status != 0 {
				t.Fatal(err, reply)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReceiptsThatAreNotRead(t *testing.T) {
	good := bounce("", "zoe@example.com", "failed", "5.1.1", "x@y")
	for _, tt := range []struct {
		name, token, body string
		want              error
	}{
		{"no secret", "", good, provider.ErrForged},
		{"another one", "s3cret", good, provider.ErrForged},
		{"no e-mail", "s3cret-s3cret-16", "\x00", provider.ErrHook},
		{"an e-mail of people", "s3cret-s3cret-16", "Subject: hi\nContent-Type: text/plain\n\nhello\n", provider.ErrHook},
		{"a report of nothing", "s3cret-s3cret-16", "Content-Type: multipart/report; boundary=x\n\n--x\n\nhello\n--x--\n", provider.ErrHook},
		{"a status without recipients", "s3cret-s3cret-16", "Content-Type: multipart/report; boundary=x\n\n--x\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; x\n\n--x--\n", provider.ErrHook},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := hook(tt.body)
			h.URL.RawQuery = url.Values{"token": {tt.token}}.Encode()
			got, _, err := listen(t).Receipts(h)
			if !errors.Is(err, tt.want) || got != nil {
				t.Errorf("%v, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), "zoe") {
				t.Error(err)
			}
		})
	}
}

func FuzzReceipts(f *testing.F) {
	f.Add(bounce("Original-Envelope-Id: x\n", "zoe@example.com", "failed", "5.1.1", "x@y"), "")
	f.Add("A: b\n\nFinal-Recipient: rfc822; x@y\nAction: failed\nStatus: 5.1.1\n", "message/delivery-status")
	l, err := smtp.Listen(schemas.Provider{Name: "mail", Settings: map[string]any{"host": "h", "from": "a@b.example", "receipt_secret": "0123456789abcdef"}}, provider.Deps{Private: outbound.Loopback})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body, kind string) {
		h := hook(body, "Content-Type", kind)
		h.URL.RawQuery = "token=0123456789abcdef"
		got, _, err := l.Receipts(h)
		if err != nil && !errors.Is(err, provider.ErrHook) {
			t.Error(err)
		}
		for _, r := range got {
			if r.MessageID == "" && r.ProviderMessageID == "" || len(r.Code) > 20 {
				t.Errorf("%+v", r)
			}
		}
	})
}
