// Package http is the provider of type http: it POSTs each message as JSON to
// an operator's own address.
//
// One call is one request, which net/http alone does not promise: redirects are
// not followed, its own repetition of requests is off, and HTTP/2, where a
// connection that goes takes every call on it along, is not spoken. It reads no
// receipts.
//
// docs/outcomes.md says what comes of everything that an address can do; tests
// hold it to this package.
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
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// Bounds of an answer. Besides its request, a call keeps maxHeader and maxBody
// at most, twice over while they are read, and two buffers of 4 KiB.
const (
	maxHeader = 64 << 10
	maxBody   = 64 << 10  // read for its id and code
	maxDrain  = 256 << 10 // thrown away so that the connection can be used again; beyond it, closed
)

// idleFor is how long an unused connection is kept. It is shorter than what
// servers and load balancers do by default (60 s and more), as a request that
// meets the server's closing may or may not have been taken.
const idleFor = 30 * time.Second

type client struct {
	url       string
	headers   http.Header
	statuses  statusMap
	dialer    *dialer
	transport *http.Transport
	now       func() time.Time
}

// Open is the factory. Settings:
//
//	url      http or https; required
//	headers  a mapping, added to every request
//	map      a mapping from status (409) or class of statuses (5xx) to outcome
//	proxy    http or https; no proxy is used without it, whatever the environment says
//
// url, proxy and the values of headers may hold ${NAME} or be file:PATH; they
// are read now.
func Open(p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
	if err := provider.Known(p.Settings, "url", "headers", "map", "proxy"); err != nil {
		return nil, err
	}
	c := &client{headers: make(http.Header), now: time.Now}
	var err error
	if c.url, _, err = address("url", p.Settings["url"], deps.Getenv); err != nil {
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
	d := &dialer{
		net:    net.Dialer{KeepAlive: 15 * time.Second},
		tls:    &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
		within: time.Duration(p.Timeout),
	}
	if d.within <= 0 {
		d.within = schemas.DefaultTimeout
	}
	c.dialer = d
	c.transport = &http.Transport{
		DialContext:            d.plain,
		DialTLSContext:         d.secure,
		TLSClientConfig:        d.tls, // through a proxy
		TLSHandshakeTimeout:    d.within,
		Protocols:              new(http.Protocols),
		DisableCompression:     true,
		MaxIdleConns:           idle,
		MaxIdleConnsPerHost:    idle,
		IdleConnTimeout:        idleFor,
		MaxResponseHeaderBytes: maxHeader,
	}
	c.transport.Protocols.SetHTTP1(true)
	if v := p.Settings["proxy"]; v != nil {
		_, u, err := address("proxy", v, deps.Getenv)
		if err != nil {
			return nil, err
		}
		c.transport.Proxy = http.ProxyURL(u)
	}
	return c, nil
}

func address(setting string, v any, getenv func(string) string) (string, *url.URL, error) {
	text, ok := v.(string)
	if !ok || text == "" {
		return "", nil, fmt.Errorf("settings.%s is missing: write an http or https address", setting)
	}
	text, err := provider.Resolve(setting, text, getenv)
	if err != nil {
		return "", nil, err
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", nil, fmt.Errorf("settings.%s is not an http or https address", setting)
	}
	return text, u, nil
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
		case "Idempotency-Key", "Content-Type", "Content-Length", "Host", "Transfer-Encoding",
			"Accept-Encoding", "Connection", "Expect", "Trailer", "Upgrade":
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
	// The last byte is the one that makes the body whole: see notWritten.
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
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
	// a kept connection breaks: a call without a permit. It also asks for
	// another connection when nothing was written yet, which would be no harm,
	// but then progress could not tell one from the other.
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
	var text []byte
	if resp.StatusCode != http.StatusSwitchingProtocols { // what follows is no body, and has no end
		// A body that breaks, drips or never ends costs what it would have
		// said, and no more time than the call's deadline.
		text, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
		if err != nil || len(text) > maxBody {
			text = nil // half an answer is none
		}
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	}
	return c.statuses.decide(resp.StatusCode, resp.Header, text, c.now(), func(code string) bool { return c.sent(b, code) })
}

// leastSent is how long a code is before it can tell anything of what was sent:
// shorter ones occur in everything.
const leastSent = 4

// sent reports whether text occurs in the request: an answer may repeat the
// recipient, a code that was sent, or a secret.
func (c *client) sent(body []byte, text string) bool {
	if len(text) < leastSent {
		return false
	}
	if bytes.Contains(body, []byte(text)) || strings.Contains(c.url, text) {
		return true
	}
	for _, values := range c.headers {
		for _, v := range values {
			if strings.Contains(v, text) {
				return true
			}
		}
	}
	return false
}

// broken maps a failure without an answer.
func broken(ctx context.Context, p *progress, err error) provider.Outcome {
	late := ctx.Err() != nil
	switch unconnected := !p.connected.Load(); {
	case unconnected && late:
		return provider.Outcome{Kind: provider.Transient, Code: "connect_timeout", Text: "no connection before the deadline"}
	case unconnected:
		return provider.Outcome{Kind: provider.Transient, Code: "not_connected", Text: "no connection: " + reason(err)}
	case p.notWritten():
		return provider.Outcome{Kind: provider.Transient, Code: "not_written", Text: "it ended before the request was written: " + reason(err)}
	case late:
		return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "timeout", Text: "no answer before the deadline"}
	}
	return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "connection_broken", Text: "no answer after the request was written: " + reason(err)}
}

const maxReason = 200 // bytes: a certificate may hold any number of names

// reason says what failed. Only the errors of the network and of certificates
// are repeated: others may quote the address or the answer, which may hold
// secrets and recipients.
func reason(err error) string {
	text := "the connection failed, or the answer was not HTTP"
	if e, ok := errors.AsType[*net.OpError](err); ok {
		text = e.Error()
	} else if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		text = e.Error()
	} else if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		text = "the connection was closed"
	}
	text = strings.ToValidUTF8(text, "")
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}
