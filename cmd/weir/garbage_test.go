package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const garbagePolicy = `
limits:
  - {name: two, match: {class: notice}, per: [recipient], allow: [100/60s]}
  - {name: all, per: [tenant], allow: [100000/60s]}
classes:
  - {name: notice, retries: [1s]}
providers:
  - {name: sim, type: simulated, channels: [sms], settings: {latency: 1ms}}
tenants:
  - {name: acme, default_region: CN, callback: {url: "https://127.0.0.1:1/hook", secret: "${HOOK}"}}
inputs:
  - {topic: acme.sends, tenant: acme}
`

// garbage is every kind of record that no stage of Weir writes to a topic: nothing,
// noise, other shapes, headers that cannot be read or have huge numbers, and another
// topic's records. genuine are records of all topics.
func garbage(topic string, genuine []*kgo.Record) (out []*kgo.Record) {
	header := func(kv ...string) (hs []kgo.RecordHeader) {
		for i := 0; i < len(kv); i += 2 {
			hs = append(hs, kgo.RecordHeader{Key: kv[i], Value: []byte(kv[i+1])})
		}
		return hs
	}
	const huge = "99999999999999999999999999"
	value := []byte(`{"channel":"sms","to":"+8613800000000","class":"notice","body":"forged"}`)
	out = []*kgo.Record{
		{},                 // empty
		{Key: []byte("k")}, // a tombstone
		{Key: []byte(""), Value: []byte("")},
		{Value: []byte("\x00\xff\xfe random \x80")},
		{Key: []byte("k"), Value: []byte("[]")},
		{Key: []byte("k"), Value: []byte("null")},
		{Key: []byte("k"), Value: []byte(`{"some":"thing","kind":"","at":"9999-12-31T23:59:59Z"}`)},
		{Key: []byte("k"), Value: []byte(`{"version":` + huge + `,"revision":` + huge + `,"kind":7,"at":-1}`)},
		{Key: bytes.Repeat([]byte("k"), 5000), Value: bytes.Repeat([]byte("v"), 300<<10)},
		{Value: value, Headers: header(schemas.HeaderReason, schemas.ReadmitForward, schemas.HeaderKey, "+8613800000000", schemas.HeaderID, "x")},
		{Value: value, Headers: header(schemas.HeaderPlace, "[{", schemas.HeaderID, "x")},
		{Value: value, Headers: header(schemas.HeaderAttempt, huge)},
		{Value: value, Headers: header(schemas.HeaderReturn, "nowhere", schemas.HeaderKey, "k")},
		{Value: value, Headers: header(schemas.HeaderDueAt, "9999-12-31T23:59:59Z", schemas.HeaderReturn, "weir.readmit")},
		{Value: value, Headers: header(schemas.HeaderCallback, "{", schemas.HeaderTenant, "acme")},
		{Value: value, Headers: header(schemas.HeaderRound, "{]", schemas.HeaderReason, schemas.ReadmitCharge)},
	}
	for _, reason := range []string{schemas.ReadmitDue, schemas.ReadmitRetry, schemas.ReadmitStale, schemas.ReadmitReroute, schemas.ReadmitGiveBack, schemas.ReadmitUnwind,
		schemas.ReadmitCharge, schemas.ReadmitCharged, schemas.ReadmitQuota, schemas.ReadmitRedrive, "made up"} {
		out = append(out, &kgo.Record{Key: []byte("k"), Headers: header(schemas.HeaderReason, reason, schemas.HeaderKey, "+8613800000000", schemas.HeaderID, "x", schemas.HeaderPriority, huge)})
	}
	for _, r := range genuine {
		if r.Topic != topic {
			out = append(out, &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers})
		}
	}
	return out
}

