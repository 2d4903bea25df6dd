package client

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Option changes what New makes.
type Option func(*Client)

// WithHTTPClient makes the calls with h, of which redirects are not followed:
// the API has none, and a key stays with the server it was meant for.
// A Timeout of it bounds streams too: set WithTimeout instead.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = *h } }

// WithTimeout bounds one try, from dialling to the end of the answer; batches
// and streams are bounded by Retry.Total alone, and a send that waits has its
// wait in addition. 0 is DefaultTimeout.
func WithTimeout(d time.Duration) Option {
	return func(c *Client) { c.timeout = cmp.Or(d, DefaultTimeout) }
}

// WithRetry says how often and how long calls are tried.
func WithRetry(r Retry) Option { return func(c *Client) { c.retry = r.withDefaults() } }

// WithBreaker asks b before each try.
func WithBreaker(b Breaker) Option { return func(c *Client) { c.breaker = b } }

// WithUserAgent names the caller to the server.
func WithUserAgent(text string) Option { return func(c *Client) { c.agent = text } }

// AllowPlainHTTP lets the key go over http to other machines: where something
// else encrypts the way. Without it only loopback may be called so.
func AllowPlainHTTP() Option { return func(c *Client) { c.plain = true } }

// Breaker is a circuit breaker of two steps; *gobreaker.TwoStepCircuitBreaker of
// github.com/sony/gobreaker/v2 is one. Allow's error ends the call: it is not
// tried again. done is called once, after the try: with nil when a server that
// works answered, whatever it said, and with the error when none did or it was
// 500 or above. A caller who gives up passes the context's error.
type Breaker interface {
	Allow() (done func(err error), err error)
}

// ErrConfig is wrapped by every call of a client that cannot work as it was
// made.
var ErrConfig = errors.New("the client cannot be used")

// checkBase returns the server's address, or why the key must not go there.
func checkBase(baseURL, key string, plain bool) (string, error) {
	u, err := url.Parse(baseURL)
	switch {
	case err != nil: // its text has the address
		return "", fmt.Errorf("%w: the address of the server is no URL", ErrConfig)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", fmt.Errorf("%w: the address of the server is https://HOST or http://HOST", ErrConfig)
	case u.User != nil:
		return "", fmt.Errorf("%w: the address of the server has a user or a password", ErrConfig)
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("%w: the address of the server has a query or a fragment", ErrConfig)
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("%w: the API key has a space or a character that no key has", ErrConfig)
	case key != "" && u.Scheme == "http" && !plain && !loopback(u.Hostname()):
		return "", fmt.Errorf("%w: an API key goes to other machines only over https (or AllowPlainHTTP)", ErrConfig)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// loopback reports whether the host is this machine whatever a name server
// says (RFC 6761, 6.3).
func loopback(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// ownHTTP is a client's own when it is given none: nothing is shared.
func ownHTTP() http.Client {
	return http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       90 * time.Second, // less than the server's
		TLSHandshakeTimeout:   5 * time.Second,
		ExpectContinueTimeout: time.Second,
	}}
}
