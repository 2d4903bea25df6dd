// Package http is the provider of type http: it hands each message to an
// operator's own address, as Weir's JSON or as settings.request says.
//
// One call is one request: httpcall. What the address tells later is package
// external's, and signatures are bodysign's.
//
// docs/outcomes.md says what comes of everything that an address can do; tests
// hold it to this package.
package http

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/bodysign"
	"github.com/weirhq/weir/processor/provider/external"
	"github.com/weirhq/weir/processor/provider/hooksecret"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/schemas"
)

// Type is the adapter.
var Type = provider.Type{Open: Open, Listen: Listen, Check: check, Codes: &codes}

type client struct {
	url      string
	headers  http.Header
	statuses statusMap
	request  request
	answer   answerAt
	sign     bodysign.Scheme
	http     *httpcall.Client
	now      func() time.Time
}

// Open is the factory. Settings:
//
//	url      http or https; required
//	headers  a mapping, added to every request
//	map      a mapping from status (409) or class of statuses (5xx) to outcome
//	proxy    http or https; no proxy is used without it, whatever the environment says
//	request  the request's method, headers and body
//	answer   where the answer has the provider's id and its code
//	sign     how the request is signed: bodysign
//
// and those of Listen. url, proxy and the values of headers may hold ${NAME} or be
// file:PATH; they are read now.
func Open(p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
	in := deps.Settings(p)
	c, calls := readSettings(in)
	if err := in.Err(); err != nil {
		return nil, err
	}
	c.http = httpcall.New(calls)
	return c, nil
}

func readSettings(in *provider.Settings) (*client, httpcall.Config) {
	c := &client{
		url: httpcall.Address(in, "url", "").String(), headers: readHeaders(in), statuses: readMap(in),
		request: readRequest(in), answer: readAnswer(in), sign: bodysign.Of(in), now: time.Now,
	}
	in.Others(hooksecret.Setting) // Listen reads it
	return c, httpcall.ConfigOf(in)
}

func check(in *provider.Settings) {
	readSettings(in)
	external.Check(in)
}

// Listen opens what reads the receipts and incoming messages of the address:
// package external.
func Listen(p schemas.Provider, deps provider.Deps) (provider.Listener, error) {
	in := deps.Settings(p)
	in.Others("url", "headers", "map", "proxy", "request", "answer")
	return external.Listen(in)
}

// ofWeir reports whether Weir itself sets a header.
func ofWeir(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Idempotency-Key", "Content-Type", "Content-Length", "Host", "Transfer-Encoding",
		"Accept-Encoding", "Connection", "Expect", "Trailer", "Upgrade":
		return true
	}
	return false
}

func readHeaders(in *provider.Settings) http.Header {
	out := make(http.Header)
	all := in.Under("headers", `{X-Api-Key: "${API_KEY}"}`)
	if all == nil {
		return out
	}
	for _, name := range all.Names() {
		text := all.Text(name, "")
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			all.Fail(name, "cannot be a header's name")
		case ofWeir(name):
			all.Fail(name, "is set by Weir")
		case !httpguts.ValidHeaderFieldValue(text):
			all.Fail(name, "holds what no header can")
		}
		out.Set(name, text)
	}
	return out
}

// Close closes idle connections.
func (c *client) Close() error { return c.http.Close() }

// body is what is POSTed.
type body struct {
	ID       string            `json:"id"`
	To       string            `json:"to"`
	From     string            `json:"from,omitempty"`
	Channel  schemas.Channel   `json:"channel"`
	Subject  string            `json:"subject,omitempty"`
	Body     string            `json:"body,omitempty"`
	HTML     string            `json:"html,omitempty"`
	Title    string            `json:"title,omitempty"`
	ReplyTo  string            `json:"reply_to,omitempty"`
	Data     map[string]string `json:"data,omitempty"`
	Template string            `json:"template,omitempty"`
	Vars     map[string]string `json:"vars,omitempty"`
	Attempt  int               `json:"attempt"`
}

func encode(c *provider.Call) ([]byte, error) {
	return encodeJSON(body{
		ID: c.ID, To: c.To, From: c.From, Channel: c.Channel,
		Subject: c.Content.Subject, Body: c.Content.Body, HTML: c.Content.HTML, Title: c.Content.Title, ReplyTo: c.ReplyTo,
		Data: c.Data, Template: c.Template, Vars: c.Vars, Attempt: c.Attempt,
	})
}

// Send makes one request.
func (c *client) Send(ctx context.Context, call *provider.Call) provider.Outcome {
	b, kind, err := c.request.body(call)
	if errors.Is(err, errMissing) {
		return provider.Outcome{Kind: provider.Permanent, Code: "missing_variable", Text: "the request asks for a variable that the message does not have"}
	}
	if err != nil {
		return provider.Outcome{Kind: provider.Permanent, Code: "bad_content", Text: "the message cannot be encoded"}
	}
	req, err := http.NewRequest(c.request.method, c.url, bytes.NewReader(b))
	if err != nil { // the address was checked at Open
		return provider.Outcome{Kind: provider.Permanent, Code: "bad_request", Text: "the request cannot be made"}
	}
	for k, v := range c.headers {
		req.Header[k] = v
	}
	for k, t := range c.request.headers {
		v, err := t.render(call)
		switch {
		case err != nil:
			return provider.Outcome{Kind: provider.Permanent, Code: "missing_variable", Text: "a header asks for a variable that the message does not have"}
		case !httpguts.ValidHeaderFieldValue(v):
			return provider.Outcome{Kind: provider.Permanent, Code: "bad_content", Text: "the message holds what no header can"}
		}
		req.Header.Set(k, v)
	}
	for k, v := range c.sign.Sign(call.ID, c.now(), b) {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Idempotency-Key", call.ID)
	a, none := c.http.Do(ctx, req)
	if a == nil {
		return none
	}
	return c.statuses.decide(c.answer, a.Status, a.Header, a.Body, c.now(), func(code string) bool { return sent(c.url, req.Header, b, code) })
}

// leastSent is how long a code is before it can tell anything of what was sent:
// shorter ones occur in everything.
const leastSent = 4

// sent reports whether text occurs in the request: an answer may repeat the
// recipient, a code that was sent, or a secret.
func sent(url string, headers http.Header, body []byte, text string) bool {
	if len(text) < leastSent {
		return false
	}
	if bytes.Contains(body, []byte(text)) || strings.Contains(url, text) {
		return true
	}
	for _, values := range headers {
		for _, v := range values {
			if strings.Contains(v, text) {
				return true
			}
		}
	}
	return false
}
