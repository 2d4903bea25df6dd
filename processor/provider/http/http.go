// Package http is the provider of type http: it POSTs each message as JSON to
// an operator's own address.
//
// It sends each call once. Redirects are not followed, and net/http's own
// repetition of requests on a broken connection is off: a call that the lane
// did not permit would not be paced. It reads no receipts.
package http

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// Bounds of an answer.
const (
	maxBody  = 64 << 10  // read for its id and code
	maxDrain = 256 << 10 // thrown away so that the connection can be used again; beyond it, closed
)

type client struct {
	url       string
	headers   http.Header
	statuses  statusMap
	transport *http.Transport
	now       func() time.Time
}

// Open is the factory. Settings:
//
//	url      http or https; required
//	headers  a mapping, added to every request
//	map      a mapping from status (409) or class of statuses (5xx) to outcome
//
// url and the values of headers may hold ${NAME} or be file:PATH; they are read
// now.
func Open(p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
	if err := provider.Known(p.Settings, "url", "headers", "map"); err != nil {
		return nil, err
	}
	c := &client{headers: make(http.Header), now: time.Now}
	var err error
	if c.url, err = address(p.Settings["url"], deps.Getenv); err != nil {
		return nil, err
	}
	if err := c.readHeaders(p.Settings["headers"], deps.Getenv); err != nil {
		return nil, err
	}
	if c.statuses, err = readMap(p.Settings["map"]); err != nil {
		return nil, err
	}
	idle := p.Concurrency
	if idle == 0 {
		idle = schemas.DefaultConcurrency
	}
	c.transport = &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           idle,
		MaxIdleConnsPerHost:    idle,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return c, nil
}

func address(v any, getenv func(string) string) (string, error) {
	text, ok := v.(string)
	if !ok || text == "" {
		return "", errors.New("settings.url is missing: say where to POST")
	}
	text, err := provider.Resolve("url", text, getenv)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", errors.New("settings.url is not an http or https address")
	}
	return text, nil
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
		switch http.CanonicalHeaderKey(name) {
		case "Idempotency-Key", "Content-Type", "Content-Length", "Host", "Transfer-Encoding":
			return fmt.Errorf("settings.%s is set by Weir", setting)
		}
		c.headers.Set(name, text)
	}
	return nil
}

// Close closes idle connections.
func (c *client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

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
	Data     map[string]string `json:"data,omitempty"`
	Template string            `json:"template,omitempty"`
	Vars     map[string]string `json:"vars,omitempty"`
	Attempt  int               `json:"attempt"`
}

func encode(c *provider.Call) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(body{
		ID: c.ID, To: c.To, From: c.From, Channel: c.Channel,
		Subject: c.Content.Subject, Body: c.Content.Body, HTML: c.Content.HTML, Title: c.Content.Title,
		Data: c.Data, Template: c.Template, Vars: c.Vars, Attempt: c.Attempt,
	})
	return b.Bytes(), err
}

// progress is how far a request came. A request that has a connection and has
// not reported the end of its writing may be written at any moment: only one
// that never had a connection, or failed to write, was surely not received.
type progress struct {
	connected atomic.Bool
	wrote     atomic.Bool
	broke     atomic.Bool
}

func (p *progress) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		// net/http asks again when a kept connection was closed before
		// anything was written to it.
		GetConn: func(string) { p.connected.Store(false); p.broke.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { p.connected.Store(true) },
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				p.wrote.Store(true)
			} else {
				p.broke.Store(true)
			}
		},
	}
}

func (p *progress) surelyNotReceived() bool {
	return !p.wrote.Load() && (!p.connected.Load() || p.broke.Load())
}

// Send makes one request.
func (c *client) Send(ctx context.Context, call *provider.Call) provider.Outcome {
	b, err := encode(call)
	if err != nil {
		return provider.Outcome{Kind: provider.Permanent, Code: "bad_content", Text: "the message cannot be encoded"}
	}
	var p progress
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, p.trace()), http.MethodPost, c.url, bytes.NewReader(b))
	if err != nil { // the address was checked at Open
		return provider.Outcome{Kind: provider.Permanent, Code: "bad_request", Text: "the request cannot be made"}
	}
	// With GetBody, net/http repeats a request that has an Idempotency-Key when
	// a kept connection breaks: a call without a permit.
	req.GetBody = nil
	for k, v := range c.headers {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Idempotency-Key", call.ID)
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "weir")
	}
	// RoundTrip rather than a Client: no redirects, no cookies.
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return broken(ctx, &p, err)
	}
	defer resp.Body.Close()
	// The status is the answer. A body that breaks, drips or never ends costs
	// its id only, and no more time than the call's deadline.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	return c.statuses.decide(resp.StatusCode, resp.Header, text, c.now())
}

// broken maps a failure without an answer.
func broken(ctx context.Context, p *progress, err error) provider.Outcome {
	o := provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "connection_broken", Text: "no answer after the request was written: " + reason(err)}
	timeout := ctx.Err() != nil
	if timeout {
		o.Code, o.Text = "timeout", "no answer before the deadline"
	}
	if p.surelyNotReceived() {
		o = provider.Outcome{Kind: provider.Transient, Code: "not_connected", Text: "failed before the request was written: " + reason(err)}
		if timeout {
			o.Code, o.Text = "connect_timeout", "no connection before the deadline"
		}
	}
	return o
}

// reason says what failed. Only the network's own errors are repeated: others
// may quote the address or the answer, which may hold secrets and recipients.
func reason(err error) string {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return e.Error()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the connection was closed"
	}
	return "the connection failed, or the answer was not HTTP"
}
