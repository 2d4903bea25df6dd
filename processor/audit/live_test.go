package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/broker"
	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/processor/delay"
	"github.com/weirhq/weir/processor/lane"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/simulated"
	"github.com/weirhq/weir/processor/receipt"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const parts = 4

const firstPolicy = `
limits:
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [1/2s, 5/60s, 10/calendar-day], timezone: Asia/Shanghai}
  - {name: everyone, per: [recipient], allow: [3/1s, 12/calendar-hour]}
  - {name: meta, match: {metadata.kind: x}, per: [recipient, metadata.kind], allow: [2/60s]}
  - {name: watched, per: [recipient], allow: [2/2s, 4/60s], mode: observe}
  - {name: tries, match: {class: verify}, per: [recipient], allow: [9/60s], count: attempt}
  - {name: parts, per: [recipient], allow: [30/60s], count: segments}
  - {name: weight, per: [recipient], allow: [60/60s], count: cost}
  - {name: drops, match: {class: verify}, per: [recipient], allow: ["bucket 4 refill 0.5/s", 40/1h]}
  - {name: same, match: {class: notice}, per: [recipient, content], allow: [2/60s]}
templates:
  - {name: hello, channel: sms, body: "Hello {{name}}"}
classes:
  - {name: verify, retries: [1s]}
providers:
  - {name: sim, type: simulated, channels: [sms, email], pace: [500/1s], settings: {latency: 1ms-2ms}}
tenants:
  - {name: default, default_region: CN}
`

const secondPolicy = `
limits:
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [1/1s, 3/60s, 10/calendar-day, 9/1h], timezone: Asia/Shanghai, overrides: [{to: "+8613800000001", allow: [2/60s]}]}
  - {name: everyone, per: [recipient], allow: [3/1s, 12/calendar-hour], exempt: ["+8613800000002"]}
  - {name: watched, per: [recipient], allow: [3/60s], mode: enforce}
  - {name: later, match: {class: notice}, per: [recipient, class], allow: [1/1s], on_refusal: defer}
  - {name: drops, match: {class: verify}, per: [recipient], allow: ["bucket 3 refill 2/s", 40/1h], overrides: [{to: "+8613800000003", allow: ["bucket 1 refill 1/7s"]}]}
  - {name: same, match: {class: notice}, per: [recipient, content], allow: [1/60s]}
templates:
  - {name: hello, channel: sms, body: "Hello again {{name}}"}
classes:
  - {name: verify, retries: [1s]}
providers:
  - {name: sim, type: simulated, channels: [sms, email], pace: [500/1s], settings: {latency: 1ms-2ms}}
tenants:
  - {name: default, default_region: CN}
`

// live is the real pipeline on a broker in this process.
type live struct {
	t      *testing.T
	seeds  []string
	names  topics.Names
	cl     *kgo.Client
	pol    *policy.Watcher
	broker *kfake.Cluster
}

