package client_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// quick repeats without waiting long.
var quick = client.Retry{Tries: 4, Base: time.Millisecond, Cap: 2 * time.Millisecond}

var message = &schemas.Request{Channel: "sms", To: "+8613800000000", Body: "code 1"}

// seen is what a server saw of a call.
type seen struct {
	mu     sync.Mutex
	tries  int
	keys   map[string]bool // idempotency keys
	bodies int             // that came whole
}

func (s *seen) begin() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	return s.tries
}

// read reads a request's body, and notes its key.
func (s *seen) read(t *testing.T, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	q, err := schemas.DecodeHTTPRequest(body, schemas.MillisOf(time.Now()))
	if err != nil {
		t.Errorf("the server reads %v", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies++
	if s.keys == nil {
		s.keys = make(map[string]bool)
	}
	s.keys[q.IdempotencyKey] = true
}

func accept(w http.ResponseWriter) {
	w.WriteHeader(http.StatusAccepted)
	json.NewEncoder(w).Encode(client.Sent{ID: "x", Status: schemas.StatusAccepted})
}

func problem(status int, header, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		if name, value, ok := strings.Cut(header, ": "); ok {
			w.Header().Set(name, value)
		}
		if body == "" {
			body = "{}"
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// reset ends the connection with RST.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	if c, ok := conn.(*net.TCPConn); ok {
		c.SetLinger(0)
	}
	conn.Close()
}

// A call is tried again where that may help and is safe, with the same key, and
// never otherwise.
func TestFaults(t *testing.T) {
	const inTime = "in time: "
	past := "Wed, 21 Oct 2015 07:28:00 GMT"
	tests := []struct {
		name  string
		fault func(http.ResponseWriter, *http.Request) // of the first two tries
		tries int                                      // 3 is success
	}{
		{"the connection is reset", func(w http.ResponseWriter, _ *http.Request) { reset(w) }, 3},
		{"reset in the middle of the answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusAccepted)
			io.WriteString(w, `{"id":"x",`)
			http.NewResponseController(w).Flush()
			reset(w)
		}, 3},
		{"the answer ends early", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusAccepted)
			io.WriteString(w, `{"id":"x","status":"accepted"}`)
			panic(http.ErrAbortHandler)
		}, 3},
		{inTime + "no answer", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 3},
		{inTime + "half an answer", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusAccepted)
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, 3},
		{"no HTTP", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				io.WriteString(conn, "220 mail.example ESMTP\r\n")
				conn.Close()
			}
		}, 3},
		{"408", problem(408, "", ""), 3},
		{"429 of our pace, without a time", problem(429, "", `{"type":"`+client.TypeClientRate+`"}`), 3},
		{"429 of our pace, by a date that has passed", problem(429, "Retry-After: "+past, `{"type":"`+client.TypeClientRate+`"}`), 3},
		{"502 and a page", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) }, 3},
		{"503, at once", problem(503, "Retry-After: 0", `{"code":"overloaded"}`), 3},
		{"503 and nonsense for a time", problem(503, "Retry-After: soon", ""), 3},
		{"504", problem(504, "", ""), 3},

		{"429 of a recipient's limit", problem(429, "Retry-After: 0", `{"type":"`+client.TypeQuotaExceeded+`"}`), 1},
		{"503, later than there is time", problem(503, "Retry-After: 3600", ""), 1},
		{"503, at a date later than there is time", problem(503, "Retry-After: "+time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), ""), 1},
		{"500", problem(500, "", ""), 1},
		{"400", problem(400, "", ""), 1},
		{"401", problem(401, "", ""), 1},
		{"409", problem(409, "", ""), 1},
		{"422", problem(422, "", ""), 1},
		{"501", problem(501, "", ""), 1},
		{"an answer that is no JSON", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202); io.WriteString(w, "OK") }, 1},
		{"redirected", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s seen
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := s.begin()
				s.read(t, r)
				if n < 3 {
					tt.fault(w, r)
					return
				}
				accept(w)
			}))
			defer srv.Close()
			timeout := time.Minute
			if strings.HasPrefix(tt.name, inTime) {
				timeout = 1500 * time.Millisecond // in which the third try is answered
			}
			c := client.New(srv.URL, "k", client.WithRetry(quick), client.WithTimeout(timeout))
			defer c.Close()
			sent, err := c.Send(t.Context(), message)
			if ok := err == nil && sent.ID == "x"; ok != (tt.tries == 3) {
				t.Errorf("%+v %v", sent, err)
			}
			if s.tries != tt.tries || len(s.keys) != 1 || s.keys[""] {
				t.Errorf("%d tries with keys %v, want %d with one", s.tries, s.keys, tt.tries)
			}
			if message.IdempotencyKey != "" {
				t.Error("the caller's request was changed")
			}
		})
	}
}

