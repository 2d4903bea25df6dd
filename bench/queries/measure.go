package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/processor/sink/questions"
	"github.com/weirhq/weir/processor/sink/warehouse"
)

type bench struct {
	url  string
	end  time.Time
	runs int
	only string
	skip int
	pid  int // of the engine
	log  io.Writer
}

// question is asked again and again; each time of somebody else, where it is
// about somebody. It returns how many rows came back.
type question struct {
	name  string
	bound time.Duration // what is asked for
	ask   func(ctx context.Context, p person) (int, error)
}

// warmUp is how often what is to take milliseconds is asked before it counts.
const warmUp = 20

// person is somebody whom the questions may be about.
type person struct{ tenant, id, to, handler, provider string } // the last two: a provider, and its own id

// settle waits until nothing has merged for ten seconds: merges take the same
// processors, and an engine that has just begun finds some only after a while.
func settle(ctx context.Context, conn driver.Conn) error {
	for quiet, waited := 0, 0; quiet < 10 && waited < 300; waited++ {
		var merges uint64
		if err := conn.QueryRow(ctx, "SELECT count() FROM system.merges").Scan(&merges); err != nil {
			return fmt.Errorf("ask for merges: %w", err)
		}
		if quiet++; merges > 0 {
			quiet = 0
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return nil
}

// people finds some, the same in each run: in an order, such as one at random.
func people(ctx context.Context, conn driver.Conn, order string) ([]person, error) {
	rows, err := conn.Query(ctx, "SELECT tenant, message_id, to, provider, provider_message_id FROM status_events WHERE status = 'sent' ORDER BY "+order+" LIMIT 2000")
	if err != nil {
		return nil, fmt.Errorf("find people: %w", err)
	}
	defer rows.Close()
	var out []person
	for rows.Next() {
		var p person
		if err := rows.Scan(&p.tenant, &p.id, &p.to, &p.handler, &p.provider); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}

func (b *bench) measure(ctx context.Context, page string) (string, error) {
	if err := warehouse.Migrate(ctx, b.url); err != nil { // it may have been filled by a version before
		return "", err
	}
	conn, err := warehouse.Open(ctx, b.url)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := settle(ctx, conn); err != nil {
		return "", err
	}
	who, err := people(ctx, conn, "cityHash64(message_id)")
	if err != nil {
		return "", err
	}
	late, err := people(ctx, conn, "at DESC, message_id")
	if err != nil {
		return "", err
	}
	if len(who) == 0 {
		return "", errors.New("no events are there: fill it first")
	}
	if len(who) < 1000 {
		return "", errors.New("too few messages are there: fill it with more")
	}
	sizes, err := sizes(ctx, conn)
	if err != nil {
		return "", err
	}
	fmt.Fprintln(b.log, sizes)
	queries, err := questions.Parse(page)
	if err != nil {
		return "", err
	}
	h := warehouse.History{Conn: conn}
	asked := b.overHTTP(h, who, late)
	bounds := map[string]time.Duration{"One message, step by step": 30 * time.Millisecond, "Where it stands now": 30 * time.Millisecond, "A recipient's history": 100 * time.Millisecond}
	for _, q := range queries {
		bound := bounds[q.Title]
		if bound == 0 {
			bound = time.Second
		}
		asked = append(asked, question{"SQL: " + q.Title, bound, func(ctx context.Context, p person) (int, error) {
			text := strings.NewReplacer("'m-1'", "'"+p.id+"'", "'m-2'", "'"+p.id+"'", "'p-1'", "'"+p.provider+"'", "'aliyun'", "'"+p.handler+"'", "'+8613800000001'", "'"+p.to+"'").Replace(q.At(b.end))
			return b.post(ctx, text)
		}})
	}
	asked = append(asked, b.panels()...)
	var text strings.Builder
	fmt.Fprintf(&text, "# Questions of a day\n\n%s\n\n    go run ./bench/queries -dir DIR -fill\n    go run ./bench/queries -dir DIR -runs %d\n\n%s\n", rig.Machine(), b.runs, sizes)
	fmt.Fprintf(&text, "## How long each takes\n\nEach asked %d times, one after the other, each time of somebody else where it is about somebody. Before that it is asked once, or %d times where it is to take less than a second: `first` is what the first took, "+
		"when the engine had no index and no marks in memory. `processor` is what the engine used of both cores, as a mean; `rows` is what came back, once.\n\n"+
		"| query | p50 ms | p95 ms | max ms | first ms | processor ms | rows | asked for |\n|---|---|---|---|---|---|---|---|\n", b.runs, warmUp)
	for i, q := range asked {
		if i < b.skip || !strings.Contains(strings.ToLower(q.name), strings.ToLower(b.only)) {
			continue
		}
		var took []float64
		rows := 0
		var used time.Duration
		rnd := rand.New(rand.NewPCG(1, 1))
		before, first := 1, 0.0
		if q.bound < time.Second {
			before = warmUp
		}
		for i := range before + b.runs {
			p := who[rnd.IntN(len(who))]
			began := time.Now()
			n, err := q.ask(ctx, p)
			if err != nil {
				return "", fmt.Errorf("%s: %w", q.name, err)
			}
			ms := float64(time.Since(began)) / 1e6
			if i == 0 {
				first = ms
			}
			if i >= before {
				took, rows = append(took, ms), n
			}
			if i == before-1 {
				if used, err = rig.CPU(b.pid); err != nil {
					return "", err
				}
			}
		}
		now, err := rig.CPU(b.pid)
		if err != nil {
			return "", err
		}
		slices.Sort(took)
		p95, late := took[len(took)*95/100], ""
		if p95 > float64(q.bound)/1e6 {
			late = " **missed**"
		}
		line := fmt.Sprintf("| %s | %.1f | %.1f | %.1f | %.1f | %.1f | %d | <= %v%s |\n", q.name, rig.Median(took), p95, took[len(took)-1], first, float64(now-used)/1e6/float64(b.runs), rows, q.bound, late)
		fmt.Fprint(b.log, line)
		text.WriteString(line)
	}
	return text.String(), nil
}

// post asks over HTTP, as curl and Grafana do, and counts the rows.
func (b *bench) post(ctx context.Context, query string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/?"+url.Values{"database": {"weir"}, "default_format": {"TSV"}}.Encode(), strings.NewReader(query))
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %.500s", resp.Status, body)
	}
	return strings.Count(string(body), "\n"), nil
}

// sizes says what the tables take on disk.
func sizes(ctx context.Context, conn driver.Conn) (string, error) {
	var text strings.Builder
	var events uint64
	if err := conn.QueryRow(ctx, countEvents).Scan(&events); err != nil {
		return "", fmt.Errorf("count events: %w", err)
	}
	copied, err := minutesCopied(ctx, conn)
	if err != nil {
		return "", err
	}
	days, what := uint64(1), ""
	if copied {
		days, what = 1+daysBefore, fmt.Sprintf(" The tables of minutes hold the day %d times, so that there is a week to compare with, and one of these is said.", 1+daysBefore)
	}
	fmt.Fprintf(&text, "%d events of a day, loaded by the sink's encoder into `status_log_2`; sizes when its parts have merged as far as they do by themselves.%s\n\n## Bytes\n\n"+
		"| table | rows | bytes a row | MB | bytes an event | parts |\n|---|---|---|---|---|---|\n", events, what)
	rows, err := conn.Query(ctx, `
SELECT table, intDiv(sum(rows), if(endsWith(table, 'by_minute_state'), ?, 1)) AS n, intDiv(sum(bytes_on_disk), if(endsWith(table, 'by_minute_state'), ?, 1)) AS bytes, count() AS parts
FROM system.parts WHERE database = currentDatabase() AND active AND table NOT IN ('goose_db_version', 'suppression_events') GROUP BY table ORDER BY bytes DESC`, days, days)
	if err != nil {
		return "", fmt.Errorf("read sizes: %w", err)
	}
	defer rows.Close()
	var all uint64
	for rows.Next() {
		var (
			table           string
			n, bytes, parts uint64
		)
		if err := rows.Scan(&table, &n, &bytes, &parts); err != nil {
			return "", err
		}
		all += bytes
		fmt.Fprintf(&text, "| `%s` | %d | %.1f | %.1f | %.1f | %d |\n", table, n, float64(bytes)/float64(n), float64(bytes)/1e6, float64(bytes)/float64(events), parts)
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	fmt.Fprintf(&text, "| **all** | | | %.1f | %.1f | |\n\nThe columns that take most, and the indices:\n\n| table | column | bytes a row | share of its table |\n|---|---|---|---|\n", float64(all)/1e6, float64(all)/float64(events))
	rows, err = conn.Query(ctx, `
SELECT table, column, sum(bytes) / any(of.n) AS a_row, sum(bytes) / any(of.total) AS share FROM (
    SELECT table, column, sum(column_bytes_on_disk) AS bytes FROM system.parts_columns WHERE database = currentDatabase() AND active GROUP BY table, column
    UNION ALL
    SELECT table, concat('index ', name), data_compressed_bytes FROM system.data_skipping_indices WHERE database = currentDatabase()
) AS c
INNER JOIN (SELECT table, sum(rows) AS n, sum(bytes_on_disk) AS total FROM system.parts WHERE database = currentDatabase() AND active GROUP BY table) AS of USING (table)
GROUP BY table, column HAVING share > 0.04 AND any(of.total) > 20000000
ORDER BY table, share DESC`)
	if err != nil {
		return "", fmt.Errorf("read sizes of columns: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var (
			table, column string
			aRow, share   float64
		)
		if err := rows.Scan(&table, &column, &aRow, &share); err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "| `%s` | `%s` | %.1f | %.0f %% |\n", table, column, aRow, 100*share)
	}
	return text.String(), rows.Err()
}
