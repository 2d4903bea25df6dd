// Package httpcall makes one HTTP request and says what came of it: an answer, or
// an outcome that tells whether the provider may have the request.
//
// One call is one request, which net/http alone does not promise: redirects are
// not followed, its own repetition of requests is off, and HTTP/2, where a
// connection that goes takes every call on it along, is not spoken unless a
// provider demands it (Config.HTTP2). It knows nothing of any provider: what an answer means is
// the adapter's.
package httpcall

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// Bounds of an answer. Besides its request, a call keeps maxHeader and MaxBody
// at most, twice over while they are read, and two buffers of 4 KiB.
const (
	maxHeader = 64 << 10
	MaxBody   = 64 << 10  // read for what it says; a longer one says nothing
	maxDrain  = 256 << 10 // thrown away so that the connection can be used again; beyond it, closed
)

// idleFor is how long an unused connection is kept. It is shorter than what
// servers and load balancers do by default (60 s and more), as a request that
// meets the server's closing may or may not have been taken.
const idleFor = 30 * time.Second

// In HTTP/2, a connection on which nothing came for so long is asked whether it is
// there, and given up when it does not say so.
const (
	pingAfter  = 15 * time.Second
	pingWithin = 10 * time.Second
)

// Config is what a client is made of. The zero value serves.
type Config struct {
	Connections int           // kept open at most; schemas.DefaultConcurrency when 0
	Timeout     time.Duration // of a connection: name, TCP and TLS together; schemas.DefaultTimeout when 0
	Proxy       *url.URL      // http or https; none is used without it, whatever the environment says
	// HTTP2 speaks HTTP/2 and nothing else, for a provider that demands it: over TLS where
	// the server agrees to it, and without TLS to an http address. One connection then
	// carries many calls, and one that breaks makes all of them unknown. What was handed
	// over is known of the call and not of the connection: see body.
	HTTP2 bool
	// Dialer connects; provider.Settings has the one for a provider of the policy. The
	// zero value of Config connects to anything.
	Dialer net.Dialer
}

// ConfigOf is the configuration for a provider of the policy, with the proxy of
// its settings.
func ConfigOf(in *provider.Settings) Config {
	cfg := Config{Connections: in.Provider.Concurrency, Timeout: time.Duration(in.Provider.Timeout), Dialer: in.Dialer()}
	if in.Any("proxy") != nil {
		cfg.Proxy = Address(in, "proxy", "")
	}
	return cfg
}

// Address reads a setting that is an http or https address; otherwise when absent,
// and required without it. Of what is none, which in then says, it is empty. What in
// says never has the address: it may hold a secret.
func Address(in *provider.Settings, setting, otherwise string) *url.URL {
	text := in.Text(setting, otherwise)
	if text == "" {
		in.Fail(setting, "is missing: write an http or https address")
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		in.Fail(setting, "is not an http or https address")
		return new(url.URL)
	}
	return u
}

// Host is Address of an API that has one path only, the root.
func Host(in *provider.Settings, setting, otherwise string) *url.URL {
	u := Address(in, setting, otherwise)
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		in.Fail(setting, "is not of a scheme and a host only, such as %s", otherwise)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}
}

// Client makes requests. Its methods may be called from any goroutine.
type Client struct {
	dialer    *dialer
	transport *http.Transport
}

// New returns a client; Close frees its connections.
func New(cfg Config) *Client {
	idle := cmp.Or(cfg.Connections, schemas.DefaultConcurrency)
	d := &dialer{
		net:    cfg.Dialer,
		tls:    &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
		within: cfg.Timeout,
	}
	if d.within <= 0 {
		d.within = schemas.DefaultTimeout
	}
	c := &Client{dialer: d, transport: &http.Transport{
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
	}}
	if cfg.HTTP2 {
		d.http2, d.tls.NextProtos = true, []string{"h2"}
		c.transport.Protocols.SetHTTP2(true)
		c.transport.Protocols.SetUnencryptedHTTP2(true)
		// A connection that is dead without a word would hold up every call on it.
		c.transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWithin}
	} else {
		c.transport.Protocols.SetHTTP1(true)
	}
	if cfg.Proxy != nil {
		c.transport.Proxy = http.ProxyURL(cfg.Proxy)
	}
	return c
}

// Close closes idle connections. It is called after the last call ended; those of
// HTTP/2 are closed whether net/http finds them idle or not.
func (c *Client) Close() error {
	c.transport.CloseIdleConnections()
	c.dialer.open.close()
	return nil
}

// Answer is what a provider answered.
type Answer struct {
	Status int
	Header http.Header
	// Body is nil when it broke off, or is longer than MaxBody: half an answer is
	// none.
	Body []byte
}

// Do makes one request within ctx. The answer is nil when there was none, and the
// outcome then says what that means; its text holds nothing of the request.
func (c *Client) Do(ctx context.Context, req *http.Request) (*Answer, provider.Outcome) {
	var p progress
	resp, err := c.roundTrip(ctx, req, &p)
	if err != nil {
		return nil, broken(ctx, &p, err)
	}
	defer resp.Body.Close()
	a := &Answer{Status: resp.StatusCode, Header: resp.Header}
	if resp.StatusCode != http.StatusSwitchingProtocols { // what follows is no body, and has no end
		// A body that breaks, drips or never ends costs what it would have
		// said, and no more time than the call's deadline.
		a.Body, err = io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
		if err != nil || len(a.Body) > MaxBody {
			a.Body = nil
		}
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	}
	return a, provider.Outcome{}
}

func (c *Client) roundTrip(ctx context.Context, req *http.Request, p *progress) (*http.Response, error) {
	req = req.WithContext(httptrace.WithClientTrace(ctx, p.trace()))
	// With GetBody, net/http repeats a request that has an Idempotency-Key when
	// a kept connection breaks: a call without a permit. It also asks for
	// another connection when nothing was written yet, which would be no harm,
	// but then progress could not tell one from the other.
	req.GetBody = nil
	if c.dialer.http2 && req.Body != nil && req.Body != http.NoBody {
		p.body = &body{ReadCloser: req.Body, left: req.ContentLength}
		req.Body = p.body
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "weir")
	}
	// RoundTrip rather than a Client: no redirects, no cookies.
	return c.transport.RoundTrip(req)
}

// Watched is one call by a library that makes its requests itself: its Do is what
// such libraries ask of an HTTP client. The library must not retry.
type Watched struct {
	client *Client
	p      progress
}

// Watch begins a call.
func (c *Client) Watch() *Watched { return &Watched{client: c} }

// Do makes the call's request.
func (w *Watched) Do(req *http.Request) (*http.Response, error) {
	return w.client.roundTrip(req.Context(), req, &w.p)
}

// Outcome says what a call without an answer means.
func (w *Watched) Outcome(ctx context.Context, err error) provider.Outcome {
	return broken(ctx, &w.p, err)
}

// broken maps a failure without an answer.
func broken(ctx context.Context, p *progress, err error) provider.Outcome {
	late := ctx.Err() != nil
	switch unconnected := !p.connected.Load(); {
	case unconnected && late:
		return provider.Outcome{Kind: provider.Transient, Code: "connect_timeout", Text: "no connection before the deadline"}
	case unconnected:
		return provider.Outcome{Kind: provider.Transient, Code: "not_connected", Text: "no connection: " + reason(err)}
	case refused(err):
		return provider.Outcome{Kind: provider.Transient, Code: "not_processed", Text: "the provider says that it did not process the request"}
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
