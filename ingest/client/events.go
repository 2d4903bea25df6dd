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
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/schemas"
)

// EventQuery chooses events; what is empty chooses all.
type EventQuery struct {
	To      string
	Channel schemas.Channel
	Status  []schemas.Status // any of them
	Class   string
	Tenant  string // the caller's own when empty; another's with an operator's key
	After   string // StreamEvent.ID to go on from; empty begins now
}

// StreamEvent is one step of a message as it happens. Where Gap is set, Event is
// empty, and steps were missed before the next: the server no longer had what
// followed the last one. List finds their messages.
type StreamEvent struct {
	ID    string
	Event schemas.Event
	Gap   bool
}

// Events yields what happens to the caller's messages until ctx ends. A
// connection that ends is made again, from where it ended, as Retry has it: for
// as many tries as nothing comes. An error is the last thing it yields; the
// context's own is one.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		at := place{id: q.After}
		for fruitless := 1; ; fruitless++ {
			resp, end, err := c.listen(ctx, q, at.id)
			if err != nil {
				yield(StreamEvent{}, fmt.Errorf("read events: %w", err))
				return
			}
			if resp == nil { // 204: there is nothing more, ever
				return
			}
			began := time.Now()
			for e, readErr := range at.read(resp.Body) {
				if err = readErr; err != nil {
					break
				}
				fruitless = 1
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
				fruitless = 1
			}
			wait, again := c.retry.wait(fruitless, at.retry, c.retry.Total, rand.Float64())
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

// place is where a stream stands: after the event with the id. retry is how long
// the server wants a client to wait before it connects again.
type place struct {
	id    string
	retry time.Duration
}

// listen begins a stream; end ends it. The answer is nil when the server says
// that there will be nothing.
func (c *Client) listen(ctx context.Context, q EventQuery, after string) (stream *http.Response, end func(), err error) {
	v := make(url.Values)
	set(v, "to", q.To)
	set(v, "channel", string(q.Channel))
	set(v, "status", statuses(q.Status))
	set(v, "class", q.Class)
	set(v, "tenant", q.Tenant)
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

// read reads an event stream (WHATWG HTML, 9.2) to its end, which is always an
// error, and keeps account of where it stands.
func (at *place) read(r io.Reader) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 4096), maxResultBytes)
		id, name, data := at.id, "", []byte(nil)
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ":")
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "": // the end of an event, or a comment
				if lines.Text() != "" {
					continue
				}
				at.id = id // also where nothing was said: the stream has come that far
				e, is, err := streamEvent(id, name, data)
				if err != nil || is && !yield(e, nil) {
					if err != nil {
						yield(e, err)
					}
					return
				}
				name, data = "", nil
			case "data":
				data = append(append(data, value...), '\n')
			case "event":
				name = value
			case "id":
				if !strings.ContainsRune(value, 0) {
					id = value
				}
			case "retry":
				if n, err := strconv.ParseUint(value, 10, 31); err == nil {
					at.retry = time.Duration(n) * time.Millisecond
				}
			}
		}
		err := lines.Err()
		if err == nil {
			err = io.EOF
		}
		yield(StreamEvent{}, &lost{unsure, fmt.Errorf("the stream ended: %w", err)})
	}
}

// streamEvent makes an event of its fields, if it is one to be yielded: what says
// why the stream ends, and what is new, is not.
func streamEvent(id, name string, data []byte) (e StreamEvent, is bool, err error) {
	e.ID = id
	switch {
	case len(data) == 0:
		return e, false, nil
	case name == "gap":
		e.Gap = true
		return e, true, nil
	case name != "status" && name != "":
		return e, false, nil
	}
	if err := json.Unmarshal(data, &e.Event); err != nil {
		return e, false, fmt.Errorf("an event is not what this client reads: %w", err)
	}
	return e, true, nil
}
