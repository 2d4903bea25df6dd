package grafana

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{engine.RoleName: engine.Role})
	os.Exit(m.Run())
}

// Every query of every panel that ClickHouse answers, and of every variable, runs
// over a story that the sink has loaded. Its columns must be those that the panel
// needs, of types that it can show, and every column must say something somewhere.
// testdata/answers.txt has what each answers.
func TestClickHousePanels(t *testing.T) {
	base := schemas.MillisOf(time.Now().UTC().Truncate(time.Hour).Add(-time.Hour))
	conn := told(t, base, story(base))
	from, until := base.Time().Add(-30*time.Minute), base.Time().Add(30*time.Minute)

	var answers strings.Builder
	filled := make(map[string]bool) // dashboard, panel, column
	known := make(map[string][]string)
	for _, vars := range []map[string]string{
		{"message": "m-1"}, {"message": "m-2"}, {"message": `'quoted\`}, {"message": "m-dup"},
		{"tenant": "acme", "class": "verify", "provider": "aliyun,twilio", "message": "nobody's"},
	} {
		seen := make(map[string]bool)
		for _, q := range Queries(from, until, vars) {
			if q.Source != ClickHouse || seen[q.Text] {
				continue
			}
			seen[q.Text] = true
			name := q.Dashboard + ", " + q.Panel
			columns, rows, err := run(t.Context(), conn, q.Text)
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, q.Text)
				continue
			}
			known[name] = q.Columns
			if len(rows) == 0 {
				columns = q.Columns // an empty answer over HTTP names none
			}
			if !slices.Equal(columns, q.Columns) {
				t.Errorf("%s: columns %q, want %q", name, columns, q.Columns)
				continue
			}
			if err := fits(q, rows); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, row := range rows {
				for i, v := range row {
					if v != nil && !reflect.ValueOf(v).IsZero() {
						filled[name+", "+columns[i]] = true
					}
				}
			}
			if q.Dashboard == "weir-message" || vars["message"] == "m-1" {
				fmt.Fprintf(&answers, "## %s, %v\n%s\n", name, vars, show(columns, rows, base))
			}
		}
	}
	for name, columns := range known {
		for _, c := range columns {
			if !filled[name+", "+c] {
				t.Errorf("%s: column %s says nothing about any of the story", name, c)
			}
		}
	}
	golden(t, "testdata/answers.txt", answers.String())
}

// fits says whether a panel can show an answer.
func fits(q Query, rows [][]any) error {
	if q.Kind != Series {
		return nil
	}
	var last time.Time
	for _, row := range rows {
		at, ok := row[0].(time.Time)
		if !ok || q.Columns[0] != "time" {
			return fmt.Errorf("the first column is %s, a %T: it must be the time", q.Columns[0], row[0])
		}
		if at.Before(last) {
			return fmt.Errorf("not in order of time")
		}
		last = at
		numbers, texts := 0, 0
		for _, v := range row[1:] {
			switch v.(type) {
			case string:
				texts++
			case nil, float64, float32, uint64, int64, uint32, int32:
				numbers++
			default:
				return fmt.Errorf("a %T among the numbers", v)
			}
		}
		if numbers == 0 || texts > 1 {
			return fmt.Errorf("%d numbers and %d texts: it must be some numbers and at most one text", numbers, texts)
		}
	}
	return nil
}

// run asks, and returns the names of the columns and the rows, NULL as nil.
func run(ctx context.Context, conn driver.Conn, query string) ([]string, [][]any, error) {
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var all [][]any
	for rows.Next() {
		var dest []any
		for _, c := range rows.ColumnTypes() {
			dest = append(dest, reflect.New(c.ScanType()).Interface())
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, nil, err
		}
		row := make([]any, len(dest))
		for i, d := range dest {
			v := reflect.ValueOf(d).Elem()
			for v.Kind() == reflect.Pointer && !v.IsNil() {
				v = v.Elem()
			}
			if v.Kind() != reflect.Pointer {
				row[i] = v.Interface()
			}
		}
		all = append(all, row)
	}
	return rows.Columns(), all, rows.Err()
}

// show writes an answer, with times as they stand to the story's beginning.
func show(columns []string, rows [][]any, base schemas.Millis) string {
	var b strings.Builder
	b.WriteString(strings.Join(columns, " | ") + "\n")
	for _, row := range rows {
		for i, v := range row {
			if i > 0 {
				b.WriteString(" | ")
			}
			switch v := v.(type) {
			case time.Time:
				b.WriteString(v.Sub(base.Time()).String())
			case float64:
				fmt.Fprintf(&b, "%.6g", v)
			case nil:
			default:
				fmt.Fprint(&b, v)
			}
		}
		b.WriteString("\n")
	}
	return strings.ReplaceAll(b.String(), base.String(), "0s")
}

// told has a sink load events into an engine, and returns a connection to it.
func told(t *testing.T, at schemas.Millis, events []schemas.Event) driver.Conn {
	t.Helper()
	names := topics.Names{}
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, names.Status()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafka.ListenAddrs()...), kgo.DefaultProduceTopic(names.Status()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	recs := []*kgo.Record{{Value: []byte("poison"), Timestamp: at.Time()}}
	for _, e := range events {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, &kgo.Record{Value: raw, Timestamp: e.At.Time()})
	}
	if err := cl.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}

	url := "http://" + enginetest.Start(t, engine.Options{}).Addr()
	reg := prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- sink.Run(ctx, sink.Config{Brokers: kafka.ListenAddrs(), URL: url, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Metrics: reg})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("sink: %v", err)
		}
	})
	loaded := func() float64 {
		fams, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fams {
			if f.GetName() == "weir_status_rows_total" {
				return f.Metric[0].GetCounter().GetValue()
			}
		}
		return 0
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(2 * time.Minute); int(loaded()) != len(recs); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%v of %d rows are loaded", loaded(), len(recs))
		}
	}
	conn, err := warehouse.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// story is half an hour of messages, and the same minutes of the days before.
func story(base schemas.Millis) []schemas.Event {
	const to, other = "+8613800000000", "+6590000000"
	var all []schemas.Event
	seq := int64(0)
	add := func(id string, status schemas.Status, at time.Duration, more func(*schemas.Event)) {
		e := schemas.Event{Kind: schemas.KindStatus, MessageID: id, Tenant: "acme", Channel: "sms", Class: "verify", To: to,
			Status: status, At: base.Add(at), AcceptedAt: base.Add(at.Truncate(time.Minute))}
		if more != nil {
			more(&e)
		}
		all = append(all, e)
	}
	decided := func(v schemas.Verdict, more func(*schemas.Event)) func(*schemas.Event) {
		return func(e *schemas.Event) {
			seq++
			e.Decision = &schemas.Decision{Verdict: v, Partition: 1, Seq: seq, T: e.At, Revision: 7}
			if v == schemas.VerdictAdmit {
				e.Decision.Charges = []schemas.Charge{{Limit: "verify", Scope: e.To, T: e.At, Cost: 1}}
			}
			if more != nil {
				more(e)
			}
		}
	}
	try := func(n int, provider string, more func(*schemas.Event)) func(*schemas.Event) {
		return func(e *schemas.Event) {
			e.Attempt, e.Provider = n, provider
			if more != nil {
				more(e)
			}
		}
	}
	failed := func(e *schemas.Event) { e.ErrorCode, e.Error = "E9", "busy" }
	paid := func(e *schemas.Event) {
		e.ProviderMessageID, e.Price, e.Currency, e.Segments = "p-1", "0.045", "CNY", 2
	}
	refused := func(e *schemas.Event) {
		e.Limit, e.Window, e.Reason, e.RetryAt = "verify", "1/60s", "limited", e.At.Add(time.Minute)
		e.Decision.Evidence = []schemas.Evidence{{Limit: "verify", Scope: e.To, Window: "1/60s", N: 1, Count: 1, Cost: 1, Oldest: base}}
	}

	// m-1: refused by its provider once, then sent and delivered.
	add("m-1", schemas.StatusQueued, 0, decided(schemas.VerdictAdmit, func(e *schemas.Event) { onward := int32(-1); e.Decision.Onward = &onward }))
	add("m-1", schemas.StatusSending, 10*time.Millisecond, try(1, "aliyun", nil))
	add("m-1", schemas.StatusRetrying, 110*time.Millisecond, try(1, "aliyun", func(e *schemas.Event) { failed(e); e.RetryAt = e.At.Add(5 * time.Second) }))
	add("m-1", schemas.StatusSending, 5*time.Second, try(2, "aliyun", nil))
	add("m-1", schemas.StatusSent, 5100*time.Millisecond, try(2, "aliyun", paid))
	add("m-1", schemas.StatusDelivered, 6*time.Second, try(2, "aliyun", nil))
	// m-2: to the same recipient, refused.
	add("m-2", schemas.StatusLimited, 7*time.Second, decided(schemas.VerdictRefuse, refused))
	// An id that is not kind to SQL: failed, and a redrive of another.
	add(`'quoted\`, schemas.StatusQueued, 2*time.Minute, decided(schemas.VerdictAdmit, func(e *schemas.Event) {
		e.To, e.RedriveOf, e.Limit, e.Window, e.Observed, e.Class = other, "m-0", "soft", "7/1h", true, "notice"
	}))
	add(`'quoted\`, schemas.StatusSending, 2*time.Minute+time.Second, try(1, "twilio", func(e *schemas.Event) { e.To, e.Class = other, "notice" }))
	add(`'quoted\`, schemas.StatusFailed, 2*time.Minute+2*time.Second, try(1, "twilio", func(e *schemas.Event) { failed(e); e.To, e.Class, e.RedriveOf = other, "notice", "m-0" }))
	add("m-dup", schemas.StatusDuplicate, 3*time.Minute, decided(schemas.VerdictDuplicate, func(e *schemas.Event) { e.DuplicateOf, e.Reason = "m-1", "known_id" }))
	seq++ // a hole: one decision is not there
	add("m-3", schemas.StatusQueued, 4*time.Minute, decided(schemas.VerdictAdmit, func(e *schemas.Event) { e.To = other }))
	add("m-3", schemas.StatusSent, 4*time.Minute+40*time.Millisecond, try(1, "twilio", func(e *schemas.Event) { paid(e); e.To = other }))
	// m-4: nobody knows what became of the call, and no code says why.
	add("m-4", schemas.StatusUnknown, 5*time.Minute, try(1, "twilio", func(e *schemas.Event) { e.To = other }))
	// Of the last seven days, each time two sent and, the day before, one failed.
	for day := range 7 {
		past := -time.Duration(day+1) * 24 * time.Hour
		for i := range 2 {
			add(fmt.Sprintf("old-%d-%d", day, i), schemas.StatusSent, past+time.Duration(i)*time.Second, try(1, "aliyun", nil))
		}
	}
	add("old-failed", schemas.StatusFailed, -24*time.Hour+3*time.Second, try(1, "aliyun", failed))
	return all
}
