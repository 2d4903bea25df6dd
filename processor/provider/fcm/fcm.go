// Package fcm is the provider of type fcm: it sends notifications by the HTTP v1
// interface of Firebase Cloud Messaging, as a service account.
//
// One call is one request (httpcall), and one more for all calls together when the
// access token ends. FCM sends no receipts; a device that is gone is told in the answer
// to the next message. It has no topics, conditions or device groups, and no batches.
package fcm

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2/jwt"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/schemas"
)

// Type is the provider's.
var Type = provider.Type{Open: Open, Check: func(in *provider.Settings) { readSettings(in) }, Codes: &codes}

const (
	standard = "https://fcm.googleapis.com"
	tokenURI = "https://oauth2.googleapis.com/token"
	scope    = "https://www.googleapis.com/auth/firebase.messaging"
	maxTTL   = 28 * 24 * time.Hour // of a message ("Set the lifespan of a message")
)

type adapter struct {
	url           string
	android, apns map[string]any
	tokens        *tokens
	http          *httpcall.Client
	now           func() time.Time
}

// account is what of a service account's key file is read.
type account struct {
	Type       string `json:"type"`
	Project    string `json:"project_id"`
	Email      string `json:"client_email"`
	KeyID      string `json:"private_key_id"`
	PrivateKey string `json:"private_key"`
	TokenURI   string `json:"token_uri"`
}

// Open is the factory. docs/provider-fcm.md has the settings.
func Open(p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
	in := deps.Settings(p)
	a, calls := readSettings(in)
	if err := in.Err(); err != nil {
		return nil, err
	}
	a.http = httpcall.New(calls)
	a.tokens.http = a.http
	a.tokens.ctx, a.tokens.cancel = context.WithCancel(context.Background())
	return a, nil
}

func readSettings(in *provider.Settings) (*adapter, httpcall.Config) {
	var acc account
	text := in.Required("credentials", "file: with the path of the service account's key in JSON")
	if json.Unmarshal([]byte(text), &acc) != nil || acc.Type != "service_account" || acc.Email == "" || !privateKey(acc.PrivateKey) {
		in.Fail("credentials", "is no key of a service account in JSON, with type, client_email and private_key")
	}
	if in.Withheld("credentials") { // a key file has these
		acc.Project, acc.TokenURI = "withheld", tokenURI
	}
	endpoint := httpcall.Address(in, "endpoint", standard)
	project := in.Text("project_id", acc.Project)
	if project == "" {
		in.Fail("project_id", "is missing, and the credentials have none")
	}
	a := &adapter{url: strings.TrimSuffix(endpoint.String(), "/") + "/v1/projects/" + url.PathEscape(project) + "/messages:send", now: time.Now}
	a.android, a.apns = object(in, "android"), object(in, "apns")
	within := time.Duration(in.Provider.Timeout)
	if within <= 0 {
		within = schemas.DefaultTimeout
	}
	a.tokens = &tokens{
		config: jwt.Config{Email: acc.Email, PrivateKey: []byte(acc.PrivateKey), PrivateKeyID: acc.KeyID, Scopes: []string{scope}, TokenURL: httpcall.Address(in, "token_uri", acc.TokenURI).String()},
		within: within, now: time.Now,
	}
	return a, httpcall.ConfigOf(in)
}

// object is a setting that goes into the message as it is.
func object(in *provider.Settings, name string) map[string]any {
	v := in.Any(name)
	m, ok := v.(map[string]any)
	if v != nil && !ok {
		in.Fail(name, "must be a mapping, as FCM's message has it")
	}
	if _, err := json.Marshal(m); err != nil {
		in.Fail(name, "cannot be written as JSON")
	}
	return m
}

// privateKey reports an RSA key that the library will be able to read.
func privateKey(text string) bool {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return false
	}
	_, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		_, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	}
	return err == nil
}

// Close ends a request for a token, and closes idle connections.
func (a *adapter) Close() error {
	a.tokens.close()
	return a.http.Close()
}

// message is the body of messages:send.
type message struct {
	Message struct {
		Token        string            `json:"token"`
		Notification *notification     `json:"notification,omitempty"`
		Data         map[string]string `json:"data,omitempty"`
		Android      map[string]any    `json:"android,omitempty"`
		APNS         map[string]any    `json:"apns,omitempty"`
	} `json:"message"`
}

type notification struct {
	Title string `json:"title,omitempty"`
	Body  string `json:"body,omitempty"`
}

