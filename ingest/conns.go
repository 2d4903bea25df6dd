package ingest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/ingest/client"
)

// DefaultConns is how many connections are open at once, if the process may
// have twice as many files open. One that is slow takes some 40 KB of memory.
const DefaultConns = 10_000

// conns is a listener that is never full: where as many connections are open as
// may be, the ones that have waited longest for their clients make room, of
// those addresses that have most (victims). To let new ones wait instead would be to
// shut everyone out for the sake of whoever is slow.
type conns struct {
	net.Listener // set before Accept
	most         int
	trusted      []netip.Prefix // proxies: each of their connections is somebody else's
	now          func() time.Time

	shed   prometheus.Counter
	opened prometheus.GaugeFunc
	mu     sync.Mutex
	open   map[*conn]struct{}
}

// newConns makes a listener for at most most connections; 0 is the default.
func newConns(most int, trusted []netip.Prefix) *conns {
	if most == 0 {
		most = DefaultConns
		if files := openFiles(); files > 0 {
			most = max(1, min(most, files/2))
		}
	}
	l := &conns{
		most: most, trusted: trusted, now: time.Now, open: make(map[*conn]struct{}),
		shed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_http_connections_shed_total",
			Help: "Connections closed to make room for others, or not taken because none could.",
		}),
	}
	l.opened = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_http_connections",
		Help: "Connections that are open, waiting ones too.",
	}, func() float64 { return float64(l.count()) })
	return l
}

func (l *conns) register(to *prometheus.Registry) error {
	return cmp.Or(to.Register(l.shed), to.Register(l.opened))
}

// Accept is net.Listener.
func (l *conns) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, of: l, from: l.whose(raw.RemoteAddr())}
		c.since.Store(l.now().UnixNano())
		if l.admit(c) {
			return c, nil
		}
		raw.Close()
		l.shed.Inc()
	}
}

// whose is the address that a connection counts for: of IPv6 the /64, which is what one
// customer of a network has; none for a trusted proxy.
func (l *conns) whose(peer net.Addr) netip.Addr {
	ap, err := netip.ParseAddrPort(peer.String())
	if err != nil {
		return netip.Addr{}
	}
	a := ap.Addr().Unmap().WithZone("")
	for _, p := range l.trusted {
		if p.Contains(a) {
			return netip.Addr{}
		}
	}
	if a.Is6() {
		a = netip.PrefixFrom(a, 64).Masked().Addr()
	}
	return a
}

// admit makes room for a connection. It reports false where all others are being worked for.
func (l *conns) admit(c *conn) bool {
	l.mu.Lock()
	var gone []*conn
	if len(l.open) >= l.most {
		// More than one at a time: to look at all of them for each would itself
		// be what an attacker wants.
		gone = l.choose(max(1, l.most/64))
	}
	for _, one := range gone {
		delete(l.open, one)
	}
	ok := len(l.open) < l.most
	if ok {
		l.open[c] = struct{}{}
	}
	l.mu.Unlock()
	for _, one := range gone {
		one.Conn.Close()
		l.shed.Inc()
	}
	return ok
}

func (l *conns) choose(n int) (out []*conn) {
	all, seen := make([]*conn, 0, len(l.open)), make([]held, 0, len(l.open))
	for c := range l.open {
		all, seen = append(all, c), append(seen, held{c.from, c.since.Load()})
	}
	for _, i := range victims(seen, n) {
		out = append(out, all[i])
	}
	return out
}

func (l *conns) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// conn is an open connection. What it knows beyond net/http's is whom it waits
// for, and what its bytes have said.
type conn struct {
	net.Conn
	of   *conns
	from netip.Addr
	// since is when the connection began to wait for its client, in ns since 1970:
	// for a request, its rest, or for its answer to be read. It is 0 while the server
	// is at work for it.
	since atomic.Int64
	// Of net/http's one reading goroutine, and what it starts.
	line    lineReader
	lengths atomic.Bool // a line said Content-Length
}

type connKey struct{}

// withConn lets the handlers find their connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf is the request's connection; nil in tests that have none.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// working says that the server has what it needs of its client.
func (c *conn) working() {
	if c != nil {
		c.since.Store(0)
	}
}

