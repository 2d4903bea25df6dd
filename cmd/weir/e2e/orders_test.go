package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/child/childtest"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/callback"
	"github.com/weirhq/weir/processor/input"
	"github.com/weirhq/weir/processor/lane"
	"github.com/weirhq/weir/processor/receipt"
	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const ordersPolicy = `
inputs:
  - {topic: %s, tenant: default}
limits:
  - {name: each, per: [recipient], allow: [5/1h]}
  - {name: all, per: [tenant], allow: [1000/1h]}
providers:
  - {name: callee, type: http, channels: [sms], settings: {url: "%s", receipt_secret: "${RECEIPTS}"}}
tenants:
  - {name: default, default_region: CN}
`

// orders are those in which the roles of a new installation may begin, each in a process
// of its own and long before the next.
var orders = map[string][]string{
	"admission last":  {"ingest", "inputs", "receipts", "delay", "callbacks", "alerts", "sink", "lanes", "admission"},
	"admission first": {"admission", "lanes", "sink", "alerts", "callbacks", "delay", "receipts", "inputs", "ingest"},
	"sink first":      {"sink", "inputs", "lanes", "callbacks", "admission", "ingest", "alerts", "receipts", "delay"},
	"callbacks first": {"callbacks", "alerts", "ingest", "receipts", "sink", "inputs", "admission", "delay", "lanes"},
	"lanes first":     {"lanes", "delay", "inputs", "admission", "receipts", "ingest", "sink", "callbacks", "alerts"},
	"receipts first":  {"receipts", "ingest", "lanes", "admission", "inputs", "delay", "alerts", "sink", "callbacks"},
}

// TestOrders: whichever role begins, and whatever others have written before it ran for
// the first time, each comes up and stays, all is done with, and the audit proves it. The
// first and the last for admission are tried always, all with WEIR_CHAOS=1.
func TestOrders(t *testing.T) {
	t.Parallel()
	for name, order := range orders {
		if strings.HasPrefix(name, "admission") || os.Getenv("WEIR_CHAOS") != "" {
			t.Run(name, func(t *testing.T) { beginsIn(t, []string{embedded(t).Addr()}, order) })
		}
	}
}

