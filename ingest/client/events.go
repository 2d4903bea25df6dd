package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weirhq/weir/schemas"
)

// EventQuery chooses events; what is empty chooses all.
type EventQuery struct {
	To     string
	Status schemas.Status
	Class  string
	After  string // StreamEvent.ID to go on from; empty begins now
}

// StreamEvent is one step of a message as it happens. Name is the stream's own
// name for what it is.
type StreamEvent struct {
	ID    string
	Name  string
	Event *schemas.Event
}

// Events yields what happens to the caller's messages until ctx ends. A
// connection that breaks is made again, from where it broke off, as Retry has
// it: for as many tries as no event comes. An error is the last thing it
// yields; the context's own is one.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		after, fruitless := q.After, 0
		for {
			resp, end, err := c.listen(ctx, q, after)
			if err != nil {
				yield(StreamEvent{}, fmt.Errorf("read events: %w", err))
				return
			}
			if resp == nil { // 204: there is nothing more, ever
				return
			}
			began := time.Now()
			fruitless++
			for e, readErr := range readEvents(resp.Body) {
				if err = readErr; err != nil {
					break
				}
				after, fruitless = e.ID, 0
				if !yield(e, nil) {
					end()
					return
				}
			}
			end()
			if ctx.Err() != nil {
				yield(StreamEvent{}, fmt.Errorf("read events: %w", context.Cause(ctx)))
				return
			}
			if time.Since(began) > c.timeout { // quiet, but it held
				fruitless = 0
			}
			wait, again := c.retry.wait(max(fruitless, 1), 0, c.retry.Total, rand.Float64())
			if chance, _ := judge(err); !again || chance == final {
				yield(StreamEvent{}, fmt.Errorf("read events: %w", err))
				return
			}
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
			timer.Stop()
		}
	}
}

// listen begins a stream; end ends it. The answer is nil when the server says
// that there will be nothing.
func (c *Client) listen(ctx context.Context, q EventQuery, after string) (stream *http.Response, end func(), err error) {
	v := make(url.Values)
	set(v, "to", q.To)
	set(v, "status", string(q.Status))
	set(v, "class", q.Class)
	h := http.Header{"Accept": {"text/event-stream, application/problem+json"}}
	if after != "" {
		h.Set("Last-Event-ID", after)
	}
	ask := &call{method: http.MethodGet, path: "/v1/events", query: v, header: h}
	err = c.repeat(ctx, ask, func(bounded context.Context) error {
		// The stream outlives the call that begins it.
		tryCtx, stop := context.WithTimeout(bounded, c.timeout)
		defer stop()
		streamCtx, cancel := context.WithCancelCause(ctx)
		inTime := context.AfterFunc(tryCtx, func() { cancel(context.Cause(tryCtx)) })
		resp, err := c.try(streamCtx, ask)
		if !inTime() && err == nil {
			resp.Body.Close()
			err = &lost{unsure, context.Cause(tryCtx)}
		}
		if err != nil {
			cancel(nil)
			return err
		}
		stream, end = resp, func() { cancel(nil); resp.Body.Close() }
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if stream.StatusCode == http.StatusNoContent {
		end()
		return nil, nil, nil
	}
	if mediaType, _, _ := mime.ParseMediaType(stream.Header.Get("Content-Type")); mediaType != "text/event-stream" {
		end()
		return nil, nil, errors.New("the answer is no text/event-stream")
	}
	return stream, end, nil
}

// readEvents reads an event stream (WHATWG HTML, 9.2) to its end, which is
// always an error.
func readEvents(r io.Reader) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 4096), maxResultBytes)
		var e StreamEvent
		var data []string
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case lines.Text() == "" && len(data) > 0:
				e.Event = new(schemas.Event)
				if err := json.Unmarshal([]byte(strings.Join(data, "\n")), e.Event); err != nil {
					yield(e, fmt.Errorf("an event is not what this client reads: %w", err))
					return
				}
				if !yield(e, nil) {
					return
				}
				e, data = StreamEvent{ID: e.ID}, nil // an id stands until the next
			case lines.Text() == "":
				e.Name = ""
			case name == "data":
				data = append(data, value)
			case name == "event":
				e.Name = value
			case name == "id" && !strings.ContainsRune(value, 0):
				e.ID = value
			}
		}
		err := lines.Err()
		if err == nil {
			err = io.EOF
		}
		yield(e, &lost{unsure, fmt.Errorf("the stream ended: %w", err)})
	}
}
