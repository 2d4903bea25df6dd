package admission_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// refused runs a worker that is to end by itself, and returns why it did.
func (w *world) refused() error {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	return admission.Run(ctx, admission.Config{
		Stream:     stream.Config{Brokers: w.seeds, TransactionalID: "admission-0", SessionTimeout: 6 * time.Second, BatchBytes: w.names.BatchBytes},
		Read:       stream.ReadConfig{Brokers: w.seeds},
		Names:      w.names,
		Partitions: partitions, DelayPartitions: partitions, DLQPartitions: partitions, ReplyPartitions: replyPartitions,
	}, w.pol)
}

// inspect returns what weir ledger check finds.
func (w *world) inspect() []admission.Problem {
	w.t.Helper()
	offsets, err := kadm.NewClient(w.cl).FetchOffsets(w.t.Context(), admission.Group(w.names))
	if err != nil {
		w.t.Fatal(err)
	}
	at := make(map[stream.Partition]int64)
	offsets.Each(func(o kadm.OffsetResponse) { at[stream.Partition{Topic: o.Topic, Partition: o.Partition}] = o.At })
	problems, err := admission.Inspect(w.t.Context(), stream.ReadConfig{Brokers: w.seeds}, w.names, partitions, at, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return problems
}

// last returns the last record of the ledger that fits.
func (w *world) last(n int32, fits func(r *kgo.Record) bool) (last *kgo.Record) {
	w.t.Helper()
	at := stream.Range{Partition: stream.Partition{Topic: w.names.Ledger(), Partition: n}}
	if err := stream.Read(w.t.Context(), stream.ReadConfig{Brokers: w.seeds}, []stream.Range{at}, func(r *kgo.Record) error {
		if fits(r) {
			last = r
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return last
}

// TestVanishedStateStops: admission does not decide on a state of which something is missing,
// weir ledger check says what, and after its repair admission goes on.
func TestVanishedStateStops(t *testing.T) {
	const to = "+8613800000000"
	home := schemas.PartitionOf(to, partitions)
	for _, c := range []struct {
		name    string
		tamper  func(w *world)
		says    []string
		gives   string
		consent admission.Consent
		writes  int
		then    schemas.Status // of the next request of the recipient
		again   schemas.Status // of the one whose key was given before
	}{
		{"a tombstone", func(w *world) {
			r := w.last(home, func(r *kgo.Record) bool { return len(r.Key) == 16 })
			w.produce(&kgo.Record{Topic: w.names.Ledger(), Partition: home, Key: r.Key})
		}, []string{fmt.Sprintf("weir.ledger/%d: 1 of 1 records are missing of limits", home), "key "}, "nothing is lost", admission.ConsentNone, 1, schemas.StatusLimited, schemas.StatusDuplicate},
		{"the ledger is cut off before its meta record", func(w *world) {
			w.cut(w.names.Ledger(), home, w.last(home, func(*kgo.Record) bool { return true }).Offset)
		}, []string{"1 of 1 records are missing of limits"}, "what 1 keys of limits have is made anew of weir.status, but for buckets: limit verify key KEY: then the state is what the last transaction left", admission.ConsentNone, 1, schemas.StatusLimited, schemas.StatusDuplicate},
		{"another time with a valid checksum, and what stood before is cut off", func(w *world) {
			r := w.last(home, func(r *kgo.Record) bool { return len(r.Key) == 16 })
			meta := w.last(home, func(*kgo.Record) bool { return true })
			body, table := bytes.Clone(r.Value[:len(r.Value)-4]), crc32.MakeTable(crc32.Castagnoli)
			body[len(body)-1] ^= 2
			w.produce(&kgo.Record{Topic: w.names.Ledger(), Partition: home, Key: r.Key, Value: binary.LittleEndian.AppendUint32(body, crc32.Update(crc32.Checksum(r.Key, table), table, body))})
			w.produce(&kgo.Record{Topic: w.names.Ledger(), Partition: home, Key: bytes.Repeat([]byte{7}, 16)}) // harmless
			w.cut(w.names.Ledger(), home, meta.Offset)
		}, []string{"some of 1 records differ of limits", "key "}, "limit verify key KEY, no place under key 07070707070707070707070707070707: then the state is what the last transaction left", admission.ConsentNone, 2, schemas.StatusLimited, schemas.StatusDuplicate},
		{"known keys are cut off", func(w *world) {
			w.cut(w.names.Seen(), home, w.end(w.names.Seen(), home))
		}, []string{fmt.Sprintf("weir.seen/%d: 2 of 2 records are missing of the 3 hours from ", home)}, "may be sent again", admission.ConsentForget, 1, schemas.StatusLimited, schemas.StatusLimited},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			stop := w.admit("0")
			keyed := fmt.Sprintf(`{"id":"0b6f0e7e-0000-4000-8000-000000000001","channel":"sms","to":%q,"class":"verify","body":"x","idempotency_key":"k"}`, to)
			w.request(home, "%s", keyed)
			w.statuses(1)
			stop()
			if found := w.inspect(); len(found) > 0 {
				t.Fatalf("before, %v", found[0].Err)
			}
			place := w.last(home, func(r *kgo.Record) bool { return len(r.Key) == 16 })
			c.tamper(w)
			err := w.refused()
			if !errors.Is(err, admission.ErrLedgerDiffers) {
				t.Fatalf("admission ended with %v", err)
			}
			found := w.inspect()
			if len(found) != 1 || found[0].Partition != home || !errors.Is(found[0].Err, admission.ErrLedgerDiffers) || found[0].Consent != c.consent || len(found[0].Write) != c.writes {
				t.Fatalf("the check finds %+v", found)
			}
			if gives := strings.Replace(c.gives, "KEY", fmt.Sprintf("%x", place.Key), 1); !strings.Contains(found[0].Gives, gives) {
				t.Errorf("the check says %q, want %q", found[0].Gives, gives)
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) || !strings.Contains(found[0].Err.Error(), want) {
					t.Errorf("admission says %q, the check %q, want %q", err, found[0].Err, want)
				}
			}
			for _, r := range found[0].Write {
				w.produce(r)
			}
			if found := w.inspect(); len(found) > 0 {
				t.Fatalf("after the repair, %v", found[0].Err)
			}
			stop = w.admit("0")
			w.request(home, `{"channel":"sms","to":%q,"class":"verify","body":"x"}`, to)
			if got := lastStatus(w.statuses(1)); got.Status != c.then {
				t.Errorf("the next request is %s, want %s", got.Status, c.then)
			}
			w.request(home, "%s", strings.Replace(keyed, `"id":"0b6f0e7e-0000-4000-8000-000000000001",`, "", 1))
			if got := lastStatus(w.statuses(1)); got.Status != c.again {
				t.Errorf("the request with a known key is %s, want %s", got.Status, c.again)
			}
			stop()
			if found := w.inspect(); len(found) > 0 {
				t.Fatalf("in the end, %v", found[0].Err)
			}
		})
	}
}

// TestLedgerLosesItsEnd: weir ledger check names the decisions that the ledger lacks, and the
// repair applies them again: limits and opt-outs are as they were.
func TestLedgerLosesItsEnd(t *testing.T) {
	const to = "+8613800000000"
	home, other := schemas.PartitionOf(to, partitions), ""
	for i := 1; other == "" || schemas.PartitionOf(other, partitions) != home; i++ {
		other = fmt.Sprintf("+861380000%04d", i)
	}
	for _, c := range []struct {
		name   string
		before bool // it has a request
		gives  string
		status bool  // it has lost its beginning
		undone bool  // the copy ends in a transaction that was aborted
		reset  int64 // the group is set back to it; or -1
		gone   bool  // the group is
	}{
		{"all of it", false, "decisions 1 to ", false, false, -1, false},
		{"all of it, and the group is gone", false, "decisions 1 to ", false, false, -1, true},
		{"its last decisions", true, "decisions 3 to ", false, false, -1, false},
		{"its last decisions, and the group is gone", true, "decisions 3 to ", false, false, -1, true},
		{"its last decisions, and what was aborted is committed", true, "decisions 3 to ", false, true, -1, false},
		{"its last decisions, and weir.status begins later", true, "weir.status has not all decisions since", true, false, -1, false},
		{"its last decisions, and the group is reset", true, "what comes before 4 was decided: somebody reset it", false, false, 0, false},
		{"its last decisions, and the group is set back to it", true, "what comes before 4 was decided: somebody reset it", false, false, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			ask := func(bodies string, args ...any) schemas.Status {
				t.Helper()
				stop := w.admit("0")
				defer stop()
				for body := range strings.Lines(fmt.Sprintf(bodies, args...)) {
					w.request(home, "%s", body)
				}
				return lastStatus(w.statuses(1)).Status
			}
			var copied []*kgo.Record
			if c.before {
				if got := ask(`{"channel":"sms","to":%q,"class":"verify","body":"x"}`, to); got != schemas.StatusQueued {
					t.Fatalf("the first is %s", got)
				}
				w.last(home, func(r *kgo.Record) bool { copied = append(copied, r); return true })
			}
			if c.undone {
				var m map[string]json.RawMessage
				meta := copied[len(copied)-1]
				if err := json.Unmarshal(meta.Value, &m); err != nil || string(m["seq"]) != "2" {
					t.Fatalf("the meta record is %s: %v", meta.Value, err)
				}
				m["seq"], m["requests"] = json.RawMessage("3"), json.RawMessage("2") // a moment before the decision 3
				value, err := json.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				place := w.last(home, func(r *kgo.Record) bool { return len(r.Key) == 16 })
				copied = append(copied, &kgo.Record{Topic: place.Topic, Partition: home, Key: place.Key}, &kgo.Record{Topic: place.Topic, Partition: home, Key: meta.Key, Value: value})
			}
			if got := ask(`{"channel":"sms","to":%q,"class":"verify","body":"x"}`, other); got != schemas.StatusQueued {
				t.Fatalf("it is %s", got)
			}
			ask(`{"action":"suppress","channel":"sms","to":%q,"class":"news"}
{"channel":"sms","to":%[1]q,"class":"news","body":"x"}`, other)
			w.cut(w.names.Ledger(), home, w.end(w.names.Ledger(), home))
			if c.status {
				w.cut(w.names.Status(), home, w.end(w.names.Status(), home)-2) // the last decision and its marker stay
			}
			if c.reset >= 0 {
				w.resetGroup(home, c.reset)
			}
			if c.gone {
				if _, err := kadm.NewClient(w.cl).DeleteGroup(t.Context(), admission.Group(w.names)); err != nil {
					t.Fatal(err)
				}
			}
			for _, r := range copied {
				w.produce(&kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value})
			}
			if err := w.refused(); !errors.Is(err, admission.ErrLedgerLost) {
				t.Fatalf("admission ended with %v", err)
			}
			found, lost := w.inspect(), c.status || c.reset >= 0
			if len(found) != 1 || !errors.Is(found[0].Err, admission.ErrLedgerLost) || !strings.Contains(found[0].Gives, c.gives) || found[0].Repairable() == lost {
				t.Fatalf("the check finds %+v", found)
			}
			if lost {
				return
			}
			if found[0].Consent != admission.ConsentForget {
				t.Errorf("it takes the consent %q", found[0].Consent)
			}
			for _, r := range found[0].Write {
				w.produce(r)
			}
			if found := w.inspect(); len(found) > 0 {
				t.Fatalf("after the repair, %v", found[0].Err)
			}
			for _, limited := range []string{to, other} {
				if limited == to && !c.before {
					continue
				}
				if got := ask(`{"channel":"sms","to":%q,"class":"verify","body":"x"}`, limited); got != schemas.StatusLimited {
					t.Errorf("the next request to %s is %s", limited, got)
				}
			}
			if got := ask(`{"channel":"sms","to":%q,"class":"news","body":"x"}`, other); got != schemas.StatusSuppressed {
				t.Errorf("one to who opted out is %s", got)
			}
			if found := w.inspect(); len(found) > 0 {
				t.Fatalf("in the end, %v", found[0].Err)
			}
		})
	}
}