func (a *adapter) encode(c *provider.Call) ([]byte, error) {
	var m message
	m.Message.Token = c.To
	if c.Content.Title != "" || c.Content.Body != "" {
		m.Message.Notification = &notification{Title: c.Content.Title, Body: c.Content.Body}
	}
	m.Message.Data, m.Message.Android, m.Message.APNS = c.Data, a.android, a.apns
	if c.ExpiresAt != 0 {
		m.Message.Android, m.Message.APNS = a.expiring(c.ExpiresAt)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(m)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// expiring is android and apns with the message's end, where the settings have none.
func (a *adapter) expiring(at schemas.Millis) (android, apns map[string]any) {
	android, apns = maps.Clone(a.android), maps.Clone(a.apns)
	if _, has := android["ttl"]; !has {
		if android == nil {
			android = make(map[string]any)
		}
		left := min(max(at.Time().Sub(a.now()), 0), maxTTL)
		android["ttl"] = strconv.FormatInt(int64(left/time.Second), 10) + "s"
	}
	headers, ok := apns["headers"].(map[string]any)
	if _, has := headers["apns-expiration"]; !has && (ok || apns["headers"] == nil) {
		if apns == nil {
			apns = make(map[string]any)
		}
		headers = maps.Clone(headers)
		if headers == nil {
			headers = make(map[string]any)
		}
		headers["apns-expiration"] = strconv.FormatInt(at.Time().Unix(), 10)
		apns["headers"] = headers
	}
	return android, apns
}

// Send makes one request.
func (a *adapter) Send(ctx context.Context, c *provider.Call) provider.Outcome {
	body, err := a.encode(c)
	if err != nil {
		return provider.Outcome{Kind: provider.Permanent, Code: "bad_content", Text: "the message cannot be encoded"}
	}
	token, none := a.tokens.get(ctx)
	if token == "" {
		return none
	}
	req, err := http.NewRequest(http.MethodPost, a.url, bytes.NewReader(body))
	if err != nil { // the address was checked at Open
		return provider.Outcome{Kind: provider.Permanent, Code: "bad_request", Text: "the request cannot be made"}
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	answer, none := a.http.Do(ctx, req)
	if answer == nil {
		return none
	}
	if answer.Status == http.StatusUnauthorized {
		a.tokens.refused(token)
	}
	return decide(answer, a.now())
}

// failure is FCM's answer to what it refuses.
type failure struct {
	Error struct {
		Message string `json:"message"`
		Status  string `json:"status"`
		Details []struct {
			Type            string `json:"@type"`
			ErrorCode       string `json:"errorCode"`
			FieldViolations []struct {
				Field string `json:"field"`
			} `json:"fieldViolations"`
		} `json:"details"`
	} `json:"error"`
}

// code is the one by which a failure stands in codes.
func (f *failure) code() string {
	code, token := f.Error.Status, false
	for _, d := range f.Error.Details {
		if strings.HasSuffix(d.Type, "google.firebase.fcm.v1.FcmError") && d.ErrorCode != "" {
			code = d.ErrorCode
			// The one text that the documentation has for this ("FCM error codes",
			// example 2); other errors of this kind are of the message.
			token = strings.Contains(f.Error.Message, "registration token is not a valid FCM registration token")
		}
		for _, v := range d.FieldViolations {
			token = token || v.Field == "message.token"
		}
	}
	if code == "INVALID_ARGUMENT" && token {
		return "INVALID_ARGUMENT:token"
	}
	return code
}

// codeForm keeps anything but a code out of status events.
var codeForm = regexp.MustCompile(`^[A-Z][A-Z_]{2,47}(:token)?$`)

const maxName = 256

// decide maps an answer.
func decide(a *httpcall.Answer, now time.Time) provider.Outcome {
	if a.Status == http.StatusOK {
		var taken struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(a.Body, &taken) != nil || !strings.HasPrefix(taken.Name, "projects/") || len(taken.Name) > maxName {
			return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "bad_answer", Text: "the answer is 200 without the message's name: it is hardly FCM's"}
		}
		return provider.Outcome{Kind: provider.Accepted, ProviderMessageID: taken.Name}
	}
	var f failure
	_ = json.Unmarshal(a.Body, &f) // garbage says nothing
	o := a.Uncoded("FCM")
	if code := f.code(); codeForm.MatchString(code) {
		if _, known := codes.Of(code); known || o.Kind == provider.Permanent {
			o = codes.Outcome(code)
		} else {
			o.Code = code
		}
	}
	if o.Kind == provider.Transient || o.Kind == provider.Throttled {
		o.RetryAfter = a.RetryAfter(now)
	}
	return o
}
