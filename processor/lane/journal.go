package lane

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

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
)

// entry is a record of a provider's journal: a permit, or what came of one.
// Topic, Partition and Offset are the dispatch record's.
type entry struct {
	Kind      string         `json:"kind"`
	ID        string         `json:"id"`
	Attempt   int            `json:"attempt,omitempty"`
	T         schemas.Millis `json:"t"`                // permit: the time that counts for the pace
	Permit    schemas.Millis `json:"permit,omitzero"`  // outcome: its permit's t; absent when there was no call
	Outcome   string         `json:"outcome,omitzero"` // outcome: a provider's kind, or one of the above
	Code      string         `json:"code,omitempty"`
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

func decodeEntry(b []byte) (entry, error) {
	var e entry
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("journal record is torn or foreign: %w", err)
	}
	if e.Kind != kindPermit && e.Kind != kindOutcome {
		return e, fmt.Errorf("journal record of kind %q: run the version that wrote it", e.Kind)
	}
	return e, nil
}

// standing is the text beside the group's positions. By and N name the very
// transaction, so that a member that gets a lane back knows whether anyone
// else has had it.
type standing struct {
	journal int64  // read the journal from here: everything about messages at or above the positions is at or after it
	by      string // the writing process
	n       int64  // its transactions
	lanes   int32  // of the provider, as this lane acts on it; 0 when not said
	grew    int64  // where in its journal it began to
}

func (s standing) String() string {
	text := "v1 j=" + strconv.FormatInt(s.journal, 10) + " by=" + s.by + " n=" + strconv.FormatInt(s.n, 10)
	if s.lanes > 1 {
		text += " lanes=" + strconv.Itoa(int(s.lanes)) + " grew=" + strconv.FormatInt(s.grew, 10)
	}
	return text
}

func parseStanding(text string) (standing, error) {
	var s standing
	bad := fmt.Errorf("offset metadata %q is not a lane's", text)
	rest, ok := strings.CutPrefix(text, "v1 ")
	if !ok {
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
		}
		if err != nil {
			return s, bad
		}
	}
	return s, nil
}
