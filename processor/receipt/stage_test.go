package receipt_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/receipt"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const (
	n         = 4
	receipts  = 4
	delays    = 4
	deadBoxes = 4
)

// store is a ClickHouse that the test fills.
type store struct {
	mu    sync.Mutex
	has   map[history.Handed][]history.Carried
	away  bool
	hangs bool
	asked int
}

func (s *store) set(fn func()) { s.mu.Lock(); defer s.mu.Unlock(); fn() }

func (s *store) Handed(ctx context.Context, asked []history.Handed) (map[history.Handed][]history.Carried, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked += len(asked)
	if s.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if s.away {
		return nil, errors.New("away")
	}
	if len(asked) > receipt.MostAsked {
		return nil, fmt.Errorf("%d asked for at once", len(asked))
	}
	found := make(map[history.Handed][]history.Carried)
	for _, a := range asked {
		if c, ok := s.has[a]; ok {
			found[a] = c
		}
	}
	return found, nil
}

func (s *store) Ready(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away || s.hangs {
		return errors.New("away")
	}
	return nil
}

type world struct {
	*testing.T
	names  topics.Names
	seeds  []string
	cl     *kgo.Client
	broker *kfake.Cluster
	store  *store
	topic  receipt.Topic
	reg    *prometheus.Registry
	end    func()

	mu   sync.Mutex
	came map[string][]*kgo.Record // by topic
}

func newWorld(t *testing.T, st *store) *world {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &world{T: t, broker: c, seeds: c.ListenAddrs(), store: st, topic: receipt.TopicOf(topics.Names{}, receipts), came: make(map[string][]*kgo.Record)}
	if w.cl, err = kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cl.Close)
	adm := kadm.NewClient(w.cl)
	diff, err := topics.Plan(t.Context(), adm, topics.Catalogue(topics.Config{Partitions: n, Replication: 1}, nil))
	if err == nil {
		err = topics.Apply(t.Context(), w.cl, diff, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	follow := []string{w.names.Status(), w.names.Requests(), w.names.DLQ()}
	for _, tier := range topics.Tiers {
		follow = append(follow, w.names.Delay(tier.Name))
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.ConsumeTopics(follow...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { stop(); wg.Wait(); reader.Close() })
	wg.Go(func() {
		for ctx.Err() == nil {
			reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.came[r.Topic] = append(w.came[r.Topic], r)
			})
		}
	})
	w.start()
	t.Cleanup(func() { w.end() })
	return w
}

// start runs the stage; end waits for its orderly end.
func (w *world) start() {
	w.reg = prometheus.NewRegistry()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	cfg := receipt.Config{
		Stream: stream.Config{Brokers: w.seeds, TransactionalID: "receipts-0", SessionTimeout: 6 * time.Second},
		Names:  w.names, Partitions: n, DelayPartitions: delays, DLQPartitions: deadBoxes, Metrics: w.reg, References: references,
		Policy: func() *schemas.Revision {
			return &schemas.Revision{Policy: schemas.Policy{Providers: []schemas.Provider{{Name: "p"}}}}
		},
	}
	if w.store != nil {
		cfg.Store = w.store
	}
	go func() { done <- receipt.Run(ctx, cfg) }()
	w.end = sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil {
			w.Error(err)
		}
	})
}

func (w *world) tell(rcs ...provider.Receipt) {
	w.Helper()
	var recs []*kgo.Record
	for i := range rcs {
		recs = append(recs, w.topic.Record(&rcs[i]))
	}
	if err := w.cl.ProduceSync(w.Context(), recs...).FirstErr(); err != nil {
		w.Fatal(err)
	}
}

func (w *world) until(what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("never: %s", what)
		}
	}
}

// outcomes waits until so many receipts came to an outcome.
func (w *world) outcomes(prov, outcome string, count int) {
	w.Helper()
	w.until(fmt.Sprintf("%d receipts of %s %s", count, prov, outcome), func() bool { return w.counted(prov, outcome) == count })
}

func (w *world) counted(prov, outcome string) int {
	all, err := w.reg.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			if f.GetName() == "weir_receipts_total" && m.GetLabel()[0].GetValue() == outcome && m.GetLabel()[1].GetValue() == prov {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	return 0
}

// TestProviderLabel: a name that the policy has not is no label of a metric.
func TestProviderLabel(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 5 {
		w.tell(provider.Receipt{Provider: fmt.Sprint("made up ", i), ProviderMessageID: "x", Status: schemas.StatusDelivered})
	}
	w.outcomes("unknown", "unmatched", 5)
	if n := w.counted("made up 0", "unmatched"); n != 0 {
		t.Errorf("%d under a made up name", n)
	}
}

func (w *world) statuses() (out []*schemas.Event) {
	w.Helper()
	for _, r := range w.in(w.names.Status()) {
		e, err := schemas.DecodeEvent(r.Value)
		if err != nil {
			w.Fatal(err)
		}
		if r.Partition != schemas.PartitionOf(e.To, n) || string(r.Key) != e.To {
			w.Errorf("%s stands in %d under %s", e.MessageID, r.Partition, r.Key)
		}
		out = append(out, e)
	}
	return out
}

func (w *world) in(topic string) []*kgo.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*kgo.Record(nil), w.came[topic]...)
}