func beginsIn(t *testing.T, brokers []string, order []string) {
	callee := newCallee(t)
	click := enginetest.Start(t, engine.Options{Log: os.Stderr})
	bound := "sends-" + uuid.NewString()
	s := newSite(t, brokers, "orders", fmt.Sprintf(ordersPolicy, bound, callee.URL))
	s.env = []string{"RECEIPTS=" + receiptSecret}
	x := &tamper{site: s, cl: s.client()}
	x.adm = kadm.NewClient(x.cl)
	addr := childtest.Addr(t)
	web := &http.Client{Timeout: patience}
	call := func(method, path, body string, codes ...int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		said, _ := io.ReadAll(resp.Body)
		for _, code := range codes {
			if resp.StatusCode == code {
				return
			}
		}
		t.Errorf("%s %s: %d, want one of %v\n%s", method, path, resp.StatusCode, codes, said)
	}
	serves := func() bool {
		resp, err := web.Get("http://" + addr + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	// What each role has to do with as soon as it runs, of recipients in all partitions.
	traffic := func(step int, has map[string]bool) {
		t.Helper()
		var recs []*kgo.Record
		for i := range 2 * partitions {
			to := fmt.Sprintf("+86138%04d%04d", step, i)
			id := uuid.NewString()
			for _, v := range []string{
				`{"action":"suppress","channel":"sms","to":"%[1]s"}`, `{"action":"unsuppress","channel":"sms","to":"%[1]s"}`,
				`{"action":"cancel","channel":"sms","id":"%[2]s","to":"%[1]s"}`,
				`{"action":"record","channel":"sms","to":"%[1]s"}`,
				`{"channel":"sms","to":"%[1]s","body":"x","id":"%[2]s"}`, `{"channel":"sms","to":"%[1]s","body":"x"}`, `{"channel":"sms","to":"%[1]s"`,
			} {
				v := strings.NewReplacer("%[1]s", to, "%[2]s", id).Replace(v)
				recs = append(recs, &kgo.Record{Topic: s.names.Requests(), Key: []byte(to), Value: []byte(v)})
				if !strings.Contains(v, "action") {
					recs = append(recs, &kgo.Record{Topic: bound, Key: []byte(to), Value: []byte(v)})
				}
			}
			if has["ingest"] {
				call("POST", "/v1/messages", fmt.Sprintf(`{"channel":"sms","to":"%s","body":"x"}`, to), 202)
				call("POST", "/v1/receipts/callee?token="+receiptSecret, fmt.Sprintf(`[{"id":"%s","to":"%s","status":"delivered"},{"id":"%s","to":"%s","status":"undelivered"}]`, id, to, uuid.NewString(), to), 204)
			}
		}
		if err := x.cl.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if has["ingest"] && step%3 == 0 { // it waits where nobody decides
			call("GET", "/v1/quota?channel=sms&to=%2B861380000"+fmt.Sprintf("%04d", step), "", 200, 503, 504)
		}
		if has["inputs"] {
			if out, err := s.try("dlq", "redrive", "--all", "--rate", "1000/s"); err != nil {
				t.Errorf("redrive: %v\n%s", err, out)
			}
		}
	}
	var workers []*Process
	has := make(map[string]bool)
	settled := func(what string) {
		t.Helper()
		left := ""
		if !poll(t, patience, func() bool { left = x.unread(bound, has); return left == "" }) {
			t.Errorf("%s: not all is read by those who run:\n%s", what, left)
		}
		for _, w := range workers {
			select {
			case <-w.Done():
				t.Fatalf("%s: %s has ended: %v\n%s", what, order[len(workers)-1], w.Err(), w.Tail(5))
			default:
			}
		}
	}
	traffic(0, has)
	for i, role := range order {
		workers = append(workers, s.run(i, role, "--http-listen", addr, "--clickhouse-url", "http://"+click.Addr()))
		has[role] = true
		if role == "ingest" && !poll(t, patience, serves) {
			t.Fatalf("%s is not ready\n%s", role, workers[i].Tail(5))
		}
		settled("with " + role)
		traffic(i+1, has)
		settled("with traffic after " + role)
	}
	// The same once more from where they stand.
	s.stop(workers...)
	workers = nil
	for i, role := range order {
		workers = append(workers, s.run(i, role, "--http-listen", addr, "--clickhouse-url", "http://"+click.Addr()))
	}
	if !poll(t, patience, serves) {
		t.Fatal("ingest is not ready again")
	}
	traffic(len(order)+1, has)
	settled("all again")
	if !poll(t, patience, func() bool { return x.open() == 0 }) {
		t.Errorf("%d messages have no end", x.open())
	}
	settled("at the end")
	s.stop(workers...)
	out, err := s.try("audit")
	if err != nil || !strings.Contains(out, "PROVEN: ") {
		t.Errorf("the audit says %v\n%s", err, out)
	}
	if out, err := s.try("ledger", "check"); err != nil {
		t.Errorf("the check of the ledger says %v\n%s", err, out)
	}
	for _, w := range workers {
		if log := w.Output(); bytes.Contains([]byte(log), []byte("level=ERROR")) {
			t.Errorf("%s: %s", w.Name, log)
		}
	}
}

// unread names what those who run have yet to read. Alerts are none of them: they say how
// far they are now and then.
// Delays are not asked: receipts of messages that ClickHouse does not have wait there for days.
func (x *tamper) unread(bound string, has map[string]bool) string {
	x.t.Helper()
	n := x.names
	reads := make(map[string][]string) // by group
	for role, of := range map[string]map[string][]string{
		"admission": {admission.Group(n): {n.Requests(), n.Readmit()}},
		"receipts":  {receipt.Group(n): {n.Receipts()}},
		"sink":      {sink.Group(n): {n.Status()}},
		"callbacks": {callback.Group(n): {n.Status(), n.Callbacks()}},
		"inputs":    {input.Group(n): {bound}},
		"lanes":     {lane.Group(n, "callee"): nil},
	} {
		for group, names := range of {
			if !has[role] {
				continue
			}
			switch role {
			case "lanes":
				for _, q := range topics.Queues {
					names = append(names, n.Dispatch("callee", q))
				}
			}
			reads[group] = names
		}
	}
	var out []string
	for group, names := range reads {
		at, err := x.adm.FetchOffsets(x.t.Context(), group)
		if err != nil {
			return group + ": " + err.Error()
		}
		ends, err := x.adm.ListEndOffsets(x.t.Context(), names...)
		if err != nil {
			x.t.Fatal(err)
		}
		ends.Each(func(end kadm.ListedOffset) {
			o, ok := at.Lookup(end.Topic, end.Partition)
			if end.Offset > 0 && (!ok || o.At < end.Offset) {
				out = append(out, fmt.Sprintf("%s: %s/%d at %d of %d", group, end.Topic, end.Partition, o.At, end.Offset))
			}
		})
	}
	return strings.Join(out, "\n")
}

// open counts the messages that have no end.
func (x *tamper) open() (n int) {
	at := make(map[string]schemas.Status)
	for _, r := range x.read(x.names.Status()) {
		e, err := schemas.DecodeEvent(r.Value)
		if err != nil || e.Kind != schemas.KindStatus || e.Status == schemas.StatusDelivered || e.Status == schemas.StatusUndelivered {
			continue
		}
		at[e.MessageID+e.To] = e.Status
	}
	for _, st := range at {
		switch st {
		case schemas.StatusQueued, schemas.StatusSending, schemas.StatusRetrying, schemas.StatusScheduled, schemas.StatusDeferred:
			n++
		default: // an end
		}
	}
	return n
}
