// Package twilio is the provider of type twilio: short messages by Twilio's
// Messages resource, and calls that read a text out by its Calls resource.
//
// One call is one request: httpcall. It does not recognise a repeated call, since
// Twilio has no key for that: what a broken call means is said, and the lane decides.
// It sends no media, and neither WhatsApp nor RCS.
package twilio

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/schemas"
)

// Type is the adapter.
var Type = provider.Type{Open: Open, Listen: Listen, Check: func(in *provider.Settings) { readSettings(in) }, Codes: &codes}

// defaultEndpoint is the API's address; other regions have their own.
const defaultEndpoint = "https://api.twilio.com"

// settings are those of the policy, read.
type settings struct {
	endpoint   *url.URL
	account    string // the account's SID
	user, pass string // of the API
	token      string // the account's auth token; empty where an API key is used alone
	from       string
	service    string // the messaging service's SID
	language   string // of calls, such as cmn-CN; empty is Twilio's
	voice      string
}

func readSettings(in *provider.Settings) (settings, httpcall.Config) {
	s := settings{
		endpoint: httpcall.Address(in, "endpoint", defaultEndpoint),
		account:  in.Required("account_sid", "the account's SID, which stands on the first page of Twilio's console and begins with AC"),
		token:    in.Text("auth_token", ""), from: in.Text("from", ""), service: in.Text("messaging_service_sid", ""),
		language: in.Text("language", ""), voice: in.Text("voice", ""),
	}
	key, secret := in.Text("api_key", ""), in.Text("api_secret", "")
	switch {
	case (key == "") != (secret == ""):
		in.Fail("api_key", "and settings.api_secret go together")
	case key == "" && s.token == "":
		in.Fail("auth_token", "is missing: write it, or api_key and api_secret")
	}
	switch {
	case s.from == "" && s.service == "":
		in.Fail("from", "is missing: write a number or a sender's name of yours, or messaging_service_sid")
	case s.from == "" && slices.Contains(in.Provider.Channels, schemas.ChannelVoice):
		in.Fail("from", "is missing: calls need a number, a messaging service has none for them")
	}
	if s.user, s.pass = key, secret; key == "" {
		s.user, s.pass = s.account, s.token
	}
	return s, httpcall.ConfigOf(in)
}

type client struct {
	settings
	http   *httpcall.Client
	status string // where Twilio reports to, without the reference; empty where it cannot
	now    func() time.Time
}

// Open is the factory; docs/provider-twilio.md has the settings.
func Open(p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
	in := deps.Settings(p)
	s, calls := readSettings(in)
	if err := in.Err(); err != nil {
		return nil, err
	}
	c := &client{settings: s, http: httpcall.New(calls), now: time.Now}
	if deps.PublicURL != "" && s.token != "" { // else its receipts could not be verified
		c.status = deps.PublicURL + "/v1/receipts/" + url.PathEscape(p.Name)
	}
	return c, nil
}

// Close closes idle connections.
func (c *client) Close() error { return c.http.Close() }

// maxTwiML is how long the Twiml parameter may be, in characters: Twilio's error
// 32018.
const maxTwiML = 4000

// Send makes one request.
func (c *client) Send(ctx context.Context, call *provider.Call) provider.Outcome {
	resource, form, refused := c.form(call)
	if form == nil {
		return refused
	}
	at := c.endpoint.JoinPath("2010-04-01", "Accounts", c.account, resource)
	body := form.Encode()
	req, err := http.NewRequest(http.MethodPost, at.String(), strings.NewReader(body))
	if err != nil { // the address was checked at Open
		return provider.Outcome{Kind: provider.Permanent, Code: "bad_request", Text: "the request cannot be made"}
	}
	req.SetBasicAuth(c.user, c.pass)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	a, none := c.http.Do(ctx, req)
	if a == nil {
		return none
	}
	return decide(a, c.now())
}