func parse(t *testing.T, text string) schemas.Policy {
	t.Helper()
	doc, err := schemas.ParsePolicy("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc.Policy
}

func newLive(t *testing.T) *live {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	broker.WantNoMetrics(c)
	l := &live{t: t, seeds: c.ListenAddrs(), broker: c}
	if l.cl, err = kgo.NewClient(kgo.SeedBrokers(l.seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.cl.Close)
	first := parse(t, firstPolicy)
	adm := kadm.NewClient(l.cl)
	diff, err := topics.Plan(t.Context(), adm, topics.Catalogue(topics.Config{Partitions: parts, Replication: 1}, &first))
	if err == nil {
		err = topics.Apply(t.Context(), l.cl, diff, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if l.pol, err = policy.Watch(t.Context(), l.names.Config(), slog.New(slog.DiscardHandler), kgo.SeedBrokers(l.seeds...)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = l.pol.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	l.publish(firstPolicy)
	return l
}

func (l *live) publish(text string) {
	l.t.Helper()
	if _, err := l.pol.Publish(l.t.Context(), l.cl, l.pol.Latest().Revision, "test", parse(l.t, text)); err != nil {
		l.t.Fatal(err)
	}
}

// start runs admission, lanes and delay; stop waits for their orderly end.
func (l *live) start() (stop func()) {
	logger := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	references := provider.NewSigner("live")
	receipts := receipt.NewWriter(l.cl, receipt.TopicOf(l.names, parts), logger)
	run := func(name string, fn func(stream.Config, stream.ReadConfig) error) {
		wg.Go(func() {
			cfg := stream.Config{Brokers: l.seeds, TransactionalID: "audit-" + name, SessionTimeout: 6 * time.Second, BatchBytes: l.names.BatchBytes}
			if err := fn(cfg, stream.ReadConfig{Brokers: l.seeds}); err != nil && ctx.Err() == nil {
				l.t.Errorf("%s: %v", name, err)
			}
		})
	}
	run("admission", func(s stream.Config, r stream.ReadConfig) error {
		return admission.Run(ctx, admission.Config{
			Stream: s, Read: r, Names: l.names,
			Partitions: parts, DelayPartitions: parts, DLQPartitions: parts,
		}, l.pol)
	})
	run("lane", func(s stream.Config, r stream.ReadConfig) error {
		return lane.Supervise(ctx, lane.Config{
			Stream: s, Read: r, Names: l.names,
			Partitions: parts, DelayPartitions: parts, DLQPartitions: parts, Policy: l.pol, References: references,
			Open: func(p schemas.Provider) (provider.Provider, error) {
				return simulated.Open(p, provider.Deps{Private: outbound.Loopback, Logger: logger, Receipts: receipts.Take})
			},
		})
	})
	run("delay", func(s stream.Config, _ stream.ReadConfig) error {
		return delay.Run(ctx, delay.Config{Stream: s, Names: l.names, Partitions: parts, DelayPartitions: parts, Returns: map[string]int32{l.names.Receipts(): parts}})
	})
	run("receipts", func(s stream.Config, _ stream.ReadConfig) error {
		return receipt.Run(ctx, receipt.Config{Stream: s, Names: l.names, Partitions: parts, DelayPartitions: parts, DLQPartitions: parts, References: references})
	})
	return func() { cancel(); wg.Wait() }
}

// send writes n requests from a seed, to partitions of no rule.
func (l *live) send(seed uint64, n int) {
	l.t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	var records []*kgo.Record
	for i := range n {
		to := fmt.Sprintf("138%08d", r.IntN(150)) // many, so that calls that fail stay few: a breaker would hold up the rest
		channel, class, extra := "sms", "verify", ""
		switch r.IntN(10) {
		case 0:
			class = "notice"
			to = fmt.Sprintf("138%08d", 50+r.IntN(30)) // few others, so that a limit that defers speaks alone
		case 1:
			to = "+86 " + to
		case 2:
			extra = `,"metadata":{"kind":"x"}`
		case 3:
			extra = fmt.Sprintf(`,"idempotency_key":"k%d"`, r.IntN(10))
		case 4:
			channel = "email"
			to = fmt.Sprintf("%s@e%d.example.com", []string{"transient-1", "permanent", "maybe", "delivered", "delivered", "permanent", "delivered", "permanent"}[r.IntN(8)], r.IntN(20))
			extra = `,"subject":"s"`
		case 5:
			if i%3 == 0 {
				to = "12"
			}
		}
		body := fmt.Sprintf(`"body":"code %d"`, i)
		if class == "notice" && channel == "sms" {
			body = fmt.Sprintf(`"template":"hello","vars":{"name":"%d"}`, r.IntN(2))
		}
		records = append(records, &kgo.Record{Topic: l.names.Requests(), Partition: int32(r.IntN(parts)),
			Value: fmt.Appendf(nil, `{"channel":%q,"to":%q,"class":%q,%s%s}`, channel, to, class, body, extra)})
	}
	if err := l.cl.ProduceSync(l.t.Context(), records...).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
}

// audit looks at what is in the log now.
func (l *live) audit() *audit.Report {
	l.t.Helper()
	r, err := audit.Run(l.t.Context(), audit.Config{Brokers: l.seeds, Names: l.names, Partitions: parts})
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

func text(r *audit.Report) string {
	var b bytes.Buffer
	_ = r.WriteText(&b)
	return b.String()
}

// settled audits again and again, while the pipeline runs, until all messages
// have ended: every one of these audits must find nothing.
func (l *live) settled() *audit.Report {
	l.t.Helper()
	return l.settledBut(0)
}

// settledBut is settled but for so many messages that may still wait.
func (l *live) settledBut(open int64) *audit.Report {
	l.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		r := l.audit()
		if r.Outcome == audit.Violated {
			l.t.Fatal(text(r))
		}
		if r.Checked.Decisions > 0 && r.Checked.Open <= open && r.Checked.Pending == 0 {
			return r
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("not settled:\n%s", text(r))
		}
	}
}

// proven is an audit that proves all.
func (l *live) proven() *audit.Report {
	l.t.Helper()
	r := l.audit()
	l.t.Log(text(r))
	if r.Outcome != audit.Proven {
		l.t.Fatalf("outcome %s", r.Outcome)
	}
	return r
}

// shows compares what a run did with what it must have done for its proof to be
// worth something.
func shows(t *testing.T, counts map[string]int64) {
	t.Helper()
	for what, n := range counts {
		if n <= 0 {
			t.Errorf("none was %s: this run shows too little", what)
		}
	}
}

func TestRealRunIsProven(t *testing.T) {
	l := newLive(t)
	stop := l.start()
	l.send(1, 600)
	l.settled()
	l.publish(secondPolicy)
	l.send(2, 600)
	l.settled()
	stop()
	c := l.proven().Checked
	shows(t, map[string]int64{
		"admitted": c.Admitted, "moved": c.Moved, "refused": c.Refused, "given back": c.GivenBack, "forwarded": c.Forwarded,
		"deferred": c.Deferred, "markers": c.Markers - parts, "returned": c.Returned, "permits": c.Permits, "dispatched": c.Dispatched, "receipts": c.Receipts,
	})
	if c.Requests != 1200 || c.Permits != c.Outcomes || c.Dispatched != c.Admitted+c.Moved {
		t.Errorf("counts: %+v", c)
	}
}

// change corrupts one partition of a live log.
type change struct {
	name  string
	topic func(topics.Names) string
	want  audit.Kind
	do    func(rs []*kgo.Record) []*kgo.Record
	pair  func(logs map[string]map[int32][]*kgo.Record) // instead: what agrees with it in other topics, too

	partition int32
	unsure    bool // neither proven nor violated
}

// event corrupts the first event that a test picks.
func event(pick func(*schemas.Event) bool, do func(*schemas.Event)) func([]*kgo.Record) []*kgo.Record {
	return func(rs []*kgo.Record) []*kgo.Record {
		for _, r := range rs {
			e, err := schemas.DecodeEvent(r.Value)
			if err == nil && pick(e) {
				do(e)
				r.Value = schemas.AppendEvent(nil, e)
				return rs
			}
		}
		return nil
	}
}

func verdict(v schemas.Verdict) func(*schemas.Event) bool {
	return func(e *schemas.Event) bool { return e.Decision != nil && e.Decision.Verdict == v }
}

// drop removes one record of those that a real run wrote.
func drop(rs []*kgo.Record) []*kgo.Record {
	if len(rs) < 2 {
		return nil
	}
	return append(rs[:len(rs)/2:len(rs)/2], rs[len(rs)/2+1:]...)
}

// A real run's logs are copied to another broker with one thing changed.
func TestCorruptedCopiesAreCaught(t *testing.T) {
	l := newLive(t)
	stop := l.start()
	l.send(3, 400)
	l.settled()
	stop()
	logs := l.logs()
	for _, c := range []change{
		{name: "nothing changed", topic: topics.Names.Status, do: func(rs []*kgo.Record) []*kgo.Record { return rs }},
		{name: "a decision lost", topic: topics.Names.Status, want: audit.KindSequence, do: func(rs []*kgo.Record) []*kgo.Record {
			for i, r := range rs {
				if e, _ := schemas.DecodeEvent(r.Value); verdict(schemas.VerdictRefuse)(e) {
					return append(rs[:i:i], rs[i+1:]...)
				}
			}
			return nil
		}},
		{name: "a refusal made an admission", topic: topics.Names.Status, want: audit.KindOver, do: event(verdict(schemas.VerdictRefuse), func(e *schemas.Event) {
			e.Status, e.Decision.Verdict = schemas.StatusQueued, schemas.VerdictAdmit
			for _, v := range e.Decision.Evidence {
				e.Decision.Charges = append(e.Decision.Charges, schemas.Charge{Limit: v.Limit, Scope: v.Scope, T: e.Decision.T, Cost: 1})
			}
		})},
		{name: "an admission made a refusal", topic: topics.Names.Status, want: audit.KindRefused, do: event(verdict(schemas.VerdictAdmit), func(e *schemas.Event) {
			e.Status, e.Reason, e.Decision.Verdict, e.Decision.Charges = schemas.StatusLimited, "limited", schemas.VerdictRefuse, nil
		})},
		{name: "evidence of a place that is not there", topic: topics.Names.Status, want: audit.KindEvidence, do: event(verdict(schemas.VerdictRefuse), func(e *schemas.Event) { e.Decision.Evidence[0].Oldest-- })},
		{name: "a give-back of more", topic: topics.Names.Status, want: audit.KindReturned, do: event(verdict(schemas.VerdictGiveBack), func(e *schemas.Event) {
			e.Decision.Returned = append(e.Decision.Returned, e.Decision.Returned...)
		})},
		{name: "a since moved", topic: topics.Names.Status, want: audit.KindSince, do: event(verdict(schemas.VerdictMarker), func(e *schemas.Event) { e.Decision.Marker.Since["verify"]["60s"] += 1 })},
		{name: "a request without decision", topic: topics.Names.Status, want: audit.KindUnanswered, do: func(rs []*kgo.Record) (out []*kgo.Record) {
			gone := int64(0)
			for _, r := range rs {
				e, _ := schemas.DecodeEvent(r.Value)
				if gone == 0 && verdict(schemas.VerdictRefuse)(e) {
					gone = 1
					continue
				}
				if e.Decision != nil {
					e.Decision.Seq -= gone
					r.Value = schemas.AppendEvent(nil, e)
				}
				out = append(out, r)
			}
			return out
		}},
		{name: "a readmitted record lost", topic: topics.Names.Readmit, want: audit.KindPhantom, do: drop},
		{name: "a dispatch lost", topic: func(n topics.Names) string { return n.Dispatch("sim", topics.QueueNormal) }, want: audit.KindDispatch, do: drop},
		{name: "a permit lost", topic: func(n topics.Names) string { return n.Journal("sim") }, want: audit.KindPermit, do: func(rs []*kgo.Record) []*kgo.Record {
			i := slices.IndexFunc(rs, func(r *kgo.Record) bool { return bytes.Contains(r.Value, []byte(`"permit"`)) })
			return append(rs[:i:i], rs[i+1:]...)
		}},
	} {
		t.Run(c.name, func(t *testing.T) { c.copied(t, logs) })
	}
}

// copied writes logs to another broker with the change, under these policies
// behind the first, and the audit must find it.
func (c *change) copied(t *testing.T, logs map[string]map[int32][]*kgo.Record, policies ...string) {
	k := newLive(t)
	for _, text := range policies {
		k.publish(text)
	}
	changed := k.names
	if c.pair != nil {
		logs = maps.Clone(logs)
		for topic := range logs {
			logs[topic] = maps.Clone(logs[topic])
		}
		c.pair(logs)
	}
	for topic, partitions := range logs {
		for p, rs := range partitions {
			var own []*kgo.Record
			for _, r := range rs {
				own = append(own, &kgo.Record{Topic: topic, Partition: p, Key: r.Key, Value: r.Value, Headers: slices.Clone(r.Headers), Timestamp: r.Timestamp})
			}
			if c.pair == nil && topic == c.topic(changed) && p == c.partition {
				if own = c.do(own); own == nil {
					t.Fatal("this log has nothing to corrupt")
				}
			}
			if err := k.cl.ProduceSync(t.Context(), own...).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := k.audit()
	if c.want != "" {
		documented(t, c.name, c.want)
	}
	switch {
	case c.unsure:
		if r.Outcome != audit.CouldNotTell {
			t.Fatalf("want %s:\n%s", audit.CouldNotTell, text(r))
		}
	case c.want == "" && r.Outcome != audit.Proven, c.want != "" && r.Faults[c.want] == 0:
		t.Fatalf("want %q:\n%s", c.want, text(r))
	}
	for _, v := range r.Violations {
		if v.Kind == c.want && v.Offset < 0 {
			t.Errorf("it does not say where: %s", v)
		}
	}
}

// logs reads what a real run wrote. Its inputs are numbered anew: without the
// control records, which a copy does not have.
func (l *live) logs() map[string]map[int32][]*kgo.Record {
	l.t.Helper()
	out := make(map[string]map[int32][]*kgo.Record)
	names := []string{l.names.Status(), l.names.Requests(), l.names.Readmit(), l.names.Journal("sim"), l.names.DLQ(), l.names.Ledger(), l.names.Seen()}
	for _, t := range topics.Tiers {
		names = append(names, l.names.Delay(t.Name))
	}
	for _, q := range topics.Queues {
		names = append(names, l.names.Dispatch("sim", q))
	}
	moved := make(map[string]map[int32]map[int64]int64)
	var ranges []stream.Range
	for _, topic := range names {
		out[topic], moved[topic] = make(map[int32][]*kgo.Record), make(map[int32]map[int64]int64)
		n := int32(parts)
		if topic == l.names.Journal("sim") || strings.HasPrefix(topic, "weir.dispatch.") {
			n = 1
		}
		for p := range n {
			moved[topic][p] = make(map[int64]int64)
			ranges = append(ranges, stream.Range{Partition: stream.Partition{Topic: topic, Partition: p}})
		}
	}
	err := stream.Read(l.t.Context(), stream.ReadConfig{Brokers: l.seeds}, ranges, func(r *kgo.Record) error {
		moved[r.Topic][r.Partition][r.Offset] = int64(len(out[r.Topic][r.Partition]))
		out[r.Topic][r.Partition] = append(out[r.Topic][r.Partition], r)
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	for _, rs := range out[l.names.Status()] {
		for _, r := range rs {
			e, err := schemas.DecodeEvent(r.Value)
			if err != nil {
				l.t.Fatal(err)
			}
			if e.Decision != nil && e.Decision.Input != nil {
				in := e.Decision.Input
				in.Offset = moved[in.Topic][in.Partition][in.Offset]
				r.Value = schemas.AppendEvent(nil, e)
			}
		}
	}
	return out
}
