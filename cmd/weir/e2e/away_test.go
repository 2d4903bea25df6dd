package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/child/childtest"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
	"github.com/weirhq/weir/schemas"
)

// sendMany produces n good requests to different recipients.
func (s *site) sendMany(prefix string, n int) []Offset {
	s.t.Helper()
	p, err := NewProducer(s.brokers, s.names, Murmur2)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range n {
		q := schemas.Request{Channel: schemas.ChannelSMS, To: fmt.Sprintf("%s%04d", prefix, i), Class: "verify", Body: "code"}
		p.Send(s.t.Context(), &q, q.To)
	}
	at, err := p.Close(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return at
}

// ClickHouse goes away and comes back: messages go on, and every status
// arrives once.
func TestClickHouseAway(t *testing.T) {
	t.Parallel()
	lib := enginetest.Library(t)
	dir, addr := t.TempDir(), childtest.Addr(t)
	start := func() *child.Process {
		t.Helper()
		p, err := engine.Start(t.Context(), engine.Options{Dir: dir, Addr: addr, LibPath: lib, Log: os.Stderr})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	stop := func(p *child.Process) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := p.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
	click := start()
	s := newSite(t, []string{embedded(t).Addr()}, "away", badInputPolicy)
	trail := s.follow(nil)
	worker := s.run(0, "admission,lanes,delay,sink", "--clickhouse-url", "http://"+addr)
	rows := func() string {
		return sql(t, "http://"+addr, "SELECT count(), uniqExact(message_id), uniqExact(status_partition, status_offset) FROM weir.status_events")
	}
	requests := s.sendMany("+861373000", 20)
	s.settle(trail, requests, 30*time.Second)
	// The sink makes the tables while the messages are on their way.
	if !poll(t, 30*time.Second, func() bool { return sql(t, "http://"+addr, "EXISTS TABLE weir.status_events") == "1" }) {
		t.Fatal("the sink made no tables")
	}
	const each = 3 // queued, sending, sent
	first := fmt.Sprintf("%d\t%d\t%d", 20*each, 20, 20*each)
	if !poll(t, 15*time.Second, func() bool { return rows() == first }) {
		t.Fatalf("rows %q, want %q", rows(), first)
	}

	stop(click)
	more := s.sendMany("+861374000", 200)
	s.settle(trail, more, 30*time.Second) // nothing waits for ClickHouse
	select {
	case <-worker.Done():
		t.Fatalf("the worker ended with ClickHouse: %v\n%s", worker.Err(), worker.Tail(10))
	default:
	}
	click = start()
	defer func() { stop(click) }()
	all := fmt.Sprintf("%d\t%d\t%d", 220*each, 220, 220*each)
	began := time.Now()
	if !poll(t, 40*time.Second, func() bool { return rows() == all }) {
		t.Errorf("rows %q, want %q", rows(), all)
	}
	t.Logf("AWAY ClickHouse is back: all %s rows after %.1f s", strings.Fields(all)[0], time.Since(began).Seconds())
	s.stop(worker)
}

// Every role starts while ClickHouse is not there, and goes on by itself once it is:
// sends are taken, reads say that they cannot, receipts and the sink wait.
func TestClickHouseLater(t *testing.T) {
	t.Parallel()
	lib, addr, http1 := enginetest.Library(t), childtest.Addr(t), childtest.Addr(t)
	callee := newCallee(t)
	s := newSite(t, []string{embedded(t).Addr()}, "later", fmt.Sprintf(receiptsPolicy, callee.URL))
	s.env = []string{"RECEIPTS=" + receiptSecret}
	worker := s.run(0, "ingest,admission,lanes,delay,receipts,sink", "--http-listen", http1, "--clickhouse-url", "http://"+addr)
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + http1 + path)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	is := func(path string, code int, has string) {
		t.Helper()
		said, text := 0, ""
		if !poll(t, patience, func() bool { said, text = get(path); return said == code && strings.Contains(text, has) }) {
			t.Fatalf("%s: %d %s, want %d with %s\n%s", path, said, text, code, has, worker.Tail(10))
		}
	}
	is("/readyz", http.StatusOK, "")
	const to, unknown = "+8613800000077", "/v1/messages/0199b2a0-5c00-7000-8000-0123456789ab"
	resp, b := post(t, "http://"+http1+"/v1/messages", `{"channel":"sms","to":"`+to+`","body":"x"}`)
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("%d %s", resp.StatusCode, b)
	}
	var sent struct{ ID string }
	if err := json.Unmarshal(b, &sent); err != nil {
		t.Fatal(err)
	}
	is("/v1/messages/"+sent.ID, http.StatusOK, `"sent"`)
	is(unknown, http.StatusServiceUnavailable, "history_unavailable")
	is("/v1/stats", http.StatusServiceUnavailable, "history_unavailable")
	if resp, b := post(t, "http://"+http1+"/v1/receipts/p?token="+receiptSecret, `{"id":"`+sent.ID+`","to":"`+to+`","status":"delivered"}`); resp.StatusCode != http.StatusNoContent {
		t.Fatalf("a receipt: %d %s", resp.StatusCode, b)
	}
	is("/metrics", http.StatusOK, "weir_sink_ready 0")
	is("/metrics", http.StatusOK, `weir_receipts_total{outcome="store_away",provider="p"} 1`)
	select {
	case <-worker.Done():
		t.Fatalf("the worker ended without ClickHouse: %v\n%s", worker.Err(), worker.Tail(10))
	default:
	}

	click, err := engine.Start(t.Context(), engine.Options{Dir: t.TempDir(), Addr: addr, LibPath: lib, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	defer click.Kill()
	is("/metrics", http.StatusOK, "weir_sink_ready 1")
	is(unknown, http.StatusNotFound, "")
	is("/v1/stats", http.StatusOK, "")
	is("/v1/messages/"+sent.ID, http.StatusOK, `"delivered"`)
	s.stop(worker)

	// What can never be right ends at once.
	if out, err := s.try("run", "--roles", "receipts", "--clickhouse-url", "127.0.0.1:8123"); err == nil || !strings.Contains(out, "ClickHouse URL") {
		t.Errorf("a URL that is none: %v\n%s", err, out)
	}
}

// The broker stops answering: 503 with Retry-After, and 202 again when it is
// back. What was answered 202 ends.
func TestBrokerAway(t *testing.T) {
	t.Parallel()
	broker := embedded(t)
	s := newSite(t, []string{broker.Addr()}, "noanswer", badInputPolicy)
	trail := s.follow(nil)
	addr := childtest.Addr(t)
	worker := s.run(0, "ingest,admission,lanes,delay", "--http-listen", addr)
	body := func(i int) string { return fmt.Sprintf(`{"channel":"sms","to":"+861375%07d","body":"x"}`, i) }
	url := "http://" + addr + "/v1/messages"
	var resp *http.Response
	var b []byte
	if !poll(t, patience, func() bool { resp, b = post(t, url, body(1)); return resp.StatusCode == 202 }) { // it may have only just begun
		t.Fatalf("%d %s", resp.StatusCode, b)
	}

	process, err := os.FindProcess(broker.PID())
	if err == nil {
		err = process.Signal(syscall.SIGSTOP)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer process.Signal(syscall.SIGCONT) //nolint:errcheck // it may go on already
	began := time.Now()
	resp, b = post(t, url, body(2))
	took := time.Since(began)
	var problem struct{ Code string }
	_ = json.Unmarshal(b, &problem) // judged below
	wait, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	t.Logf("AWAY broker stopped: %s after %.1f s, Retry-After %d, %s", resp.Status, took.Seconds(), wait, problem.Code)
	if resp.StatusCode != http.StatusServiceUnavailable || wait < 1 || problem.Code != "kafka_unavailable" {
		t.Errorf("%d %s Retry-After %q", resp.StatusCode, b, resp.Header.Get("Retry-After"))
	}
	if took > patience {
		t.Errorf("answered after %v", took)
	}

	if err := process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	if !poll(t, 40*time.Second, func() bool { resp, b = post(t, url, body(3)); return resp.StatusCode == 202 }) {
		t.Errorf("after the broker came back: %d %s", resp.StatusCode, b)
	}
	t.Logf("AWAY broker back: %s after %.1f s", resp.Status, time.Since(began).Seconds())
	requests, err := Committed(t.Context(), s.brokers, s.names.Requests())
	if err != nil {
		t.Fatal(err)
	}
	s.settle(trail, requests, 60*time.Second)
	s.stop(worker)
	_, report := s.judge(requests, nil)
	if !report.OK() {
		t.Error(report)
	}
}
