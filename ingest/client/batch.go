package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"time"

	"github.com/weirhq/weir/schemas"
)

// Bounds of one batch, the server's.
const (
	MaxBatch      = 10_000
	MaxBatchBytes = 16 << 20
)

const (
	batchPath      = "/v1/messages/batch"
	maxResultBytes = 1 << 20  // of one line of an answer
	askFirst       = 64 << 10 // bytes of a body that is sent only when the server wants it
)

// Batch sends any number of messages, in batches of at most MaxBatch and
// MaxBatchBytes, of which it holds one in memory, and yields what became of
// each in the same order; Index counts from the first message of all.
//
// A message that is refused is a result with an Error, and does not sink the
// others. Each has its idempotency key, made once where it had none: when a
// batch breaks off, those without a result, or with one that passes, are sent
// again as Retry has it. If that fails too, an error stands beside each result
// that did not come, and the iteration ends with that batch: those messages may
// or may not have been accepted.
//
// The API's own pace of batches, unless a key has its own, is ten and then one a
// minute: who sends more than ten gives Retry a Total of over a minute, or the
// eleventh is given up at once.
func (c *Client) Batch(ctx context.Context, requests iter.Seq[*schemas.Request]) iter.Seq2[BatchResult, error] {
	return c.BatchFrom(ctx, func(yield func(*schemas.Request, error) bool) {
		for q := range requests {
			if !yield(q, nil) {
				return
			}
		}
	})
}

// BatchFrom is Batch for a source that may fail. What came before its error is
// sent, and the error is yielded last.
func (c *Client) BatchFrom(ctx context.Context, requests iter.Seq2[*schemas.Request, error]) iter.Seq2[BatchResult, error] {
	return func(yield func(BatchResult, error) bool) {
		var b batch
		flush := func() bool {
			err := c.sendBatch(ctx, &b)
			for i, r := range b.results {
				var lost error
				if r.Index = b.first + i; !b.known[i] {
					lost = err
				}
				if !yield(r, lost) {
					return false
				}
			}
			b.reset()
			return err == nil
		}
		for q, err := range requests {
			var line []byte
			if err == nil {
				line, err = keyed(q)
			}
			if err != nil {
				if flush() {
					yield(BatchResult{Index: b.first}, err)
				}
				return
			}
			if b.full(len(line)) && !flush() {
				return
			}
			b.add(line)
		}
		flush()
	}
}

// batch is what is sent together. Of each message it has the line, the latest
// result, and whether there is one.
type batch struct {
	first   int // of its messages among all
	text    []byte
	ends    []int // of the lines in text
	results []BatchResult
	known   []bool
}

func (b *batch) full(line int) bool {
	return len(b.ends) == MaxBatch || len(b.text)+line+1 > MaxBatchBytes
}

func (b *batch) add(line []byte) {
	tooLarge := len(line) > schemas.MaxRequestBytes // the server would not read on
	var r BatchResult
	if tooLarge {
		r.Error = &Problem{Type: "about:blank", Title: http.StatusText(http.StatusRequestEntityTooLarge), Status: http.StatusRequestEntityTooLarge, Code: schemas.ReasonTooLarge, Detail: "a message has at most 256 KiB"}
	} else {
		b.text = append(append(b.text, line...), '\n')
	}
	b.ends = append(b.ends, len(b.text))
	b.results = append(b.results, r)
	b.known = append(b.known, tooLarge)
}

func (b *batch) reset() {
	*b = batch{first: b.first + len(b.ends), text: b.text[:0], ends: b.ends[:0], results: b.results[:0], known: b.known[:0]}
}

// open lists the messages that are still to be sent: those without a result,
// and those whose result passes.
func (b *batch) open() (out []int) {
	for i, r := range b.results {
		if !b.known[i] || r.Error != nil && r.Error.Temporary() {
			out = append(out, i)
		}
	}
	return out
}

// body is the lines of the given messages.
func (b *batch) body(of []int) []byte {
	if len(of) == len(b.ends) {
		return b.text
	}
	var out []byte
	for _, i := range of {
		start := 0
		if i > 0 {
			start = b.ends[i-1]
		}
		out = append(out, b.text[start:b.ends[i]]...)
	}
	return out
}

// sendBatch returns an error where a message is left without a result.
func (c *Client) sendBatch(ctx context.Context, b *batch) error {
	err := c.repeat(ctx, &call{method: http.MethodPost, path: batchPath}, func(ctx context.Context) error {
		open := b.open()
		if len(open) == 0 {
			return nil
		}
		q := &call{method: http.MethodPost, path: batchPath, body: b.body(open), header: http.Header{
			"Content-Type": {"application/x-ndjson"}, "Accept": {"application/x-ndjson, application/problem+json"},
		}}
		if len(q.body) > askFirst {
			q.header.Set("Expect", "100-continue")
		}
		resp, err := c.try(ctx, q)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return b.read(resp, open)
	})
	for _, known := range b.known {
		if !known {
			return fmt.Errorf("send batch: %w", err)
		}
	}
	return nil // what could not be done is in the results
}

// unfinished says that some messages of a batch were refused in passing.
type unfinished struct {
	messages int
	after    time.Duration // the longest that one of them is told to wait
}

func (e *unfinished) Error() string {
	return fmt.Sprintf("%d messages were refused in passing", e.messages)
}

// read takes the results of the given messages.
func (b *batch) read(resp *http.Response, of []int) error {
	if mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); mediaType != "application/x-ndjson" {
		return fmt.Errorf("the answer to a batch is not application/x-ndjson")
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 4096), maxResultBytes)
	var again unfinished
	for k, i := range of {
		if !lines.Scan() {
			return &lost{unsure, fmt.Errorf("%d of %d results: %w", k, len(of), cmp.Or(lines.Err(), io.ErrUnexpectedEOF))}
		}
		var r BatchResult
		text := bytes.TrimSpace(lines.Bytes())
		if err := json.Unmarshal(text, &r); err != nil {
			// The line of a broken connection may end anywhere.
			return &lost{unsure, fmt.Errorf("result %d of %d: %w", k, len(of), err)}
		}
		if r.Index != k || (r.ID == "") == (r.Error == nil) {
			return fmt.Errorf("result %d of %d is that of another message, or none", k, len(of))
		}
		if r.Error != nil && r.Error.Temporary() {
			r.Error.RetryAfter = time.Duration(r.Error.RetryAfterSeconds) * time.Second
			again.messages++
			again.after = max(again.after, r.Error.RetryAfter)
		}
		b.results[i], b.known[i] = r, true
	}
	if again.messages > 0 {
		return &again
	}
	return nil
}