// come waits for records of a topic.
func (w *world) come(topic string, count int) []*kgo.Record {
	w.Helper()
	w.until(fmt.Sprintf("%d records in %s", count, topic), func() bool { return len(w.in(topic)) >= count })
	if got := len(w.in(topic)); got != count {
		w.Fatalf("%d records in %s, want %d", got, topic, count)
	}
	return w.in(topic)
}

// back returns what waits in a tier to where it came from, as the delay stage does.
func (w *world) back(r *kgo.Record) {
	w.Helper()
	var env schemas.Envelope
	for _, h := range r.Headers {
		if err := env.Set(h.Key, string(h.Value)); err != nil {
			w.Fatal(err)
		}
	}
	if env.Return != w.names.Receipts() || env.Key == "" || env.DueAt == 0 || env.AcceptedAt == 0 {
		w.Fatalf("waits as %+v", env)
	}
	rec := &kgo.Record{Topic: env.Return, Partition: schemas.PartitionOf(env.Key, receipts), Key: r.Key, Value: r.Value, Headers: r.Headers}
	if err := w.cl.ProduceSync(w.Context(), rec).FirstErr(); err != nil {
		w.Fatal(err)
	}
}

var references = provider.NewSigner("the test's own")

// named is a receipt with the reference that the lane of provider p gave.
func named(id string, st schemas.Status) provider.Receipt {
	return namedOf(provider.Call{ID: id, To: "+8613800000000", Tenant: "acme", Channel: schemas.ChannelSMS, Class: "verify", Attempt: 1}, st)
}

func namedOf(c provider.Call, st schemas.Status) provider.Receipt {
	c.References = references.Of("p")
	rc := c.Reference().Receipt("p")
	rc.Status = st
	return rc
}

