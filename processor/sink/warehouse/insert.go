package warehouse

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// maxErrorText bounds what is read of an answer.
const maxErrorText = 16 << 10

// Inserter sends blocks that are encoded already: clickhouse-go describes the table
// before each batch, copies every value, and has no way to send one in frames.
type Inserter struct {
	client   *http.Client
	base     url.URL
	settings url.Values // of the URL, and the database
	options  *clickhouse.Options
}

// NewInserter returns one for the database that the URL names. It asks nothing.
func NewInserter(rawURL string) (*Inserter, error) {
	o, err := Parse(rawURL)
	if err != nil {
		return nil, err
	}
	i := &Inserter{options: o, base: url.URL{Scheme: "http", Host: o.Addr[0], Path: "/"}, settings: url.Values{"database": {o.Auth.Database}}}
	if o.TLS != nil {
		i.base.Scheme = "https"
	}
	for k, v := range o.Settings {
		i.settings.Set(k, fmt.Sprint(v))
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.MaxIdleConnsPerHost, transport.IdleConnTimeout = o.TLS, 16, 10*time.Second
	i.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return i, nil
}

// Close ends connections that are not in use.
func (i *Inserter) Close() { i.client.CloseIdleConnections() }

// punctual ends with an error once its time is over by the wall clock: a timer does not go on
// while a machine is suspended, and what is sent after that would land when nobody expects it.
type punctual struct {
	io.Reader
	until time.Time
}

func (p punctual) Read(b []byte) (int, error) {
	if !time.Now().Round(0).Before(p.until.Round(0)) {
		return 0, context.DeadlineExceeded
	}
	return p.Reader.Read(b)
}

// Insert runs an INSERT of data in the format Native, in ClickHouse's compressed
// frames. On nil it was carried out whole. A *clickhouse.Exception is ClickHouse's
// answer; after any other error it is not known what became of it.
func (i *Inserter) Insert(ctx context.Context, insert string, settings clickhouse.Settings, data []byte) error {
	q := url.Values{}
	for k, v := range i.settings {
		q[k] = v
	}
	for k, v := range settings {
		q.Set(k, fmt.Sprint(v))
	}
	q.Set("query", insert+" FORMAT Native")
	q.Set("decompress", "1")
	at := i.base
	at.RawQuery = q.Encode()
	body := io.Reader(bytes.NewReader(data))
	if until, ok := ctx.Deadline(); ok {
		body = punctual{body, until}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), body)
	if err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	req.ContentLength = int64(len(data))
	req.Header.Set("X-ClickHouse-User", i.options.Auth.Username)
	if i.options.Auth.Password != "" {
		req.Header.Set("X-ClickHouse-Key", i.options.Auth.Password)
	}
	req.Header.Set("User-Agent", "weir")
	resp, err := i.client.Do(req)
	if err != nil {
		// Without the URL that net/http puts before it: it is a page long.
		if u, ok := err.(*url.Error); ok {
			err = u.Err
		}
		return fmt.Errorf("insert: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorText))
	if err != nil {
		return fmt.Errorf("read the answer to an insert: %w", err)
	}
	// An error that came late stands in the body of what began as a success;
	// nothing else does.
	if resp.StatusCode == http.StatusOK && len(text) == 0 {
		return nil
	}
	return exception(resp, string(text))
}

// exception is an answer that is no success.
func exception(resp *http.Response, text string) error {
	code, err := strconv.Atoi(cmp.Or(resp.Header.Get("X-ClickHouse-Exception-Code"), codeOf(text)))
	if err != nil {
		return fmt.Errorf("the answer to an insert is HTTP %d, and not ClickHouse's: %.200q", resp.StatusCode, text)
	}
	e := &clickhouse.Exception{Code: int32(code), Message: strings.TrimSpace(text)}
	if open, end := strings.LastIndex(text, ". ("), strings.LastIndex(text, ") (version"); open >= 0 && end > open {
		e.Name = text[open+3 : end]
	}
	return e
}

// codeOf is the number behind "Code: ".
func codeOf(text string) string {
	_, after, ok := strings.Cut(text, "Code: ")
	if !ok {
		return ""
	}
	return after[:len(after)-len(strings.TrimLeft(after, "0123456789"))]
}
