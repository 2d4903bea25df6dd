package prometheus

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v3"

	"github.com/weirhq/weir/deploy/grafana"
)

const rulesFile, rulesTests, runbook = "rules.yaml", "rules_test.yaml", "../../docs/runbook.md"

// rule is one of rules.yaml.
type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	raw, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	if err := yaml.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range f.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 10 {
		t.Fatalf("%d rules", len(all))
	}
	return all
}

// TestRules plays rules_test.yaml on Prometheus's own engine.
func TestRules(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), program(t), "test", rulesTests).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRulesAreTested: each rule is seen to fire, and to be silent while there are
// figures that it looks at.
func TestRulesAreTested(t *testing.T) {
	raw, err := os.ReadFile(rulesTests)
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Tests []struct {
			InputSeries []struct{ Series string } `yaml:"input_series"`
			Alerts      []struct {
				Name string `yaml:"alertname"`
				Exp  []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	fires, silent := make(map[string]bool), make(map[string]bool)
	for _, test := range f.Tests {
		for _, a := range test.Alerts {
			if len(a.Exp) > 0 {
				fires[a.Name] = true
			} else if len(test.InputSeries) > 0 {
				silent[a.Name] = true
			}
		}
	}
	for _, r := range rules(t) {
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: seen to fire: %v; to be silent: %v", r.Alert, fires[r.Alert], silent[r.Alert])
		}
	}
}

// TestRunbook holds rules and sections of docs/runbook.md to each other, and each
// section to its four parts.
func TestRunbook(t *testing.T) {
	raw, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	sections := make(map[string]string)
	var order []string
	for _, s := range strings.Split(string(raw), "\n## ")[1:] {
		title, body, _ := strings.Cut(s, "\n")
		sections[title] = body
		order = append(order, title)
	}
	var names []string
	for _, r := range rules(t) {
		names = append(names, r.Alert)
		if want := "https://github.com/weirhq/weir/blob/main/docs/runbook.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %s, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
		for _, a := range []string{"summary", "description"} {
			if r.Annotations[a] == "" {
				t.Errorf("%s has no %s", r.Alert, a)
			}
		}
		for _, part := range []string{"**It means.** ", "**Users see.** ", "**Look first.** ", "**Do.** "} {
			if strings.Count(sections[r.Alert], "\n"+part) != 1 {
				t.Errorf("the section of %s does not have one part %q", r.Alert, part)
			}
		}
		if !strings.Contains(sections[r.Alert], "`") {
			t.Errorf("the section of %s has no command, query or metric to look at", r.Alert)
		}
	}
	// Each section is reached from a panel that shows what the rule looks at, and no
	// panel leads to one that is not there.
	linked := make(map[string]bool)
	for _, d := range grafana.Dashboards() {
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for _, rule := range p.Runbook {
					linked[rule] = true
					if _, ok := sections[rule]; !ok {
						t.Errorf("%s: %q leads to a section %s that the runbook does not have", d.UID, p.Title, rule)
					}
				}
			}
		}
	}
	for _, name := range names {
		if !linked[name] {
			t.Errorf("no panel of the dashboards leads to the section of %s", name)
		}
	}
	if !slices.Equal(names, order) {
		t.Errorf("rules and sections differ, or stand in another order:\n%v\n%v", names, order)
	}
}

// rulesAsk holds the rules' and the runbook's metrics and labels to a running
// Weir's: rules_test.yaml would agree with any name.
func rulesAsk(t *testing.T, families map[string]*dto.MetricFamily, bin string) {
	labels := func(family string) map[string]bool {
		all := map[string]bool{"job": true, "instance": true, "le": true}
		for _, m := range families[family].Metric {
			for _, pair := range m.Label {
				all[pair.GetName()] = true
			}
		}
		return all
	}
	selector := regexp.MustCompile(`\b((?:weir|process|go)_[a-z0-9_]+)\{([^}]*)\}`)
	label := regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	for _, r := range rules(t) {
		known, unknown := names(r.Expr, families)
		if len(unknown) > 0 || len(known) == 0 && !strings.Contains(r.Expr, "up{") {
			t.Errorf("%s asks for %v, which a running Weir does not have", r.Alert, unknown)
		}
		for _, m := range selector.FindAllStringSubmatch(r.Expr, -1) {
			if of, _ := names(m[1], families); len(of) == 1 {
				has := labels(of[0])
				for _, l := range label.FindAllStringSubmatch(m[2], -1) {
					if !has[l[1]] {
						t.Errorf("%s: %s has no label %s", r.Alert, m[1], l[1])
					}
				}
			}
		}
		// What it groups by, and what its texts name.
		for _, m := range regexp.MustCompile(`by \(([a-z, ]+)\)`).FindAllStringSubmatch(r.Expr, -1) {
			for l := range strings.SplitSeq(m[1], ",") {
				if !slices.ContainsFunc(known, func(f string) bool { return labels(f)[strings.TrimSpace(l)] }) {
					t.Errorf("%s groups by %s, which none of %v has", r.Alert, l, known)
				}
			}
		}
	}
	raw, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	if _, unknown := names(string(raw), families); len(unknown) > 0 {
		t.Errorf("docs/runbook.md names metrics that a running Weir does not have: %v", unknown)
	}
	// Values of labels that the code fixes: those of the stages.
	for _, m := range regexp.MustCompile(`stage="([a-z]+)"`).FindAllStringSubmatch(fmt.Sprint(rules(t)), -1) {
		if !slices.ContainsFunc(families["weir_topic_lag_seconds"].Metric, func(x *dto.Metric) bool { return x.Label[0].GetValue() == m[1] }) {
			t.Errorf("no stage is called %s", m[1])
		}
	}
	if !slices.ContainsFunc(families["weir_http_request_seconds"].Metric, func(x *dto.Metric) bool {
		return strings.Contains(x.String(), `"/v1/messages"`) && strings.Contains(x.String(), `"202"`)
	}) {
		t.Error(`no request was counted as route="/v1/messages", code="202", which WeirNothingDecided looks for`)
	}
	// The runbook's commands are there.
	for _, m := range regexp.MustCompile("(?m)(?:`|^    )weir ([a-z]+)").FindAllStringSubmatch(string(raw), -1) {
		if out, err := exec.CommandContext(t.Context(), bin, m[1], "--help").CombinedOutput(); err != nil && strings.Contains(string(out), "there is no command") {
			t.Errorf("docs/runbook.md says weir %s: %s", m[1], out)
		}
	}
}
