package ingest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// Bounds of a batch, and of all that are under way.
const (
	maxBatchItems  = 10_000
	maxBatchBytes  = 16 << 20
	batchWithin    = 2 * time.Minute // for all of a body to come
	batchIdle      = readTimeout     // for the next piece of it
	maxBatches     = 16              // under way at once
	maxJSONBatches = 2               // of these, held whole in memory
	batchWindow    = 2 << 20         // bytes of a batch that wait for their acknowledgement
	batchRecords   = 1_000           // records of it that do
)

// batches bounds what is under way.
type batches struct{ any, whole *room }

func newBatches() batches {
	return batches{any: newRoom(maxBatches, maxBatches/4), whole: newRoom(maxJSONBatches, maxJSONBatches/2)}
}

// room has places, of which one tenant takes no more than its share: a slow batch
// may hold its place for minutes, and keeps nobody else out.
type room struct {
	most, share int

	mu sync.Mutex
	in int
	by map[string]int // tenants
}

func newRoom(most, share int) *room { return &room{most: most, share: share, by: make(map[string]int)} }

// enter takes a place, if there is one. It is given back by leave, which may be called
// again.
func (r *room) enter(tenant string) (leave func(), p *client.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in >= r.most || r.by[tenant] >= r.share {
		return nil, after(overloaded.problem("As many batches are under way as may, of yours or of all."), time.Second)
	}
	r.in++
	r.by[tenant]++
	return sync.OnceFunc(func() { r.leave(tenant) }), nil
}

func (r *room) leave(tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.in--
	if r.by[tenant]--; r.by[tenant] == 0 {
		delete(r.by, tenant)
	}
}

// linesTypes are the media types of a body that is JSON by the line.
var linesTypes = []string{"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}

// postBatch takes many messages in. Each has a result of its own, in their
// order; one that is refused does not hold up the others.
func (s *Server) postBatch(w http.ResponseWriter, r *http.Request, c *caller) {
	if p := encoded(r.Header); p != nil {
		refuse(w, r, p)
		return
	}
	keys, p := batchKeys(r.Header["Idempotency-Key"])
	if p != nil {
		refuse(w, r, p)
		return
	}
	leave, p := s.batches.any.enter(c.tenant)
	if p != nil {
		refuse(w, r, p)
		return
	}
	defer leave()
	connOf(r).working() // there are few, and they are long
	// A batch never waits for decisions.
	if preferOf(r.Header, "", 0).applied == respondAsync {
		w.Header().Set("Preference-Applied", respondAsync)
	}
	b := &batch{server: s, caller: c, header: r.Header, keys: keys, path: r.URL.EscapedPath(), done: leave, room: make(chan struct{}, batchRecords)}
	b.free.L = &b.mu
	if slices.Contains(linesTypes, mediaTypeOf(r.Header)) {
		s.lines(w, r, b)
	} else {
		s.list(w, r, b)
	}
}

// batchKeys returns what makes an item's idempotency key from the batch's: to
// send a batch again is then to send the same messages.
func batchKeys(headers []string) (func(i int) string, *client.Problem) {
	if len(headers) == 0 {
		return func(int) string { return "" }, nil
	}
	key, ok := bareKey(headers[0])
	if len(headers) > 1 || !ok || len(key) > 240 {
		return nil, badIdempotencyKey.problem("Of a batch it is one text of at most 240 bytes; its messages get it with their number behind it.")
	}
	return func(i int) string { return key + "/" + strconv.Itoa(i) }, nil
}

// lines takes a batch of one message a line, as they come: no more of it than
// batchWindow is held in memory.
func (s *Server) lines(w http.ResponseWriter, r *http.Request, b *batch) {
	rc := http.NewResponseController(w)
	body := &steady{r: r.Body, rc: rc, until: time.Now().Add(batchWithin), left: maxBatchBytes}
	in := bufio.NewReaderSize(body, 64<<10)
	var line []byte
	for {
		var err error
		var long bool
		line, long, err = readLine(in, line[:0])
		if text := bytes.TrimSpace(line); len(text) > 0 || long {
			switch {
			case b.full():
				b.fail(tooLarge.problem("A batch has at most 10,000 messages: the rest was not read."))
				err = errEnough
			case long:
				b.fail(oversized())
			case errors.Is(err, errEnough), err != nil && !errors.Is(err, io.EOF):
				// Half a line: what is wrong with the rest is said below.
			default:
				b.add(r.Context(), text)
			}
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			connOf(r).waiting()
		}
		switch {
		case errors.Is(err, io.EOF):
		case errors.Is(err, errEnough):
			w.Header().Set("Connection", "close")
			if body.left <= 0 {
				b.fail(tooLarge.problem("A batch has at most 16 MiB: the rest was not read."))
			}
		default:
			p := broken(w, err)
			if b.empty() {
				refuse(w, r, p)
				return
			}
			b.fail(p)
		}
		break
	}
	b.wait()
	if p := b.away(); p != nil {
		refuse(w, r, p)
		return
	}
	rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusAccepted)
	enc := json.NewEncoder(w)
	for i := range b.results {
		if enc.Encode(&b.results[i]) != nil {
			return // nobody reads it any more
		}
	}
}

