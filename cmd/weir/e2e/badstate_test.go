package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const badStatePolicy = `
limits:
  - {name: verify, match: {class: verify}, per: [recipient], allow: [1/1h]}
providers:
  - {name: sim, type: simulated, channels: [sms], settings: {latency: 1ms-5ms}}
tenants:
  - {name: default, default_region: CN}
`

// tamper is a site whose topics and groups a test changes behind Weir's back.
type tamper struct {
	*site
	cl    *kgo.Client
	adm   *kadm.Client
	trail *Trail
}

// recipients of a tamper: enough that every partition has some.
const tampered = 64

func (x *tamper) produce(topic string, partition int32, key, value []byte) {
	x.t.Helper()
	if err := x.cl.ProduceSync(x.t.Context(), &kgo.Record{Topic: topic, Partition: partition, Key: key, Value: value}).FirstErr(); err != nil {
		x.t.Fatal(err)
	}
}

func (x *tamper) read(topic string) (all []*kgo.Record) {
	x.t.Helper()
	var ranges []stream.Range
	for n := range int32(partitions) {
		ranges = append(ranges, stream.Range{Partition: stream.Partition{Topic: topic, Partition: n}})
	}
	if err := stream.Read(x.t.Context(), stream.ReadConfig{Brokers: x.brokers}, ranges, func(r *kgo.Record) error { all = append(all, r); return nil }); err != nil {
		x.t.Fatal(err)
	}
	return all
}

