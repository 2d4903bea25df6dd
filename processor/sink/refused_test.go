package sink_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

// front stands before ClickHouse and meddles with inserts.
type front struct {
	url    string
	meddle atomic.Pointer[func(w http.ResponseWriter, r *http.Request, on func(http.ResponseWriter))]
	calls  atomic.Int64 // inserts that came
}

func startFront(t *testing.T, engine string) *front {
	t.Helper()
	f := &front{}
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: engine})
	to.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Query().Get("query"), "INSERT INTO status_log") {
			f.calls.Add(1)
			if meddle := f.meddle.Load(); meddle != nil {
				(*meddle)(w, r, func(w http.ResponseWriter) { to.ServeHTTP(w, r) })
				return
			}
		}
		to.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	f.url = srv.URL
	return f
}

func (f *front) set(meddle func(w http.ResponseWriter, r *http.Request, on func(http.ResponseWriter))) {
	if meddle == nil {
		f.meddle.Store(nil)
		return
	}
	f.meddle.Store(&meddle)
}

func cutOff(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		c.Close()
	}
}

// reports keeps what a sink says of itself.
type reports struct {
	mu  sync.Mutex
	all []schemas.SinkReport
}

func (r *reports) take(s schemas.SinkReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, s)
}

func (r *reports) last() schemas.SinkReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == 0 {
		return schemas.SinkReport{}
	}
	return r.all[len(r.all)-1]
}

// book is a log that can be read while it is written.
type book struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *book) has(parts ...string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.b.String()) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			return true
		}
	}
	return false
}

// ClickHouse refuses for every reason that it has, answers late, or answers and is
// not heard: each is named, with what to do, and in the end every row is there once.
func TestRefused(t *testing.T) {
	seeds := startKafka(t)
	engine := startEngine(t, t.TempDir(), "")
	direct := "http://" + engine.Addr()
	f := startFront(t, engine.Addr())
	var (
		said reports
		log  book
		reg  = prometheus.NewRegistry()
		n    int
	)
	stop := run(t, sink.Config{Brokers: seeds, URL: f.url, Rows: 500, Every: 10 * time.Millisecond, Try: 8 * time.Second, Backoff: 100 * time.Millisecond,
		HashKey: []byte("test"), Report: said.take, Metrics: reg, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	exception := func(code int, name string) func(http.ResponseWriter, *http.Request, func(http.ResponseWriter)) {
		return func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
			w.Header().Set("X-ClickHouse-Exception-Code", fmt.Sprint(code))
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, "Code: %d. DB::Exception: said to be so. (%s) (version 26.7.2.1)\n", code, name)
		}
	}
	for _, tt := range []struct {
		name   string
		meddle func(http.ResponseWriter, *http.Request, func(http.ResponseWriter))
		why    string
		do     string
	}{
		{"no space", exception(243, "NOT_ENOUGH_SPACE"), "disk is full", "free some or add some"},
		{"a user that only reads", exception(164, "READONLY"), "may only read", "take readonly from its profile"},
		{"a table that is read-only", exception(242, "TABLE_IS_READ_ONLY"), "a table is read-only", "see that Keeper answers"},
		{"a right is missing", exception(497, "ACCESS_DENIED"), "lacks a right", "grant what the error names"},
		{"a table is missing", exception(60, "UNKNOWN_TABLE"), "a table or a column is missing", "it names the table and how to mend it"},
		{"no quorum", exception(285, "TOO_FEW_LIVE_REPLICAS"), "replicas cannot agree", "Keeper and the replicas"},
		{"too many parts", exception(252, "TOO_MANY_PARTS"), "more parts than it can merge", "when it has merged"},
		{"an error that nobody knows", exception(9999, "NEW"), "code 9999 (NEW)", "what the error says"},
		{"something else answers", func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
			http.Error(w, "bad gateway", http.StatusBadGateway)
		}, "did not answer as it should", "it is tried again"},
		{"a success that is none", func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
			fmt.Fprint(w, "Code: 241. DB::Exception: it came late. (MEMORY_LIMIT_EXCEEDED) (version 26.7.2.1)")
		}, "no memory", "system.processes"},
		{"answered, and not heard", func(w http.ResponseWriter, _ *http.Request, on func(http.ResponseWriter)) {
			on(httptest.NewRecorder())
			cutOff(w)
		}, "did not answer as it should", "it is tried again"},
		{"slow: the rows are there, and the answer comes too late", func(w http.ResponseWriter, r *http.Request, on func(http.ResponseWriter)) {
			on(httptest.NewRecorder())
			<-r.Context().Done()
		}, "does not answer in time", "it is tried again"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.set(tt.meddle)
			if err := produce(t.Context(), seeds, n, n+500, 500, false); err != nil {
				t.Fatal(err)
			}
			n += 500
			before := f.calls.Load()
			until(t, 60*time.Second, "it says why", func() bool { return strings.Contains(said.last().Failing, tt.why) })
			until(t, 60*time.Second, "it tries again", func() bool { return f.calls.Load() > before+2 })
			if !log.has("nothing is lost", tt.why, tt.do) {
				t.Errorf("no line of the log says that nothing is lost, %q and %q:\n%s", tt.why, tt.do, log.b.String())
			}
			f.set(nil)
			until(t, 60*time.Second, "all rows arrive", func() bool { return confirmed(t, reg) == n })
			until(t, 60*time.Second, "it says that it is well", func() bool {
				r := said.last()
				return r.Failing == "" && r.Rows == int64(n) || r.Failing == "" && len(r.Partitions) == parts
			})
		})
	}
	conn := open(t, direct)
	holds(t, conn, n)
	agrees(t, conn)
	stop()
	if r := said.last(); len(r.Partitions) != 0 || r.Rows != int64(n) || r.Failing != "" {
		t.Errorf("at its end it says %+v", r)
	}
}

