package audit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// sequence judges the numbers of one partition of a journal: each record has the number
// after that of the one before it, and the first has 1 if it is still there. So a record
// that was removed shows, also where the status that follows from it was removed too.
//
// Earlier versions write no numbers. Behind records without one a lane goes on with the
// number after the last one that it knows, or begins with 1 again.
type sequence struct {
	cut  bool  // the first records may be gone
	last int64 // the last number so far; 0 is none
	most int64 // the highest
	mute bool  // records without a number came since
	lost int64 // records since that could not be read, each of which may have a number
}

// next takes the number of the next record, and returns what is wrong with it; nothing is "".
func (s *sequence) next(seq int64) (wrong string) {
	after := func(last int64) bool { return seq > last && seq <= last+1+s.lost }
	switch {
	case after(s.last), s.last == 0 && s.cut, s.mute && after(0):
	case seq <= s.last:
		wrong = fmt.Sprintf("its number is %d, and one before it has %d", seq, s.last)
	case s.last == 0:
		wrong = fmt.Sprintf("it is the first with a number, which is %d and not 1", seq)
	default:
		wrong = fmt.Sprintf("its number is %d, and the last one before it is %d: records are missing", seq, s.last)
	}
	if wrong == "" || seq > s.last {
		s.last = seq
	}
	s.most = max(s.most, seq)
	s.mute, s.lost = false, 0
	return wrong
}

// end judges where the records that were read end. wrote is the last number by the lane's
// own group, as it was before the journal's end was taken; 0 is not known.
func (s *sequence) end(wrote int64) (wrong string) {
	if s.last+s.lost < wrote && (s.last > 0 || !s.cut) {
		return fmt.Sprintf("its last number is %d, and its lane wrote %d: its end is missing", s.last, wrote)
	}
	return ""
}

// numbered judges the number of a journal's record.
func (l *lane) numbered(r *kgo.Record, e *journalled, fault func(Kind, string, ...any)) {
	if e.Seq != 0 {
		if wrong := l.numbers.next(e.Seq); wrong != "" {
			fault(KindSequence, "%s %s of attempt %d: %s", e.Kind, e.Outcome, e.Attempt, wrong)
		}
		return
	}
	l.counts.Unnumbered++
	l.numbers.mute = true
	if l.numbers.last > 0 && schemas.MillisOf(r.Timestamp) >= l.since {
		l.found.cannotTell("records of "+r.Topic+" without a number behind those that have one: of an earlier version, and whether others were removed does not show", 1)
	}
}

// ends judges where a partition of a journal ends.
func (l *lane) ends(topic string, num int32, wrote int64, into *findings) {
	if wrong := l.numbers.end(wrote); wrong != "" {
		into.violation(Violation{Kind: KindSequence, Topic: topic, Partition: num, Offset: -1, Text: wrong})
	}
}

// A record of a journal as items have it: beside the code of an attempt, which is below
// recordCodes, and a lane, which is below schemas.MaxLanes.
const (
	recordCodes = 1 << 12
	recordLanes = 1 << 7
)

// recordAt is a record of a journal as permits and outcomes have it on both sides of their
// comparison; 0 is one without a number.
func recordAt(lane int32, seq int64) uint64 {
	if seq == 0 {
		return 0
	}
	return recordCodes * (uint64(lane)%recordLanes + recordLanes*uint64(seq))
}

// recordNamed is the record of a journal that a status names.
func recordNamed(r *kgo.Record) uint64 {
	for _, h := range r.Headers {
		if h.Key != schemas.HeaderJournal {
			continue
		}
		if j, ok := schemas.ParseJournalRecord(string(h.Value)); ok {
			return recordAt(j.Lane, j.Seq)
		}
		return recordAt(-1, -1) // which no record has
	}
	return 0
}

// codeIn returns the code of an attempt in what an item's rest has beside its provider's
// hash, and whether it is one: another provider's hash leaves a number that no lane wrote.
func (f *findings) codeIn(provider string, rest uint64) (code uint64, ok bool) {
	return rest % recordCodes, rest/recordCodes/recordLanes <= uint64(f.numbers[provider])
}

// numbersOf notes the highest number in a journal, or that may be in it.
func (f *findings) numbersOf(provider string, s *sequence) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.numbers[provider] = max(f.numbers[provider], s.most+s.lost)
}

// lastNumbers returns the last number that each lane wrote, by its journal and partition, as
// lanes say it beside their positions. What a lane commits is in its journal. hidden
// reports that the groups of lanes may not be described.
func (a *auditing) lastNumbers(ctx context.Context) (wrote map[string]map[int32]int64, hidden bool, err error) {
	all, err := a.adm.ListTopics(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("list topics: %w", err)
	}
	wrote = make(map[string]map[int32]int64)
	for _, topic := range all.Names() {
		if !strings.HasPrefix(topic, a.Names.Journal("")) {
			continue
		}
		group := topic + ".lane"
		got, err := a.adm.FetchOffsets(ctx, group)
		switch {
		case errors.Is(err, kerr.GroupIDNotFound):
			continue
		case errors.Is(err, kerr.GroupAuthorizationFailed):
			hidden = true
			continue
		case err != nil:
			return nil, false, fmt.Errorf("fetch the offsets of %s: %w", group, err)
		}
		wrote[topic] = make(map[int32]int64)
		got.Each(func(o kadm.OffsetResponse) {
			for field := range strings.FieldsSeq(o.Metadata) {
				if text, ok := strings.CutPrefix(field, "s="); ok && o.Err == nil {
					n, _ := strconv.ParseInt(text, 10, 64)
					wrote[topic][o.Partition] = max(wrote[topic][o.Partition], n)
				}
			}
		})
	}
	return wrote, hidden, nil
}
