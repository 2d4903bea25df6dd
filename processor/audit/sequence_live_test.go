package audit_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/processor/lane"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// nameOf is the record of a journal that a status names; empty is none.
func nameOf(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == schemas.HeaderJournal {
			return string(h.Value)
		}
	}
	return ""
}

// names has the first status of a kind name the record behind the one from which it follows.
func names(st schemas.Status) func([]*kgo.Record) []*kgo.Record {
	return func(rs []*kgo.Record) []*kgo.Record {
		for _, r := range rs {
			e, err := schemas.DecodeEvent(r.Value)
			j, ok := schemas.ParseJournalRecord(nameOf(r))
			if err != nil || !ok || e.Status != st {
				continue
			}
			for i := range r.Headers {
				if r.Headers[i].Key == schemas.HeaderJournal {
					r.Headers[i].Value = []byte(schemas.JournalRecord{Lane: j.Lane, Seq: j.Seq + 1}.String())
				}
			}
			return rs
		}
		return nil
	}
}

// unwritten removes an attempt's records of the journal, of these kinds, together with the
// statuses that follow from them: as if its lane had written neither.
func unwritten(t *testing.T, pick func(kind string) bool) func(map[string]map[int32][]*kgo.Record) {
	return func(logs map[string]map[int32][]*kgo.Record) {
		journal, status := topics.Names{}.Journal("sim"), topics.Names{}.Status()
		var records []*kgo.Record
		gone := make(map[string]bool)
		of := ""
		for i, r := range logs[journal][0] {
			var j struct {
				Kind, ID string
				Seq      int64
			}
			if err := json.Unmarshal(r.Value, &j); err != nil {
				t.Fatal(err)
			}
			if of == "" && i > len(logs[journal][0])/2 && j.Kind == "permit" {
				of = j.ID
			}
			if j.ID == of && pick(j.Kind) {
				gone[fmt.Sprint("0/", j.Seq)] = true
				continue
			}
			records = append(records, r)
		}
		logs[journal][0] = records
		statuses := 0
		for p, rs := range logs[status] {
			var left []*kgo.Record
			for _, r := range rs {
				if gone[nameOf(r)] {
					statuses++
					continue
				}
				left = append(left, r)
			}
			logs[status][p] = left
		}
		if len(gone) == 0 || statuses == 0 {
			t.Fatalf("%d records and %d statuses were removed", len(gone), statuses)
		}
	}
}

// TestTheEndOfAJournalIsMissing: a lane's group says how many records it wrote. A journal
// that ends before lost some, although everything else agrees with it.
func TestTheEndOfAJournalIsMissing(t *testing.T) {
	l := newLive(t)
	stop := l.start()
	l.send(4, 100)
	l.settled()
	stop()
	r := l.proven()
	wrote := r.Checked.Permits + r.Checked.Outcomes
	adm := kadm.NewClient(l.cl)
	group := lane.Group(l.names, "sim")
	stood, err := adm.FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	offsets := make(kadm.Offsets)
	for _, o := range stood.Offsets().Sorted() {
		said := fmt.Sprintf(" s=%d", wrote)
		if !strings.Contains(o.Metadata, said) {
			t.Fatalf("%s stands with %q, and the journal has %d records", o.Topic, o.Metadata, wrote)
		}
		o.Metadata = strings.Replace(o.Metadata, said, fmt.Sprintf(" s=%d", wrote+1), 1)
		offsets.Add(o)
	}
	if err := adm.CommitAllOffsets(t.Context(), group, offsets); err != nil {
		t.Fatal(err)
	}
	if r := l.audit(); r.Outcome != audit.Violated || r.Faults[audit.KindSequence] != 1 || len(r.Faults) != 1 {
		t.Fatal(text(r))
	}
}
