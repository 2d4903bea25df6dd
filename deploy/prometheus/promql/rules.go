package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/template"
	"gopkg.in/yaml.v3"
)

// testFile is promtool's, as far as it is known here.
type testFile struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []ruleTest     `yaml:"tests"`
}

type ruleTest struct {
	Name        string         `yaml:"name"`
	Interval    model.Duration `yaml:"interval"`
	InputSeries []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	AlertRuleTest []struct {
		EvalTime  model.Duration `yaml:"eval_time"`
		Alertname string         `yaml:"alertname"`
		ExpAlerts []struct {
			ExpLabels      map[string]string `yaml:"exp_labels"`
			ExpAnnotations map[string]string `yaml:"exp_annotations"`
		} `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

// alert is one that fires.
type alert struct {
	labels, annotations map[string]string
}

func (a alert) String() string { return fmt.Sprint(a.labels, a.annotations) }

// testRules checks the rules that a file names as Prometheus does when it loads
// them, and plays the file's tests.
func testRules(ctx context.Context, name string) error {
	raw, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var f testFile
	d := yaml.NewDecoder(strings.NewReader(string(raw)))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	rules := make(map[string]rulefmt.Rule)
	for _, rf := range f.RuleFiles {
		raw, err := os.ReadFile(filepath.Join(filepath.Dir(name), rf))
		if err != nil {
			return err
		}
		groups, errs := rulefmt.Parse(raw, false)
		if len(errs) > 0 {
			return fmt.Errorf("%s: %w", rf, errors.Join(errs...))
		}
		for _, g := range groups.Groups {
			for _, r := range g.Rules {
				if r.Alert == "" {
					return fmt.Errorf("%s: a recording rule, which is not known here", rf)
				}
				if _, twice := rules[r.Alert]; twice {
					return fmt.Errorf("%s: two rules are called %s", rf, r.Alert)
				}
				rules[r.Alert] = r
			}
		}
	}
	every := time.Duration(f.EvaluationInterval)
	if every == 0 {
		every = time.Minute
	}
	var failed []error
	for _, t := range f.Tests {
		if err := t.play(ctx, rules, every); err != nil {
			failed = append(failed, fmt.Errorf("%s: %q: %w", name, t.Name, err))
		}
	}
	return errors.Join(failed...)
}

func (t *ruleTest) play(ctx context.Context, rules map[string]rulefmt.Rule, every time.Duration) error {
	st := newStore()
	step := time.Duration(t.Interval)
	if step == 0 {
		step = every
	}
	for _, in := range t.InputSeries {
		l, values, err := parser.ParseSeriesDesc(in.Series + " " + in.Values)
		if err != nil {
			return fmt.Errorf("%s: %w", in.Series, err)
		}
		for i, v := range values {
			if !v.Omitted {
				st.add(l, int64(i)*step.Milliseconds(), v.Value)
			}
		}
	}
	engine := newEngine()
	var failed []error
	for _, want := range t.AlertRuleTest {
		r, ok := rules[want.Alertname]
		if !ok {
			return fmt.Errorf("no rule is called %s", want.Alertname)
		}
		got, err := firing(ctx, engine, st, r, every, time.Duration(want.EvalTime))
		if err != nil {
			return fmt.Errorf("%s: %w", want.Alertname, err)
		}
		var exp []alert
		for _, e := range want.ExpAlerts {
			l := map[string]string{labels.AlertName: want.Alertname}
			for k, v := range e.ExpLabels {
				l[k] = v
			}
			exp = append(exp, alert{l, e.ExpAnnotations})
		}
		if g, w := sorted(got), sorted(exp); !slices.Equal(g, w) {
			failed = append(failed, fmt.Errorf("%s at %v:\n  fires %s\n  want  %s", want.Alertname, time.Duration(want.EvalTime), strings.Join(g, "\n        "), strings.Join(w, "\n        ")))
		}
	}
	return errors.Join(failed...)
}

func sorted(all []alert) []string {
	var s []string
	for _, a := range all {
		s = append(s, a.String())
	}
	slices.Sort(s)
	return s
}

// firing evaluates a rule every so often from the beginning, as Prometheus would,
// and returns what fires at the end: what has been there for as long as the rule
// says.
func firing(ctx context.Context, engine *promql.Engine, st *store, r rulefmt.Rule, every, until time.Duration) ([]alert, error) {
	begin := time.Unix(0, 0)
	m, err := evaluate(ctx, engine, st, r.Expr, begin, begin.Add(until), every)
	if err != nil {
		return nil, err
	}
	last := begin.Add(until.Truncate(every)).UnixMilli()
	var all []alert
	for _, s := range m {
		since := int64(-1) // when it came, and stayed
		for i, p := range s.Floats {
			if since < 0 || s.Floats[i-1].T != p.T-every.Milliseconds() {
				since = p.T
			}
		}
		if len(s.Floats) == 0 || s.Floats[len(s.Floats)-1].T != last || last-since < time.Duration(r.For).Milliseconds() {
			continue
		}
		a := alert{labels: s.Metric.Map(), annotations: make(map[string]string)}
		delete(a.labels, labels.MetricName)
		a.labels[labels.AlertName] = r.Alert
		expand := func(text string) (string, error) {
			data := template.AlertTemplateData(s.Metric.Map(), nil, "", promql.Sample{F: s.Floats[len(s.Floats)-1].F})
			const defs = "{{$labels := .Labels}}{{$value := .Value}}"
			return template.NewTemplateExpander(ctx, defs+text, r.Alert, data, model.Time(last), nil, &url.URL{}, nil).Expand()
		}
		for k, v := range r.Labels {
			if a.labels[k], err = expand(v); err != nil {
				return nil, err
			}
		}
		for k, v := range r.Annotations {
			if a.annotations[k], err = expand(v); err != nil {
				return nil, err
			}
		}
		all = append(all, a)
	}
	return all, nil
}