// ClickHouse is away for as long as an hour of tries takes, and more is written
// than may be held.
func TestAwayForAnHour(t *testing.T) {
	const n, memory, tries = 10_000, 400 << 10, 400 // four partitions, a try each 30 s: 480 an hour
	seeds := startKafka(t)
	engine := startEngine(t, t.TempDir(), "")
	f := startFront(t, engine.Addr())
	var said reports
	reg := prometheus.NewRegistry()
	f.set(func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) { cutOff(w) })
	run(t, sink.Config{Brokers: seeds, URL: f.url, Rows: 500, Memory: memory, Every: 10 * time.Millisecond, Backoff: 5 * time.Millisecond, Report: said.take, Metrics: reg})
	if err := produce(t.Context(), seeds, 0, n, 500, true); err != nil {
		t.Fatal(err)
	}
	var most float64
	until(t, 60*time.Second, "it tries for an hour, and holds what it may", func() bool {
		held, _ := metric(t, reg, "weir_sink_held_bytes")
		most = max(most, held)
		return f.calls.Load() > tries && most >= memory/2
	})
	if allowed := float64(memory + 2000*1000); most > allowed {
		t.Errorf("%.0f bytes were held, want at most %.0f", most, allowed)
	}
	if r := said.last(); r.Failing == "" || r.LagMillis == 0 && len(r.Partitions) == 0 {
		t.Errorf("it says %+v", r)
	}
	f.set(nil)
	until(t, 60*time.Second, "all rows arrive", func() bool { return confirmed(t, reg) == n })
	conn := open(t, "http://"+engine.Addr())
	holds(t, conn, n)
}

