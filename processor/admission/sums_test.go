package admission

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// whole ends the test if what a state has read differs from what its meta record says.
func (l *logs) whole(what string, p *partition) {
	l.t.Helper()
	if err := p.differs(l.now); err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
}

// records reads the last record of each key of a log, and the one of another value before it.
func (l *logs) records(topic string) (last, before map[string]*kgo.Record) {
	l.t.Helper()
	last, before = make(map[string]*kgo.Record), make(map[string]*kgo.Record)
	if err := stream.Read(l.t.Context(), stream.ReadConfig{Brokers: l.broker.ListenAddrs()}, []stream.Range{{Partition: stream.Partition{Topic: topic}}}, func(r *kgo.Record) error {
		k := string(r.Key)
		if old := last[k]; old != nil && len(old.Value) > 0 && !bytes.Equal(old.Value, r.Value) {
			before[k] = old
		}
		last[k] = r
		return nil
	}); err != nil {
		l.t.Fatal(err)
	}
	return last, before
}

// outsider writes as another program does: outside of a transaction.
func (l *logs) outsider(topic string, key, value []byte) {
	l.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.broker.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		l.t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(l.t.Context(), &kgo.Record{Topic: topic, Key: key, Value: value}).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
}

// edited returns a record of a limit with another time of its last place, and the right sum.
func edited(key, value []byte) []byte {
	body := bytes.Clone(value[:len(value)-4])
	body[len(body)-1] ^= 2
	table := crc32.MakeTable(crc32.Castagnoli)
	return binary.LittleEndian.AppendUint32(body, crc32.Update(crc32.Checksum(key, table), table, body))
}

// TestVanishedState: every record reads as one of Weir's, and the state is another than the
// one that was decided on. A restore, a standby that followed and an owner that comes back
// all notice it, and name the key where a record is left of who wrote it.
func TestVanishedState(t *testing.T) {
	kinds := map[string]struct {
		says string
		is   func(key string) bool
	}{
		"a limit's places":           {"of limits", func(k string) bool { return limit.IsKey([]byte(k)) }},
		"an opt-out":                 {"of opt-outs", func(k string) bool { return len(k) == 17 && k[0] == suppressionKind }},
		"a waiting message":          {"of waiting messages", func(k string) bool { return len(k) == 17 && k[0] == waitingKind }},
		"a decision without sending": {"of decisions without sending", func(k string) bool { return len(k) == 17 && k[0] == heldKind }},
	}
	seed := uint64(0)
	cut := "known keys are cut off"
	tampered := func(name string, tamper func(l *logs) (says []string)) {
		seed++
		t.Run(name, func(t *testing.T) {
			l := newLogs(t, seed)
			owner, tail := l.empty(), l.empty()
			l.own(owner)
			for range 80 {
				l.transact(owner)
			}
			l.follow(tail)
			for l.transact(owner) {
			}
			cold := l.empty()
			l.own(cold)
			l.whole("before", cold)
			says := tamper(l)
			states := map[string]*partition{"a cold restore": l.empty(), "a standby": tail, "the owner": owner}
			if name == cut { // who has them in memory still has them
				l.own(owner)
				l.whole("the owner", owner)
				delete(states, "a standby")
				delete(states, "the owner")
			}
			for name, p := range states {
				l.own(p)
				if err := p.damaged.err(); err != nil {
					t.Fatalf("%s cannot read it: %v", name, err)
				}
				err := p.differs(l.now)
				if !errors.Is(err, ErrLedgerDiffers) {
					t.Errorf("%s does not notice it: %v", name, err)
					continue
				}
				for _, want := range says {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%s says %q, want %q", name, err, want)
					}
				}
			}
		})
	}
	for kind, k := range kinds {
		find := func(l *logs, records, where map[string]*kgo.Record, fits func(r *kgo.Record) bool) *kgo.Record {
			l.t.Helper()
			for key, r := range records {
				if at := where[key]; k.is(key) && at != nil && len(r.Value) > 0 && fits(r) {
					return at
				}
			}
			l.t.Fatal("the log has no such record")
			return nil
		}
		ledger := newLedgerName()
		tampered(kind+" under a tombstone", func(l *logs) []string {
			last, _ := l.records(ledger)
			r := find(l, last, last, func(*kgo.Record) bool { return true })
			l.outsider(ledger, r.Key, nil)
			return []string{ledger + "/0: 1 of ", "records are missing " + k.says, fmt.Sprintf("key %x", r.Key)}
		})
		if kind == "a waiting message" || kind == "a decision without sending" {
			continue // has one value, or is written and removed
		}
		tampered("an older copy of "+kind, func(l *logs) []string {
			last, before := l.records(ledger)
			r := find(l, last, before, func(*kgo.Record) bool { return true })
			l.outsider(ledger, r.Key, r.Value)
			return []string{"records differ " + k.says, fmt.Sprintf("key %x", r.Key)}
		})
		if kind != "a limit's places" {
			continue
		}
		tampered("another time in "+kind, func(l *logs) []string {
			last, _ := l.records(ledger)
			r := find(l, last, last, func(r *kgo.Record) bool {
				return l.empty().load(r.Key, edited(r.Key, r.Value)) == nil
			})
			l.outsider(ledger, r.Key, edited(r.Key, r.Value))
			return []string{"records differ " + k.says, fmt.Sprintf("key %x", r.Key)}
		})
		tampered("what was removed comes back", func(l *logs) []string {
			key := bytes.Repeat([]byte{7}, 16)
			last, _ := l.records(ledger)
			r := find(l, last, last, func(*kgo.Record) bool { return true })
			value := bytes.Clone(r.Value[:len(r.Value)-4])
			table := crc32.MakeTable(crc32.Castagnoli)
			l.outsider(ledger, key, binary.LittleEndian.AppendUint32(value, crc32.Update(crc32.Checksum(key, table), table, value)))
			return []string{"1 records too many", k.says}
		})
	}
	seen := environment{}.names.Seen()
	tampered(cut, func(l *logs) []string {
		ends, err := l.adm.ListEndOffsets(l.t.Context(), seen)
		if err != nil {
			l.t.Fatal(err)
		}
		end, _ := ends.Lookup(seen, 0)
		if _, err := l.adm.DeleteRecords(l.t.Context(), kadm.Offsets{seen: {0: {Topic: seen, At: end.Offset / 2}}}); err != nil {
			l.t.Fatal(err)
		}
		return []string{seen + "/0: ", "records are missing of the 3 hours from "}
	})
	tampered("a known key that no one gave", func(l *logs) []string {
		r := seenRecord{key: seenKey{1}, entry: seenEntry{content: [16]byte{1}}, t: l.now}
		l.outsider(seen, r.key[:], r.encode())
		return []string{seen + "/0: 1 records too many"}
	})
	tampered("another hour of a known key", func(l *logs) []string {
		last, _ := l.records(seen)
		for _, rec := range last {
			r, err := decodeSeen(rec.Value)
			if err != nil {
				l.t.Fatal(err)
			}
			r.t -= seenBucket
			l.outsider(seen, r.key[:], r.encode())
			break
		}
		return []string{seen + "/0: "}
	})
}

