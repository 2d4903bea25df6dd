package sink_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/broker"
	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/child/childtest"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
	"github.com/weirhq/weir/deploy/embedded/engine/replicatest"
	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{engine.RoleName: engine.Role, "sink": runSink, replicatest.RoleName: replicatest.Role})
	os.Exit(m.Run())
}

// order is what a sink process of a test is started with.
type order struct {
	Brokers  []string
	URL      string
	Rows     int
	Every    time.Duration
	Instance string
	Memory   int
	Cluster  string
	Try      time.Duration
	Backoff  time.Duration
}

// runSink is a sink in a process of its own, which a test may kill.
func runSink(ctx context.Context, args []string, ready func(string)) error {
	var o order
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return err
	}
	ready("")
	return sink.Run(ctx, sink.Config{
		Brokers: o.Brokers, URL: o.URL, Rows: o.Rows, Every: o.Every, InstanceID: o.Instance, Memory: o.Memory, Cluster: o.Cluster, Try: o.Try, Backoff: o.Backoff,
		HashKey: []byte("test"), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

func startSink(t *testing.T, o order) *child.Process {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := child.Start(t.Context(), child.Spec{Role: "sink", Args: []string{string(raw)}, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		_ = p.Stop(ctx)
	})
	return p
}

// startEngine runs a ClickHouse engine until the test ends.
func startEngine(t *testing.T, dir, addr string) *child.Process {
	t.Helper()
	return enginetest.Start(t, engine.Options{Dir: dir, Addr: addr})
}

const parts = 4

func startKafka(t *testing.T) []string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(parts, topics.Names{}.Status()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	broker.AnswerWholePartitions(c)
	broker.WantNoMetrics(c)
	return c.ListenAddrs()
}

func open(t *testing.T, url string) driver.Conn {
	t.Helper()
	conn, err := warehouse.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func ask[T any](t *testing.T, conn driver.Conn, query string) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// there is how many records ClickHouse has; 0 when it does not answer.
func there(t *testing.T, conn driver.Conn) int {
	var v uint64
	_ = conn.QueryRow(t.Context(), "SELECT (SELECT count() FROM status_events) + (SELECT count() FROM decisions WHERE kind = 'decision')").Scan(&v)
	return int(v)
}

// patience is how long until waits at least: it bounds a test that fails, and measures
// nothing.
const patience = 2 * time.Minute

// until waits for ok, for within or patience, whichever is longer.
func until(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	within = max(within, patience)
	deadline := time.Now().Add(within)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// began is when the first message of the tests was accepted.
var began = schemas.MillisOf(time.Now().Add(-time.Hour).Truncate(time.Minute))

// event is the ith of a stream: messages of three statuses, and every fifth a
// decision that is no status.
func event(i int) schemas.Event {
	n := i / 5
	e := schemas.Event{
		Kind: schemas.KindStatus, MessageID: fmt.Sprintf("m-%09d", n), Tenant: "acme", Channel: "sms",
		Class: []string{"verify", "notice"}[n%2], To: fmt.Sprintf("+86138%08d", n%1000),
		AcceptedAt: began.Add(time.Duration(n) * time.Millisecond), Source: &schemas.Source{Topic: "weir.requests", Partition: 1, Offset: int64(n)},
	}
	e.At = e.AcceptedAt.Add(time.Duration(i%5) * 10 * time.Millisecond)
	switch i % 5 {
	case 0:
		e.Status = schemas.StatusQueued
		e.Decision = &schemas.Decision{Verdict: schemas.VerdictAdmit, Seq: int64(2 * n), T: e.At, Revision: 1,
			Charges: []schemas.Charge{{Limit: e.Class, Scope: e.To, T: e.At, Cost: 1}}}
	case 1:
		e.Status, e.Attempt, e.Provider = schemas.StatusSending, 1, "sim"
		if n%10 == 9 { // no such thing happens, but to a rollup it is a refusal
			e.Limit, e.Window = e.Class, "1/60s"
			e.Decision = &schemas.Decision{Verdict: schemas.VerdictDefer, Seq: int64(1_000_000_000 + n), T: e.At, Revision: 1}
		}
	case 2:
		e.Status, e.Attempt, e.Provider, e.Price, e.Currency = schemas.StatusSent, 1, "sim", "0.045", "CNY"
	case 3:
		e.Status, e.Provider = schemas.StatusDelivered, "sim"
	case 4:
		return schemas.Event{Kind: schemas.KindDecision, At: e.At, Decision: &schemas.Decision{Verdict: schemas.VerdictNothing, Seq: int64(2*n + 1), T: e.At, Revision: 1}}
	}
	return e
}

// produce writes events [from, to) in transactions, and between them some that
// are aborted and must never be seen.
func produce(ctx context.Context, seeds []string, from, to, perTx int, abort bool) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.TransactionalID("producer"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DefaultProduceTopic(topics.Names{}.Status()), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return err
	}
	defer cl.Close()
	write := func(from, to int, commit kgo.TransactionEndTry, mark string) error {
		if err := cl.BeginTransaction(); err != nil {
			return err
		}
		var (
			mu   sync.Mutex
			errs []error
		)
		for i := from; i < to; i++ {
			e := event(i)
			e.Reason = mark
			raw, err := json.Marshal(e)
			if err != nil {
				return err
			}
			cl.Produce(ctx, &kgo.Record{Partition: int32(i / 5 % parts), Key: []byte(e.To), Value: raw}, func(_ *kgo.Record, err error) {
				if err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			})
		}
		if err := cl.Flush(ctx); err != nil {
			return err
		}
		return errors.Join(append(errs, cl.EndTransaction(ctx, commit))...)
	}
	for i := from; i < to; i += perTx {
		if abort && rand.N(5) == 0 {
			if err := write(i, min(i+50, to), kgo.TryAbort, "aborted"); err != nil {
				return err
			}
		}
		if err := write(i, min(i+perTx, to), kgo.TryCommit, ""); err != nil {
			return err
		}
	}
	return nil
}

// holds checks that exactly the first n events are there, in every table.
func holds(t *testing.T, conn driver.Conn, n int) {
	t.Helper()
	holdsBut(t, conn, n, 0)
}

// holdsBut is holds where of each count up to lost may be missing, and nothing
// may be too many.
func holdsBut(t *testing.T, conn driver.Conn, n, lost int) {
	t.Helper()
	for _, d := range counted(t, conn, n) {
		switch {
		case d.got > d.want || d.got+uint64(lost) < d.want:
			t.Error(d)
		case d.got < d.want:
			t.Logf("%s: %d are missing", d.name, d.want-d.got)
		}
	}
}

// figure is one that ClickHouse has, and what it should be.
type figure struct {
	name      string
	got, want uint64
}

func (f figure) String() string {
	return fmt.Sprintf("%s: %d, want %d (%+d)", f.name, f.got, f.want, int64(f.got)-int64(f.want))
}

// counted are the figures of the first n events that are not as they must be.
func counted(t *testing.T, conn driver.Conn, n int) (unlike []figure) {
	t.Helper()
	n64 := uint64(n)
	for _, c := range []struct {
		name, query string
		want        uint64
	}{
		{"status rows", "SELECT count() FROM status_events", n64 / 5 * 4},
		{"different status rows", "SELECT uniqExact(status_partition, status_offset) FROM status_events", n64 / 5 * 4},
		{"nothing aborted", "SELECT count() FROM status_events WHERE reason != ''", 0},
		{"decisions", "SELECT count() FROM decisions", n64/5*2 + n64/50},
		{"different decisions", "SELECT uniqExact(seq) FROM decisions", n64/5*2 + n64/50},
		{"messages", "SELECT count() FROM messages", n64 / 5},
		{"messages delivered", "SELECT count() FROM messages WHERE status = 'delivered' AND attempts = 1 AND provider = 'sim' AND price = 0.045", n64 / 5},
		{"events by minute", "SELECT sum(events) FROM status_by_minute", n64 / 5 * 4},
		{"sent by minute", "SELECT sum(events) FROM status_by_minute WHERE status = 'sent'", n64 / 5},
		{"places by minute", "SELECT sum(places) FROM limits_by_minute", n64 / 5},
	} {
		if got := ask[uint64](t, conn, c.query); got != c.want {
			unlike = append(unlike, figure{c.name, got, c.want})
		}
	}
	return unlike
}

// agrees checks that every rollup and list says what the events say, whatever
// they are: each is made of the events again, and nothing may be in one only.
func agrees(t *testing.T, conn driver.Conn) {
	t.Helper()
	for _, d := range disagree(t, conn) {
		t.Error(d)
	}
}

func disagree(t *testing.T, conn driver.Conn) (unlike []string) {
	t.Helper()
	for _, c := range []struct{ name, rolled, again string }{
		{"status_by_minute",
			"SELECT minute, toString(tenant), toString(channel), toString(class), toString(provider), toString(status), sum(events) FROM status_by_minute GROUP BY ALL",
			"SELECT toStartOfMinute(at), toString(tenant), toString(channel), toString(class), toString(provider), toString(status), count() FROM status_events WHERE kind = 'status' GROUP BY ALL"},
		{"places of limits_by_minute",
			"SELECT minute, toString(tenant), toString(class), toString(limit), sum(places) AS n, sum(cost) FROM limits_by_minute GROUP BY ALL HAVING n > 0",
			"SELECT toStartOfMinute(at), toString(tenant), toString(class), toString(l), count(), sum(c) FROM (SELECT at, tenant, class, l, c FROM decisions ARRAY JOIN arrayConcat(charges.limit, carried.limit) AS l, arrayConcat(charges.cost, carried.cost) AS c WHERE verdict IN ('admit', 'move', 'record')) GROUP BY ALL"},
		{"refusals of limits_by_minute",
			"SELECT minute, toString(tenant), toString(class), toString(limit), toString(window), sum(refusals) AS n FROM limits_by_minute GROUP BY ALL HAVING n > 0",
			"SELECT toStartOfMinute(at), toString(tenant), toString(class), toString(limit), toString(window), count() FROM status_events WHERE kind = 'status' AND limit != '' AND decision_verdict IN ('refuse', 'defer') AND NOT observed GROUP BY ALL"},
		{"messages",
			"SELECT message_id, toString(status), attempts, provider FROM messages",
			"SELECT message_id, argMax(toString(status), (multiIf(status = 'delivered', 4, status = 'undelivered', 3, status IN ('sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'), 2, 1), at, status_offset)), max(attempt), argMaxIf(toString(provider), (at, status_offset), provider != '') FROM status_events WHERE kind = 'status' AND message_id != '' GROUP BY message_id"},
		{"messages_by_recipient",
			"SELECT DISTINCT toString(tenant), to, accepted_at, message_id FROM messages_by_recipient",
			"SELECT DISTINCT toString(tenant), to, assumeNotNull(accepted_at), message_id FROM status_events WHERE kind = 'status' AND status NOT IN ('delivered', 'undelivered') AND isNotNull(accepted_at)"},
		{"messages_by_time",
			"SELECT DISTINCT toString(tenant), to, accepted_at, message_id FROM messages_by_time",
			"SELECT DISTINCT toString(tenant), to, assumeNotNull(accepted_at), message_id FROM status_events WHERE kind = 'status' AND status NOT IN ('delivered', 'undelivered') AND isNotNull(accepted_at)"},
	} {
		if n := ask[uint64](t, conn, "SELECT count() FROM ("+c.again+")"); n == 0 {
			t.Errorf("%s: nothing to compare", c.name)
		}
		for _, q := range []struct{ what, one, other string }{{"too many", c.rolled, c.again}, {"missing", c.again, c.rolled}} {
			if n := ask[uint64](t, conn, "SELECT count() FROM ("+q.one+" EXCEPT "+q.other+")"); n != 0 {
				unlike = append(unlike, fmt.Sprintf("%s: %d %s", c.name, n, q.what))
			}
		}
	}
	return unlike
}

// kills says what killed does.
type kills struct {
	events   int
	times    int
	rows     int // of a block, at most
	perTx    int
	engine   bool // ClickHouse too
	patience time.Duration
}

// killed runs the test of exactly once: the sink is killed at random moments while
// it works.
//
// Where the engine is killed too, ClickHouse itself may lose a block in one of the
// tables that it fills: a MergeTree notes a block's token before it has the part
// (MergeTreeSink::commitPart), and a kill between the two has the block taken for
// a known one when it is sent again. So then a block for each of its kills may be
// missing, and still nothing may be there twice.
func killed(t *testing.T, k kills) {
	seeds := startKafka(t)
	dir, addr := t.TempDir(), childtest.Addr(t)
	db := startEngine(t, dir, addr)
	url := "http://" + addr + "/weir"
	o := order{Brokers: seeds, URL: url, Rows: k.rows, Every: 20 * time.Millisecond, Instance: "one"}
	if err := warehouse.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn := open(t, url)
	produced := make(chan error, 1)
	go func() { produced <- produce(t.Context(), seeds, 0, k.events, k.perTx, true) }()
	rowsThere := func() int {
		var v uint64
		_ = conn.QueryRow(t.Context(), "SELECT (SELECT count() FROM status_events) + (SELECT count() FROM decisions WHERE kind = 'decision')").Scan(&v)
		return int(v)
	}
	p := startSink(t, o)
	lost := 0
	for i := range k.times {
		// A moment at random, but in the middle of work: after this share of
		// the rows, and a little.
		until(t, k.patience, "rows arrive", func() bool { return rowsThere() > k.events*i/(k.times+1) })
		time.Sleep(rand.N(60 * time.Millisecond)) // the moment at random; nothing waits for it
		what := "sink"
		if k.engine {
			what = []string{"engine", "both", "sink"}[i%3]
		}
		if what != "sink" {
			lost += 3 * k.rows // what three inserts at once carry
			db.Kill()
			<-db.Done()
			db = startEngine(t, dir, addr)
		}
		if what != "engine" {
			p.Kill()
			<-p.Done()
			p = startSink(t, o)
		}
		t.Logf("killed: %s, with %d of %d rows there", what, rowsThere(), k.events)
	}
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	// Whatever could come twice would come now.
	last, idle := -1, 0
	until(t, 3*k.patience, "all is loaded, and the sink is idle", func() bool {
		now := rowsThere()
		if idle++; now != last || !committed(t, seeds) {
			last, idle = now, 0
		}
		return idle > 40 && (lost > 0 || now >= k.events)
	})
	holdsBut(t, conn, k.events, lost)
	if lost == 0 {
		agrees(t, conn)
	}
	t.Logf("%d events, %d kills: difference %d", k.events, k.times, rowsThere()-k.events)
}

func TestKilled(t *testing.T) {
	killed(t, kills{events: 10_000, times: 3, rows: 400, perTx: 500, patience: 30 * time.Second})
}

func TestKilledWithItsEngine(t *testing.T) {
	killed(t, kills{events: 10_000, times: 3, rows: 400, perTx: 500, engine: true, patience: 30 * time.Second})
}
