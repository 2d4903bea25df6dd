package admission

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// logs is a broker with the two logs of one partition, what owners write there,
// and what reads them.
type logs struct {
	t      *testing.T
	env    environment
	pol    *schemas.Policy
	broker *kfake.Cluster
	adm    *kadm.Client
	cl     *kgo.Client
	reader *stream.Reader
	r      *rand.Rand
	now    schemas.Millis
	offset int64
	ids    []string
}

func newLogs(t *testing.T, seed uint64) *logs {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l := &logs{t: t, env: environment{partitions: 1, delays: 1, dlq: 1}, broker: c, r: rand.New(rand.NewPCG(seed, 0)), now: schemas.MillisOf(time.Now())}
	doc, err := schemas.ParsePolicy("test.yaml", []byte(`
limits:
  - {name: code, match: {class: code}, per: [recipient], allow: [2/60s, 3/1h, 5/calendar-day]}
  - {name: slow, match: {class: slow}, per: [recipient], allow: [1/10s], on_refusal: defer}
classes:
  - {name: code}
  - {name: slow}
providers:
  - {name: one, type: simulated, channels: [sms]}
  - {name: nobody, type: none, channels: [sms]}
routes:
  - {name: all, to: [{provider: one}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	l.pol = &doc.Policy
	l.cl, err = kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("owner"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.cl.Close)
	l.adm = kadm.NewClient(l.cl)
	appendTime := "LogAppendTime"
	compact := "compact"
	for topic, policy := range map[string]*string{l.env.names.Ledger(): &compact, l.env.names.Seen(): nil} {
		configs := map[string]*string{"message.timestamp.type": &appendTime}
		if policy != nil {
			configs["cleanup.policy"] = policy
		}
		if _, err := l.adm.CreateTopic(t.Context(), 1, 1, configs, topic); err != nil {
			t.Fatal(err)
		}
	}
	if l.reader, err = stream.OpenReader(stream.ReadConfig{Brokers: c.ListenAddrs(), FetchBytes: 4 << 10}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.reader.Close)
	return l
}

func (l *logs) empty() *partition {
	l.t.Helper()
	p, err := newPartition(0, l.env)
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

// follow brings a state to where the logs are, as a standby does.
func (l *logs) follow(p *partition) {
	l.t.Helper()
	if _, err := catchUp(l.t.Context(), l.reader, map[int32]*partition{0: p}); err != nil {
		l.t.Fatal(err)
	}
}

// own makes a state fit to decide, as Assign does.
func (l *logs) own(p *partition) {
	l.t.Helper()
	l.follow(p)
	p.base.meta.T = max(p.base.meta.T, p.floor)
	if err := p.adopt(&schemas.Revision{Revision: p.base.meta.Marker.Revision, Policy: *l.pol}); err != nil {
		l.t.Fatal(err)
	}
}

// input makes one record of any kind to one of a few recipients.
func (l *logs) input() *input {
	to := fmt.Sprintf("+861380000%04d", l.r.IntN(12))
	id := uuid.New()
	for i := range id[:4] {
		id[i] = byte(l.r.Uint32())
	}
	known := id.String()
	if len(l.ids) > 0 {
		known = l.ids[l.r.IntN(len(l.ids))]
	}
	value := ""
	switch l.r.IntN(14) {
	case 0:
		value = fmt.Sprintf(`{"action":"suppress","to":%q,"class":"slow"}`, to)
	case 1:
		value = fmt.Sprintf(`{"action":"unsuppress","to":%q,"class":"slow"}`, to)
	case 2:
		value = fmt.Sprintf(`{"action":"cancel","id":%q,"to":%q}`, known, to)
	case 3:
		value = fmt.Sprintf(`{"action":"record","channel":"sms","to":%q,"class":"code","at":%q}`, to, l.now-schemas.Millis(l.r.IntN(30_000)))
	case 4:
		value = fmt.Sprintf(`{"id":%q,"channel":"sms","to":%q,"class":"code","body":"x","send_at":%q}`, id, to, l.now+3_600_000)
	case 5:
		value = fmt.Sprintf(`{"id":%q,"channel":"sms","to":%q,"class":"code","body":"x","idempotency_key":"k%d"}`, id, to, l.r.IntN(20))
	case 6, 7:
		value = fmt.Sprintf(`{"id":%q,"channel":"sms","to":%q,"class":"slow","body":"x"}`, id, to)
	case 8, 9, 10:
		value = fmt.Sprintf(`{"id":%q,"channel":"sms","to":%q,"class":"code","body":"x","provider":"nobody"}`, id, to)
	case 11:
		value = fmt.Sprintf(`{"action":"release","id":%q,"to":%q}`, known, to)
	default:
		value = fmt.Sprintf(`{"id":%q,"channel":"sms","to":%q,"class":"code","body":"x"}`, id, to)
	}
	l.ids = append(l.ids, id.String())
	return l.request(value)
}

func (l *logs) request(value string) *input {
	l.offset++
	return &input{
		value: []byte(value), source: schemas.Source{Topic: "weir.requests", Offset: l.offset}, appended: l.now,
		header: func(string) (string, bool) { return "", false },
	}
}

// transact lets the owner decide a few inputs in one transaction, with a marker
// now and then, and aborts some.
func (l *logs) transact(p *partition) (committed bool) {
	l.t.Helper()
	l.now += schemas.Millis(l.r.IntN(20_000))
	p.begin()
	p.advance(l.now)
	if p.cur.meta.Marker.Revision == 0 || l.r.IntN(10) == 0 {
		if _, err := p.switchTo(&schemas.Revision{Revision: p.cur.meta.Marker.Revision + 1, Policy: *l.pol}); err != nil {
			l.t.Fatal(err)
		}
	}
	for range 1 + l.r.IntN(8) {
		in := l.input()
		if _, err := p.decide(in); err != nil {
			l.t.Fatal(err)
		}
		p.cur.meta.Requests = in.source.Offset + 1
	}
	p.table.Sweep(p.cur.rules, p.cur.meta.T, sweepSlots)
	if err := l.cl.BeginTransaction(); err != nil {
		l.t.Fatal(err)
	}
	if err := p.changes(
		func(key, value []byte) {
			p.sent.ledger = &kgo.Record{Topic: l.env.names.Ledger(), Key: key, Value: value}
			l.cl.Produce(l.t.Context(), p.sent.ledger, nil)
		},
		func(r *seenRecord) {
			p.sent.seen = &kgo.Record{Topic: l.env.names.Seen(), Key: r.key[:], Value: r.encode()}
			l.cl.Produce(l.t.Context(), p.sent.seen, nil)
		},
	); err != nil {
		l.t.Fatal(err)
	}
	if err := l.cl.Flush(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	committed = l.r.IntN(4) > 0
	if err := l.cl.EndTransaction(l.t.Context(), kgo.TransactionEndTry(committed)); err != nil {
		l.t.Fatal(err)
	}
	if committed {
		p.commit()
	} else {
		p.rollback()
	}
	return committed
}

// probe tells what a state would decide, and every byte that it would write,
// for one input of each kind to each recipient.
func (l *logs) probe(p *partition) []string {
	l.t.Helper()
	m := p.base.meta
	out := []string{fmt.Sprintf("meta %+v, places %d, waiting %d, suppressed %d, held %d, floor %d", m, p.table.Len(), p.waiting.base.n, len(p.suppressed.base), len(p.held.base), p.floor)}
	p.begin()
	defer p.rollback()
	p.advance(l.now + 60_000)
	offset := l.offset
	defer func() { l.offset = offset }()
	ask := func(format string, args ...any) {
		o, err := p.decide(l.request(fmt.Sprintf(format, args...)))
		if err != nil {
			l.t.Fatal(err)
		}
		o.event.MessageID, o.event.At = "", 0
		out = append(out, string(schemas.AppendEvent(nil, &o.event)))
	}
	for i := range 12 {
		to := fmt.Sprintf("+861380000%04d", i)
		for k := range 20 {
			ask(`{"id":"0b6f0e7e-0000-4000-8000-%012d","channel":"sms","to":%q,"class":"code","body":"x","idempotency_key":"k%d"}`, i*100+k, to, k)
		}
		ask(`{"id":"0b6f0e7e-0000-4000-8001-%012d","channel":"sms","to":%q,"class":"slow","body":"x"}`, i, to)
		ask(`{"action":"suppress","to":%q,"class":"slow"}`, to)
		for _, id := range l.ids[max(0, len(l.ids)-40):] {
			ask(`{"action":"cancel","id":%q,"to":%q}`, id, to)
			ask(`{"action":"release","id":%q,"to":%q}`, id, to)
		}
	}
	writes := make(map[string]string)
	if err := p.changes(
		func(key, value []byte) { writes[string(key)] = string(value) },
		func(r *seenRecord) { writes["seen "+string(r.key[:])] = string(r.encode()) },
	); err != nil {
		l.t.Fatal(err)
	}
	for _, k := range slices.Sorted(maps.Keys(writes)) {
		out = append(out, fmt.Sprintf("%x=%x", k, writes[k]))
	}
	return out
}

func (l *logs) same(what string, got, want []string) {
	l.t.Helper()
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			l.t.Fatalf("%s differs from a cold restore at %d:\n%s\nwant\n%s", what, i, append(got, "(nothing)")[min(i, len(got))], want[i])
		}
	}
	if len(got) != len(want) {
		l.t.Fatalf("%s: %d lines, want %d", what, len(got), len(want))
	}
}

// TestEveryWayToAStateIsOneState: a state that followed the logs from the start
// or joined late, in steps of any size, and one that decided itself, was
// taken away, and came back, are byte for byte what a cold restore gives, over
// aborted transactions, markers, tombstones and compaction.
func TestEveryWayToAStateIsOneState(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			l := newLogs(t, seed)
			tails := []*partition{l.empty(), l.empty(), l.empty()}
			owners := []*partition{l.empty(), l.empty()}
			owner, aborts, returns := 0, 0, 0
			l.own(owners[0])
			for i := range 120 {
				if !l.transact(owners[owner]) {
					aborts++
				}
				for k, tail := range tails {
					if l.r.IntN(1+4*k) == 0 { // one always, one often, one seldom
						l.follow(tail)
					}
				}
				if i%40 == 20 { // tails may stand anywhere
					l.broker.Compact()
				}
				if l.r.IntN(15) == 0 { // another owner: it has an older state of its own
					owner = 1 - owner
					returns++
					l.own(owners[owner])
					l.whole("an owner that returned", owners[owner])
				}
			}
			cold := l.empty()
			l.own(cold)
			l.whole("a cold restore", cold)
			want := l.probe(cold)
			for k, tail := range tails {
				l.own(tail)
				l.whole("a tail", tail)
				l.same(fmt.Sprint("tail ", k), l.probe(tail), want)
			}
			for k, p := range owners {
				l.own(p)
				l.whole("an owner", p)
				l.same(fmt.Sprint("owner ", k), l.probe(p), want)
			}
			if aborts == 0 || returns < 2 || cold.base.meta.Marker.Revision < 2 || cold.waiting.base.n == 0 || len(cold.suppressed.base) == 0 || len(cold.held.base) == 0 {
				t.Fatalf("%d aborts, %d returns, %+v: the test shows too little", aborts, returns, cold.base.meta)
			}
		})
	}
}

// TestTailThatFellBehindBeginsAnew: retention took what a tail was to read next.
func TestTailThatFellBehindBeginsAnew(t *testing.T) {
	for _, topic := range []string{"ledger", "seen"} {
		t.Run(topic, func(t *testing.T) {
			l := newLogs(t, 7)
			owner, tail := l.empty(), l.empty()
			l.own(owner)
			for range 20 {
				l.transact(owner)
			}
			l.follow(tail)
			for range 20 {
				l.transact(owner)
			}
			name := map[string]string{"ledger": l.env.names.Ledger(), "seen": l.env.names.Seen()}[topic]
			ends, err := l.adm.ListEndOffsets(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			end, _ := ends.Lookup(name, 0)
			// All but the last transactions are gone.
			if _, err := l.adm.DeleteRecords(t.Context(), kadm.Offsets{name: {0: {Topic: name, At: end.Offset - 3}}}); err != nil {
				t.Fatal(err)
			}
			parts := map[int32]*partition{0: tail}
			_, anew, err := catchUpOrAnew(t.Context(), l.reader, parts)
			if err != nil || len(anew) != 1 || parts[0] == tail {
				t.Fatalf("went on after a gap: %v, %v", anew, err)
			}
			cold := l.empty()
			l.own(cold)
			l.own(parts[0])
			l.same("the tail", l.probe(parts[0]), l.probe(cold))
		})
	}
}

// TestTopicMadeAnew: a state that was built from another topic of that name is
// dropped, also when the new one is longer by now.
func TestTopicMadeAnew(t *testing.T) {
	for _, topic := range []string{"ledger", "seen"} {
		t.Run(topic, func(t *testing.T) {
			l := newLogs(t, 5)
			owner, tail := l.empty(), l.empty()
			l.own(owner)
			for range 5 {
				l.transact(owner)
			}
			l.follow(tail)
			name := map[string]string{"ledger": l.env.names.Ledger(), "seen": l.env.names.Seen()}[topic]
			if _, err := l.adm.DeleteTopic(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			if _, err := l.adm.CreateTopic(t.Context(), 1, 1, nil, name); err != nil {
				t.Fatal(err)
			}
			had := map[string]int64{"ledger": tail.log.ledger, "seen": tail.log.seen}[topic]
			// Another owner, and clients, that know nothing of it.
			seeds := kgo.SeedBrokers(l.broker.ListenAddrs()...)
			l.cl.Close()
			var err error
			if l.cl, err = kgo.NewClient(seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("other")); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.cl.Close)
			l.adm = kadm.NewClient(l.cl)
			l.reader.Close()
			if l.reader, err = stream.OpenReader(stream.ReadConfig{Brokers: l.broker.ListenAddrs()}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.reader.Close)
			other := l.empty()
			l.own(other)
			for end, tries := int64(0), 0; end <= had; tries++ {
				l.transact(other)
				ends, err := l.adm.ListEndOffsets(t.Context(), name)
				if err != nil || tries > 100 {
					t.Fatalf("the new topic ends at %d, the old one at %d: %v", end, had, err)
				}
				o, _ := ends.Lookup(name, 0)
				end = o.Offset
			}
			parts := map[int32]*partition{0: tail}
			_, anew, err := catchUpOrAnew(t.Context(), l.reader, parts)
			if err != nil || len(anew) != 1 || parts[0] == tail {
				t.Fatalf("went on with what another topic said: %v, %v", anew, err)
			}
			cold := l.empty()
			l.own(cold)
			l.own(parts[0])
			l.same("the state begun anew", l.probe(parts[0]), l.probe(cold))
		})
	}
}

// TestOldStateIsNotTrusted: what compaction forgets after a day, a state that
// slept that long would remember.
func TestOldStateIsNotTrusted(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name  string
		fresh time.Time
		old   bool
	}{
		{"never read", time.Time{}, false},
		{"just read", now, false},
		{"an hour ago", now.Add(-time.Hour), false},
		{"a day ago", now.Add(-24 * time.Hour), true},
		{"a day ago by the wall clock, while the monotonic one stood still", now.Round(0).Add(-24 * time.Hour), true},
	} {
		if got := (&replicated{fresh: c.fresh}).tooOld(now); got != c.old {
			t.Errorf("%s: too old is %v", c.name, got)
		}
	}
	s := &stage{env: environment{partitions: 3}, parts: map[int32]*partition{}}
	for n := range int32(2) {
		p, err := newPartition(n, environment{partitions: 2})
		if err != nil {
			t.Fatal(err)
		}
		p.log = replicated{ledger: 5, fresh: now}
		s.parts[n] = p
	}
	s.parts[1].log.fresh = now.Add(-24 * time.Hour)
	committed := map[stream.Partition]stream.Position{s.requests(0): {}, s.requests(1): {}, s.requests(2): {}}
	young, old := s.parts[0], s.parts[1]
	got, err := s.claim(committed)
	if err != nil || len(got) != 3 || got[0] != young || got[1] == old || got[1].log.ledger != 0 || got[2].log.ledger != 0 {
		t.Fatalf("claimed %v, %v", got, err)
	}
}

// TestStandbyHandsOver: what is taken is not followed, what is given back is
// followed on, and a record that cannot be read spoils one partition only.
func TestStandbyHandsOver(t *testing.T) {
	l := newLogs(t, 3)
	owner := l.empty()
	l.own(owner)
	l.transact(owner)
	b := &standby{env: l.env, reader: l.reader, parts: map[int32]*partition{}, taken: map[int32]bool{}, spoilt: map[int32]bool{}}
	b.cfg.Logger = slog.New(slog.DiscardHandler)
	b.round(t.Context())
	read := b.parts[0].log
	if read.ledger == 0 || read.fresh.IsZero() {
		t.Fatalf("followed nothing: %+v", read)
	}
	taken := b.swap(ask{take: map[int32]bool{0: true}})
	if taken[0] == nil || taken[0].log != read || len(b.parts) != 0 {
		t.Fatalf("took %+v", taken)
	}
	l.transact(owner)
	b.round(t.Context())
	if len(b.parts) != 0 || taken[0].log != read {
		t.Fatal("followed what the stage has")
	}
	b.swap(ask{back: taken})
	b.round(t.Context())
	if b.parts[0] != taken[0] || taken[0].log.ledger <= read.ledger {
		t.Fatal("what came back is not followed")
	}
	// A foreign record.
	if err := l.cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := l.cl.ProduceSync(t.Context(), &kgo.Record{Topic: l.env.names.Ledger(), Key: make([]byte, 16), Value: []byte("foreign")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := l.cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	b.round(t.Context())
	b.round(t.Context())
	if b.parts[0] != nil || !b.spoilt[0] {
		t.Fatal("goes on with a spoilt state")
	}
}

// TestRestoreDoesNotWaitForEver: a restored state begins at the log's time and not
// at a clock's. The revision that a partition stands at must be in the policy's
// log; one that does not come is an error that names it.
func TestRestoreDoesNotWaitForEver(t *testing.T) {
	l := newLogs(t, 1)
	if _, err := l.adm.CreateTopic(t.Context(), 1, 1, nil, l.env.names.Config()); err != nil {
		t.Fatal(err)
	}
	watch, err := policy.Watch(t.Context(), l.env.names.Config(), slog.New(slog.DiscardHandler), kgo.SeedBrokers(l.broker.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	p := l.empty()
	s := &stage{env: l.env, policy: watch, cfg: Config{RestoreDeadline: 100 * time.Millisecond}}
	p.base.meta.T, p.floor = l.now, l.now+5
	if err := s.ready(t.Context(), p); err != nil || p.cur.meta.T != l.now+5 {
		t.Fatalf("ready at %v (%v), want the time of the log's last append, %v", p.cur.meta.T, err, l.now+5)
	}
	l.own(p)
	for !l.transact(p) { // its marker names revision 1, which nobody has published
	}
	if err := s.ready(t.Context(), p); err == nil || !strings.Contains(err.Error(), "revision 1 is not in weir.config: waited 100ms") {
		t.Fatalf("ended with %v", err)
	}
}
