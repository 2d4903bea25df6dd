package prometheus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/twmb/franz-go/pkg/kgo"

	dto "github.com/prometheus/client_model/go"

	"github.com/weirhq/weir/cmd/weir/e2e"
	"github.com/weirhq/weir/deploy/grafana"
	"github.com/weirhq/weir/schemas"
)

// livePolicy brings about everything that has a metric.
const livePolicy = `
limits:
  - {name: verify, match: {class: verify}, per: [recipient], allow: [1/60s]}
  - {name: soft, match: {class: notice}, per: [recipient], allow: [1/60s], mode: observe}
classes:
  - {name: verify, priority: urgent}
  - {name: notice, retries: [1s]}
providers:
  - {name: simulated, type: simulated, channels: [sms], pace: [200/1s]}
tenants:
  - {name: default, default_region: CN}
  - {name: acme, default_region: CN}
inputs: [{topic: acme.sends, tenant: acme}]
keys:
  - {name: shop, tenant: default, scopes: [read], hash: "%s", rates: {query: "bucket 1 refill 1/m"}}
alerts:
  - {name: oncall, to: {type: webhook, url: "%s"}, when: [limit.refused], at_most: 1/1h}
`

var shopKey = schemas.LivePrefix + strings.Repeat("x", 43)

// live is a running weir dev.
type live struct {
	bin         string
	http, kafka string
	pages       []page
	secrets     []string // what no label may hold
}

// page is /metrics as it was at a time, which is counted from 0: Prometheus would
// have come every 15 s.
type page struct {
	at   time.Duration
	text string
}

const every = 15 * time.Second

