package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// withEngine skips a test where there is no ClickHouse engine, but never in CI.
func withEngine(t *testing.T, d *devProcess) {
	t.Helper()
	if d.ClickHouse == "" {
		if os.Getenv("CI") != "" {
			t.Fatalf("no engine:\n%s", d.Output())
		}
		t.Skipf("NOT TESTED: there is no ClickHouse engine here:\n%s", d.Output())
	}
}

// try runs a command that may fail.
func (d *devProcess) try(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, weirBinary(t), append(args[:1:1], append([]string{"--dir", d.dir}, args[1:]...)...)...)
	raw, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatalf("weir %s: %v\n%s", strings.Join(args, " "), err, raw)
	} else if ok {
		code = exit.ExitCode()
	}
	return string(raw), code
}

// everything is what ClickHouse stores, as text: every column of every table.
func everything(t *testing.T, d *devProcess) map[string]string {
	t.Helper()
	tables := strings.Fields(d.sql(t, "SELECT name FROM system.tables WHERE database = 'weir' AND endsWith(engine, 'MergeTree')"))
	if len(tables) < 7 {
		t.Fatalf("only tables %q", tables)
	}
	out := map[string]string{}
	for _, table := range tables {
		out[table] = d.sql(t, "SELECT * FROM weir."+table+" FORMAT TSVRaw")
	}
	return out
}

// A person who has been sent to in three spellings is gone from ClickHouse after
// weir erase, and nobody else is; what Kafka holds is listed with its end.
func TestErase(t *testing.T) {
	t.Parallel()
	d := startDev(t, filepath.Join(t.TempDir(), ".weir"), anyPorts...)
	withEngine(t, d)
	p, err := NewProducer([]string{d.Kafka}, topics.Names{}, CRC32)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"+8613800138000", "+86 138 0013 8000", "+86 0138-0013-8000", "+8613800138001"} {
		p.Send(t.Context(), &schemas.Request{Channel: schemas.ChannelSMS, To: to, Class: "verify", Body: "code 1"}, to)
	}
	if _, err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	const ended = "SELECT countIf(to = '+8613800138000'), countIf(to != '+8613800138000') FROM weir.messages WHERE status IN ('sent', 'limited')"
	if !poll(t, 20*time.Second, func() bool { return d.sql(t, ended) == "3\t1" }) {
		t.Fatalf("ended: %s", d.sql(t, ended))
	}
	const dense = "SELECT partition, max(seq) - min(seq) + 1 - uniqExact(seq), count() FROM weir.decisions GROUP BY partition ORDER BY partition"
	const loaded = "SELECT count(), uniqExact(status_partition, status_offset) FROM weir.status_events"
	d.settled(t)
	before := []string{d.sql(t, dense), d.sql(t, loaded)}
	if before[1] != "8\t8" { // three statuses of each that is sent, one of each that is limited
		t.Fatalf("loaded: %q", before)
	}

	for _, tt := range []struct {
		args string
		code int
		says []string
	}{
		{"", 2, []string{"say whom"}},
		{"--to 13800138000 --channel carrier-pigeon", 2, []string{"sms, voice, email, push or webhook"}},
		{"--to +8613800138000 --dry-run", 0, []string{"+86*********00, of every tenant, found, not erased", "messages_by_recipient"}},
		{"--to +8613800138000", 2, []string{"nothing was erased: say --yes"}},
		{"--to 13800138000 --region XX --yes", 2, []string{"--region XX: no region that has numbers"}},
		{"--to 13800138000 --tenant globex --yes", 2, []string{"the policy in force has no such tenant, and ClickHouse has no rows of it. It has rows of default"}},
		{"--to 13800138000 --tenant default --region cn --dry-run", 0, []string{"+86*********00", "of tenant default"}},
	} {
		out, code := d.try(t, append([]string{"erase"}, strings.Fields(tt.args)...)...)
		if code != tt.code || slices.ContainsFunc(tt.says, func(s string) bool { return !strings.Contains(out, s) }) {
			t.Errorf("weir erase %s: exit %d\n%s", tt.args, code, out)
		}
	}
	if got := d.sql(t, ended); got != "3\t1" {
		t.Fatalf("something was erased: %s", got)
	}

	out, code := d.try(t, "erase", "--to", "138-0013-8000", "--region", "CN", "--yes")
	t.Logf("DEV $ weir erase\n%s", out)
	if code != 0 {
		t.Fatalf("exit %d", code)
	}
	for _, want := range []string{"nothing is left in ClickHouse", "weir.requests", "weir.ledger", "an opt-out (suppression) stays"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if strings.Contains(out, "13800138000") {
		t.Error("it prints the number")
	}
	until := regexp.MustCompile(`weir\.status +(\S+)`).FindStringSubmatch(out)
	if until == nil {
		t.Fatal("it does not say when weir.status ends")
	}
	// A week, the longest window of a day, and a segment of a tenth or so.
	if at, err := time.Parse(time.RFC3339, until[1]); err != nil || time.Until(at) < 8*24*time.Hour-time.Minute || time.Until(at) > 10*24*time.Hour {
		t.Errorf("weir.status ends %s", until[1])
	}
	for table, text := range everything(t, d) {
		if strings.Contains(text, "13800138000") {
			t.Errorf("%s still holds the number", table)
		}
	}
	if got := d.sql(t, ended); got != "0\t1" {
		t.Errorf("messages: %s", got)
	}
	if after := []string{d.sql(t, dense), d.sql(t, loaded)}; !slices.Equal(before, after) {
		t.Errorf("the log was %q and is %q", before, after)
	}
	if left := d.sql(t, "SELECT count() FROM system.tables WHERE startsWith(name, 'erasing_')"); left != "0" {
		t.Errorf("%s lists are left", left)
	}
	// A tenant that was taken out of the policy has rows all the same, but no region.
	d.sql(t, "INSERT INTO weir.status_events (kind, at, tenant, message_id, `to`, status) VALUES ('status', now64(3), 'former', 'm-former', '+8613800138009', 'sent')")
	for _, tt := range []struct {
		to   string
		code int
		says []string
	}{
		{"13800138009", 2, []string{"a number has its + and country"}},
		{"+8613800138009", 0, []string{"has no tenant former; ClickHouse has rows of it", "of tenant former", "nothing is left in ClickHouse"}},
	} {
		out, code := d.try(t, "erase", "--to", tt.to, "--tenant", "former", "--yes")
		if code != tt.code || slices.ContainsFunc(tt.says, func(s string) bool { return !strings.Contains(out, s) }) {
			t.Errorf("weir erase --to %s --tenant former: exit %d\n%s", tt.to, code, out)
		}
	}
	if left := d.sql(t, "SELECT count() FROM weir.status_events WHERE to != '' AND tenant = 'former'"); left != "0" {
		t.Errorf("%s rows of the former tenant are left", left)
	}
	// Whoever is sent to again is there again.
	d.weir(t, "send", "--to", "+8613800138000", "--channel", "sms", "--class", "notice", "--body", "x", "--wait")
	if !poll(t, 20*time.Second, func() bool { return strings.HasPrefix(d.sql(t, ended), "1\t") }) {
		t.Errorf("a new message: %s", d.sql(t, ended))
	}
}