// form is what is POSTed, and to which resource.
func (c *client) form(call *provider.Call) (resource string, form url.Values, refused provider.Outcome) {
	form = url.Values{"To": {call.To}}
	if c.status != "" {
		form.Set("StatusCallback", c.status+"?ref="+url.QueryEscape(call.Reference().String()))
	}
	switch call.Channel {
	case schemas.ChannelSMS:
		form.Set("Body", call.Content.Body)
		if call.From == "" && c.service != "" {
			form.Set("MessagingServiceSid", c.service)
		} else {
			form.Set("From", cmp.Or(call.From, c.from))
		}
		return "Messages.json", form, refused
	case schemas.ChannelVoice:
		say := c.say(call.Content.Body)
		if n := utf8.RuneCountInString(say); n > maxTwiML {
			return "", nil, provider.Outcome{Kind: provider.Permanent, Code: "text_too_long", Text: "the text of a call takes " + strconv.Itoa(n) + " characters of TwiML, and Twilio takes " + strconv.Itoa(maxTwiML)}
		}
		form.Set("From", cmp.Or(call.From, c.from))
		form.Set("Twiml", say)
		return "Calls.json", form, refused
	case schemas.ChannelEmail, schemas.ChannelPush, schemas.ChannelWebhook:
	}
	return "", nil, provider.Outcome{Kind: provider.Permanent, Code: "bad_channel", Text: "type twilio carries sms and voice"}
}

// say is the TwiML of a call.
func (c *client) say(text string) string {
	var b bytes.Buffer
	b.WriteString("<Response><Say")
	for _, a := range []struct{ name, value string }{{"language", c.language}, {"voice", c.voice}} {
		if a.value != "" {
			b.WriteString(" " + a.name + `="`)
			_ = xml.EscapeText(&b, []byte(a.value)) // a Buffer does not fail
			b.WriteString(`"`)
		}
	}
	b.WriteString(">")
	_ = xml.EscapeText(&b, []byte(text))
	b.WriteString("</Say></Response>")
	return b.String()
}

// answer is what of an answer is read: a resource, or an error.
type answer struct {
	SID  string `json:"sid"`
	Code int    `json:"code"`
}

// decide maps an answer. Twilio's own code says what a refusal means; a status
// without one, or with one that is not known, comes of a gateway or is new.
func decide(a *httpcall.Answer, now time.Time) provider.Outcome {
	var said answer
	readable := json.Unmarshal(a.Body, &said) == nil
	if a.Status >= 200 && a.Status <= 299 {
		if !readable || said.SID == "" {
			return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "unreadable", Text: "the answer cannot be read: nobody knows whether it was taken"}
		}
		return provider.Outcome{Kind: provider.Accepted, ProviderMessageID: httpcall.ID(said.SID)}
	}
	code := ""
	if readable && said.Code > 0 {
		code = strconv.Itoa(said.Code)
	}
	var o provider.Outcome
	if _, known := codes.Of(code); known {
		o = codes.Outcome(code)
	} else {
		o = ofStatus(a.Status)
		if code != "" {
			o.Code = code
		}
	}
	if o.Kind == provider.Throttled || o.Kind == provider.Transient {
		o.RetryAfter = a.RetryAfter(now)
	}
	return o
}

// ofStatus is what a status means without a code that is known.
func ofStatus(status int) provider.Outcome {
	o := provider.Outcome{Kind: codes.Else.Kind, Code: "http_" + strconv.Itoa(status), Text: codes.Else.Means}
	switch {
	case status == http.StatusTooManyRequests:
		o.Kind, o.Text = provider.Throttled, "too many requests"
	case status == http.StatusServiceUnavailable, status == http.StatusRequestTimeout:
		o.Kind, o.Text = provider.Transient, "the API is not available"
	case httpcall.Unauthorized(status):
		o.Kind, o.Text = provider.Transient, "the credentials are refused"
	case status < 400 || status >= 500:
		o.Kind, o.MayBeReceived, o.Text = provider.Transient, true, "the API failed, perhaps after it took the message"
	}
	return o
}
