package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// maxGot is how much of an answer to Get is kept: a certificate is 2 KiB. A longer
// one is an error.
const maxGot = 64 << 10

// Get reads an https address, under the same rules as Post: public addresses, no
// redirects, no proxy. An error has nothing of the address but its host.
func (c *Client) Get(ctx context.Context, address string) (*Answer, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("the address is none: write https and a host")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("get from %s: the address cannot be called", u.Host)
	}
	req.Header.Set("User-Agent", c.agent)
	resp, err := c.http.Do(req)
	if err != nil {
		if whole, ok := errors.AsType[*url.Error](err); ok {
			err = whole.Err // without the address
		}
		return nil, fmt.Errorf("get from %s: %w", u.Host, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxGot+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("get from %s: its answer broke off: %w", u.Host, err)
	case len(text) > maxGot:
		return nil, fmt.Errorf("get from %s: its answer is longer than %d bytes", u.Host, maxGot)
	}
	return &Answer{Code: resp.StatusCode, Body: string(text), RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now())}, nil
}