func TestNamed(t *testing.T) {
	w := newWorld(t, nil)
	years := named("old", schemas.StatusDelivered)
	years.At = 1_000_000_000_000 // 2001
	ahead := named("ahead", schemas.StatusDelivered)
	ahead.At = schemas.MillisOf(time.Now().AddDate(3, 0, 0))
	hour := named("hour", schemas.StatusDelivered)
	hour.At = schemas.MillisOf(time.Now().Add(-time.Hour))
	bounce := named("bounce", schemas.StatusUndelivered)
	bounce.Suppress, bounce.Code, bounce.Text = schemas.SuppressHardBounce, "550", strings.Repeat("é", 1000)
	complaint := named("complaint", "")
	complaint.Suppress = schemas.SuppressComplaint
	w.tell(named("a", schemas.StatusDelivered), years, ahead, hour, bounce, complaint, named("empty", ""), named("sent", schemas.StatusSent), provider.Receipt{Provider: "p", Status: schemas.StatusDelivered})
	if err := w.cl.ProduceSync(t.Context(), &kgo.Record{Topic: w.topic.Name, Value: []byte("no receipt")}, &kgo.Record{Topic: w.topic.Name, Value: []byte(`{"provider":"p","message_id":"x","to":"y","status":"delivered","error":"` + strings.Repeat("x", 65<<10) + `"}`)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w.outcomes("p", "amended", 5)
	w.outcomes("p", "suppressed", 1)
	w.outcomes("p", "empty", 3)
	w.outcomes("", "unreadable", 2)
	now := schemas.MillisOf(time.Now())
	byID := make(map[string]*schemas.Event)
	w.come(w.names.Status(), 5)
	for _, e := range w.statuses() {
		byID[e.MessageID] = e
		if e.Reason != "receipt" || e.Tenant != "acme" || e.Class != "verify" || e.Decision != nil {
			t.Errorf("%+v", e)
		}
		if e.At > now+1000 || e.At < now-7*86_400_000 {
			t.Errorf("%s is of %v: the store would make a part of its own for it", e.MessageID, e.At)
		}
	}
	if byID["hour"].At != hour.At || byID["bounce"].ErrorCode != "550" || len(byID["bounce"].Error) > 600 || byID["bounce"].Status != schemas.StatusUndelivered {
		t.Errorf("%+v", byID)
	}
	asked := make(map[string]bool)
	for _, r := range w.come(w.names.Requests(), 2) {
		q, err := schemas.DecodeRequest(r.Value, func(string) (string, bool) { return "", false })
		if err != nil || q.Action != schemas.ActionSuppress || q.To != "+8613800000000" || q.Channel != schemas.ChannelSMS || r.Partition != schemas.PartitionOf(q.To, n) {
			t.Errorf("%s: %v", r.Value, err)
		}
		asked[q.Tenant+" "+q.Metadata["reason"]] = true
	}
	if !asked["acme hard_bounce"] || !asked["acme complaint"] {
		t.Errorf("asked for %v", asked)
	}
	w.come(w.names.DLQ(), 2)
}

// TestRepeats: the same again is dropped, as long as it is remembered; another code of
// the same message is not the same. A restart forgets.
func TestRepeats(t *testing.T) {
	w := newWorld(t, nil)
	a := named("a", schemas.StatusUndelivered)
	b := a
	b.Code = "other"
	later := a
	later.At, later.Text = schemas.MillisOf(time.Now()), "again"
	for range 3 {
		w.tell(a, b, later, a)
	}
	w.outcomes("p", "repeated", 10)
	w.outcomes("p", "amended", 2)
	w.end()
	w.start()
	w.tell(a, a)
	w.outcomes("p", "amended", 1)
	w.outcomes("p", "repeated", 1)
}

// TestRepeatsOfAnAbort: what an aborted transaction knew is not known: its receipts are
// handed out again, and amend.
func TestRepeatsOfAnAbort(t *testing.T) {
	w := newWorld(t, nil)
	refuse, refused := streamtest.RefuseOffsets(w.broker)
	refuse.Store(2)
	w.tell(named("a", schemas.StatusDelivered), named("b", schemas.StatusDelivered))
	w.outcomes("p", "amended", 2)
	w.come(w.names.Status(), 2)
	if refused.Load() != 2 || w.counted("p", "repeated") != 0 {
		t.Errorf("%d transactions were refused, and %d receipts repeated", refused.Load(), w.counted("p", "repeated"))
	}
}

// TestFoundAgain: of two receipts of one partition that say the same, one with the
// message's name and one that is looked up, one amends, whichever comes first.
func TestFoundAgain(t *testing.T) {
	st := &store{has: make(map[history.Handed][]history.Carried)}
	w := newWorld(t, st)
	// both returns a receipt with the message's name, and the same without, which is
	// found.
	both := func(id string) (full, bare provider.Receipt) {
		full = named(id, schemas.StatusDelivered)
		for i := 0; full.ProviderMessageID == ""; i++ {
			if at := fmt.Sprint(id, i); schemas.PartitionOf(at, receipts) == schemas.PartitionOf(id, receipts) {
				full.ProviderMessageID = at
			}
		}
		st.set(func() {
			st.has[history.Handed{Provider: "p", ProviderMessageID: full.ProviderMessageID}] = []history.Carried{{
				Provider: "p", ProviderMessageID: full.ProviderMessageID,
				MessageID: id, To: full.To, Tenant: full.Tenant, Channel: string(full.Channel), Class: full.Class, Attempt: full.Attempt}}
		})
		return full, provider.Receipt{Provider: "p", ProviderMessageID: full.ProviderMessageID, Status: full.Status}
	}
	full, bare := both("a")
	w.tell(bare)
	w.outcomes("p", "amended", 1)
	w.tell(full)
	w.outcomes("p", "repeated", 1)
	full, bare = both("b")
	w.tell(full)
	w.outcomes("p", "amended", 2)
	w.tell(bare)
	w.outcomes("p", "repeated", 2)
	w.come(w.names.Status(), 2)
}

// TestLookedUp: a receipt without a name waits for its message to be recorded, for one
// that never is it waits three days, and one that needs no looking up never waits.
func TestLookedUp(t *testing.T) {
	st := &store{has: make(map[history.Handed][]history.Carried)}
	w := newWorld(t, st)
	by := func(id string) history.Handed { return history.Handed{Provider: "p", ProviderMessageID: id} }
	is := func(id string) []history.Carried {
		return []history.Carried{{Provider: "p", MessageID: id, To: "+86138" + id, Tenant: "acme", Channel: "sms", Class: "verify", Attempt: 3}}
	}
	st.has[by("there")] = is("00000001")
	st.has[history.Handed{MessageID: "two"}] = append(is("00000001"), is("00000002")...)
	of := func(id string) provider.Receipt {
		return provider.Receipt{Provider: "p", ProviderMessageID: id, Status: schemas.StatusDelivered}
	}
	late := of("late")
	late.Status, late.Suppress = schemas.StatusUndelivered, schemas.SuppressInvalid
	w.tell(of("there"), late, late, of("never"), provider.Receipt{Provider: "p", MessageID: "two", Status: schemas.StatusDelivered}, named("n", schemas.StatusDelivered))
	w.outcomes("p", "amended", 2)
	w.outcomes("p", "waiting", 2)
	w.outcomes("p", "repeated", 1)
	w.outcomes("p", "ambiguous", 1)

	// The send is recorded meanwhile.
	st.set(func() { st.has[by("late")] = is("00000002") })
	waiting := w.come(w.names.Delay("5s"), 2)
	for _, r := range waiting {
		w.back(r)
	}
	w.outcomes("p", "amended", 3)
	if reqs := w.come(w.names.Requests(), 1); !strings.Contains(string(reqs[0].Value), `"tenant":"acme"`) || string(reqs[0].Key) != "+8613800000002" {
		t.Errorf("asked for %s of %s", reqs[0].Value, reqs[0].Key)
	}
	for _, e := range w.statuses() {
		if e.MessageID == "00000002" && (e.To != "+8613800000002" || e.Attempt != 3 || e.Class != "verify" || e.ProviderMessageID != "late") {
			t.Errorf("%+v", e)
		}
	}
	// What comes again after it was found is a repeat, by the message's name.
	w.tell(late)
	w.outcomes("p", "repeated", 2)

	// What never is goes through the tiers.
	tiers := map[string]int{}
	rounds, seen := 0, map[string]int{"5s": 2}
	for ; rounds < 100; rounds++ {
		var next *kgo.Record
		w.until("it waits again, or is given up", func() bool {
			for _, tier := range topics.Tiers {
				if came := w.in(w.names.Delay(tier.Name)); len(came) > seen[tier.Name] {
					seen[tier.Name], next = len(came), came[len(came)-1]
					tiers[tier.Name]++
					return true
				}
			}
			return w.counted("p", "unmatched") == 1
		})
		if next == nil {
			break
		}
		w.back(next)
	}
	if got := fmt.Sprint(tiers); got != "map[1h:6 30s:1 5m:1 6h:11]" {
		t.Errorf("waited in %s", got)
	}
	for _, r := range w.come(w.names.DLQ(), 2) {
		env := make(map[string]string)
		for _, h := range r.Headers {
			env[h.Key] = string(h.Value)
		}
		if env[schemas.HeaderReason] != schemas.ReasonUnmatchedReceipt || env[schemas.HeaderError] == "" || env[schemas.HeaderReturn] != "" || env[schemas.HeaderProvider] != "p" {
			t.Errorf("given up as %v", env)
		}
	}
}

// TestAway: a store that is away, or does not answer, finds nothing and loses nothing;
// it holds up once what needs it not.
func TestAway(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		t.Run(fmt.Sprintf("hangs %v", hangs), func(t *testing.T) {
			st := &store{has: make(map[history.Handed][]history.Carried), away: !hangs, hangs: hangs}
			w := newWorld(t, st)
			for i := range 20 {
				w.tell(provider.Receipt{Provider: "p", ProviderMessageID: fmt.Sprint(i), Status: schemas.StatusDelivered}, named(fmt.Sprint(i), schemas.StatusDelivered))
			}
			w.outcomes("p", "store_away", 20)
			w.outcomes("p", "amended", 20)
			if st.set(func() {}); st.asked > 20 {
				t.Errorf("the store was asked %d times while it was away", st.asked)
			}
			st.set(func() {
				st.away, st.hangs = false, false
				for i := range 20 {
					st.has[history.Handed{Provider: "p", ProviderMessageID: fmt.Sprint(i)}] = []history.Carried{{Provider: "p", MessageID: fmt.Sprint("m", i), To: "+8613800000001", Tenant: "acme"}}
				}
			})
			w.until("the store is back", func() bool { return w.gauge("weir_receipts_store_away") == 0 })
			for _, r := range w.come(w.names.Delay("5s"), 20) {
				w.back(r)
			}
			w.outcomes("p", "amended", 40)
		})
	}
}

func (w *world) gauge(name string) float64 {
	all, err := w.reg.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// TestForged: a receipt that proves nothing amends the message that the store has, of
// its provider and for its recipient, under that message's tenant; or nothing.
func TestForged(t *testing.T) {
	const victim = "+8613800000009"
	st := &store{has: map[history.Handed][]history.Carried{
		{MessageID: "theirs"}: {{Provider: "other", MessageID: "theirs", To: victim, Tenant: "bank", Channel: "sms"}},
		{MessageID: "ours"}:   {{Provider: "p", MessageID: "ours", To: victim, Tenant: "bank", Channel: "sms", Class: "code", Attempt: 2}},
	}}
	w := newWorld(t, st)
	short := func(id, to string) provider.Receipt { // as {"id","to","status"} comes over HTTP
		return provider.Receipt{Provider: "p", MessageID: id, To: to, Status: schemas.StatusUndelivered, Suppress: schemas.SuppressHardBounce}
	}
	claim := func(c provider.Call, signer *provider.Signer) provider.Receipt {
		c.References = signer
		rc := c.Reference().Receipt("p")
		rc.MessageID, rc.To, rc.Tenant, rc.Status = c.ID, c.To, c.Tenant, schemas.StatusDelivered
		return rc
	}
	is := provider.Call{ID: "ours", To: victim, Tenant: "evil", Channel: schemas.ChannelEmail, Class: "evil", Template: "evil", Attempt: 9}
	for _, rc := range []provider.Receipt{
		short("unknown", victim), short("theirs", victim), short("ours", "+8613800000008"),
		claim(provider.Call{ID: "no one's", To: victim, Tenant: "bank"}, nil),
		claim(provider.Call{ID: "no one's", To: victim, Tenant: "bank"}, provider.NewSigner("another key")),
		claim(provider.Call{ID: "no one's", To: victim, Tenant: "bank"}, references.Of("other")), // given to another provider
	} {
		w.tell(rc)
	}
	w.outcomes("p", "waiting", 6)
	// The documented short form, and claims about the owner's message.
	w.tell(short("ours", victim), claim(is, nil), claim(is, references.Of("other")))
	w.outcomes("p", "amended", 2)
	w.outcomes("p", "repeated", 1)
	w.come(w.names.Status(), 2)
	for _, e := range w.statuses() {
		if e.MessageID != "ours" || e.Tenant != "bank" || e.To != victim || e.Class != "code" || e.Template != "" || e.Attempt != 2 || e.Channel != "sms" {
			t.Errorf("%+v", e)
		}
	}
	for _, r := range w.come(w.names.Requests(), 1) {
		if !strings.Contains(string(r.Value), `"tenant":"bank"`) || string(r.Key) != victim {
			t.Errorf("asked for %s", r.Value)
		}
	}
	// A false claim does not hide the true receipt that comes later.
	w.tell(claim(provider.Call{ID: "true", To: victim, Tenant: "bank"}, nil))
	w.outcomes("p", "waiting", 7)
	w.tell(namedOf(provider.Call{ID: "true", To: victim, Tenant: "bank"}, schemas.StatusDelivered))
	w.outcomes("p", "amended", 3)
	for _, r := range w.in(w.names.Delay("5s")) {
		for _, h := range r.Headers {
			if h.Key == schemas.HeaderTenant {
				t.Errorf("a claim waits under the tenant %s", h.Value)
			}
		}
	}
}

// TestMismatchesEnd: what fits no message waits as long as what is early, and is then
// counted by its reason.
func TestMismatchesEnd(t *testing.T) {
	st := &store{has: map[history.Handed][]history.Carried{
		{MessageID: "theirs"}: {{Provider: "other", MessageID: "theirs", To: "+8613800000009", Tenant: "bank"}},
		{MessageID: "ours"}:   {{Provider: "p", MessageID: "ours", To: "+8613800000009", Tenant: "bank"}},
	}}
	w := newWorld(t, st)
	for id, outcome := range map[string]string{"theirs": "other_provider", "ours": "other_recipient", "unknown": "unmatched"} {
		rec := w.topic.Record(&provider.Receipt{Provider: "p", MessageID: id, To: "+8613800000001", Tenant: "evil", Status: schemas.StatusDelivered})
		env := schemas.Envelope{Key: id, Attempt: 20, AcceptedAt: 1, DueAt: 1, Return: w.names.Receipts()} // its last try
		env.Each(func(k string, v []byte) { rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: k, Value: v}) })
		if err := w.cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
		w.outcomes("p", outcome, 1)
	}
	for _, r := range w.come(w.names.DLQ(), 3) {
		for _, h := range r.Headers {
			if h.Key == schemas.HeaderTenant || h.Key == schemas.HeaderReason && string(h.Value) != schemas.ReasonUnmatchedReceipt {
				t.Errorf("given up with %s %s", h.Key, h.Value)
			}
		}
	}
	if n := len(w.in(w.names.Status())); n != 0 {
		t.Errorf("%d statuses", n)
	}
}