// startLive starts weir dev, sends it messages of every fate, and looks at
// /metrics meanwhile.
func startLive(t *testing.T) *live {
	t.Helper()
	dir := t.TempDir()
	bin, err := e2e.Build(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(dir, "policy.yaml")
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(hook.Close)
	if err := os.WriteFile(policy, fmt.Appendf(nil, livePolicy, schemas.HashSecret(shopKey), hook.URL), 0o644); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	p, err := e2e.Start(dir, "dev", bin, "dev", "--dir", data, "--policy", policy, "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--clickhouse", "127.0.0.1:0", "--shutdown-grace", "100s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(2 * time.Minute); err != nil {
			t.Errorf("weir dev: %v", err)
		}
		if t.Failed() {
			t.Logf("weir dev:\n%s", p.Tail(20))
		}
	})
	l := &live{bin: bin}
	within(t, time.Minute, "weir dev is ready", func() bool {
		select {
		case <-p.Done():
			t.Fatalf("weir dev ended: %v\n%s", p.Err(), p.Tail(20))
		default:
		}
		var e struct{ HTTP, Kafka, ClickHouse string }
		b, err := os.ReadFile(filepath.Join(data, "endpoints"))
		if err != nil || json.Unmarshal(b, &e) != nil {
			return false
		}
		if e.ClickHouse == "" {
			if os.Getenv("CI") != "" {
				t.Fatal("no ClickHouse engine: the sink's metrics cannot be seen")
			}
			t.Skip("NOT TESTED: metrics, dashboards' PromQL and their pages need the ClickHouse engine")
		}
		l.http, l.kafka = "http://"+e.HTTP, e.Kafka
		return true
	})

	cl, err := kgo.NewClient(kgo.SeedBrokers(l.kafka), kgo.DefaultProduceTopic("acme.sends"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	// Rates need figures from before and after.
	for round := range 2 {
		l.traffic(t, cl, round)
		l.look(t)
	}
	return l
}

// oversized writes a batch that no one reads.
func (l *live) oversized(t *testing.T) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.kafka), kgo.DefaultProduceTopic("weir.requests"), kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerBatchMaxBytes(32<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: make([]byte, 20<<20)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// traffic sends messages of every fate, and waits until what they cause is seen.
func (l *live) traffic(t *testing.T, cl *kgo.Client, round int) {
	t.Helper()
	was := l.sums(t)
	to := fmt.Sprintf("+86138001380%02d", round)
	send := func(to, class, body string) {
		t.Helper()
		raw := fmt.Sprintf(`{"channel":"sms","to":%q,"class":%q,"body":%q}`, to, class, body)
		resp, err := http.Post(l.http+"/v1/messages", "application/json", strings.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		var answer struct{ ID string }
		if resp.StatusCode != http.StatusAccepted || json.Unmarshal(b, &answer) != nil {
			t.Fatalf("%s: %s", resp.Status, b)
		}
		l.secrets = append(l.secrets, strings.TrimPrefix(to, "+"), answer.ID, body)
	}
	send(to, "verify", "it is sent")
	send(to, "verify", "it is refused")
	send(to, "notice", "it is sent too")
	send(to, "notice", "it would be refused")
	send("+15005550011", "notice", "it is tried again")
	send("+15005550001", "notice", "it fails")
	send("+15005550021", "nobody-declared-it", "it is throttled")
	send("+15005550005", "nobody-declared-it", "it is delivered")
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.http+"/v1/quota?class=verify&channel=sms&to=%2B"+to[1:], nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+shopKey)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	recs := []*kgo.Record{
		{Value: []byte(fmt.Sprintf(`{"channel":"sms","to":"+86138001381%02d","body":"by a topic","clas":"verify"}`, round))},
		{Value: []byte(`no request`)},
	}
	if err := cl.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	l.oversized(t)
	// Whatever it can tell of so much garbage, it reports.
	if out, err := exec.CommandContext(t.Context(), l.bin, "audit", "--kafka-brokers", l.kafka).CombinedOutput(); err != nil && !strings.HasPrefix(string(out), "COULD NOT TELL") {
		t.Fatalf("weir audit: %v\n%s", err, out)
	}
	within(t, time.Minute, "what was sent is seen in /metrics", func() bool {
		now := l.sums(t)
		for name, more := range map[string]float64{
			"weir_accepted_to_sent_seconds_count": 4, // the others are tried again first
			"weir_dlq_records_total":              2,
			"weir_limit_refusals_total":           2,
			"weir_input_records_total":            2,
			"weir_http_rate_limited_total":        1,
			"weir_status_rows_total":              19,
			"weir_receipts_total":                 1,
			"weir_inbound_total":                  0,
			"weir_alerts_total":                   0,
			"weir_alerts_held":                    float64(round), // the second round's, within the hour of the first
			"weir_delay_waiting":                  0,
			"weir_routing_share":                  0,
			"weir_audit_violations":               0,
			"weir_sink_difference":                0, // absent until a sink has compared, a minute after its start
		} {
			if v, ok := now[name]; !ok || v < was[name]+more && more > 0 {
				return false
			}
		}
		return true
	})
}

// fetch is /metrics now.
func (l *live) fetch(t *testing.T) string {
	t.Helper()
	resp, err := http.Get(l.http + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("/metrics: %s %v", resp.Status, err)
	}
	return string(b)
}

// look keeps the page.
func (l *live) look(t *testing.T) {
	l.pages = append(l.pages, page{time.Duration(len(l.pages)) * every, l.fetch(t)})
}

var sampleLine = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{.*\})? (\S+)$`)

// sums are the metrics now, each over all of its series.
func (l *live) sums(t *testing.T) map[string]float64 {
	all := make(map[string]float64)
	for _, m := range sampleLine.FindAllStringSubmatch(l.fetch(t), -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		all[m[1]] += v
	}
	return all
}

func within(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	d = max(d, 2*time.Minute) // of a test that fails
	for limit := time.After(d); !ok(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}

// TestLive holds everything that is asked of Prometheus to what a running Weir
// exposes.
func TestLive(t *testing.T) {
	l := startLive(t)
	families := l.families(t)
	t.Run("Labels", func(t *testing.T) { labelsAreHarmless(t, l, families) })
	t.Run("Page", func(t *testing.T) { pageIsTrue(t, families) })
	t.Run("Panels", func(t *testing.T) { panelsAnswer(t, l) })
	t.Run("Rules", func(t *testing.T) { rulesAsk(t, families, l.bin) })
}

func (l *live) families(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(l.pages[len(l.pages)-1].text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// mayLabel are the names of labels that Weir's metrics may have. What each may
// hold is bounded: by the code, or by the policy, which operators write. A name
// that is not here needs a reason why its values cannot be a recipient, an id or
// a URL, and cannot become many.
var mayLabel = map[string]string{
	"class":     "declared in the policy; any other is \"other\"",
	"code":      "an HTTP status",
	"key":       "of an API key: its name in the policy, at most 10 at a time",
	"alert":     "declared in the policy",
	"event":     "fixed in the code",
	"following": "true or false",
	"field":     "a plain word that is a field of a request; at most 50, then other",
	"kind":      "of a call, fixed in the code",
	"limit":     "declared in the policy",
	"mode":      "of a limit",
	"outcome":   "fixed in the code",
	"provider":  "declared in the policy",
	"queue":     "fixed in the code, or a topic that the policy declares under inputs",
	"reason":    "fixed in the code",
	"route":     "a pattern of the API's table",
	"stage":     "fixed in the code",
	"state":     "fixed in the code",
	"tier":      "fixed in the code",
	"topic":     "declared in the policy, under inputs",
	"verdict":   "fixed in the code",
	"window":    "declared in the policy",
	"word":      "fixed in the code",
}

func labelsAreHarmless(t *testing.T, l *live, families map[string]*dto.MetricFamily) {
	for name, f := range families {
		for _, m := range f.Metric {
			for _, pair := range m.Label {
				if _, ok := mayLabel[pair.GetName()]; !ok && strings.HasPrefix(name, "weir_") {
					t.Errorf("%s has a label %s, which is not among those that may be", name, pair.GetName())
				}
				for _, secret := range append(l.secrets, shopKey, "://", "@", "+86", "+1500") {
					if strings.Contains(pair.GetValue(), secret) {
						t.Errorf("%s{%s=%q} tells of a message: %s", name, pair.GetName(), pair.GetValue(), secret)
					}
				}
			}
		}
	}
}

var builtIn string

// built is the PromQL engine, which is built once, into a directory of its own.
var built = sync.OnceValues(func() (bin string, err error) {
	if builtIn, err = os.MkdirTemp("", "weir-promql-*"); err != nil {
		return "", err
	}
	bin = filepath.Join(builtIn, "promql")
	cmd := exec.Command("go", "build", "-o", bin, ".")
	cmd.Dir = "promql"
	if out, err := cmd.CombinedOutput(); err != nil {
		return bin, fmt.Errorf("build the PromQL engine: %w\n%s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if builtIn != "" {
		os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

func program(t *testing.T) string {
	t.Helper()
	bin, err := built()
	if err != nil {
		if os.Getenv("CI") == "" && strings.Contains(err.Error(), "dial tcp") {
			t.Skipf("NOT TESTED: Prometheus's engine cannot be fetched: %v", err)
		}
		t.Fatal(err)
	}
	return bin
}

// panelsAnswer runs every PromQL query of the dashboards over the pages, as
// Prometheus would have them: each must answer with numbers, and with the labels
// that its legend names.
func panelsAnswer(t *testing.T, l *live) {
	begin := time.Unix(1_800_000_000, 0)
	last := begin.Add(l.pages[len(l.pages)-1].at)
	type request struct {
		Expr              string
		From, Until, Step int64
	}
	type scraped struct {
		At     int64
		Labels map[string]string
		Text   string
	}
	var question struct {
		Pages   []scraped
		Queries []request
	}
	target := map[string]string{"job": "weir", "instance": "worker-0:8080"}
	for _, p := range l.pages {
		question.Pages = append(question.Pages, scraped{begin.Add(p.at).UnixMilli(), target, p.text})
	}
	var panels []grafana.Query
	for _, vars := range []map[string]string{nil, {"job": "weir", "class": "verify,notice", "provider": "simulated"}} {
		for _, q := range grafana.Queries(begin.Add(-10*time.Minute), last, vars) {
			if q.Source == grafana.Prometheus {
				panels = append(panels, q)
				question.Queries = append(question.Queries, request{q.Text, last.UnixMilli(), last.UnixMilli(), 1000})
			}
		}
	}
	raw, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program(t), "query")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(raw), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answers struct {
		Queries []struct {
			Error  string
			Series []struct {
				Labels map[string]string
				Points [][2]any
			}
		}
	}
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatal(err)
	}
	if len(answers.Queries) != len(panels) || len(panels) < 60 {
		t.Fatalf("%d answers to %d queries", len(answers.Queries), len(panels))
	}
	for i, a := range answers.Queries {
		name := panels[i].Dashboard + ", " + panels[i].Panel + "\n" + panels[i].Text
		if a.Error != "" {
			t.Errorf("%s: %s", name, a.Error)
			continue
		}
		numbers := 0
		for _, s := range a.Series {
			for _, label := range panels[i].Labels {
				if s.Labels[label] == "" {
					t.Errorf("%s: its legend names %s, which %v has not", name, label, s.Labels)
				}
			}
			for _, p := range s.Points {
				if p[1] != "NaN" {
					numbers++
				}
			}
		}
		if numbers == 0 {
			t.Errorf("%s: answers nothing", name)
		}
	}
}

// names are the metrics in PromQL, without what a histogram adds.
func names(expr string, families map[string]*dto.MetricFamily) (known, unknown []string) {
	for _, m := range regexp.MustCompile(`\b(?:weir|process|go)_[a-z0-9_]+`).FindAllString(expr, -1) {
		base := m
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if f := families[strings.TrimSuffix(m, suffix)]; f != nil && strings.HasSuffix(m, suffix) && f.GetType() == dto.MetricType_HISTOGRAM {
				base = strings.TrimSuffix(m, suffix)
			}
		}
		if families[base] == nil {
			unknown = append(unknown, m)
			continue
		}
		known = append(known, base)
	}
	return known, unknown
}

// metricsPage is what docs/metrics.md is to have between its marks.
func metricsPage(families map[string]*dto.MetricFamily) string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | what it says |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if !strings.HasPrefix(name, "weir_") {
			continue
		}
		f := families[name]
		labels := make(map[string]bool)
		for _, m := range f.Metric {
			for _, pair := range m.Label {
				labels[pair.GetName()] = true
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, strings.ToLower(f.GetType().String()), strings.Join(slices.Sorted(maps.Keys(labels)), ", "), f.GetHelp())
	}
	return b.String()
}
