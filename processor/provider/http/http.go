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
	"fmt"
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
var Type = provider.Type{Open: Open, Listen: Listen, Codes: &codes}

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
	if err := known(p); err != nil {
		return nil, err
	}
	c := &client{headers: make(http.Header), now: time.Now}
	u, err := httpcall.Address("url", p.Settings["url"], deps.Getenv)
	if err != nil {
		return nil, err
	}
	c.url = u.String()
	if err := c.readHeaders(p.Settings["headers"], deps.Getenv); err != nil {
		return nil, err
	}
	if c.statuses, err = readMap(p.Settings["map"]); err != nil {
		return nil, err
	}
	if c.request, err = readRequest(p.Settings["request"], deps.Getenv); err != nil {
		return nil, err
	}
	if c.answer, err = readAnswer(p.Settings["answer"]); err != nil {
		return nil, err
	}
	if c.sign, err = bodysign.Of(p, deps.Getenv); err != nil {
		return nil, err
	}
	cfg, err := httpcall.ConfigOf(p, deps.Getenv)
	if err != nil {
		return nil, err
	}
	c.http = httpcall.New(cfg)
	return c, nil
}

// Listen opens what reads the receipts and incoming messages of the address:
// package external.
func Listen(p schemas.Provider, deps provider.Deps) (provider.Listener, error) {
	if err := known(p); err != nil {
		return nil, err
	}
	return external.Listen(p, deps)
}

func known(p schemas.Provider) error {
	return provider.Known(p.Settings, "url", "headers", "map", "proxy", "request", "answer", "sign", hooksecret.Setting)
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

func (c *client) readHeaders(v any, getenv func(string) string) error {
	if v == nil {
		return nil
	}
	in, ok := v.(map[string]any)
	if !ok {
		return errors.New("settings.headers must be a mapping from name to text")
	}
	for name, v := range in {
		setting := "headers." + name
		text, ok := v.(string)
		if !ok || !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("settings.%s must be a header's name with text", setting)
		}
		text, err := provider.Resolve(setting, text, getenv)
		if err != nil {
			return err
		}
		if !httpguts.ValidHeaderFieldValue(text) {
			return fmt.Errorf("settings.%s holds what no header can", setting)
		}
		if ofWeir(name) {
			return fmt.Errorf("settings.%s is set by Weir", setting)
		}
		c.headers.Set(name, text)
	}
	return nil
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
