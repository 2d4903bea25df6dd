package skip

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Skip is one record that Weir goes on without.
type Skip struct {
	Record  schemas.Source `json:"record"` // as TOPIC/PARTITION/OFFSET
	At      schemas.Millis `json:"at"`
	By      string         `json:"by"`
	Reason  string         `json:"reason"`
	Effect  string         `json:"effect"`   // what whoever skipped it agreed to
	Bytes   int            `json:"bytes"`    // of its key and value
	SHA256  string         `json:"sha256"`   // of its key and value
	Letter  string         `json:"dlq"`      // where its bytes are in weir.dlq, PARTITION/OFFSET
	Written schemas.Millis `json:"appended"` // when the broker appended the record
}

// saved is a Skip as it is in weir.skips, and as it is shown.
type saved struct {
	Record string `json:"record"`
	plain
}

// plain is a Skip without its methods, which would call themselves.
type plain Skip

// MarshalJSON writes the record as text.
func (s *Skip) MarshalJSON() ([]byte, error) {
	return json.Marshal(saved{s.Record.String(), plain(*s)})
}

// Sum is what a skip knows a record's bytes by.
func Sum(r *kgo.Record) string {
	h := sha256.New()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(r.Key)))
	h.Write(n[:])
	h.Write(r.Key)
	h.Write(r.Value)
	return hex.EncodeToString(h.Sum(nil))
}

// SourceOf is where a record is.
func SourceOf(r *kgo.Record) schemas.Source {
	return schemas.Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
}

// List is what weir.skips holds, in its order.
type List []Skip

// Covers reports whether a record is skipped.
func (l List) Covers(r *kgo.Record) bool {
	at := SourceOf(r)
	for i := range l {
		if l[i].Record == at && l[i].SHA256 == Sum(r) {
			return true
		}
	}
	return false
}

// Load reads the list. A topic that is not there holds nothing.
func Load(ctx context.Context, read stream.ReadConfig, names topics.Names) (List, error) {
	byKey := make(map[string]int)
	var out List
	read.Oversized = stream.SkipOversized // the command writes none
	err := stream.Read(ctx, read, []stream.Range{{Partition: stream.Partition{Topic: names.Skips()}}}, func(r *kgo.Record) error {
		var s saved
		if json.Unmarshal(r.Value, &s) != nil || s.Record != string(r.Key) {
			return nil // not one that the command wrote: it skips nothing
		}
		var err error
		if s.plain.Record, err = schemas.ParseSource(s.Record); err != nil {
			return nil
		}
		if i, ok := byKey[s.Record]; ok {
			out[i] = Skip(s.plain)
			return nil
		}
		byKey[s.Record] = len(out)
		out = append(out, Skip(s.plain))
		return nil
	})
	if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, fmt.Errorf("read %s: %w", names.Skips(), err)
	}
	return out, nil
}

// Lookup is the list for a restore: read when it is first asked. It belongs to one
// goroutine at a time.
type Lookup struct {
	Read  stream.ReadConfig
	Names topics.Names

	list   List
	loaded bool
}

// Covers reports whether a record is skipped.
func (l *Lookup) Covers(ctx context.Context, r *kgo.Record) (bool, error) {
	if !l.loaded {
		list, err := Load(ctx, l.Read, l.Names)
		if err != nil {
			return false, err
		}
		l.list, l.loaded = list, true
	}
	return l.list.Covers(r), nil
}

// ErrUnreadable means that a record of Weir's own state cannot be read, and may be
// one that the state needs.
var ErrUnreadable = errors.New("a record of Weir's own state cannot be read, and may be one that the state needs")

// Unreadable is the error of a stage that stops at a record of its state: what is
// wrong with it, and the command that lets the stage go on.
func Unreadable(names topics.Names, r *kgo.Record, why error) error {
	effect, _ := EffectOf(names, r)
	return stream.Fatal(fmt.Errorf("%s: %w: %w. If a newer Weir wrote it, run that version. To go on without it (%s): weir skip %s --reason \"...\"",
		SourceOf(r), ErrUnreadable, why, effect, SourceOf(r)))
}

// Batches makes a reader of state stop at a batch beyond the bound of decompression, with
// an error like Unreadable's, unless an operator skipped the batch. Weir writes no such
// batch, but in a topic that is compacted it may have replaced records of Weir's. In
// topics of which EffectOf knows nothing such a batch is left out.
func Batches(ctx context.Context, read stream.ReadConfig, names topics.Names, log *slog.Logger) stream.ReadConfig {
	plain := read
	read.Oversized = func(batch *kgo.Record) error {
		if _, err := EffectOf(names, batch); err != nil {
			return nil
		}
		list, err := Load(ctx, plain, names)
		switch {
		case err != nil:
			return err
		case !list.Covers(batch):
			return Unreadable(names, batch, fmt.Errorf("the batch that begins there decompresses to more than %d MiB, and Weir writes none such", schemas.MaxBatchBytes>>20))
		}
		log.Warn("a batch is skipped, as an operator said", "topic", batch.Topic, "partition", batch.Partition, "offset", batch.Offset)
		return nil
	}
	return read
}

// EffectOf says what is lost with a record or a batch beyond the bound. The error says why
// it cannot be skipped.
func EffectOf(names topics.Names, r *kgo.Record) (string, error) {
	if !stream.IsBatch(r) {
		return Effect(names, r.Topic)
	}
	switch r.Topic {
	case names.Ledger():
		return "Weir wrote no such batch. What it replaced under Weir's keys is lost: limits may let more through, opt-outs may be forgotten. Run weir ledger check after it", nil
	case names.Seen():
		return "Weir wrote no such batch. Keys that it replaced are forgotten: a repeat of their messages may be sent", nil
	case names.CallbackState():
		return "Weir wrote no such batch. What it replaced under Weir's keys is lost: callbacks that wait may not be made, or a callback_url is forgotten", nil
	}
	return "", fmt.Errorf("no stage of Weir stops at a batch of %s that decompresses to more than %d MiB: it is left out, or its offsets go to %s", r.Topic, schemas.MaxBatchBytes>>20, names.DLQ())
}

// Effect says what is lost with a record of a topic. The error says why a record of
// a topic cannot be skipped.
func Effect(names topics.Names, topic string) (string, error) {
	switch {
	case strings.HasPrefix(topic, names.Journal("")):
		return "if it was a permit, its call counts in no pace window; if it was an outcome, or a permit whose call is still under way, its message may be called a second time under the same idempotency key", nil
	case topic == names.CallbackState():
		return "callbacks of one message that wait may not be made, or its own callback_url is forgotten", nil
	case topic == names.Config():
		return "this revision of the policy never comes into force in a process that starts from now on; stop all processes before, or two policies are in force side by side", nil
	case topic == names.Alerts():
		return "what the alerter has sent and holds back is taken from the record before; a notice may be sent twice, and records since are not read again", nil
	case topic == names.Ledger():
		return "", fmt.Errorf("a record of %s is what limits are judged by: weir ledger check says what is wrong with it, and weir ledger repair mends it", topic)
	default:
		return "", fmt.Errorf("no stage of Weir stops at a record of %s: one that Weir did not write goes to %s, or is left out, and is counted in weir_foreign_records_total", topic, names.DLQ())
	}
}
