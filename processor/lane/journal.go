package lane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/skip"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// Kinds of journal records.
const (
	kindPermit  = "permit"
	kindOutcome = "outcome"
)

// Outcomes that are no provider's.
const (
	outcomeExpiredPermit = "expired_permit" // the permit was too old to call on, or a silence or an open breaker forbade it: never called, permitted anew
	outcomeStale         = "stale"          // given back to be decided anew, without a call
	outcomeReroute       = "reroute"        // given back to be sent another way, without a call
	outcomeExpired       = "expired"        // ended without a call
	outcomeContent       = "bad_content"    // ended without a call
	outcomeForeign       = "foreign_record" // no message: put aside
)

// entry is a record of a provider's journal: a permit, or what came of one.
// Topic, Partition and Offset are the dispatch record's.
//
// Seq is dense: each record of a journal's partition has the number after that of the one
// before it, and the first has 1. What an aborted transaction wrote has none. Records of
// earlier versions have no number either.
type entry struct {
	Kind      string         `json:"kind"`
	Seq       int64          `json:"seq,omitzero"`
	ID        string         `json:"id"`
	Attempt   int            `json:"attempt,omitempty"`
	T         schemas.Millis `json:"t"`                // permit: the time that counts for the pace
	Permit    schemas.Millis `json:"permit,omitzero"`  // outcome: its permit's t; absent when there was no call
	Outcome   string         `json:"outcome,omitzero"` // outcome: a provider's kind, or one of the above
	Code      string         `json:"code,omitempty"`
	CallBy    schemas.Millis `json:"call_by,omitzero"`          // permit: until when the decision says to call
	Late      bool           `json:"late,omitempty"`            // permit: its t is after that, since deciding again made no difference
	Received  *bool          `json:"may_be_received,omitempty"` // outcome: whether this attempt may have been received; absent in journals of earlier versions
	Topic     string         `json:"topic"`
	Partition int32          `json:"partition"`
	Offset    int64          `json:"offset"`
}

func (e *entry) encode() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("journal entry cannot be encoded: %v", err)) // strings and numbers only
	}
	return b
}

// errForeign is a record of a journal that no lane wrote, so that nothing is lost
// with it: a journal is not compacted.
var errForeign = errors.New("no lane wrote it")

// maxAhead is how far a copied entry's time may be ahead of the broker's.
const maxAhead = 24 * time.Hour

// readEntry reads a record of a journal. Lanes write in transactions. A record
// outside of one is a copy of theirs, where it reads as one; if not, it is foreign.
// Any other record that cannot be read may be a permit or an outcome, so the lane's
// state is not known without it.
func readEntry(r *kgo.Record) (entry, error) {
	var e entry
	err := json.Unmarshal(r.Value, &e)
	copied := !r.Attrs.IsTransactional()
	switch latest := schemas.MillisOf(r.Timestamp).Add(maxAhead); {
	case err == nil && (e.Kind == kindPermit || e.Kind == kindOutcome):
		if copied && (e.Partition != r.Partition || e.Offset < 0 || e.T <= 0 || e.T > latest || e.Permit < 0 || e.Permit > latest) {
			return e, errForeign
		}
		return e, nil
	case err == nil && e.Kind != "":
		return e, fmt.Errorf("journal record of kind %q", e.Kind)
	case copied:
		return e, errForeign
	case err == nil:
		return e, errors.New("journal record of no kind")
	default:
		return e, fmt.Errorf("journal record is torn or foreign: %w", err)
	}
}

// reading is how journals are read. No lane writes a batch beyond the bound of
// decompression: one is left out, as is any record that is not a lane's.
func (s *stage) reading() stream.ReadConfig {
	read := s.cfg.Read
	read.Oversized = func(batch *kgo.Record) error {
		s.metrics.foreign.Met(s.cfg.Logger, "a batch that Weir did not write is left out: let no one else write to this topic", "topic", batch.Topic, "partition", batch.Partition, "offset", batch.Offset)
		return nil
	}
	return read
}

// recall hands a record of a journal to fn, unless no lane wrote it or an operator
// skipped it. It is an error when the record is needed and cannot be read.
func (s *stage) recall(ctx context.Context, look *skip.Lookup, r *kgo.Record, fn func(entry)) error {
	e, err := readEntry(r)
	if err == nil {
		fn(e)
		return nil
	}
	if errors.Is(err, errForeign) {
		s.metrics.foreign.Met(s.cfg.Logger, "a record that Weir did not write is left out: let no one else write to this topic", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset)
		return nil
	}
	skipped, failed := look.Covers(ctx, r)
	switch {
	case failed != nil:
		return failed
	case skipped:
		s.cfg.Logger.Warn("a record is skipped, as an operator said", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset)
		return nil
	}
	return skip.Unreadable(s.cfg.Names, r, err)
}

// standing is the text beside the group's positions. By and N name the very
// transaction, so that a member that gets a lane back knows whether anyone
// else has had it.
type standing struct {
	journal int64           // read the journal from here: everything about messages at or above the positions is at or after it
	by      string          // the writing process
	n       int64           // its transactions
	lanes   int32           // of the provider, as this lane acts on it; 0 when not said
	grew    int64           // where in its journal it began to
	seq     int64           // the number of the last record of its journal; 0 when not said
	back    [priorities]int // the windows of what is decided again; 0 when not said
}

func (s standing) String() string {
	text := "v1 j=" + strconv.FormatInt(s.journal, 10) + " by=" + s.by + " n=" + strconv.FormatInt(s.n, 10)
	if s.lanes > 1 {
		text += " lanes=" + strconv.Itoa(int(s.lanes)) + " grew=" + strconv.FormatInt(s.grew, 10)
	}
	if s.seq > 0 {
		text += " s=" + strconv.FormatInt(s.seq, 10)
	}
	if s.back != [priorities]int{} && s.back != [priorities]int{1, 1, 1} {
		text += fmt.Sprintf(" back=%d,%d,%d", s.back[urgently], s.back[normally], s.back[inBulk])
	}
	return text
}

// errNewer means that a later version of Weir committed a position.
var errNewer = errors.New("the group's offset was committed by a newer Weir: run that version, or a newer one")

func parseStanding(text string) (standing, error) {
	var s standing
	bad := fmt.Errorf("offset metadata %q is not a lane's", text)
	rest, ok := strings.CutPrefix(text, "v1 ")
	if !ok {
		if len(text) > 2 && text[0] == 'v' && text[1] >= '2' && text[1] <= '9' {
			return s, errNewer
		}
		return s, bad
	}
	for f := range strings.FieldsSeq(rest) {
		k, v, _ := strings.Cut(f, "=")
		var err error
		switch k {
		case "j":
			s.journal, err = strconv.ParseInt(v, 10, 64)
		case "by":
			s.by = v
		case "n":
			s.n, err = strconv.ParseInt(v, 10, 64)
		case "lanes":
			var n int64
			n, err = strconv.ParseInt(v, 10, 32)
			s.lanes = int32(n)
		case "grew":
			s.grew, err = strconv.ParseInt(v, 10, 64)
		case "s":
			s.seq, err = strconv.ParseInt(v, 10, 64)
		case "back":
			_, err = fmt.Sscanf(v, "%d,%d,%d", &s.back[urgently], &s.back[normally], &s.back[inBulk])
		}
		if err != nil {
			return standing{}, bad
		}
	}
	return s, nil
}