// ask sends one message to each recipient and returns where they stand.
func (x *tamper) ask() []Offset {
	x.t.Helper()
	p, err := NewProducer(x.brokers, x.names, Murmur2)
	if err != nil {
		x.t.Fatal(err)
	}
	for i := range tampered {
		q := schemas.Request{Channel: schemas.ChannelSMS, To: fmt.Sprintf("+86138000%05d", i), Class: "verify", Body: "x"}
		p.Send(x.t.Context(), &q, q.To)
	}
	at, err := p.Close(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	return at
}

func (x *tamper) work() *Process {
	x.t.Helper()
	_ = os.Remove(filepath.Join(x.dir, "worker-0.log"))
	return x.run(0, "admission,lanes,delay")
}

// ends asks each recipient, and holds that all messages end so.
func (x *tamper) ends(name string, want schemas.Status) {
	x.t.Helper()
	at := x.ask()
	x.settle(x.trail, at, 40*time.Second)
	got := make(map[schemas.Status]int)
	for _, a := range at {
		_ = x.trail.Until(x.t.Context(), func(o *Oracle) bool {
			_, end, _ := o.Ended(a)
			got[end]++
			return true
		})
	}
	if got[want] != tampered {
		x.t.Errorf("%s: %v, want %d %s", name, got, tampered, want)
	}
}

// stands holds that a worker starts, and that what each recipient has had is
// still known: the limits stand.
func (x *tamper) stands(name string) (log string) {
	x.t.Helper()
	w := x.work()
	x.ends(name, schemas.StatusLimited)
	x.stop(w)
	return w.Output()
}

// refuses holds that a worker ends on its own with exit code 1 and an error that
// has all of these, before it decided anything.
func (x *tamper) refuses(name string, want ...string) {
	x.t.Helper()
	before := len(x.read(x.names.Status()))
	w := x.work()
	select {
	case <-w.Done():
	case <-time.After(patience):
		x.t.Fatalf("%s: a worker runs on:\n%s", name, w.Tail(10))
	}
	lines := strings.Split(strings.TrimSpace(w.Output()), "\n")
	last := lines[len(lines)-1]
	x.t.Logf("BAD STATE %s: %v: %s", name, w.Err(), last)
	if w.Err() == nil || w.Err().Error() != "exit status 1" {
		x.t.Errorf("%s: ended with %v", name, w.Err())
	}
	for _, piece := range want {
		if !strings.Contains(last, piece) {
			x.t.Errorf("%s: the error lacks %q: %s", name, piece, last)
		}
	}
	if after := len(x.read(x.names.Status())); after != before {
		x.t.Errorf("%s: %d decisions were made", name, after-before)
	}
}

// ledger runs weir ledger, and holds how it ends.
func (x *tamper) ledger(ok bool, args ...string) string {
	x.t.Helper()
	out, err := x.try(append([]string{"ledger"}, args...)...)
	x.t.Logf("weir ledger %s: %v\n%s", strings.Join(args, " "), err, out)
	if (err == nil) != ok {
		x.t.Errorf("weir ledger %v: %v", args, err)
	}
	return out
}

func (x *tamper) group() string { return admission.Group(x.names) }

// remake deletes topics and makes them anew.
func (x *tamper) remake(names ...string) {
	x.t.Helper()
	if _, err := x.adm.DeleteTopics(x.t.Context(), names...); err != nil {
		x.t.Fatal(err)
	}
	if !poll(x.t, 20*time.Second, func() bool { // a deletion takes a moment
		out, err := x.try("topics", "apply")
		return err == nil && !strings.Contains(out, "as they should be")
	}) {
		x.t.Fatal("the topics are not made anew")
	}
	x.cl.PurgeTopicsFromClient(names...) // it knows the old one's id
}

// badState damages what Weir keeps in Kafka, one thing after another. Each time
// the program says what is wrong, where, and what to do; does it; and the limits
// stand as they did.
func badState(t *testing.T, brokers []string) {
	s := newSite(t, brokers, "state", badStatePolicy)
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	x := &tamper{site: s, cl: cl, adm: kadm.NewClient(cl), trail: s.follow(nil)}
	w := x.work()
	x.ends("at first", schemas.StatusSent)

	// The policy's topic. The worker goes on all the while.
	config := x.names.Config()
	for _, c := range []struct{ name, value, want string }{
		{"wrong parent", `{"revision":9,"parent":7,"policy":{}}`, schemas.ErrWrongParent.Error()},
		{"torn revision", `{"revision":2,"parent":1,"policy":{"limits":[{"na`, schemas.ErrNoRevision.Error()},
		{"revision without policy", `{"revision":2,"parent":1}`, schemas.ErrNoRevision.Error()},
	} {
		x.produce(config, 0, []byte("policy"), []byte(c.value))
		if !poll(t, 10*time.Second, func() bool { return strings.Contains(w.Output(), c.want) && strings.Contains(w.Output(), "in_force=1") }) {
			t.Errorf("%s: not named:\n%s", c.name, w.Tail(5))
		}
		x.ends(c.name, schemas.StatusLimited)
	}
	// Past apply, straight into the topic: a limit of 10 million, and a zone
	// that does not exist.
	for i, change := range []func(*schemas.Limit){
		func(l *schemas.Limit) { l.Allow[0].N = 10_000_000 },
		func(l *schemas.Limit) { l.Timezone = "Asia/Atlantis" },
	} {
		doc, err := schemas.ParsePolicy("policy.yaml", []byte(badStatePolicy))
		if err != nil {
			t.Fatal(err)
		}
		change(&doc.Policy.Limits[0])
		rev := schemas.Revision{Revision: int64(2 + i), Parent: int64(1 + i), By: "test", Policy: doc.Policy}
		value, err := json.Marshal(rev)
		if err != nil {
			t.Fatal(err)
		}
		x.produce(config, 0, []byte("policy"), value)
		x.ends("unusable revision", schemas.StatusLimited)
		want := fmt.Sprintf("revision %d: %v", rev.Revision, admission.ErrUnusablePolicy)
		if !poll(t, 10*time.Second, func() bool { x.ask(); return strings.Contains(w.Output(), want) }) {
			t.Errorf("an unusable revision is not named:\n%s", w.Tail(5))
		}
	}
	x.apply(badStatePolicy + "classes:\n  - {name: verify, priority: urgent}\n")
	x.ends("a valid policy after them", schemas.StatusLimited)
	x.stop(w)
	if events := x.read(x.names.Status()); !bytes.Contains(bytes.Join(values(events), nil), []byte(`"revision":4`)) {
		t.Error("nobody follows the valid policy")
	}

	// A file with the same mistakes never gets that far.
	for name, c := range map[string]struct{ text, want string }{
		"10 million":              {"limits:\n  - {name: verify, per: [recipient], allow: [10000000/1d]}\n", "bad.yaml:2:46"},
		"10 million, an override": {"limits:\n  - name: verify\n    per: [recipient]\n    allow: [1/1d]\n    overrides: [{to: \"+8613800000000\", allow: [10000000/1d]}]\n", "bad.yaml:5:"},
		"no such zone":            {"limits:\n  - {name: verify, per: [recipient], allow: [1/calendar-day], timezone: Asia/Atlantis}\n", "Asia/Atlantis"},
	} {
		file := filepath.Join(s.dir, "bad.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := s.try("apply", "-f", file)
		if err == nil || !strings.Contains(out, c.want) || !strings.Contains(out, "bad.yaml:") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		t.Logf("BAD STATE apply, %s: %s", name, strings.TrimSpace(out))
	}

	// The ledger. Its records are put right from what is still in the log.
	ledger := x.names.Ledger()
	var place, meta *kgo.Record
	for _, r := range x.read(ledger) {
		if len(r.Key) == 16 && len(r.Value) > 0 {
			place = r
		}
		if string(r.Key) == "meta" {
			meta = r
		}
	}
	for name, r := range map[string]*kgo.Record{"torn place": place, "torn meta record": meta} {
		x.produce(ledger, r.Partition, r.Key, r.Value[:len(r.Value)/2])
		x.refuses(name, fmt.Sprintf("%s/%d offset ", ledger, r.Partition), admission.ErrLedgerRecord.Error())
		x.ledger(false, "check")
		x.ledger(true, "repair")
		x.ledger(true, "check")
		x.stands(name)
	}
	x.produce(ledger, place.Partition, place.Key, nil)
	x.refuses("a place under a tombstone", fmt.Sprintf("%s/%d: 1 of ", ledger, place.Partition), fmt.Sprintf("key %x", place.Key), admission.ErrLedgerDiffers.Error())
	x.ledger(false, "check")
	x.ledger(true, "repair")
	x.ledger(true, "check")
	x.stands("a place under a tombstone")
	x.produce(ledger, 0, []byte("hello"), []byte("world"))
	x.produce(x.names.Seen(), 0, []byte("hello"), []byte("world"))
	if log := x.stands("foreign records"); strings.Count(log, "a foreign record is left out") != 1 {
		t.Errorf("foreign records are not named:\n%s", log)
	}

	// The group.
	reset := make(kadm.Offsets)
	reset.AddOffset(x.names.Requests(), 3, 0, -1)
	if err := x.adm.CommitAllOffsets(t.Context(), x.group(), reset); err != nil {
		t.Fatal(err)
	}
	x.refuses("the group was reset", x.names.Requests()+"/3: the group stands at 0", admission.ErrPositions.Error())
	x.ledger(true, "repair")
	x.stands("the group was reset")
	if _, err := x.adm.DeleteGroups(t.Context(), x.group()); err != nil {
		t.Fatal(err)
	}
	x.stands("the group is gone")
	out, err := s.try("audit")
	t.Logf("BAD STATE AUDIT %v %s", err, out)
	if err != nil {
		t.Errorf("the audit: %v", err)
	}

	// Two processes in one slot.
	w = x.work()
	x.ends("before another in its slot", schemas.StatusLimited)
	twin, err := Start(t.TempDir(), "twin", s.bin, append([]string{"run", "--roles", "admission", "--slot", "0", "--shutdown-grace", unhurried}, s.flags()...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(twin.Kill)
	var fenced, other *Process
	if !poll(t, 90*time.Second, func() bool {
		x.ask()
		select {
		case <-w.Done():
			fenced, other = w, twin
		case <-twin.Done():
			fenced, other = twin, w
		default:
			return false
		}
		return true
	}) {
		t.Error("two processes run in one slot")
	} else {
		t.Logf("BAD STATE two in one slot: %v: %s", fenced.Err(), fenced.Tail(1))
		if fenced.Err() == nil || !strings.Contains(fenced.Tail(1), stream.ErrFenced.Error()) {
			t.Errorf("two in one slot: %v: %s", fenced.Err(), fenced.Tail(3))
		}
		// Not killed: it may wait to join again just now. See stable.
		x.stop(other)
	}
	x.stands("two were in one slot")

	// Requests that are deleted before they are decided.
	at := x.ask()[0]
	end, err := x.adm.ListEndOffsets(t.Context(), x.names.Requests())
	if err != nil {
		t.Fatal(err)
	}
	gone := make(kadm.Offsets)
	last, _ := end.Lookup(x.names.Requests(), at.Partition)
	gone.AddOffset(x.names.Requests(), at.Partition, last.Offset, -1)
	if _, err := x.adm.DeleteRecords(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	x.refuses("requests were deleted", fmt.Sprintf("%s/%d: the state stands at ", x.names.Requests(), at.Partition), admission.ErrDeleted.Error())
	x.ledger(false, "repair")
	x.ledger(true, "repair", "--skip-deleted")
	x.stands("requests were deleted")
	out, err = s.try("audit")
	t.Logf("BAD STATE AUDIT after requests were deleted: %v %s", err, out)
	if err == nil || err.Error() != "exit status 3" { // it cannot judge what is gone, and all else holds
		t.Errorf("the audit after requests were deleted: %v", err)
	}

	// The ledger is gone, with the group and without; it is made again of weir.status.
	x.remake(ledger)
	x.refuses("the ledger is gone", ledger, admission.ErrLedgerLost.Error())
	if _, err := x.adm.DeleteGroups(t.Context(), x.group()); err != nil {
		t.Fatal(err)
	}
	x.refuses("the ledger is gone, and the group", ledger, admission.ErrLedgerLost.Error())
	x.ledger(false, "repair", "--skip-deleted")
	x.ledger(true, "repair", "--forget")
	x.stands("the ledger was made again")

	// Requests are made anew.
	x.remake(x.names.Requests())
	x.refuses("requests were made anew", x.names.Requests(), admission.ErrTopicRecreated.Error())
	x.ledger(true, "repair", "--skip-deleted")
	// The trail's oracle knows the old offsets: count.
	was := x.limited()
	w = x.work()
	x.ask()
	if !poll(t, 30*time.Second, func() bool { return x.limited() == was+tampered }) {
		t.Errorf("after requests were made anew: %d limited", x.limited()-was)
	}
	x.stop(w)

	// N.
	if out, err := s.try("topics", "plan"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := x.adm.UpdatePartitions(t.Context(), partitions+4, x.names.Requests()); err != nil {
		t.Fatal(err)
	}
	x.refuses("another N", fmt.Sprintf("%s has %d and should have %d", x.names.Requests(), partitions+4, partitions), (&topics.PartitionsChangedError{}).Error()[:len("partition count changed")])
}

// limited counts the messages that were ever limited.
func (x *tamper) limited() (n int) {
	for _, r := range x.read(x.names.Status()) {
		if e, err := schemas.DecodeEvent(r.Value); err == nil && e.Status == schemas.StatusLimited {
			n++
		}
	}
	return n
}

func values(records []*kgo.Record) (out [][]byte) {
	for _, r := range records {
		out = append(out, r.Value)
	}
	return out
}
