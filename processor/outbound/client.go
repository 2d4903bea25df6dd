package outbound

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Config is what a client is made of.
type Config struct {
	Allow    Networks
	Timeout  time.Duration // of a call, from the name's resolution to the answer's end; 10 s when 0
	Resolver *net.Resolver // nil is the system's
	Agent    string        // User-Agent; "weir" when empty
	Idle     int           // connections kept open to one host; 2 when 0
}

// Client calls addresses that are public or allowed. Its methods may be called
// from any goroutine.
type Client struct {
	http  *http.Client
	agent string
}

// maxAnswer is how much of an answer is read, and kept.
const maxAnswer = 4 << 10

// New returns a client; Close frees its connections.
func New(cfg Config) *Client {
	timeout := cmp.Or(cfg.Timeout, 10*time.Second)
	dialer := &net.Dialer{
		Timeout: timeout, Resolver: cfg.Resolver,
		Control: cfg.Allow.Control,
	}
	return &Client{agent: cmp.Or(cfg.Agent, "weir"), http: &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy: nil, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: cmp.Or(cfg.Idle, 2), IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close frees the connections that nobody uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Answer is what came back.
type Answer struct {
	Code       int
	Body       string        // its beginning
	RetryAfter time.Duration // 0: not said
}

// Post sends body to an http or https address. An error is no answer; it has
// nothing of the address but its host.
func (c *Client) Post(ctx context.Context, address, contentType string, header http.Header, body []byte) (*Answer, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("the address is none: write http or https and a host")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("post to %s: the address cannot be called", u.Host)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("User-Agent", c.agent)
	resp, err := c.http.Do(req)
	if err != nil {
		if whole, ok := errors.AsType[*url.Error](err); ok {
			err = whole.Err // without the address
		}
		return nil, fmt.Errorf("post to %s: %w", u.Host, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil && resp.StatusCode < 300 {
		return nil, fmt.Errorf("post to %s: its answer broke off: %w", u.Host, err)
	}
	return &Answer{Code: resp.StatusCode, Body: string(text), RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now())}, nil
}

// retryAfter reads seconds or a date (RFC 9110, 10.2.3), at most a day.
func retryAfter(text string, now time.Time) time.Duration {
	const most = 24 * time.Hour
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(min(time.Duration(n)*time.Second, most), 0)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(min(at.Sub(now), most), 0)
	}
	return 0
}
