package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/alert"
	"github.com/weirhq/weir/schemas"
)

// alerted is a webhook of an alert, as far as these tests read it.
type alerted struct {
	Data struct {
		ID    string
		Alert string
		Count int64
		Text  string
		Items []struct {
			Event, State, Limit, Window, Text string
			Stage, Process                    string
			Count, Recipients                 int64
			Examples                          []string
		}
	}
}

// ears take webhooks.
type ears struct {
	URL string
	mu  sync.Mutex
	all []alerted
	at  []time.Time
}

func listenForAlerts(t *testing.T) *ears {
	t.Helper()
	e := new(ears)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		var n alerted
		if err != nil || json.Unmarshal(b, &n) != nil || r.Method != "POST" {
			t.Errorf("%v %s", err, b)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all, e.at = append(e.all, n), append(e.at, time.Now())
	}))
	t.Cleanup(s.Close)
	e.URL = s.URL
	return e
}

func (e *ears) heard() []alerted {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]alerted(nil), e.all...)
}

// count is what all notices say, those that came twice once.
func (e *ears) count() (sum int64, repeats int) {
	seen := map[string]bool{}
	for _, n := range e.heard() {
		if seen[n.Data.ID] {
			repeats++
			continue
		}
		seen[n.Data.ID] = true
		sum += n.Data.Count
	}
	return sum, repeats
}

// TestAlertsPage is docs/alerts.md's first example, but for the ten minutes.
func TestAlertsPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	if block == nil || !strings.Contains(string(block[1]), "at_most: 1/10m") {
		t.Fatal("docs/alerts.md has no policy any more")
	}
	const window = 4 * time.Second
	ears := listenForAlerts(t)
	t.Setenv("ALERT_URL", ears.URL)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(string(block[1]), "1/10m", "1/4s", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	d := startDev(t, t.TempDir(), append([]string{"--policy", file, "--log-level", "info"}, anyPorts...)...)
	if !poll(t, 20*time.Second, func() bool { return strings.Contains(d.Output(), alerting) }) {
		t.Fatal("nobody sends alerts")
	}
	call := func() {
		t.Helper()
		out := d.weir(t, "send", "--channel", "voice", "--to", "+8613800000000", "--class", "reminder", "--body", "b", "--wait", "--json")
		var m struct{ Status schemas.Status }
		if err := json.Unmarshal([]byte(out), &m); err != nil || m.Status != schemas.StatusSent {
			t.Fatalf("%v %s", err, out)
		}
	}
	for range 7 {
		call()
	}
	if got := ears.heard(); len(got) != 0 {
		t.Fatalf("told before the limit is full: %+v", got)
	}
	call() // the eighth is sent, and told
	if !poll(t, 10*time.Second, func() bool { return len(ears.heard()) == 1 }) {
		t.Fatal("the eighth call is not told")
	}
	first := ears.heard()[0].Data
	if i := first.Items[0]; first.Alert != "oncall" || first.Count != 1 || i.Event != "limit.observed" || i.Limit != "calls" || i.Window != "7/1h" || i.Recipients != 1 ||
		strings.Contains(i.Text, "13800000000") || !strings.Contains(i.Text, "would have refused 1 message at") {
		t.Errorf("%+v", first)
	}
	for range 3 { // these are held, and summed up
		call()
	}
	if !poll(t, 20*time.Second, func() bool { n, _ := ears.count(); return n == 4 }) {
		t.Fatalf("what was held is not told: %+v", ears.heard())
	}
	for i := 1; i < len(ears.at); i++ {
		if gap := ears.at[i].Sub(ears.at[i-1]); gap < window-100*time.Millisecond {
			t.Errorf("two notices within %v", gap)
		}
	}
	t.Logf("%s\n%s", first.Items[0].Text, ears.heard()[1].Data.Items[0].Text)
}

const alertPolicy = `
limits:
  - {name: one, per: [recipient], allow: [1/24h]}
providers:
  - {name: p, type: simulated, channels: [sms]}
alerts:
  - {name: oncall, to: {type: webhook, url: URL}, when: [limit.refused, dlq.record], at_most: 1/1s}
`

// alertsOverKills kills the alerter in the middle of a stream of refusals, again
// and again: each refusal is told once, and at_most holds. A kill waits until both
// have joined: see stable.
func alertsOverKills(t *testing.T, brokers []string, sc scale) {
	ears := listenForAlerts(t)
	s := newSite(t, brokers, "alerts", strings.Replace(alertPolicy, "URL", ears.URL, 1))
	s.env = []string{"WEIR_CALLBACK_ALLOW_PRIVATE=127.0.0.1"}
	work := s.run(0, "admission,lanes,delay")
	alerters := []*Process{s.run(1, "alerts"), s.run(2, "alerts")}
	// active is who became the alerter last, unless that one has ended.
	active := func() int {
		terms := s.terms(alerters)
		if len(terms) == 0 {
			return -1
		}
		i := slices.IndexFunc(alerters, func(p *Process) bool { return slotOf(p) == terms[len(terms)-1] })
		select {
		case <-alerters[i].Done():
			return -1
		default:
			return i
		}
	}
	cl := s.client()
	adm := kadm.NewClient(cl)
	joined := func() bool {
		all, err := adm.DescribeGroups(t.Context(), alert.Group(s.names))
		g := all[alert.Group(s.names)]
		return err == nil && g.State == "Stable" && len(g.Members) == 2 && active() >= 0
	}
	const rounds, each = 3, 400
	sent := 0
	burst := func(n int) {
		t.Helper()
		var rs []*kgo.Record
		for i := range n {
			to := fmt.Sprintf("+86138%08d", i%10)
			rs = append(rs, &kgo.Record{Key: []byte(to), Value: []byte(fmt.Sprintf(`{"channel":"sms","to":%q,"body":"b"}`, to))})
		}
		if err := cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		sent += n
	}
	for round := range rounds {
		if !poll(t, 30*time.Second, joined) {
			t.Fatal("nobody sends alerts")
		}
		// The kill comes while refusals come, and a second has room for a notice.
		for range each / 50 {
			burst(50)
			<-time.After(60 * time.Millisecond)
		}
		i := active()
		if i < 0 {
			t.Fatal("nobody sends alerts any more")
		}
		alerters[i].Kill()
		burst(50)
		alerters = append(alerters, s.run(3+round, "alerts"))
	}
	if !poll(t, 40*time.Second, joined) {
		t.Fatal("nobody took over")
	}
	want := int64(sent - 10) // the first of each number is let through
	if !poll(t, 30*time.Second, func() bool { n, _ := ears.count(); return n >= want }) {
		n, _ := ears.count()
		t.Errorf("told of %d refusals, there were %d", n, want)
	}
	n, repeats := ears.count()
	if n != want || repeats > rounds {
		t.Errorf("told of %d refusals, of %d; %d notices were repeated in %d takeovers", n, want, repeats, rounds)
	}
	seen := map[string]bool{}
	var last time.Time
	ears.mu.Lock()
	for i, a := range ears.all {
		if seen[a.Data.ID] {
			continue
		}
		seen[a.Data.ID] = true
		if gap := ears.at[i].Sub(last); gap < 990*time.Millisecond {
			t.Errorf("two notices within %v", gap)
		}
		last = ears.at[i]
	}
	ears.mu.Unlock()
	t.Logf("%d refusals in %d notices, %d takeovers, %d repeated", n, len(seen), rounds, repeats)
	s.stop(work, alerters[len(alerters)-1])
}
