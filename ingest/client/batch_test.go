package client_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// batchServer answers as Weir does: a line for each line as it is read. refuse
// is asked before each result of the given try; it may write one itself.
type batchServer struct {
	t       *testing.T
	mu      sync.Mutex
	tries   int
	largest int            // lines of one batch
	most    int64          // bytes of one batch
	taken   map[string]int // keys, and how often each was accepted
	bodies  map[string]int // contents, likewise
	refuse  func(try, line int, w http.ResponseWriter) bool
}

func (s *batchServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/messages/batch" || r.Header.Get("Content-Type") != "application/x-ndjson" {
		s.t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	}
	rc := http.NewResponseController(w)
	if err := rc.EnableFullDuplex(); err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	s.most = max(s.most, r.ContentLength)
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, schemas.MaxRequestBytes+1)
	enc := json.NewEncoder(w)
	n := 0
	defer func() { s.largest = max(s.largest, n) }()
	for ; lines.Scan(); n++ {
		q, err := schemas.DecodeRequestStrict(lines.Bytes())
		if err != nil {
			s.t.Errorf("line %d: %v", n, err)
			return
		}
		if s.refuse != nil && s.refuse(s.tries, n, w) {
			continue
		}
		s.taken[q.IdempotencyKey]++
		s.bodies[q.Body]++
		enc.Encode(client.BatchResult{Index: n, ID: "id of " + q.Body, Status: schemas.StatusAccepted})
	}
	if lines.Err() != nil {
		s.t.Error(lines.Err())
	}
}

func newBatchServer(t *testing.T, refuse func(try, line int, w http.ResponseWriter) bool) (*batchServer, *client.Client) {
	s := &batchServer{t: t, refuse: refuse, taken: make(map[string]int), bodies: make(map[string]int)}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	c := client.New(srv.URL, "k", client.WithRetry(quick))
	t.Cleanup(c.Close)
	return s, c
}

// numbered makes n messages whose bodies are their numbers.
func numbered(n int) iter.Seq[*schemas.Request] {
	return func(yield func(*schemas.Request) bool) {
		for i := range n {
			if !yield(&schemas.Request{Channel: "sms", To: "+8613800000000", Body: fmt.Sprint(i)}) {
				return
			}
		}
	}
}

func refusal(w http.ResponseWriter, line int, p client.Problem) bool {
	json.NewEncoder(w).Encode(client.BatchResult{Index: line, Error: &p})
	return true
}

// Every message has its result, in order, and is accepted once by its key,
// whatever broke in between.
func TestBatch(t *testing.T) {
	const n = 25_000
	tests := []struct {
		name   string
		refuse func(try, line int, w http.ResponseWriter) bool
		tries  int
	}{
		{"nothing breaks", nil, 3},
		{"each batch breaks off once", func(try, line int, w http.ResponseWriter) bool {
			if try%2 == 1 && line == 3000 {
				panic(http.ErrAbortHandler)
			}
			return false
		}, 6},
		{"a reset before the first result", func(try, _ int, w http.ResponseWriter) bool {
			if try == 1 {
				panic(http.ErrAbortHandler)
			}
			return false
		}, 4},
		{"a result breaks off in its middle", func(try, line int, w http.ResponseWriter) bool {
			if try == 1 && line == 5 {
				w.Write([]byte(`{"index":5,"id":"id o`))
				panic(http.ErrAbortHandler)
			}
			return false
		}, 4},
		{"results stop early", func(try, line int, w http.ResponseWriter) bool { return try == 1 && line >= 9_000 }, 4},
		{"some are refused in passing", func(try, line int, w http.ResponseWriter) bool {
			return try == 2 && line%10 == 0 && refusal(w, line, client.Problem{Status: 503, Code: "kafka_unavailable"})
		}, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, c := newBatchServer(t, tt.refuse)
			i := 0
			for r, err := range c.Batch(t.Context(), numbered(n)) {
				if want := fmt.Sprint("id of ", i); err != nil || r.Index != i || r.ID != want || r.Status != schemas.StatusAccepted {
					t.Fatalf("%d: %+v %v", i, r, err)
				}
				i++
			}
			if i != n || s.tries != tt.tries || s.largest < 7000 || s.largest > client.MaxBatch {
				t.Errorf("%d results after %d tries of at most %d", i, s.tries, s.largest)
			}
			if len(s.taken) != n || len(s.bodies) != n || s.taken[""] != 0 {
				t.Errorf("%d messages under %d keys", len(s.bodies), len(s.taken))
			}
			if tt.name == "some are refused in passing" {
				for key, times := range s.taken {
					if times != 1 {
						t.Fatalf("key %s was accepted %d times", key, times)
					}
				}
			}
		})
	}
}

// One that is refused does not sink the others, and neither does one that is
// too large to be sent at all.
func TestBatchRefusals(t *testing.T) {
	s, c := newBatchServer(t, func(try, line int, w http.ResponseWriter) bool {
		return line == 1 && refusal(w, line, client.Problem{Status: 400, Code: "invalid_request"})
	})
	large := &schemas.Request{Channel: "sms", To: "+8613800000000", Body: strings.Repeat("x", schemas.MaxRequestBytes)}
	var got []string
	for r, err := range c.Batch(t.Context(), func(yield func(*schemas.Request) bool) {
		for i, q := range []*schemas.Request{message, message, large, message} {
			own := *q
			own.IdempotencyKey = fmt.Sprint("key ", i)
			if !yield(&own) {
				return
			}
		}
	}) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case r.Error != nil:
			got = append(got, fmt.Sprint(r.Index, " ", r.Error.Status, " ", r.Error.Code))
		default:
			got = append(got, fmt.Sprint(r.Index, " ", r.Status))
		}
	}
	if want := "0 accepted,1 400 invalid_request,2 413 too_large,3 accepted"; strings.Join(got, ",") != want || s.tries != 1 {
		t.Errorf("%v in %d tries", got, s.tries)
	}
	if len(s.taken) != 2 || s.taken["key 0"] != 1 || s.taken["key 3"] != 1 {
		t.Errorf("accepted under %v", s.taken)
	}
}