const marksPolicy = `
providers:
  - {name: simulated, type: simulated, channels: [sms, voice, email, push, webhook]}
templates:
  - {name: login-code, channel: sms, body: "Your code is {{code}}"}
tenants:
  - {name: default, default_region: CN}
`

// What a message says is nobody's business but the provider's: none of it comes
// into ClickHouse, the logs or the metrics, whatever becomes of the message.
func TestContentIsNotKept(t *testing.T) {
	t.Parallel()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte(marksPolicy), 0o644); err != nil {
		t.Fatal(err)
	}
	d := startDev(t, filepath.Join(t.TempDir(), ".weir"), append(slices.Clone(anyPorts), "--policy", policy)...)
	withEngine(t, d)
	// What is marked, in messages that are sent, that fail, are refused at the door,
	// and are rejected behind it.
	texts := []string{
		`"body":"MARK-body"`, `"template":"login-code","vars":{"code":"MARK-vars"}`,
		`"body":"MARK-body","subject":"MARK-subject","html":"<p>MARK-html</p>"`,
		`"body":"MARK-body","metadata":{"order":"MARK-metadata","ip":"MARK-ip"}`,
		`"title":"MARK-title","body":"MARK-body","data":{"k":"MARK-data"}`,
		`"template":"login-code","vars":{"cod":"MARK-missing"}`,
		`"template":"login-code","vars":{"code":{"a":"MARK-object"}}`,
		`"template":"no-such","vars":{"code":"MARK-vars"}`,
		`"body":"MARK-body","idempotency_key":"k-1"`, `"body":"MARK-other","idempotency_key":"k-1"`,
		`"body":"MARK-body","unheard_of":"MARK-value"`, `"body":"MARK-body","metadata":{"a":["MARK-list"]}`, `"body":"MARK-broken`,
	}
	p, err := NewProducer([]string{d.Kafka}, topics.Names{}, CRC32)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, who := range [][2]string{{"sms", "+8613800138000"}, {"sms", "+15005550001"}, {"sms", "+15005550002"}, {"email", "ann@example.com"}, {"push", "token-1"}, {"sms", "nobody"}} {
		for _, text := range texts {
			body := fmt.Sprintf(`{"channel":%q,"to":%q,"class":"class%d",%s}`, who[0], who[1], n, text)
			if strings.HasSuffix(text, "broken") {
				body = strings.TrimSuffix(body, "}")
			}
			n++
			_, _ = post(t, "http://"+d.HTTP+"/v1/messages", body)
			p.Record(t.Context(), &kgo.Record{Key: []byte(who[1]), Value: []byte(body)})
		}
	}
	if _, err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Every record of requests has come to an end or a wait.
	const ends = "SELECT uniqExact(message_id) FROM weir.messages WHERE ended_at IS NOT NULL OR status = 'retrying'"
	if !poll(t, 30*time.Second, func() bool { return d.sql(t, "SELECT "+fmt.Sprint(n)+" <= ("+ends+")") == "1" }) {
		t.Fatalf("%s of at least %d came to something: %s", d.sql(t, ends), n, d.sql(t, "SELECT status, count() FROM weir.messages GROUP BY ALL"))
	}
	t.Logf("DEV %s", strings.ReplaceAll(d.sql(t, "SELECT status, reason, count() FROM weir.messages GROUP BY ALL ORDER BY ALL"), "\n", "; "))
	resp, err := http.Get("http://" + d.HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	kept := everything(t, d)
	// The search must be able to find something.
	for where, c := range map[string][2]string{"status_events": {kept["status_events"], "+8613800138000"}, "metrics": {string(metrics), "weir_"}, "logs": {d.Output(), "weir"}} {
		if !strings.Contains(c[0], c[1]) {
			t.Errorf("%s do not hold %q: nothing was searched", where, c[1])
		}
	}
	kept["metrics"], kept["logs"] = string(metrics), d.Output()
	for where, text := range kept {
		if i := strings.Index(text, "MARK-"); i >= 0 {
			t.Errorf("%s: %.200q", where, text[max(0, i-100):])
		}
	}
	if strings.Contains(d.Output(), "13800138000") || strings.Contains(d.Output(), "ann@example.com") {
		t.Error("the logs name a recipient")
	}
}
