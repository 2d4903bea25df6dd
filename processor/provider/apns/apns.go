// Package apns is the provider of type apns: it sends notifications to Apple's
// devices over the provider API of the Apple Push Notification service, in HTTP/2 with
// token authentication.
//
// One call is one request: httpcall. Apple sends no receipts; a device that is gone is
// told in the answer to the next notification. It has no certificates, no broadcasts,
// no Live Activities' own fields.
package apns

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/http/httpguts"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/schemas"
)

// Type is the provider's.
var Type = provider.Type{Open: Open, Check: func(in *provider.Settings) { readSettings(in) }, Codes: &codes}

// Apple's servers ("Sending notification requests to APNs").
var endpoints = map[string]string{
	"production": "https://api.push.apple.com",
	"sandbox":    "https://api.sandbox.push.apple.com",
}

// maxPayload is the largest payload in bytes; of VoIP notifications 5 KB (Apple,
// "Generating a remote notification").
const (
	maxPayload     = 4096
	maxPayloadVoIP = 5120
	maxCollapse    = 64
)

type adapter struct {
	endpoint  string
	topic     string
	pushType  string
	priority  int // 0: Apple's own
	sound     string
	collapse  string // the entry of data whose value is the collapse id
	authorize *tokens
	http      *httpcall.Client
}

// Open is the factory. docs/provider-apns.md has the settings.
func Open(p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
	in := deps.Settings(p)
	a, calls := readSettings(in)
	if err := in.Err(); err != nil {
		return nil, err
	}
	a.http = httpcall.New(calls)
	return a, nil
}

func readSettings(in *provider.Settings) (*adapter, httpcall.Config) {
	a := &adapter{authorize: &tokens{now: time.Now}}
	a.authorize.team = in.Required("team_id", "the ten characters of your team at Apple")
	a.authorize.keyID = in.Required("key_id", "the ten characters of the key")
	if pem := in.Required("key", "file: with the path of the .p8 file"); pem != "" {
		key, err := parseKey(pem)
		if err != nil {
			in.Fail("key", "%w", err)
		}
		a.authorize.key = key
	}
	a.topic = in.Required("topic", "the app's bundle id")
	if !httpguts.ValidHeaderFieldValue(a.topic) {
		in.Fail("topic", "holds what no header can")
	}
	endpoint := in.Text("endpoint", "production")
	if known, ok := endpoints[endpoint]; ok {
		endpoint = known
	}
	a.endpoint = strings.TrimSuffix(endpoint, "/")
	if u, err := url.Parse(endpoint); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		in.Fail("endpoint", "must be production, sandbox or an address")
	}
	a.pushType = in.OneOf("push_type", "alert", "background", "voip", "complication", "fileprovider", "mdm", "location", "liveactivity", "pushtotalk", "widgets", "controls")
	a.priority = in.Int("priority", 0, 1, 10)
	if !slices.Contains([]int{0, 1, 5, 10}, a.priority) {
		in.Fail("priority", "must be 1, 5 or 10")
	}
	if a.priority == 0 && a.pushType == "background" {
		a.priority = 5 // Apple refuses 10 for these
	}
	a.sound = in.Text("sound", "")
	a.collapse = in.Text("collapse_from", "")
	calls := httpcall.ConfigOf(in)
	calls.HTTP2 = true
	return a, calls
}

// Close closes idle connections.
func (a *adapter) Close() error { return a.http.Close() }