// What stays refused in passing is a result; what stays without an answer is an
// error beside each message that it concerns, and no further batch is sent.
func TestBatchGivesUp(t *testing.T) {
	s, c := newBatchServer(t, func(_, line int, w http.ResponseWriter) bool {
		return line == 0 && refusal(w, line, client.Problem{Status: 503})
	})
	for r, err := range c.Batch(t.Context(), numbered(1)) {
		if err != nil || r.Error == nil || r.Error.Status != 503 {
			t.Errorf("%+v %v", r, err)
		}
	}
	if s.tries != quick.Tries {
		t.Errorf("%d tries", s.tries)
	}

	const first = 4
	s, c = newBatchServer(t, func(try, line int, _ http.ResponseWriter) bool {
		if line == first || try > 1 {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	known, lost := 0, 0
	for r, err := range c.Batch(t.Context(), numbered(client.MaxBatch+1)) {
		switch {
		case r.Index != known+lost:
			t.Fatalf("%d after %d", r.Index, known+lost)
		case err == nil:
			known++
		default:
			lost++
		}
	}
	// A broken connection may take along results that were written.
	if known > first || known+lost != client.MaxBatch || s.tries != quick.Tries {
		t.Errorf("%d known, %d lost after %d tries", known, lost, s.tries)
	}
}

// A refusal of the whole batch is that of each message; a pace is waited for.
func TestBatchRefusedWhole(t *testing.T) {
	for _, tt := range []struct {
		status, tries int
	}{{401, 1}, {429, quick.Tries}} {
		tries := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tries++
			problem(tt.status, "", `{"code":"client_rate"}`)(w, r)
		}))
		c := client.New(srv.URL, "", client.WithRetry(quick))
		n := 0
		for _, err := range c.Batch(t.Context(), numbered(3)) {
			if p, ok := errors.AsType[*client.Problem](err); !ok || p.Status != tt.status {
				t.Errorf("%v", err)
			}
			n++
		}
		if n != 3 || tries != tt.tries {
			t.Errorf("%d: %d errors, %d tries", tt.status, n, tries)
		}
		c.Close()
		srv.Close()
	}
}

// A server that answers for other messages is not believed.
func TestBatchWrongAnswers(t *testing.T) {
	for _, text := range []string{
		`{"index":1,"id":"x","status":"accepted"}`,
		`{"index":0}`,
		`{"index":0,"id":"x","error":{"status":400}}`,
	} {
		s, c := newBatchServer(t, func(_, line int, w http.ResponseWriter) bool {
			fmt.Fprintln(w, text)
			return true
		})
		for r, err := range c.Batch(t.Context(), numbered(1)) {
			if err == nil || s.tries != 1 {
				t.Errorf("%s: %+v after %d tries", text, r, s.tries)
			}
		}
	}
}

// What the source yields before it fails is sent, and who stops reading stops
// the source.
func TestBatchSource(t *testing.T) {
	broken := errors.New("broken")
	s, c := newBatchServer(t, nil)
	var got []string
	for r, err := range c.BatchFrom(t.Context(), func(yield func(*schemas.Request, error) bool) {
		for range 2 {
			if !yield(message, nil) {
				return
			}
		}
		yield(nil, broken)
	}) {
		got = append(got, fmt.Sprint(r.Index, " ", r.Status, " ", err))
	}
	if want := "0 accepted <nil>,1 accepted <nil>,2  broken"; strings.Join(got, ",") != want {
		t.Errorf("%q", got)
	}
	made := 0
	for range c.Batch(t.Context(), func(yield func(*schemas.Request) bool) {
		for yield(message) {
			made++
		}
	}) {
		break
	}
	if made != client.MaxBatch || s.tries != 2 {
		t.Errorf("%d made, %d tries", made, s.tries)
	}
}

// However much is sent, one batch is in memory, and none is over its bounds.
func TestBatchMemory(t *testing.T) {
	const n, size = 400, 250 << 10 // 100 MB
	s, c := newBatchServer(t, nil)
	body := strings.Repeat("x", size)
	most := uint64(0)
	results := 0
	for r, err := range c.Batch(t.Context(), func(yield func(*schemas.Request) bool) {
		for i := range n {
			if !yield(&schemas.Request{Channel: "email", To: "a@example.com", Subject: "s", Body: body, IdempotencyKey: fmt.Sprint(i)}) {
				return
			}
		}
	}) {
		if err != nil || r.Error != nil {
			t.Fatal(r, err)
		}
		if results++; results%100 == 0 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
	if results != n || len(s.taken) != n {
		t.Errorf("%d results, %d messages", results, len(s.taken))
	}
	if s.most > client.MaxBatchBytes || s.most < client.MaxBatchBytes-2*size {
		t.Errorf("a batch of %d bytes", s.most)
	}
	if most > 64<<20 {
		t.Errorf("%d MB in memory", most>>20)
	}
}
