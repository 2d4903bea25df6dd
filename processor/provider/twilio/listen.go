package twilio

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // what Twilio signs with
	"encoding/base64"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

type listener struct {
	name  string
	token string
}

// Listen opens what reads Twilio's status callbacks and incoming messages. It needs
// auth_token also where calls are made with an API key: Twilio signs with it.
func Listen(p schemas.Provider, deps provider.Deps) (provider.Listener, error) {
	in := deps.Settings(p)
	s, _ := readSettings(in)
	if s.token == "" {
		in.Fail("auth_token", "is missing: Twilio signs its requests with it, also where calls are made with an api_key")
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	return &listener{name: p.Name, token: s.token}, nil
}

// Receipts reads a status callback: of a message (MessageStatus) or a call
// (CallStatus). What is still on its way is no receipt.
func (l *listener) Receipts(h *provider.Hook) ([]provider.Receipt, provider.Reply, error) {
	form, err := l.verified(h)
	if err != nil {
		return nil, provider.Reply{}, err
	}
	sid, status, channel := form.Get("MessageSid"), form.Get("MessageStatus"), schemas.ChannelSMS
	if call := form.Get("CallSid"); sid == "" && call != "" {
		sid, status, channel = call, form.Get("CallStatus"), schemas.ChannelVoice
	}
	if sid == "" || status == "" {
		return nil, provider.Reply{}, provider.ErrHook
	}
	row, known := codes.OfReceipt(status)
	if !known || row.Kind == "" {
		return nil, provider.Reply{}, nil
	}
	r := provider.Receipt{Provider: l.name, To: form.Get("To"), Channel: channel}
	if ref, err := provider.ParseReference(h.URL.Query().Get("ref")); err == nil {
		r = ref.Receipt(l.name)
	}
	r.ProviderMessageID = sid
	r.At = schemas.MillisOf(h.At)
	if at, err := time.Parse(time.RFC1123Z, form.Get("Timestamp")); err == nil { // of calls
		r.At = schemas.MillisOf(at)
	}
	if row.Kind == provider.Accepted {
		r.Status = schemas.StatusDelivered
		return []provider.Receipt{r}, provider.Reply{}, nil
	}
	r.Status, r.Code, r.Text = schemas.StatusUndelivered, status, row.Means
	if code := form.Get("ErrorCode"); number(code) {
		r.Code, r.Text = code, "Twilio's error "+code
		if row, known := codes.OfReceipt(code); known {
			r.Text, r.Suppress = row.Means, row.Suppress
		}
	}
	return []provider.Receipt{r}, provider.Reply{}, nil
}

// number reports whether s is a code of Twilio's rather than anything.
func number(s string) bool {
	return s != "" && len(s) <= 9 && strings.Trim(s, "0123456789") == ""
}

// Inbound reads a message that came in. It is answered with TwiML that says
// nothing: Twilio itself answers STOP and HELP.
func (l *listener) Inbound(h *provider.Hook) ([]provider.Inbound, provider.Reply, error) {
	form, err := l.verified(h)
	if err != nil {
		return nil, provider.Reply{}, err
	}
	m := provider.Inbound{ID: form.Get("MessageSid"), From: form.Get("From"), To: form.Get("To"), Channel: schemas.ChannelSMS, Text: form.Get("Body"), At: h.At}
	if m.ID == "" || m.From == "" {
		return nil, provider.Reply{}, provider.ErrHook
	}
	switch word := strings.ToLower(form.Get("OptOutType")); word {
	case "stop", "start", "help":
		m.Word = word
	}
	return []provider.Inbound{m}, provider.Reply{Status: http.StatusOK, ContentType: "text/xml", Body: []byte(`<?xml version="1.0" encoding="UTF-8"?><Response></Response>`)}, nil
}

// verified returns the form of a request that Twilio signed.
func (l *listener) verified(h *provider.Hook) (url.Values, error) {
	given, err := base64.StdEncoding.Strict().DecodeString(h.Header.Get("X-Twilio-Signature"))
	if err != nil || len(given) != sha1.Size || h.URL == nil || h.Method != http.MethodPost {
		return nil, provider.ErrForged
	}
	kind, _, err := mime.ParseMediaType(h.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, provider.ErrForged
	}
	form, err := url.ParseQuery(string(h.Body))
	if err != nil {
		return nil, provider.ErrForged
	}
	// With its port and without: Twilio itself is not consistent in that.
	for _, at := range addresses(h.URL) {
		if hmac.Equal(sign(l.token, at, form), given) {
			return form, nil
		}
	}
	return nil, provider.ErrForged
}

// sign is HMAC-SHA1, under the auth token, of the address and of each parameter's
// name and value, in the order of names ("Validate webhook signatures",
// https://www.twilio.com/docs/usage/webhooks/webhooks-security).
func sign(token, address string, form url.Values) []byte {
	mac := hmac.New(sha1.New, []byte(token))
	mac.Write([]byte(address))
	for _, name := range slices.Sorted(maps.Keys(form)) {
		for _, v := range slices.Compact(slices.Sorted(slices.Values(form[name]))) {
			mac.Write([]byte(name + v))
		}
	}
	return mac.Sum(nil)
}

// addresses are those under which Twilio may have signed.
func addresses(u *url.URL) []string {
	port := "443"
	if u.Scheme == "http" {
		port = "80"
	}
	with, without := *u, *u
	if u.Port() == "" {
		with.Host = net.JoinHostPort(u.Hostname(), port)
	} else if without.Host = u.Hostname(); strings.Contains(without.Host, ":") {
		without.Host = "[" + without.Host + "]"
	}
	return []string{with.String(), without.String()}
}
