package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/child/childtest"
	"github.com/weirhq/weir/schemas"
)

const badInputPolicy = `
limits:
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [1/60s]}
providers:
  - {name: sim, type: simulated, channels: [sms, email], settings: {latency: 1ms-5ms}}
templates:
  - {name: login-code, channel: sms, body: "Your code is {{code}}"}
tenants:
  - {name: default, default_region: CN}
`

// badInput writes what should not be there, between good requests, through
// Kafka and over HTTP. Each gets its status or its problem, and nothing else is
// disturbed.
func badInput(t *testing.T, brokers []string) {
	s := newSite(t, brokers, "bad", badInputPolicy)
	seen := newLives()
	trail := s.follow(seen.add)
	addr := childtest.Addr(t)
	worker := s.run(0, "ingest,admission,lanes,delay", "--http-listen", addr)

	kafka := []struct {
		name   string
		record kgo.Record
		status schemas.Status
		reason string
	}{
		{"not JSON", kgo.Record{Value: []byte("hello")}, "rejected", ""},
		{"no object", kgo.Record{Value: []byte(`["sms"]`)}, "rejected", ""},
		{"nothing", kgo.Record{Value: nil}, "rejected", ""},
		{"without to", kgo.Record{Value: []byte(`{"channel":"sms","body":"x"}`)}, "rejected", ""},
		{"without channel", kgo.Record{Value: []byte(`{"to":"+8613700000001","body":"x"}`)}, "rejected", ""},
		{"impossible number", kgo.Record{Value: []byte(`{"channel":"sms","to":"+86137","body":"x"}`)}, "rejected", ""},
		{"300 KiB", kgo.Record{Value: []byte(`{"channel":"sms","to":"+8613700000002","body":"` + strings.Repeat("x", 300<<10) + `"}`)}, "rejected", ""},
		{"send_at in 1970", kgo.Record{Value: []byte(`{"channel":"sms","to":"+8613700000003","body":"x","send_at":"1970-01-01T00:00:00Z"}`)}, "rejected", ""},
		{"template without its variable", kgo.Record{Value: []byte(`{"channel":"sms","to":"+8613700000004","template":"login-code"}`)}, "rejected", ""},
		{"unknown template", kgo.Record{Value: []byte(`{"channel":"sms","to":"+8613700000005","template":"nowhere"}`)}, "rejected", ""},
		{"unknown provider", kgo.Record{Value: []byte(`{"channel":"sms","to":"+8613700000006","body":"x","provider":"nowhere"}`)}, "rejected", ""},
		{"no provider of the channel", kgo.Record{Value: []byte(`{"channel":"voice","to":"+8613700000007","body":"x"}`)}, "rejected", ""},
		{"broken Schema Registry prefix", kgo.Record{Value: []byte{0, 0, 0}}, "rejected", ""},
		{"Schema Registry prefix", kgo.Record{Value: append([]byte{0, 0, 0, 0, 7}, `{"channel":"sms","to":"+8613700000008","body":"x"}`...)}, "sent", ""},
		{"undeclared class", kgo.Record{Value: []byte(`{"channel":"sms","to":"+8613700000009","body":"x","class":"whatever"}`)}, "sent", ""},
		{"null key", kgo.Record{Value: []byte(`{"channel":"sms","to":"+8613700000010","body":"x"}`)}, "sent", ""},
		{"unknown field", kgo.Record{Value: []byte(`{"channel":"sms","to":"+8613700000011","body":"x","colour":"red"}`)}, "sent", ""},
		{"forged headers", kgo.Record{Value: []byte(`{"channel":"sms","to":"+8613700000012","body":"x"}`), Headers: []kgo.RecordHeader{
			{Key: "weir-key", Value: []byte("+8613799999999")}, {Key: "weir-attempt", Value: []byte("many")}, {Key: "Weir-Place", Value: []byte("[")}}}, "sent", ""},
	}
	p, err := NewProducer(brokers, s.names, CRC32)
	if err != nil {
		t.Fatal(err)
	}
	good := 0
	for i := range kafka {
		p.Record(t.Context(), &kafka[i].record)
		q := schemas.Request{Channel: schemas.ChannelSMS, To: fmt.Sprintf("+86137100000%02d", good), Class: "verify", Body: "good"}
		p.Send(t.Context(), &q, q.To)
		good++
	}
	requests, err := p.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.settle(trail, requests, 30*time.Second)
	for _, c := range kafka {
		var end *schemas.Event
		_ = trail.Until(t.Context(), func(o *Oracle) bool {
			id, _, _ := o.Ended(Offset{c.record.Partition, c.record.Offset})
			for _, e := range seen.of(id) {
				if e.Status.End() {
					end = e
				}
			}
			return true
		})
		switch {
		case end == nil:
			t.Errorf("Kafka, %s: no end", c.name)
		case end.Status != c.status || end.Status == schemas.StatusRejected && (end.Reason == "" || end.Error == ""):
			t.Errorf("Kafka, %s: %s, reason %q, error %q; want %s", c.name, end.Status, end.Reason, end.Error, c.status)
		default:
			t.Logf("BAD INPUT Kafka, %s: %s %s %s", c.name, end.Status, end.Reason, end.Error)
		}
	}

	// Over HTTP.
	url := "http://" + addr + "/v1/messages"
	ok := `{"channel":"sms","to":"+8613720000000","body":"x"}`
	for _, c := range []struct {
		name, body string
		code       int
		pointer    string // of the error that names the field
	}{
		{"not JSON", "hello", 400, ""},
		{"no object", `["sms"]`, 400, ""},
		{"nothing", "", 400, ""},
		{"unknown field", `{"channel":"sms","to":"+8613720000001","body":"x","colour":"red"}`, 400, "/colour"},
		{"without to", `{"channel":"sms","body":"x"}`, 400, "/to"},
		{"without channel", `{"to":"+8613720000001","body":"x"}`, 400, "/channel"},
		{"impossible number", `{"channel":"sms","to":"+86137","body":"x"}`, 400, "/to"},
		{"300 KiB", `{"channel":"sms","to":"+8613720000001","body":"` + strings.Repeat("x", 300<<10) + `"}`, 413, ""},
		{"send_at in 1970", `{"channel":"sms","to":"+8613720000001","body":"x","send_at":"1970-01-01T00:00:00Z"}`, 400, "/send_at"},
		{"a good one", ok, 202, ""},
	} {
		resp, body := post(t, url, c.body)
		var problem struct {
			Type, Title, Code, Detail string
			Status                    int
			Errors                    []struct{ Pointer, Code, Detail string }
		}
		if err := json.Unmarshal(body, &problem); err != nil && c.code != 202 {
			t.Errorf("HTTP, %s: %v: %s", c.name, err, body)
		}
		switch {
		case resp.StatusCode != c.code:
			t.Errorf("HTTP, %s: %d, want %d: %s", c.name, resp.StatusCode, c.code, body)
		case c.code == 202:
			if resp.Header.Get("Location") == "" {
				t.Errorf("HTTP, %s: no Location", c.name)
			}
			good++
		case resp.Header.Get("Content-Type") != "application/problem+json" || problem.Code == "" || problem.Status != c.code:
			t.Errorf("HTTP, %s: no problem: %s %s", c.name, resp.Header.Get("Content-Type"), body)
		case c.pointer != "" && !slices.ContainsFunc(problem.Errors, func(e struct{ Pointer, Code, Detail string }) bool { return e.Pointer == c.pointer }):
			t.Errorf("HTTP, %s: no error names %s: %s", c.name, c.pointer, body)
		default:
			t.Logf("BAD INPUT HTTP, %s: %d %s %v", c.name, resp.StatusCode, problem.Code, problem.Errors)
		}
	}

	// A policy with a mistake changes nothing.
	file := filepath.Join(s.dir, "bad.yaml")
	if err := os.WriteFile(file, []byte("limits:\n  - {name: verify, per: [recipient], allow: [-1/60s]}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := s.try("apply", "-f", file)
	if err == nil || !strings.Contains(out, "bad.yaml:2:") {
		t.Errorf("a policy with negative n: %v: %s", err, out)
	}
	t.Logf("BAD INPUT policy with negative n: %s", strings.TrimSpace(out))
	if now, err := Revisions(t.Context(), brokers, s.names); err != nil || len(now) != len(s.policies) {
		t.Errorf("%d revisions, before it was %d, %v", len(now), len(s.policies), err)
	}

	// Nothing else was disturbed.
	sent := func() int {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		n := 0
		for _, events := range seen.events {
			for _, e := range events {
				if e.Status == schemas.StatusSent && (strings.HasPrefix(e.To, "+861371") || strings.HasPrefix(e.To, "+861372")) {
					n++
				}
			}
		}
		return n
	}
	if !poll(t, 20*time.Second, func() bool { return sent() == good }) {
		t.Errorf("%d of %d good messages were sent", sent(), good)
	}
	s.stop(worker)
	all, err := Committed(t.Context(), brokers, s.names.Requests())
	if err != nil {
		t.Fatal(err)
	}
	_, report := s.judge(all, nil)
	t.Logf("BAD INPUT %s", report)
	if !report.OK() {
		t.Error("the log does not hold what it promises")
	}
	for _, id := range slices.Sorted(maps.Keys(seen.events)) {
		if n := strings.Count(seen.statuses(id), "rejected"); n > 1 {
			t.Errorf("%s: %s", id, seen.statuses(id))
		}
	}
}

func post(t *testing.T, url, body string) (*http.Response, []byte) {
	t.Helper()
	var resp *http.Response
	var err error
	if !poll(t, 20*time.Second, func() bool {
		resp, err = http.Post(url, "application/json", bytes.NewReader([]byte(body)))
		return err == nil // the server may still be starting
	}) {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, b
}
