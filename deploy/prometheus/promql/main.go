// Command promql runs queries on Prometheus's own engine over pages that were
// scraped from /metrics, and tests alerting rules as promtool does. Weir's tests
// run it: it is a module of its own so that Prometheus, with what it needs, is no
// dependency of Weir's.
//
//	promql query < question.json > answer.json
//	promql test FILE...     tests of rules in promtool's format
//
// It serves nothing, stores nothing and opens no connection. Of promtool's tests
// it knows input_series and alert_rule_test, not promql_expr_test.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	switch {
	case len(args) == 1 && args[0] == "query":
		var q question
		if err := json.NewDecoder(stdin).Decode(&q); err != nil {
			return fmt.Errorf("read the question: %w", err)
		}
		a, err := q.ask(ctx)
		if err != nil {
			return err
		}
		return json.NewEncoder(stdout).Encode(a)
	case len(args) > 1 && args[0] == "test":
		var failed []error
		for _, file := range args[1:] {
			failed = append(failed, testRules(ctx, file))
		}
		return errors.Join(failed...)
	}
	return errors.New("usage: promql query, or promql test FILE...")
}

// question is pages as Prometheus would have scraped them, and what is asked of
// them.
type question struct {
	Pages []struct {
		At     int64             // Unix milliseconds
		Labels map[string]string // job and instance
		Text   string
	}
	Queries []struct {
		Expr        string
		From, Until int64 // Unix milliseconds; equal for one moment
		Step        int64 // milliseconds
	}
}

type answer struct {
	Queries []result // as they were asked
}

type result struct {
	Error  string
	Series []series
}

type series struct {
	Labels map[string]string
	Points [][2]any // Unix milliseconds, and the number as text: JSON has no NaN
}

func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, EnableNegativeOffset: true})
}

func (q *question) ask(ctx context.Context) (*answer, error) {
	st := newStore()
	for _, p := range q.Pages {
		if err := st.scrape([]byte(p.Text), p.Labels, p.At); err != nil {
			return nil, err
		}
	}
	engine := newEngine()
	a := &answer{}
	for _, x := range q.Queries {
		var r result
		m, err := evaluate(ctx, engine, st, x.Expr, time.UnixMilli(x.From), time.UnixMilli(x.Until), time.Duration(x.Step)*time.Millisecond)
		if err != nil {
			r.Error = err.Error()
		}
		for _, s := range m {
			one := series{Labels: s.Metric.Map()}
			for _, f := range s.Floats {
				one.Points = append(one.Points, [2]any{f.T, fmt.Sprint(f.F)})
			}
			r.Series = append(r.Series, one)
		}
		a.Queries = append(a.Queries, r)
	}
	return a, nil
}

// evaluate asks for every step from from until until.
func evaluate(ctx context.Context, engine *promql.Engine, st *store, expr string, from, until time.Time, step time.Duration) (promql.Matrix, error) {
	q, err := engine.NewRangeQuery(ctx, st, nil, expr, from, until, max(step, time.Second))
	if err != nil {
		return nil, err
	}
	defer q.Close()
	res := q.Exec(ctx)
	if res.Err != nil {
		return nil, res.Err
	}
	m, err := res.Matrix()
	if err != nil {
		return nil, err
	}
	var own promql.Matrix // the engine takes m back with q
	for _, s := range m {
		own = append(own, promql.Series{Metric: s.Metric.Copy(), Floats: append([]promql.FPoint(nil), s.Floats...)})
	}
	return own, nil
}

// scrape adds what a page says.
func (st *store) scrape(text []byte, target map[string]string, at int64) error {
	p := textparse.NewPromParser(text, labels.NewSymbolTable(), false)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("parse a page: %w", err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, v := p.Series()
		var l labels.Labels
		p.Labels(&l)
		b := labels.NewBuilder(l)
		for name, value := range target {
			b.Set(name, value)
		}
		st.add(b.Labels(), at, v)
	}
}