// TestGroupBehindAnUnknownLedger: where weir.status does not show that the ledger is the latest, the
// group is set back to it only if an operator agrees.
func TestGroupBehindAnUnknownLedger(t *testing.T) {
	const to = "+8613800000000"
	home := schemas.PartitionOf(to, partitions)
	for _, gone := range []bool{false, true} {
		w := newWorld(t)
		stop := w.admit("0")
		w.request(home, `{"channel":"sms","to":%q,"class":"verify","body":"x"}`, to)
		w.statuses(1)
		stop()
		w.resetGroup(home, 0)
		want := admission.ConsentNone
		if gone {
			w.cut(w.names.Status(), home, w.end(w.names.Status(), home))
			want = admission.ConsentForget
		}
		if found := w.inspect(); len(found) != 1 || !errors.Is(found[0].Err, admission.ErrPositions) || found[0].Consent != want || len(found[0].Stand) != 2 {
			t.Errorf("without the log (%v) the check finds %+v", gone, found)
		}
	}
}

// TestStateOfAnEarlierVersion: its meta record has no sums. Nothing is compared, and the next
// transaction writes them.
func TestStateOfAnEarlierVersion(t *testing.T) {
	const to = "+8613800000000"
	home := schemas.PartitionOf(to, partitions)
	w := newWorld(t)
	isMeta := func(r *kgo.Record) bool { return string(r.Key) == "meta" }
	ask := func(want schemas.Status) {
		t.Helper()
		stop := w.admit("0")
		w.request(home, `{"channel":"sms","to":%q,"class":"verify","body":"x"}`, to)
		if got := lastStatus(w.statuses(1)); got.Status != want {
			t.Fatalf("it is %s, want %s", got.Status, want)
		}
		stop()
	}
	ask(schemas.StatusQueued)
	var m map[string]json.RawMessage
	was := w.last(home, isMeta)
	if err := json.Unmarshal(was.Value, &m); err != nil || m["sums"] == nil {
		t.Fatalf("the meta record is %s: %v", was.Value, err)
	}
	delete(m, "sums")
	value, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	w.produce(&kgo.Record{Topic: w.names.Ledger(), Partition: home, Key: was.Key, Value: value})
	ask(schemas.StatusLimited)
	if err := json.Unmarshal(w.last(home, isMeta).Value, &m); err != nil || m["sums"] == nil {
		t.Fatalf("the meta record has no sums: %v", err)
	}
	ask(schemas.StatusLimited)
}

// cut deletes what a partition has before an offset.
func (w *world) cut(topic string, n int32, at int64) {
	w.t.Helper()
	if _, err := kadm.NewClient(w.cl).DeleteRecords(w.t.Context(), kadm.Offsets{topic: {n: {Topic: topic, Partition: n, At: at}}}); err != nil {
		w.t.Fatal(err)
	}
}

// resetGroup is what an operator had better not do.
func (w *world) resetGroup(n int32, requests int64) {
	w.t.Helper()
	at := kadm.Offsets{}
	at.AddOffset(w.names.Requests(), n, requests, -1)
	if _, err := kadm.NewClient(w.cl).CommitOffsets(w.t.Context(), admission.Group(w.names), at); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) produce(r *kgo.Record) {
	w.t.Helper()
	if err := w.cl.ProduceSync(w.t.Context(), r).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}