// TestGarbageInEveryTopic writes every kind of garbage to every partition of every
// topic, while messages are sent and while nothing runs. No stage may stop at it,
// and every message must be sent. Where a stage refuses to start, its error must name
// the command that resolves it; after that command it starts.
func TestGarbageInEveryTopic(t *testing.T) {
	const parts = 2
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	dir := t.TempDir()
	policyFile := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policyFile, []byte(garbagePolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	base := []string{"--kafka-brokers", c.ListenAddrs()[0], "--kafka-partitions", fmt.Sprint(parts), "--kafka-replication", "1"}
	env := func(name string) string {
		if name == "HOOK" {
			return "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
		}
		return ""
	}
	t.Setenv("HOOK", env("HOOK"))
	weir := func(args ...string) (int, string) {
		t.Helper()
		var out bytes.Buffer
		code := run(t.Context(), append(args, base...), env, &out, &out)
		return code, out.String()
	}
	for _, args := range [][]string{{"topics", "apply"}, {"apply", "-f", policyFile}} {
		if code, out := weir(args...); code != exitOK {
			t.Fatalf("weir %v: exit %d: %s", args, code, out)
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytesFn(topics.Names{}.BatchBytes))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	names, read := topics.Names{}, stream.ReadConfig{Brokers: c.ListenAddrs()}
	all, err := kadm.NewClient(cl).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	records := func(topic string) (out []*kgo.Record) {
		t.Helper()
		var ranges []stream.Range
		for p := range all[topic].Partitions {
			ranges = append(ranges, stream.Range{Partition: stream.Partition{Topic: topic, Partition: p}})
		}
		if err := stream.Read(t.Context(), read, ranges, func(r *kgo.Record) error {
			out = append(out, r)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}

	// The whole program, in this process.
	type process struct {
		stop func() (int, string)
		dead chan struct{}
		log  *logBuffer
	}
	start := func() process {
		ctx, cancel := context.WithCancel(t.Context())
		log := new(logBuffer)
		code, dead := 0, make(chan struct{})
		go func() {
			defer close(dead)
			args := append([]string{"run", "--roles", "ingest,inputs,admission,lanes,delay,receipts,callbacks,alerts", "--http-listen", "127.0.0.1:0", "--insecure-no-auth", "--slot", "0", "--shutdown-grace", "5s"}, base...)
			code = run(ctx, args, env, log, log)
		}()
		return process{dead: dead, log: log, stop: func() (int, string) { cancel(); <-dead; return code, log.String() }}
	}
	sent := 0
	send := func(p process, n int) {
		t.Helper()
		want := make(map[string]bool)
		for range n {
			sent++
			id := fmt.Sprintf("00000000-0000-4000-8000-%012d", sent)
			to := fmt.Sprintf("+861380000%04d", sent)
			topic := names.Requests()
			if sent%3 == 0 {
				topic = "acme.sends"
			}
			want[id] = true
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: int32(sent % parts), Key: []byte(to),
				Value: fmt.Appendf(nil, `{"id":%q,"channel":"sms","to":%q,"class":"notice","body":"hello"}`, id, to)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		for end := time.Now().Add(time.Minute); len(want) > 0; time.Sleep(20 * time.Millisecond) {
			for _, r := range records(names.Status()) {
				if e, err := schemas.DecodeEvent(r.Value); err == nil && e.Status == schemas.StatusSent {
					delete(want, e.MessageID)
				}
			}
			select {
			case <-p.dead:
				_, log := p.stop()
				t.Fatalf("it ended while messages were sent: %s", log)
			default:
			}
			if time.Now().After(end) {
				_, log := p.stop()
				t.Fatalf("%d messages are not sent: %v\n%s", len(want), slices.Sorted(maps.Keys(want))[0], log)
			}
		}
	}

	p := start()
	send(p, 6)
	var genuine []*kgo.Record
	for _, topic := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(topic, "weir.") {
			if rs := records(topic); len(rs) > 0 && topic != names.Config() {
				genuine = append(genuine, rs[len(rs)-1])
			}
		}
	}
	litter := func() {
		t.Helper()
		var mu sync.Mutex
		var failed error
		for topic, is := range all {
			if strings.HasPrefix(topic, "__") {
				continue
			}
			for part := range is.Partitions {
				for _, r := range garbage(topic, genuine) {
					r.Topic, r.Partition = topic, part
					cl.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
						mu.Lock()
						defer mu.Unlock()
						if failed == nil {
							failed = err
						}
					})
				}
			}
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if failed != nil {
			t.Fatal(failed)
		}
	}
	litter()
	send(p, 12)
	if code, log := p.stop(); code != exitOK {
		t.Fatalf("exit %d while garbage came: %s", code, log)
	}

	// All state is read back with the garbage in it.
	litter()
	command := regexp.MustCompile(`weir skip (\S+) --reason`)
	for n := 0; ; n++ {
		p = start()
		for alive, restored := true, false; alive && !restored; time.Sleep(20 * time.Millisecond) {
			log := p.log.String()
			restored = strings.Contains(log, "partitions restored") && strings.Contains(log, "lanes restored") && strings.Contains(log, "callbacks restored")
			select {
			case <-p.dead:
				alive = false
			default:
			}
		}
		select {
		case <-p.dead:
			_, log := p.stop()
			if strings.Contains(log, "weir ledger repair") && n <= 20 {
				if code, out := weir("ledger", "repair", "--forget"); code != exitOK {
					t.Fatalf("exit %d: %s", code, out)
				}
				t.Log("repaired the ledger")
				continue
			}
			found := command.FindStringSubmatch(log)
			if found == nil || n > 20 {
				t.Fatalf("it does not start, and names no command, or too many: %s", log)
			}
			if code, out := weir("skip", found[1], "--reason", "garbage"); code != exitUsage || !strings.Contains(out, "Without it: ") {
				t.Fatalf("without --yes: exit %d: %s", code, out)
			}
			if code, out := weir("skip", found[1], "--reason", "garbage", "--yes"); code != exitOK {
				t.Fatalf("exit %d: %s", code, out)
			}
			t.Logf("skipped %s", found[1])
			continue
		default:
		}
		break
	}
	send(p, 12)
	if code, log := p.stop(); code != exitOK {
		t.Fatalf("exit %d with garbage in the state: %s", code, log)
	}
	reasons := make(map[string]int)
	for _, r := range records(names.DLQ()) {
		for _, h := range r.Headers {
			if h.Key == schemas.HeaderReason {
				reasons[string(h.Value)]++
			}
		}
	}
	if reasons[schemas.ReasonForeignRecord] == 0 || reasons[schemas.ReasonMisroutedRecord] == 0 {
		t.Errorf("dead letters by reason: %v", reasons)
	}
	t.Logf("dead letters by reason: %v", reasons)
}

// logBuffer is a log that is read when its writer has ended.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