// Somebody takes a column away while the sink runs: it stops, says which, and goes
// on when the column is back, with every value that came meanwhile.
func TestAColumnIsTakenAway(t *testing.T) {
	seeds := startKafka(t)
	url := "http://" + startEngine(t, t.TempDir(), "").Addr()
	var said reports
	var log book
	reg := prometheus.NewRegistry()
	run(t, sink.Config{Brokers: seeds, URL: url, Rows: 500, Every: 10 * time.Millisecond, Check: 50 * time.Millisecond, Report: said.take, Metrics: reg,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := produce(t.Context(), seeds, 0, 1000, 500, false); err != nil {
		t.Fatal(err)
	}
	until(t, 60*time.Second, "rows arrive", func() bool { return confirmed(t, reg) == 1000 })
	conn := open(t, url)
	exec := func(q string) {
		t.Helper()
		if err := conn.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	exec("ALTER TABLE decisions DROP COLUMN verdict")
	until(t, 60*time.Second, "it says so", func() bool { return strings.Contains(said.last().Failing, "cannot keep rows exactly once") })
	if !log.has("nothing is lost", "table decisions has no column verdict", "ALTER TABLE decisions ADD COLUMN `verdict` LowCardinality(String)") {
		t.Error("no line of the log says what to run")
	}
	if err := produce(t.Context(), seeds, 1000, 2000, 500, false); err != nil {
		t.Fatal(err)
	}
	until(t, 60*time.Second, "rows wait", func() bool { return shown(t, reg, "weir_sink_held_bytes") > 1000 })
	exec("ALTER TABLE decisions ADD COLUMN verdict LowCardinality(String)")
	until(t, 60*time.Second, "all rows arrive", func() bool { return confirmed(t, reg) == 2000 })
	holds(t, conn, 2000)
	if n := ask[uint64](t, conn, "SELECT count() FROM decisions WHERE verdict = '' AND seq BETWEEN 400 AND 799"); n != 0 {
		t.Errorf("%d decisions that came meanwhile have no verdict", n)
	}
}

// Days of backlog, in blocks that each touch more partitions than ClickHouse lets an
// insert touch by default, within the memory allowed.
func TestBacklogOfManyDays(t *testing.T) {
	const days, memory = 110, 1 << 20
	seeds := startKafka(t)
	url := "http://" + startEngine(t, t.TempDir(), "").Addr()
	var events []schemas.Event
	for i := range 5 * 4 * days {
		e := event(i)
		back := -time.Duration(i/5%days) * 24 * time.Hour
		e.At, e.AcceptedAt = e.At.Add(back), e.AcceptedAt.Add(back)
		events = append(events, e)
	}
	tell(t, seeds, events)
	reg := prometheus.NewRegistry()
	most := 0.0
	run(t, sink.Config{Brokers: seeds, URL: url, Rows: 1100, Memory: memory, Logger: logger(t), Metrics: reg})
	until(t, 3*time.Minute, "all rows arrive", func() bool {
		if held, ok := metric(t, reg, "weir_sink_held_bytes"); ok {
			most = max(most, held)
		}
		return confirmed(t, reg) == len(events)+1 // and tell's own
	})
	if most > memory+2000*1000 {
		t.Errorf("%.0f bytes were held", most)
	}
	conn := open(t, url)
	if got := ask[uint64](t, conn, "SELECT uniqExact(toDate(at)) FROM status_events WHERE kind = 'status'"); got < days {
		t.Errorf("%d days, want %d", got, days)
	}
	if got := ask[uint64](t, conn, "SELECT max(n) FROM (SELECT uniqExact(toDate(at)) AS n FROM status_events GROUP BY ingested_at)"); got <= 100 {
		t.Errorf("no block touched more than %d partitions", got)
	}
	if got := ask[uint64](t, conn, "SELECT count() FROM status_events WHERE kind = 'status'"); got != uint64(len(events))/5*4 {
		t.Errorf("%d rows", got)
	}
	agrees(t, conn)
}

// What stands in any field comes back as it was, and as nothing else; what is no
// text in UTF-8 comes back with U+FFFD in its place. A time in the future is the
// broker's.
func TestAnyTextComesBack(t *testing.T) {
	seeds := startKafka(t)
	url := "http://" + startEngine(t, t.TempDir(), "").Addr()
	texts := []string{
		`'; DROP TABLE status_events; --`, `' OR 1=1 /*`, `\`, `\\'\"`, `"`, "`", "a\x00b", "a\tb\nc\rd", "{p1:String}", "$1", "%s%d", "?",
		"\xff\xfe", "é日本🙂\u2028\u202e", `<script>alert("x")</script>&amp;`, strings.Repeat("x", 20_000), " ", "NULL", `\N`, "FORMAT Native", "\u0000",
	}
	now := schemas.MillisOf(time.Now())
	var events []schemas.Event
	for i, x := range texts {
		events = append(events, schemas.Event{Kind: schemas.KindStatus, MessageID: fmt.Sprint(i, x), Tenant: x, Channel: x, Class: x, Template: x, To: x, Status: schemas.StatusSent,
			At: now.Add(1000 * 24 * time.Hour), RetryAt: 250_000_000_000_000, AcceptedAt: now, Reason: x, Provider: x, ProviderMessageID: x, ErrorCode: x, Error: x, Limit: x, Window: x, Currency: x, DuplicateOf: x, RedriveOf: x,
			Source:   &schemas.Source{Topic: x},
			Decision: &schemas.Decision{Verdict: schemas.VerdictAdmit, T: now, Input: &schemas.Source{Topic: x}, Charges: []schemas.Charge{{Limit: x, Scope: x, T: now, Cost: 1}}, Seq: int64(i)}})
	}
	tell(t, seeds, events)
	reg := prometheus.NewRegistry()
	run(t, sink.Config{Brokers: seeds, URL: url, Logger: logger(t), Metrics: reg})
	until(t, 60*time.Second, "all rows arrive", func() bool { return confirmed(t, reg) == len(events)+1 })
	conn := open(t, url)
	fields := []string{"tenant", "channel", "class", "template", "to", "reason", "provider", "provider_message_id", "error_code", "error", "limit", "window", "currency", "duplicate_of", "redrive_of",
		"source_topic", "charges.limit[1]", "charges.scope[1]"}
	list := "`" + strings.Join(fields, "`, `") + "`"
	list = strings.ReplaceAll(list, "[1]`", "`[1]")
	for i, x := range texts {
		x = strings.ToValidUTF8(strings.ReplaceAll(x, "\xff\xfe", "\xff"), "\ufffd")
		if i == 12 {
			x = "\ufffd\ufffd"
		}
		got := make([]string, len(fields))
		to := make([]any, len(fields))
		for j := range got {
			to[j] = &got[j]
		}
		if err := conn.QueryRow(t.Context(), fmt.Sprintf("SELECT %s FROM status_events WHERE decision_seq = %d AND kind = 'status'", list, i)).Scan(to...); err != nil {
			t.Fatal(err)
		}
		for j, f := range fields {
			if got[j] != x {
				t.Errorf("%s: %.60q came back as %.60q", f, x, got[j])
			}
		}
	}
	if n := ask[uint64](t, conn, "SELECT count() FROM status_events WHERE kind = 'status' AND abs(dateDiff('second', at, now())) < 3600"); n != uint64(len(texts)) {
		t.Errorf("%d of %d rows from the future have the broker's time", n, len(texts))
	}
	if n := ask[uint64](t, conn, "SELECT count() FROM messages"); n != uint64(len(texts)) {
		t.Errorf("%d messages of %d", n, len(texts))
	}
	h := warehouse.History{Conn: conn}
	for i, x := range texts[:11] {
		if got, err := h.Message(context.WithoutCancel(t.Context()), fmt.Sprint(i, x)); err != nil || len(got) != 1 || got[0].To != x {
			t.Errorf("message %.40q: %v, %v", x, got, err)
		}
	}
}
