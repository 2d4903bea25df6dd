package providertest

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
)

// HTTP is most of a server for protocols on HTTP: it reads requests whole, keeps
// what went over the wire, and hangs, breaks and closes. What the requests mean is
// the adapter's test's.
type HTTP struct {
	// Take reads a call and says what the provider answers when it takes it. An error
	// says what the provider would not have understood: it is answered 400.
	Take func(r *http.Request, body []byte) (Message, Answer, error)
	// Refuse is the provider's answer to a call: b has Code, Throttle or Forbidden.
	Refuse func(r *http.Request, body []byte, b Behaviour) Answer
	// Aside answers requests that are no calls, such as one for a token, and is nil
	// where there are none; ok is false for a call.
	Aside func(r *http.Request, body []byte) (a Answer, ok bool)
	// Garbage is what is no answer of the protocol's; nil is a page of HTML under
	// status 200, as a captive portal has it.
	Garbage func(w http.ResponseWriter)
	// Begin starts the server; nil is (*httptest.Server).Start.
	Begin func(*httptest.Server)
}

// Answer is an HTTP answer.
type Answer struct {
	Status int // 200 when 0
	Header map[string]string
	Body   string
}

// Start starts the server.
func (h HTTP) Start(t T) Server {
	s := &httpServer{of: h, end: make(chan struct{})}
	s.srv = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	if h.Begin != nil {
		h.Begin(s.srv)
	} else {
		s.srv.Start()
	}
	t.Cleanup(func() {
		close(s.end)
		s.srv.Close()
	})
	return s
}

type httpServer struct {
	of  HTTP
	srv *httptest.Server
	end chan struct{}

	mu    sync.Mutex
	does  Behaviour
	calls int
	took  []Message
	wire  strings.Builder
}

func (s *httpServer) Endpoint() string { return s.srv.URL }

func (s *httpServer) Do(b Behaviour) {
	s.mu.Lock()
	s.does = b
	s.mu.Unlock()
	if b.Closed {
		s.srv.Listener.Close()
		s.srv.CloseClientConnections()
	}
}

func (s *httpServer) Received() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.took
	s.took = nil
	return out
}

func (s *httpServer) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *httpServer) Wire() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.wire.String()
	s.wire.Reset()
	return out
}

func (s *httpServer) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if s.of.Aside != nil {
		if a, ok := s.of.Aside(r, body); ok {
			s.record(r, body, a)
			a.write(w)
			return
		}
	}
	s.mu.Lock()
	b := s.does
	s.calls++
	s.mu.Unlock()
	switch {
	case b.Hang:
		s.record(r, body, Answer{Body: "(no answer)"})
		select {
		case <-r.Context().Done():
		case <-s.end:
		}
	case b.Break:
		s.record(r, body, Answer{Body: "(the connection is closed)"})
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Close()
			return
		}
		panic(http.ErrAbortHandler) // HTTP/2: the stream is reset
	case b.Garbage:
		s.record(r, body, Answer{Body: "(garbage)"})
		if s.of.Garbage != nil {
			s.of.Garbage(w)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>\x00\xff welcome to this hotel's network: accept to go on</html>")
	case b != Behaviour{}:
		a := s.of.Refuse(r, body, b)
		s.record(r, body, a)
		a.write(w)
	default:
		m, a, err := s.of.Take(r, body)
		if err != nil {
			a = Answer{Status: http.StatusBadRequest, Body: "this server does not understand it: " + err.Error()}
		}
		s.mu.Lock()
		if err == nil {
			s.took = append(s.took, m)
		}
		s.mu.Unlock()
		s.record(r, body, a)
		a.write(w)
	}
}

func (a Answer) write(w http.ResponseWriter) {
	for k, v := range a.Header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(a.status())
	_, _ = io.WriteString(w, a.Body)
}

func (a Answer) status() int {
	if a.Status == 0 {
		return http.StatusOK
	}
	return a.Status
}

// record keeps a request with its answer, headers sorted.
func (s *httpServer) record(r *http.Request, body []byte, a Answer) {
	var b strings.Builder
	fmt.Fprintf(&b, "> %s %s %s\n> Host: %s\n", r.Method, r.RequestURI, r.Proto, r.Host)
	for _, k := range slices.Sorted(maps.Keys(r.Header)) {
		for _, v := range r.Header[k] {
			fmt.Fprintf(&b, "> %s: %s\n", k, v)
		}
	}
	b.WriteString(">\n")
	lines(&b, "> ", string(body))
	if strings.HasPrefix(a.Body, "(") {
		lines(&b, "< ", a.Body)
	} else {
		fmt.Fprintf(&b, "< %d %s\n", a.status(), http.StatusText(a.status()))
		for _, k := range slices.Sorted(maps.Keys(a.Header)) {
			fmt.Fprintf(&b, "< %s: %s\n", k, a.Header[k])
		}
		b.WriteString("<\n")
		lines(&b, "< ", a.Body)
	}
	s.mu.Lock()
	s.wire.WriteString(b.String())
	s.wire.WriteString("\n")
	s.mu.Unlock()
}

func lines(b *strings.Builder, mark, text string) {
	if text == "" {
		return
	}
	for line := range strings.Lines(text) {
		b.WriteString(mark + strings.TrimRight(line, "\r\n") + "\n")
	}
}