// list takes a batch that is one JSON object. It is read whole before anything is
// taken in, so that one that is cut short or has a mistake in its form sends
// nothing.
func (s *Server) list(w http.ResponseWriter, r *http.Request, b *batch) {
	if p := wrongType(r.Header); p != nil {
		refuse(w, r, p)
		return
	}
	leave, p := s.batches.whole.enter(b.caller.tenant)
	if p != nil {
		refuse(w, r, p)
		return
	}
	defer leave()
	rc := http.NewResponseController(w)
	tooBig := func() *client.Problem { return tooLarge.problem("A batch has at most 16 MiB.") }
	if r.ContentLength > maxBatchBytes {
		w.Header().Set("Connection", "close")
		refuse(w, r, tooBig())
		return
	}
	text, err := io.ReadAll(&steady{r: r.Body, rc: rc, until: time.Now().Add(batchWithin), left: maxBatchBytes})
	if err != nil {
		connOf(r).waiting()
	}
	if errors.Is(err, errEnough) {
		w.Header().Set("Connection", "close")
		refuse(w, r, tooBig())
		return
	}
	if err != nil {
		refuse(w, r, broken(w, err))
		return
	}
	items, p := batchItems(text)
	if p != nil {
		refuse(w, r, p)
		return
	}
	for _, item := range items {
		b.add(r.Context(), item)
	}
	b.wait()
	leave()
	if p := b.away(); p != nil {
		refuse(w, r, p)
		return
	}
	rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	answer(w, http.StatusAccepted, "application/json", client.BatchResults{Results: append([]client.BatchResult{}, b.results...)}) // [] and not null
}

// batchItems takes {"messages": […]} apart, and does not look into the messages.
func batchItems(text []byte) ([]json.RawMessage, *client.Problem) {
	bad := func(pointer, code, detail string) ([]json.RawMessage, *client.Problem) {
		return nil, invalidRequest.problem(`A batch is {"messages": […]}, or NDJSON under Content-Type: application/x-ndjson.`,
			client.FieldError{Pointer: pointer, Code: code, Detail: detail})
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		if json.Valid(text) {
			return bad("", schemas.ReasonNotObject, "is not a JSON object")
		}
		return bad("", schemas.ReasonNotJSON, "is not JSON")
	}
	for name := range fields {
		if name != "messages" {
			return bad("/"+known(name), schemas.ReasonUnknownField, "is not a field of a batch")
		}
	}
	raw, ok := fields["messages"]
	var items []json.RawMessage
	switch {
	case !ok:
		return bad("/messages", schemas.ReasonRequired, "is required")
	case json.Unmarshal(raw, &items) != nil || items == nil:
		return bad("/messages", schemas.ReasonWrongType, "must be an array")
	case len(items) > maxBatchItems:
		return nil, tooLarge.problem("A batch has at most 10,000 messages.", client.FieldError{Pointer: "/messages", Code: schemas.ReasonTooMany, Detail: "has more than 10000 messages"})
	}
	return items, nil
}