// A body that was partly sent is sent again, whole: its key makes that safe.
func TestResetWithinTheBody(t *testing.T) {
	var s seen
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.begin() < 3 {
			io.ReadFull(r.Body, make([]byte, 1000))
			reset(w)
			return
		}
		s.read(t, r)
		accept(w)
	}))
	defer srv.Close()
	c := client.New(srv.URL, "", client.WithRetry(quick))
	defer c.Close()
	q := &schemas.Request{Channel: "email", To: "a@example.com", Subject: "s", Body: strings.Repeat("x", 200<<10)}
	if _, err := c.Send(t.Context(), q); err != nil || s.tries != 3 || s.bodies != 1 {
		t.Errorf("%d tries, %d whole bodies: %v", s.tries, s.bodies, err)
	}
}

// Where nothing listens a call is tried as often as it may, and no oftener.
func TestNobodyListens(t *testing.T) {
	dials := 0
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		dials++
		return nil, errors.New("refused")
	}}
	c := client.New("http://127.0.0.1:1", "k", client.WithHTTPClient(&http.Client{Transport: transport}), client.WithRetry(quick))
	_, err := c.Get(t.Context(), "x")
	if dials != quick.Tries || err == nil || !strings.Contains(err.Error(), fmt.Sprintf("try %d", quick.Tries)) {
		t.Errorf("%d dials: %v", dials, err)
	}
	// What made no connection has done nothing, so even this is repeated.
	dials = 0
	_, err = c.Limits().Put(t.Context(), "verify", schemas.Limit{Name: "verify"}, client.Change{IfMatch: `"1"`})
	if dials != quick.Tries || err == nil {
		t.Errorf("%d dials: %v", dials, err)
	}
}

// A certificate that is not trusted is not trusted the next time either.
func TestForeignCertificate(t *testing.T) {
	var s seen
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { accept(w) }))
	srv.Config.ErrorLog = quietLog()
	srv.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { s.begin(); return nil, nil }}
	srv.StartTLS()
	defer srv.Close()
	c := client.New(srv.URL, "k", client.WithRetry(quick))
	if _, err := c.Send(t.Context(), message); err == nil || s.tries != 1 {
		t.Errorf("%d handshakes: %v", s.tries, err)
	}
	trusting := client.New(srv.URL, "k", client.WithHTTPClient(srv.Client()))
	if _, err := trusting.Send(t.Context(), message); err != nil {
		t.Error(err)
	}
}

// handler answers calls without a network, so that time is a bubble's.
type handler func(http.ResponseWriter, *http.Request)

func (h handler) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp := w.Result()
	if resp.Header.Get("Date") == "" {
		resp.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	return resp, nil
}

func (h handler) client(options ...client.Option) *client.Client {
	return client.New("http://127.0.0.1", "k", append([]client.Option{client.WithHTTPClient(&http.Client{Transport: h})}, options...)...)
}