// payload is the notification, with the message's data beside "aps".
func (a *adapter) payload(c *provider.Call) (body []byte, collapse string, refused provider.Outcome) {
	refuse := func(code, text string) ([]byte, string, provider.Outcome) {
		return nil, "", provider.Outcome{Kind: provider.Permanent, Code: code, Text: text}
	}
	aps := make(map[string]any)
	if a.pushType == "background" {
		aps["content-available"] = 1
	} else {
		alert := make(map[string]string)
		for k, v := range map[string]string{"title": c.Content.Title, "body": c.Content.Body} {
			if v != "" {
				alert[k] = v
			}
		}
		aps["alert"] = alert
		if a.sound != "" {
			aps["sound"] = a.sound
		}
	}
	all := map[string]any{"aps": aps}
	for k, v := range c.Data {
		switch {
		case k == "aps":
			return refuse("bad_data", `data has an entry "aps", which is Apple's own`)
		case k == a.collapse && k != "":
			collapse = v
		default:
			all[k] = v
		}
	}
	if len(collapse) > maxCollapse || !httpguts.ValidHeaderFieldValue(collapse) {
		return refuse("bad_collapse_id", "the collapse id is over 64 bytes, or holds what no header can")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(all); err != nil {
		return refuse("bad_content", "the message cannot be encoded")
	}
	body = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	most := maxPayload
	if a.pushType == "voip" {
		most = maxPayloadVoIP
	}
	if len(body) > most {
		return refuse("payload_too_large", "the payload has "+strconv.Itoa(len(body))+" bytes, and "+strconv.Itoa(most)+" are allowed")
	}
	return body, collapse, provider.Outcome{}
}

// Send makes one request.
func (a *adapter) Send(ctx context.Context, c *provider.Call) provider.Outcome {
	body, collapse, refused := a.payload(c)
	if body == nil {
		return refused
	}
	token, err := a.authorize.get()
	if err != nil {
		return provider.Outcome{Kind: provider.Permanent, Code: "bad_key", Text: "the token cannot be signed with settings.key"}
	}
	req, err := http.NewRequest(http.MethodPost, a.endpoint+"/3/device/"+url.PathEscape(c.To), bytes.NewReader(body))
	if err != nil { // the address was checked at Open
		return provider.Outcome{Kind: provider.Permanent, OfRecipient: true, Code: "bad_recipient", Text: "the recipient makes no address"}
	}
	for k, v := range map[string]string{
		"authorization": "bearer " + token, "content-type": "application/json", "apns-topic": a.topic, "apns-push-type": a.pushType,
		"apns-collapse-id": collapse,
	} {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	if a.priority != 0 {
		req.Header.Set("apns-priority", strconv.Itoa(a.priority))
	}
	if c.ExpiresAt != 0 {
		req.Header.Set("apns-expiration", strconv.FormatInt(c.ExpiresAt.Time().Unix(), 10))
	}
	if id, err := uuid.Parse(c.ID); err == nil { // without one, Apple makes its own
		req.Header.Set("apns-id", id.String())
	}
	answer, none := a.http.Do(ctx, req)
	if answer == nil {
		return none
	}
	o := decide(answer)
	if o.Code == "ExpiredProviderToken" {
		a.authorize.expired(token)
	}
	return o
}

// reasonForm keeps anything but a reason out of status events.
var reasonForm = regexp.MustCompile(`^[A-Za-z]{3,48}$`)

// decide maps an answer. Apple names every notification that it takes.
func decide(a *httpcall.Answer) provider.Outcome {
	if a.Status == http.StatusOK {
		id, err := uuid.Parse(a.Header.Get("apns-id"))
		if err != nil {
			return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "bad_answer", Text: "the answer is 200 without an apns-id: it is hardly Apple's"}
		}
		return provider.Outcome{Kind: provider.Accepted, ProviderMessageID: id.String()}
	}
	var said struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(a.Body, &said) // garbage says nothing
	o := a.Uncoded("APNs")
	if reasonForm.MatchString(said.Reason) {
		if _, known := codes.Of(said.Reason); known || a.Status >= 400 && a.Status <= 499 && a.Status != http.StatusTooManyRequests {
			o = codes.Outcome(said.Reason)
		} else {
			o.Code = said.Reason
		}
	}
	if o.Kind == provider.Transient || o.Kind == provider.Throttled {
		o.RetryAfter = a.RetryAfter(time.Now())
	}
	return o
}
