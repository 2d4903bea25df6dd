package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"
)

const (
	// DefaultTimeout bounds one try. It is well above the time in which the
	// server answers that Kafka is away.
	DefaultTimeout = 10 * time.Second

	maxAnswer = 16 << 20 // bytes of an answer; a timeline takes a few kilobytes
)

// Client calls one server. Its methods may be called from many goroutines.
type Client struct {
	base    string
	auth    func(http.Header) // sets the key; a function, so that nothing prints it
	http    http.Client
	timeout time.Duration
	retry   Retry
	breaker Breaker
	agent   string
	plain   bool
	pace    *pace
	err     error // why every call fails
}

// New returns a client of the server at baseURL, such as
// https://weir.example or http://127.0.0.1:8080, with an API key; on weir dev the
// key is empty. What is wrong with either shows as ErrConfig of every call.
func New(baseURL, key string, options ...Option) *Client {
	c := &Client{http: ownHTTP(), timeout: DefaultTimeout, retry: Retry{}.withDefaults(), pace: &pace{}, agent: "weir-go"}
	for _, o := range options {
		o(c)
	}
	c.base, c.err = checkBase(baseURL, key, c.plain)
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.auth = func(h http.Header) {
		if key != "" {
			h.Set("Authorization", "Bearer "+key)
		}
	}
	return c
}

// Close closes the connections that no call uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one call of the API, however often it is tried.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	body         []byte        // JSON, unless the header says otherwise; nil is none
	more         time.Duration // that a try may take beyond the client's timeout
	once         bool          // to repeat it when it may have been done is not safe
	unsure       bool          // set when a try failed that may have been done
}

// do makes the call and reads the answer into what into points at, nil for
// none. It returns the answer's header.
func (c *Client) do(ctx context.Context, q *call, into any) (header http.Header, err error) {
	err = c.repeat(ctx, q, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, c.timeout+q.more)
		defer cancel()
		resp, err := c.try(ctx, q)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		answer, err := readAnswer(resp)
		if err != nil {
			return err
		}
		header = resp.Header
		if into == nil || len(answer) == 0 {
			return nil
		}
		if err := json.Unmarshal(answer, into); err != nil {
			return fmt.Errorf("the answer is not what this client reads: %w", err)
		}
		return nil
	})
	return header, err
}

// repeat tries until it succeeds, a failure is final, or tries or time run out. No
// try is made while the server wants the client to wait.
func (c *Client) repeat(ctx context.Context, q *call, try func(context.Context) error) error {
	if c.err != nil {
		return c.err
	}
	bounded, cancel := context.WithTimeout(ctx, c.retry.Total)
	defer cancel()
	deadline, _ := bounded.Deadline() // the context's own where that is earlier
	for tries := 1; ; tries++ {
		if err := c.turn(ctx, q.kind(), deadline); err != nil {
			return err
		}
		err := c.guarded(bounded, try)
		if err == nil {
			return nil
		}
		if p, ok := errors.AsType[*Problem](err); ok {
			c.pace.refused(q.kind(), p, time.Now())
		}
		if ctx.Err() != nil {
			return givenUp(ctx, err)
		}
		chance, after := judge(err)
		q.unsure = q.unsure || chance == unsure
		wait, again := c.retry.wait(tries, after, time.Until(deadline), rand.Float64())
		if chance == final || chance == unsure && q.once || !again {
			if tries > 1 {
				return fmt.Errorf("%w (try %d)", err, tries)
			}
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return givenUp(ctx, err)
		case <-timer.C:
		}
	}
}

// guarded asks the breaker before a try, and tells it what came of it.
func (c *Client) guarded(ctx context.Context, try func(context.Context) error) error {
	if c.breaker == nil {
		return try(ctx)
	}
	done, err := c.breaker.Allow()
	if err != nil {
		return fmt.Errorf("circuit breaker: %w", err)
	}
	err = try(ctx)
	if p, ok := errors.AsType[*Problem](err); ok && p.Status < 500 {
		done(nil)
	} else {
		done(err)
	}
	return err
}

// lost is a try without a whole answer. chance says whether the request went
// out.
type lost struct {
	chance chance
	err    error
}

func (e *lost) Error() string { return e.err.Error() }
func (e *lost) Unwrap() error { return e.err }

// judge tells what may come of trying again, and how long the server wants to
// be left alone.
func judge(err error) (chance, time.Duration) {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.chance(), p.RetryAfter
	}
	if l, ok := errors.AsType[*lost](err); ok {
		return l.chance, 0
	}
	if u, ok := errors.AsType[*unfinished](err); ok {
		return unsure, u.after
	}
	return final, 0
}

// givenUp is the error where the caller's context ended after or within a try
// that failed with err.
func givenUp(ctx context.Context, err error) error {
	if errors.Is(err, ctx.Err()) { // it says no more than the context does
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w; the last try: %w", context.Cause(ctx), err)
}

// try sends the request once and returns an answer that begins well.
func (c *Client) try(ctx context.Context, q *call) (*http.Response, error) {
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
	target := c.base + q.path
	if len(q.query) > 0 {
		target += "?" + q.query.Encode()
	}
	var body io.Reader
	if q.body != nil {
		body = bytes.NewReader(q.body)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %s %s is no request", ErrConfig, q.method, q.path)
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	req.Header.Set("User-Agent", c.agent)
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range q.header {
		req.Header[name] = values
	}
	c.auth(req.Header)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, lostBefore(q, err, connected)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			answer = nil // the status is what counts
		}
		return nil, problemOf(resp, answer, time.Now())
	}
	return resp, nil
}

// lostBefore is why no answer came. The URL is left out: its query may name a
// recipient.
func lostBefore(q *call, err error, connected bool) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	l := &lost{chance: unseen, err: fmt.Errorf("%s %s: %w", q.method, q.path, err)}
	if connected {
		l.chance = unsure
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		l.chance = final
	}
	return l
}

func readAnswer(resp *http.Response) ([]byte, error) {
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, &lost{unsure, fmt.Errorf("read the answer: %w", err)}
	case len(answer) > maxAnswer:
		return nil, fmt.Errorf("the answer is over %d bytes", maxAnswer)
	}
	return answer, nil
}

// problemOf reads an answer that is no success. What does not come from Weir,
// such as a proxy's page, becomes a Problem with the status alone.
func problemOf(resp *http.Response, answer []byte, now time.Time) *Problem {
	p := &Problem{}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if mediaType != "application/problem+json" || json.Unmarshal(answer, p) != nil {
		*p = Problem{Type: "about:blank"}
	}
	p.Status = resp.StatusCode
	if p.Title == "" {
		p.Title = http.StatusText(resp.StatusCode)
	}
	p.RetryAfter = cmp.Or(retryAfter(resp.Header, now), time.Duration(p.RetryAfterSeconds)*time.Second)
	return p
}