// waiting says that it is the client's turn.
func (c *conn) waiting() {
	if c != nil {
		c.since.CompareAndSwap(0, c.of.now().UnixNano())
	}
}

// Read is net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.lengths.Load() && c.line.find(p[:n]) {
		c.lengths.Store(true)
	}
	return n, err
}

// Write is net.Conn. Once it has begun, the answer goes as fast as it is read.
// What net/http refuses by itself, before there is a request, it says in plain
// text: here that becomes a problem.
func (c *conn) Write(p []byte) (int, error) {
	c.waiting()
	if own := ownRefusal(p); own != nil {
		if _, err := c.Conn.Write(own); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// CloseWrite is what net/http looks for: after a refusal it says that no more comes and
// lingers a little, so that the client gets to read it before it learns that nobody
// reads what it sends.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close is net.Conn.
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// lineReader looks for a line that begins with Content-Length in what comes in
// pieces.
type lineReader struct{ at int }

const lengthLine = "\ncontent-length"

func (l *lineReader) find(p []byte) bool {
	for len(p) > 0 {
		if l.at == 0 {
			i := bytes.IndexByte(p, '\n')
			if i < 0 {
				return false
			}
			p, l.at = p[i+1:], 1
			continue
		}
		switch c := p[0]; {
		case c == '\n':
			l.at = 1
		case c|0x20 == lengthLine[l.at]:
			l.at++
		default:
			l.at = 0
		}
		if p = p[1:]; l.at == len(lengthLine) {
			l.at = 0
			return true
		}
	}
	return false
}

// framing marks when the server works and when it waits, and ends connections on
// which what someone in front has taken for one request could be two.
//
// RFC 9112, 6.1: a connection ends with a message that has a length and chunks,
// and with one of HTTP/1.0 that has chunks. net/http drops the former's length and
// ignores the latter's chunks, and tells of neither. So HTTP/1.0 gets one request a
// connection; and one with chunks is the last where any line has begun with
// Content-Length, be it of this request or of one before.
func framing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r)
		if !r.ProtoAtLeast(1, 1) || len(r.TransferEncoding) > 0 && c != nil && c.lengths.Load() {
			w.Header().Set("Connection", "close")
		}
		if c == nil {
			next.ServeHTTP(w, r)
			return
		}
		if r.ContentLength == 0 {
			c.working()
		} else {
			c.since.Store(c.of.now().UnixNano())
		}
		next.ServeHTTP(w, r)
		if c.since.Load() != 0 && r.ContentLength != 0 {
			// net/http reads on before it answers, so that a client that only writes
			// gets to see it. One who is slow does not hold the answer up.
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(lastWords))
		}
		c.waiting()
	})
}

// plainText follows the status line in what net/http answers by itself.
const plainText = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// ownRefusal is what to say in place of an answer that is net/http's own; nil
// where it is none. All come of bad requests: none is answered 5xx, which says
// that the server is in the wrong.
func ownRefusal(p []byte) []byte {
	// A piece of an answer's body comes here too, and may begin with anything.
	if len(p) < len("HTTP/1.1 400") || string(p[:7]) != "HTTP/1." || p[9] != '4' && p[9] != '5' {
		return nil
	}
	head, rest, found := bytes.Cut(p, []byte("\r\n"))
	status := string(head[9:12])
	if !found || !bytes.HasPrefix(rest, []byte(plainText[2:])) && status != "417" {
		return nil
	}
	why := malformedHTTP.problem("It is no request of HTTP/1.1 that can be read in one way only.")
	switch status {
	case "431":
		why = headersTooLarge.problem("The request line and the header have at most 16 KiB.")
	case "417":
		why = unknownExpectation.problem("Expect knows 100-continue only.")
	}
	return closing(why)
}

// closing is a whole answer after which the connection ends.
func closing(p *client.Problem) []byte {
	p.Instance = "/"
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // a problem can be written
	}
	var out bytes.Buffer
	out.WriteString("HTTP/1.1 " + strconv.Itoa(p.Status) + " " + http.StatusText(p.Status) + "\r\n")
	h := http.Header{"Content-Type": {"application/problem+json"}, "Content-Length": {strconv.Itoa(len(body))}, "Connection": {"close"}}
	guards.set(h)
	h.Write(&out)
	out.WriteString("\r\n")
	out.Write(body)
	return out.Bytes()
}