// batch is what is under way of one.
type batch struct {
	server *Server
	caller *caller
	header http.Header
	keys   func(i int) string
	path   string
	done   func() // gives the place back

	wg   sync.WaitGroup
	room chan struct{} // a place for each record that waits for its acknowledgement

	mu      sync.Mutex
	results []client.BatchResult
	free    sync.Cond
	flying  int // bytes of these records
}

// add takes in the next message, and waits while too many are under way.
func (b *batch) add(ctx context.Context, text []byte) {
	i := b.place()
	m, p := b.message(text, i)
	if p != nil {
		b.settle(i, "", p)
		return
	}
	b.room <- struct{}{}
	b.mu.Lock()
	for b.flying > 0 && b.flying+len(m.value) > batchWindow {
		b.free.Wait()
	}
	b.flying += len(m.value)
	b.mu.Unlock()
	b.wg.Add(1)
	b.server.out.send(ctx, m.record(b.server.requests, b.server.partitions, b.header), func(p *client.Problem) {
		defer b.wg.Done()
		if p == nil {
			b.server.accept(m)
		}
		b.settle(i, m.req.ID, p)
		b.mu.Lock()
		b.flying -= len(m.value)
		b.free.Signal()
		b.mu.Unlock()
		<-b.room
	})
}

// place makes room for a result.
func (b *batch) place() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.results = append(b.results, client.BatchResult{Index: len(b.results)})
	return len(b.results) - 1
}

func (b *batch) settle(i int, id string, p *client.Problem) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := &b.results[i]
	if p == nil {
		at.ID, at.Status = id, schemas.StatusAccepted
		return
	}
	p.Instance = b.path + "#" + strconv.Itoa(i)
	at.Error = p
}

func (b *batch) message(text []byte, i int) (*message, *client.Problem) {
	now := time.Now()
	at := schemas.MillisOf(now)
	q, err := schemas.DecodeHTTPRequest(text, at)
	if err != nil {
		return nil, invalid(err)
	}
	if q.IdempotencyKey == "" {
		q.IdempotencyKey = b.keys(i)
	}
	return b.server.prepare(q, b.caller, now)
}

// fail is the result of what could not be read.
func (b *batch) fail(p *client.Problem) { b.settle(b.place(), "", p) }

// empty reports whether nothing has come yet.
func (b *batch) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.results) == 0
}

// full reports whether there are as many messages as may be.
func (b *batch) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.results) >= maxBatchItems
}

// wait returns when every record has been acknowledged or given up. The batch's
// place is free then, before its answer: whoever reads that may send the next.
func (b *batch) wait() {
	b.wg.Wait()
	b.done()
}

// away is the answer to a batch of which Kafka took nothing: the same as to a
// single message.
func (b *batch) away() (p *client.Problem) {
	for i := range b.results {
		if b.results[i].Error == nil {
			return nil
		}
		if b.results[i].Error.Status == http.StatusServiceUnavailable {
			p = b.results[i].Error
		}
	}
	return p
}

var errEnough = errors.New("more than may be read")

// steady reads a body of at most left bytes that comes without long pauses,
// and not for ever.
type steady struct {
	r     io.Reader
	rc    *http.ResponseController
	until time.Time
	left  int64
}

func (s *steady) Read(p []byte) (int, error) {
	now := time.Now()
	if now.After(s.until) {
		return 0, os.ErrDeadlineExceeded
	}
	deadline := now.Add(batchIdle)
	if deadline.After(s.until) {
		deadline = s.until
	}
	s.rc.SetReadDeadline(deadline)
	if s.left <= 0 {
		// Is there more? One byte tells.
		n, err := s.r.Read(p[:1])
		if n > 0 {
			s.left = -1
			return 0, errEnough
		}
		return 0, err
	}
	if int64(len(p)) > s.left {
		p = p[:s.left]
	}
	n, err := s.r.Read(p)
	s.left -= int64(n)
	return n, err
}

// readLine appends a line to buf, without its end. A line that is longer than a
// request may be is read to its end and not kept.
func readLine(in *bufio.Reader, buf []byte) (line []byte, long bool, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		if !long && len(buf)+len(piece) > schemas.MaxRequestBytes+2 {
			long = true
		}
		if !long {
			buf = append(buf, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if long {
				buf = buf[:0]
			}
			return bytes.TrimRight(buf, "\r\n"), long, err
		}
	}
}
