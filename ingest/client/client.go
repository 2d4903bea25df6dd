package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/schemas"
)

const (
	// DefaultTimeout bounds one call where the context has no deadline. It is
	// well above the time in which the server answers that Kafka is away.
	DefaultTimeout = 30 * time.Second

	maxAnswer = 16 << 20 // bytes of an answer; a timeline takes a few kilobytes
)

// Client calls one server. Its methods may be called from many goroutines.
type Client struct {
	// HTTP makes the calls; one with DefaultTimeout when nil. Set it before the
	// first call.
	HTTP *http.Client

	base string
	key  string
}

var defaultHTTP = &http.Client{Timeout: DefaultTimeout}

// New returns a client of the server at baseURL, such as
// http://127.0.0.1:8080, with an API key; on weir dev the key is empty. A
// baseURL that is none shows as an error of the first call.
func New(baseURL, key string) *Client {
	return &Client{base: strings.TrimRight(baseURL, "/"), key: key}
}

// Send hands a message over and returns its id when the brokers hold it. The
// status is accepted: no decision has been taken yet. The idempotency key, if
// the request has one, makes it safe to repeat a call that failed, on any
// error but a *Problem with a status below 500.
//
// A refusal is a *Problem; anything else means that no answer came and that
// the message may or may not have been accepted.
func (c *Client) Send(ctx context.Context, q *schemas.Request) (id string, status schemas.Status, err error) {
	var a Accepted
	if err := c.call(ctx, http.MethodPost, "/v1/messages", schemas.RequestJSON(q), &a); err != nil {
		return "", "", fmt.Errorf("send message: %w", err)
	}
	return a.ID, a.Status, nil
}

// Get returns what is known of a message; a *Problem with status 404 when
// nothing is.
func (c *Client) Get(ctx context.Context, id string) (*Message, error) {
	var m Message
	if err := c.call(ctx, http.MethodGet, "/v1/messages/"+url.PathEscape(id), nil, &m); err != nil {
		return nil, fmt.Errorf("get message: %w", err)
	}
	return &m, nil
}

func (c *Client) call(ctx context.Context, method, path string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	h := c.HTTP
	if h == nil {
		h = defaultHTTP
	}
	resp, err := h.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the answer: %w", err)
	case len(answer) > maxAnswer:
		return fmt.Errorf("the answer is over %d bytes", maxAnswer)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return problemOf(resp, answer, time.Now())
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
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
	p.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), now)
	return p
}

// retryAfter reads the header as seconds or as a date (RFC 9110, 10.2.3);
// 0 when it is neither or has passed.
func retryAfter(v string, now time.Time) time.Duration {
	if s, err := strconv.Atoi(v); err == nil {
		return time.Duration(min(max(s, 0), 1<<31)) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(t.Sub(now), 0)
	}
	return 0
}
