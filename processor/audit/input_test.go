package audit_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/schemas"
)

func mentions(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("it does not say %q: %s", w, text)
		}
	}
}

func TestNoTopics(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := audit.Run(t.Context(), audit.Config{Brokers: c.ListenAddrs()})
	if err == nil {
		t.Fatalf("proven on an empty cluster: %s", text(r))
	}
	mentions(t, err.Error(), "weir.requests", "does not exist", "prefix")
}

// Topics without a decision prove nothing.
func TestNothingToJudge(t *testing.T) {
	l := newLive(t)
	r := l.audit()
	if r.Outcome != audit.CouldNotTell {
		t.Fatalf("outcome %s", r.Outcome)
	}
	mentions(t, text(r), "the log has no decision to judge")
}

// A record of weir.config that is no revision does not count, for the audit as
// for admission: between two decisions it changes nothing.
func TestTornRevision(t *testing.T) {
	l := newLive(t)
	stop := l.start()
	l.send(4, 50)
	l.settled()
	for _, v := range []string{`{"revision": 2, "par`, "", `["a"]`, `{"hello":"world"}`} {
		if err := l.cl.ProduceSync(t.Context(), &kgo.Record{Topic: l.names.Config(), Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	l.publish(secondPolicy)
	l.send(5, 50)
	l.settled()
	stop()
	if r := l.audit(); r.Outcome != audit.Proven || r.Revisions != 2 || r.Checked.Markers <= parts {
		t.Fatal(text(r))
	}
}

func TestPartitionsThatDiffer(t *testing.T) {
	l := newLive(t)
	if _, err := audit.Run(t.Context(), audit.Config{Brokers: l.seeds, Names: l.names, Partitions: parts + 1}); err == nil {
		t.Fatal("judged under another N")
	} else {
		mentions(t, err.Error(), "partition count")
	}
}

// Requests that no one can read, and records of readmit that Weir did not
// write, are decided like others; a torn decision is a violation.
func TestTornInputs(t *testing.T) {
	l := newLive(t)
	stop := l.start()
	var bad []*kgo.Record
	for i, v := range []string{"", "{", `{"channel":"sms"`, "\x00\x00\x00\x00\x01\x00", `["a"]`, `{"action":"explode","to":"+8613800000001"}`, `{"channel":"sms","to":"nobody"}`} {
		bad = append(bad, &kgo.Record{Topic: l.names.Requests(), Partition: int32(i % parts), Value: []byte(v)},
			&kgo.Record{Topic: l.names.Readmit(), Partition: int32(i % parts), Value: []byte(v)},
			&kgo.Record{Topic: l.names.Readmit(), Partition: int32(i % parts), Value: []byte(v), Headers: []kgo.RecordHeader{{Key: schemas.HeaderAttempt, Value: []byte("many")}}})
	}
	if err := l.cl.ProduceSync(t.Context(), bad...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	l.send(5, 100)
	l.settled()
	stop()
	if r := l.audit(); r.Outcome != audit.Proven || r.Checked.Requests != 107 {
		t.Fatalf("%s", text(r))
	}
	for i, v := range []string{"", `{"kind":"status","mess`, `{"hello":"world"}`} {
		if err := l.cl.ProduceSync(t.Context(), &kgo.Record{Topic: l.names.Status(), Partition: int32(i), Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if r := l.audit(); r.Faults[audit.KindTorn] != 3 {
		t.Fatalf("%s", text(r))
	}
}

// What retention took is said, and no violation is made of it.
func TestTrimmedByRetention(t *testing.T) {
	l := newLive(t)
	stop := l.start()
	l.send(6, 400)
	l.settled()
	stop()
	if r := l.audit(); r.Outcome != audit.Proven {
		t.Fatal(text(r))
	}
	adm := kadm.NewClient(l.cl)
	trim := func(topic string, share int64) {
		t.Helper()
		ends, err := adm.ListEndOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		to := make(kadm.Offsets)
		ends.Each(func(o kadm.ListedOffset) {
			to.Add(kadm.Offset{Topic: topic, Partition: o.Partition, At: o.Offset * share / 100, LeaderEpoch: -1})
		})
		if _, err := adm.DeleteRecords(t.Context(), to); err != nil {
			t.Fatal(err)
		}
	}
	told := func(words ...string) {
		t.Helper()
		r := l.audit()
		if r.Outcome != audit.CouldNotTell {
			t.Fatal(text(r))
		}
		mentions(t, text(r), words...)
	}
	trim(l.names.Requests(), 40)
	told("inputs that lie before the retained log")
	trim(l.names.Requests(), 100)
	told("inputs that lie before the retained log")
	trim(l.names.Journal("sim"), 50)
	told("sendings before the retained journals")
	trim(l.names.Status(), 50)
	told("reach back before the log", "charges in the ledger were taken before the log")
	trim(l.names.Status(), 100)
	told("the log has no decision to judge", "partitions whose whole log was deleted by age: whether their ledger")
}

// closes ends a broker when the first record of a topic was fetched.
type closes struct {
	topic string
	once  sync.Once
	do    func()
}

func (c *closes) OnFetchRecordBuffered(r *kgo.Record) {
	if r.Topic == c.topic {
		c.once.Do(c.do)
	}
}

func TestBrokerGoesAway(t *testing.T) {
	l := newLive(t)
	stop := l.start()
	l.send(7, 200)
	l.settled()
	stop()
	hook := &closes{topic: l.names.Status(), do: l.broker.Close}
	began := time.Now()
	r, err := audit.Run(t.Context(), audit.Config{Brokers: l.seeds, Names: l.names, Stall: time.Second, Options: []kgo.Opt{kgo.WithHooks(hook)}})
	if err == nil {
		t.Fatalf("it says %s", text(r))
	}
	mentions(t, err.Error(), "the brokers do not answer")
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s to say so", took)
	}
}

// What does not fit into memory is not judged, and that is what is said.
func TestMemoryBound(t *testing.T) {
	l := newLive(t)
	stop := l.start()
	l.send(8, 1200)
	l.settled()
	stop()
	for _, c := range []struct {
		memory int64
		want   audit.Outcome
	}{{512 << 20, audit.Proven}, {1 << 20, audit.CouldNotTell}} {
		r, err := audit.Run(t.Context(), audit.Config{Brokers: l.seeds, Names: l.names, Memory: c.memory})
		if err != nil {
			t.Fatal(err)
		}
		if r.Outcome != c.want {
			t.Errorf("with %d MiB: %s", c.memory>>20, text(r))
		}
		if c.want == audit.CouldNotTell {
			mentions(t, text(r), "memory bound", "nothing beyond was judged")
		}
	}
}

// What a transaction writes beside its status may not be there yet while it is
// open: the audit waits for it, and says so when it does not end.
func TestOpenTransaction(t *testing.T) {
	l := newLive(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.seeds...), kgo.TransactionalID("open"))
	if err == nil {
		err = cl.BeginTransaction()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: l.names.Status(), Value: []byte("{}")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r, err := audit.Run(t.Context(), audit.Config{Brokers: l.seeds, Names: l.names, Stall: 300 * time.Millisecond})
	if err == nil {
		t.Fatalf("it did not wait: %s", text(r))
	}
	mentions(t, err.Error(), l.names.Status(), "a transaction has been open for 300ms")
	if err := cl.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	if r := l.audit(); r.Outcome != audit.CouldNotTell || len(r.Faults) > 0 {
		t.Fatal(text(r))
	}
}