// How long a call takes, by the clock of a bubble.
func TestTimes(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	in := func(d time.Duration, code int) handler {
		return func(w http.ResponseWriter, r *http.Request) {
			problem(code, "Retry-After: "+time.Now().Add(d).UTC().Format(http.TimeFormat), `{"code":"client_rate"}`)(w, r)
		}
	}
	tests := []struct {
		name       string
		fault      handler // of all tries but the last
		tries      int     // that were made
		succeeds   bool
		retry      client.Retry
		ctx        time.Duration // 0: none
		least, max time.Duration
		is         error
	}{
		{name: "seconds are kept", fault: problem(503, "Retry-After: 7", ""), tries: 2, succeeds: true, least: 7 * time.Second, max: 7*time.Second + 100*time.Millisecond},
		{name: "seconds of the body too", fault: problem(429, "", `{"code":"client_rate","retryAfter":3}`), tries: 2, succeeds: true, least: 3 * time.Second, max: 3*time.Second + 100*time.Millisecond},
		{name: "a date is kept", fault: in(9*time.Second, 429), tries: 3, succeeds: true, least: 17 * time.Second, max: 18*time.Second + 300*time.Millisecond},
		{name: "beyond the budget it is not waited for", fault: problem(503, "Retry-After: 31", ""), tries: 1, max: 0},
		{name: "nor beyond the context", fault: problem(503, "Retry-After: 7", ""), ctx: 6 * time.Second, tries: 1, max: 0},
		{name: "each try has its time", fault: hang, tries: 2, succeeds: true, least: 10 * time.Second, max: 10*time.Second + 100*time.Millisecond},
		{name: "all together have theirs", fault: hang, retry: client.Retry{Tries: 100, Total: 25 * time.Second}, tries: 3, least: 25 * time.Second, max: 25 * time.Second, is: context.DeadlineExceeded},
		{name: "the context ends within a try", fault: hang, ctx: 4 * time.Second, tries: 1, least: 4 * time.Second, max: 4 * time.Second, is: context.DeadlineExceeded},
		{name: "tries run out", fault: problem(503, "", ""), retry: client.Retry{Tries: 6}, tries: 6, max: 3100 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				c := handler(func(w http.ResponseWriter, r *http.Request) {
					tries++
					if tt.succeeds && tries == tt.tries {
						accept(w)
						return
					}
					tt.fault(w, r)
				}).client(client.WithRetry(tt.retry))
				ctx := t.Context()
				if tt.ctx > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.ctx)
					defer cancel()
				}
				began := time.Now()
				_, err := c.Send(ctx, message)
				took := time.Since(began)
				if (err == nil) != tt.succeeds || tries != tt.tries || took < tt.least || took > tt.max {
					t.Errorf("%d tries in %v: %v; want %d in %v to %v", tries, took, err, tt.tries, tt.least, tt.max)
				}
				if tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("%v is no %v", err, tt.is)
				}
			})
		})
	}
}

// A caller who leaves while the client waits gets to know both why and what was
// wrong, at once.
func TestLeavingWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		c := handler(problem(503, "Retry-After: 20", `{"title":"T"}`)).client()
		go func() {
			time.Sleep(5 * time.Second)
			cancel(enough)
		}()
		began := time.Now()
		_, err := c.Send(ctx, message)
		p, ok := errors.AsType[*client.Problem](err)
		if !ok || p.RetryAfter != 20*time.Second || !errors.Is(err, enough) || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// One who leaves within a try gets to know why.
func TestLeavingWithinATry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Second, func() { cancel(enough) })
		c := handler(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }).client()
		began := time.Now()
		if _, err := c.Send(ctx, message); !errors.Is(err, enough) || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// A thousand clients that fail at once do not come back at once.
func TestJitterSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		at := make(map[time.Duration]int) // of the second try, in tenths of the base
		began := time.Now()
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				first := true
				c := handler(func(w http.ResponseWriter, r *http.Request) {
					if first {
						first = false
						problem(503, "", "")(w, r)
						return
					}
					mu.Lock()
					at[time.Since(began)/(10*time.Millisecond)]++
					mu.Unlock()
					accept(w)
				}).client()
				if _, err := c.Send(t.Context(), message); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for i := range time.Duration(10) {
			if at[i] < 50 || at[i] > 150 {
				t.Errorf("%d of 1000 in tenth %d", at[i], i)
			}
		}
	})
}