func newLedgerName() string { return environment{}.names.Ledger() }

// TestRetentionIsNoDifference: Kafka deletes known keys of its own accord, and a partition
// may have been idle for any time before. Neither is taken for a difference.
func TestRetentionIsNoDifference(t *testing.T) {
	for seed := range uint64(4) {
		l := newLogs(t, seed)
		seen := l.env.names.Seen()
		owner := l.empty()
		l.own(owner)
		type at struct {
			t   schemas.Millis
			end int64
		}
		var written []at
		compared := false
		for range 60 {
			l.now += schemas.Millis(l.r.Int64N(3 * 60 * 60 * 1000))
			if l.r.IntN(20) == 0 {
				l.now += schemas.Millis(l.r.Int64N(60 * 60 * 60 * 1000))
			}
			l.transact(owner)
			ends, err := l.adm.ListEndOffsets(t.Context(), seen)
			if err != nil {
				t.Fatal(err)
			}
			end, _ := ends.Lookup(seen, 0)
			written = append(written, at{l.now, end.Offset})
			// Some time later, all that Kafka may delete by then is gone.
			later := l.now
			if l.r.IntN(4) == 0 {
				later += schemas.Millis(l.r.Int64N(30 * 60 * 60 * 1000))
			}
			kept := int64(0)
			for _, w := range written {
				if w.t < later-25*60*60*1000 {
					kept = w.end
				}
			}
			if _, err := l.adm.DeleteRecords(t.Context(), kadm.Offsets{seen: {0: {Topic: seen, At: kept}}}); err != nil {
				t.Fatal(err)
			}
			cold := l.empty()
			l.follow(cold)
			if err := cold.differs(later); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for _, k := range cold.base.meta.Sums.Known {
				compared = compared || spanStart(k.Span) >= later-24*60*60*1000
			}
			if l.now = later; l.r.IntN(4) == 0 { // another owner, of what is left
				owner = cold
				l.own(owner)
			}
		}
		if !compared {
			t.Error("nothing was compared")
		}
	}
}
