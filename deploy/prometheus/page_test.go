package prometheus

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	dto "github.com/prometheus/client_model/go"
)

var rewrite = flag.Bool("rewrite", false, "write the table of docs/metrics.md anew")

const (
	metricsFile = "../../docs/metrics.md"
	marks       = "<!-- what follows is written by go test ./deploy/prometheus -run Live/Page -rewrite -->\n"
)

// pageIsTrue holds docs/metrics.md to /metrics, and to the code: a metric that the
// traffic did not bring about is in the code all the same.
func pageIsTrue(t *testing.T, families map[string]*dto.MetricFamily) {
	raw, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, table, ok := strings.Cut(string(raw), marks)
	if !ok {
		t.Fatalf("%s has no line %s", metricsFile, marks)
	}
	want := "\n" + metricsPage(families)
	if *rewrite {
		if err := os.WriteFile(metricsFile, []byte(before+marks+want), 0o644); err != nil {
			t.Fatal(err)
		}
		table = want
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(table, "\n")); diff != "" {
		t.Errorf("docs/metrics.md is not what a running Weir exposes (-rewrite writes it anew):\n%s", diff)
	}
	for name, file := range inCode(t) {
		if !strings.Contains(want, "`"+name+"`") {
			t.Errorf("%s has %s, which nothing in this test brought about: bring it about in livePolicy and traffic", file, name)
		}
	}
	for name, f := range families {
		if strings.HasPrefix(name, "weir_") && f.GetType() == dto.MetricType_COUNTER != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %v: counters, and only they, end in _total", name, f.GetType())
		}
		if strings.HasPrefix(name, "weir_") && (strings.HasSuffix(name, "_ms") || strings.HasSuffix(name, "_milliseconds")) {
			t.Errorf("%s: times are in seconds", name)
		}
	}
}

var (
	optsName = regexp.MustCompile(`Name:\s+"(weir_[a-z0-9_]+)"`)
	descName = regexp.MustCompile(`NewDesc\(\s*"(weir_[a-z0-9_]+)"`)
)

// inCode finds the metrics that the code declares.
func inCode(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, room := range []string{"cmd/weir", "processor", "ingest", "topics", "schemas"} {
		err := filepath.WalkDir(filepath.Join("../..", room), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if e.IsDir() && e.Name() == "node_modules" {
				return filepath.SkipDir
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, re := range []*regexp.Regexp{optsName, descName} {
				for _, m := range re.FindAllSubmatch(raw, -1) {
					found[string(m[1])] = strings.TrimPrefix(path, "../../")
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(found) < 30 {
		t.Fatalf("only %d metrics are found in the code", len(found))
	}
	return found
}
