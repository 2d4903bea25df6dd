package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/child/childtest"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
	"github.com/weirhq/weir/schemas"
)

const receiptSecret = "0123456789abcdef0123456789abcdef"

const receiptsPolicy = `
providers:
  - {name: p, type: http, channels: [sms], concurrency: 256, timeout: 1m, settings: {url: "%s", receipt_secret: "${RECEIPTS}"}}
tenants:
  - {name: default, default_region: CN}
`

// TestReceipts is a thousand receipts; WEIR_CHAOS=1 makes it a hundred thousand.
func TestReceipts(t *testing.T) {
	t.Parallel()
	messages := 300
	if os.Getenv("WEIR_CHAOS") != "" {
		messages = 28_600
	}
	manyReceipts(t, []string{embedded(t).Addr()}, messages)
}

// manyReceipts has a provider tell of messages in any order, twice, half of it before
// the message is sent, and half of it by an id of its own alone. Then each message's
// state is the highest that was told, in ClickHouse and over HTTP; what fits no message
// changes nothing; and the audit proves the log.
func manyReceipts(t *testing.T, brokers []string, messages int) {
	callee := newCallee(t)
	click := enginetest.Start(t, engine.Options{Log: os.Stderr})
	db := "http://" + click.Addr()
	s := newSite(t, brokers, "receipts", fmt.Sprintf(receiptsPolicy, callee.URL))
	s.env = []string{"RECEIPTS=" + receiptSecret}
	addr := childtest.Addr(t)
	door := s.run(1, "ingest,receipts", "--http-listen", addr, "--clickhouse-url", db)
	ready := func() bool {
		resp, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	if !poll(t, 60*time.Second, ready) {
		t.Fatal("not ready")
	}

	// What the provider will tell, of each message: one or both, each once or twice.
	r := rand.New(rand.NewPCG(9, 9))
	want := make(map[string]string, messages) // by message
	var early, late []map[string]string
	var sends []*kgo.Record
	told := 0
	for i := range messages {
		id, to := uuid.NewString(), fmt.Sprintf("+86138%08d", i)
		key := []byte(to)
		sends = append(sends, &kgo.Record{Topic: s.names.Requests(), Partition: schemas.PartitionOf(to, partitions), Key: key,
			Value: fmt.Appendf(nil, `{"id":"%s","channel":"sms","to":"%s","body":"x"}`, id, to)})
		want[id] = "sent"
		for _, st := range [][]string{{"delivered"}, {"undelivered"}, {"undelivered", "delivered"}, {}}[min(r.IntN(7)/2, 3)] {
			one := map[string]string{"status": st}
			if r.IntN(2) == 0 {
				one["id"], one["to"] = id, to
			} else {
				one["provider_message_id"] = "callee-" + id
			}
			for range 1 + r.IntN(5) {
				if r.IntN(2) == 0 {
					early = append(early, one)
				} else {
					late = append(late, one)
				}
				told++
			}
			want[id] = st // the last of the list ranks highest
		}
	}
	// These change nothing: no such message, not this recipient's.
	forged := map[string]string{"id": "", "to": "+8613900000001", "status": "delivered", "suppress": "complaint"}
	for id := range want {
		forged["id"] = id
		break
	}
	late = append(late, forged, map[string]string{"id": uuid.NewString(), "to": "+8613900000000", "status": "delivered", "at": "2011-01-01T00:00:00Z"},
		map[string]string{"provider_message_id": "nobody-knows-it", "status": "delivered"})
	post := func(path string, body any) int {
		t.Helper()
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post("http://"+addr+path+"?token="+receiptSecret, "application/json", bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	tell := func(list []map[string]string) {
		t.Helper()
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for part := range slices.Chunk(list, 500) {
			code := 0
			if !poll(t, patience, func() bool { // what is answered 503 a provider tells again
				code = post("/v1/receipts/p", part)
				return code != http.StatusServiceUnavailable
			}) || code != http.StatusNoContent {
				t.Fatalf("receipts: %d\n%s", code, door.Tail(5))
			}
		}
	}
	began, recorded := time.Now(), s.counts(s.names.Status())
	tell(early)
	if n := recorded(); n != 0 {
		t.Fatalf("%d receipts amend messages that no one sent", n)
	}
	worker := s.run(0, "admission,lanes,delay,sink", "--clickhouse-url", db)
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), sends...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	tell(late)
	t.Logf("%d receipts of %d messages, %d of them early, told and sent in %v", told, messages, len(early), time.Since(began).Round(time.Millisecond))

	// What is not found tries again after five seconds, thirty, and five minutes: so long it
	// takes where ClickHouse has a message only after half a minute.
	const within = 8 * time.Minute
	wrong := func() (n int, first string) {
		have := make(map[string]string, messages)
		for line := range strings.Lines(sql(t, db, "SELECT message_id, status FROM weir.messages WHERE channel = 'sms' FORMAT TSVRaw")) {
			id, st, _ := strings.Cut(strings.TrimSpace(line), "\t")
			have[id] = st
		}
		for id, st := range want {
			if have[id] != st {
				if n++; n == 1 {
					first = fmt.Sprintf("%s is %q, want %s", id, have[id], st)
				}
			}
		}
		return n, first
	}
	if !poll(t, time.Minute, func() bool { return sql(t, db, "EXISTS TABLE weir.messages") == "1" }) {
		t.Fatal("the sink made no tables")
	}
	if !poll(t, within, func() bool { time.Sleep(200 * time.Millisecond); n, _ := wrong(); return n == 0 }) {
		n, first := wrong()
		t.Fatalf("%d messages of %d are wrong in ClickHouse after %v: %s", n, messages, within, first)
	}
	t.Logf("all are right in ClickHouse after %v", time.Since(began).Round(time.Millisecond))
	ids := make([]string, 0, messages)
	for id := range want {
		ids = append(ids, id)
	}
	var wg sync.WaitGroup
	for part := range slices.Chunk(ids[:min(len(ids), 4000)], 500) {
		wg.Go(func() {
			for _, id := range part {
				resp, err := http.Get("http://" + addr + "/v1/messages/" + id)
				if err != nil {
					t.Error(err)
					return
				}
				var m struct{ Status string }
				err = json.NewDecoder(resp.Body).Decode(&m)
				resp.Body.Close()
				if err != nil || m.Status != want[id] {
					t.Errorf("over HTTP %s is %q (%d), want %s, %v", id, m.Status, resp.StatusCode, want[id], err)
				}
			}
		})
	}
	wg.Wait()

	// Who answers STOP is left alone, until they say START.
	ask := func(text, want string) {
		t.Helper()
		if code := post("/v1/inbound/p", map[string]string{"from": "138 0000 0000", "text": text, "channel": "sms"}); code != http.StatusNoContent {
			t.Fatalf("inbound: %d", code)
		}
		if !poll(t, 20*time.Second, func() bool {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v1/messages", strings.NewReader(`{"channel":"sms","to":"+8613800000000","body":"x"}`))
			req.Header.Set("Prefer", "wait=5")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			return strings.Contains(string(b), want)
		}) {
			t.Errorf("after %s nobody is told %s", text, want)
		}
	}
	ask("退订!", "message_suppressed")
	ask("please don't start", "message_suppressed")
	ask("start", `"queued"`)

	s.stop(door, worker)
	out, err := s.try("audit")
	if err != nil || !strings.Contains(out, "PROVEN: ") || strings.Contains(out, "receipts for messages") {
		t.Errorf("the audit says %v\n%s", err, out)
	}
}
