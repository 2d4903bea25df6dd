package schemas

import (
	"fmt"
)

// Ask is one wide limit that a message is to be charged in: one whose scope
// has no recipient, so that its places stand in the partition that owns the
// scope.
type Ask struct {
	Limit string `json:"limit"`
	Scope string `json:"scope"`
	Cost  int64  `json:"cost"`
	T     Millis `json:"t,omitzero"` // of a message sent elsewhere: when, whether or not there is room
}

// Round is the way of a message round the owners of the wide limits that apply
// to it: the header weir-round on weir.readmit. Its recipient's partition, its
// home, begins and ends it.
type Round struct {
	For          string       `json:"for,omitempty"`           // the Readmit reason under which it began; empty for the first decision on a request
	Revision     int64        `json:"revision"`                // of home's plan
	Home         bool         `json:"home,omitempty"`          // home's own limits have been asked
	HomeRevision int64        `json:"home_revision,omitempty"` // under which they were
	Last         bool         `json:"last,omitempty"`          // once these are asked, all are, under this revision
	Segments     int          `json:"segments,omitempty"`      // SMS parts, as home found them
	Cost         int          `json:"cost,omitempty"`          // of the request; 0 is 1
	Channel      Channel      `json:"channel,omitempty"`       // of the request, as class and template: what home needs to know of it at the end
	Class        string       `json:"class,omitempty"`
	Template     string       `json:"template,omitempty"`
	Ask          []Ask        `json:"ask,omitempty"`      // to be asked before it goes home, in order
	Taken        []Charge     `json:"taken,omitempty"`    // places taken, at home and elsewhere
	Moved        []Charge     `json:"moved,omitempty"`    // places of an earlier attempt that were given up for them
	Passed       []Ask        `json:"passed,omitempty"`   // asked, and no place taken
	Evidence     []Evidence   `json:"evidence,omitempty"` // full windows: of the refusal, or else of limits that observe
	Refused      bool         `json:"refused,omitempty"`
	RetryAt      Millis       `json:"retry_at,omitzero"` // of the refusal: when its windows open; 0 is never
	Due          Millis       `json:"due,omitzero"`      // of the refusal: when the owner would have a deferred message come again
	States       []LimitState `json:"states,omitempty"`  // what owners said is left, where somebody waits for a reply
}

// AppendRound appends a round as one JSON object to dst: the header weir-round.
func AppendRound(dst []byte, o *Round) []byte {
	w := writeJSON()
	w.begin('{')
	w.textIf("for", o.For)
	w.int("revision", o.Revision)
	w.boolIf("home", o.Home)
	w.intIf("home_revision", o.HomeRevision)
	w.boolIf("last", o.Last)
	w.intIf("segments", int64(o.Segments))
	w.intIf("cost", int64(o.Cost))
	w.textIf("channel", string(o.Channel))
	w.textIf("class", o.Class)
	w.textIf("template", o.Template)
	w.asksIf("ask", o.Ask)
	w.chargesIf("taken", o.Taken)
	w.chargesIf("moved", o.Moved)
	w.asksIf("passed", o.Passed)
	w.evidenceIf("evidence", o.Evidence)
	w.boolIf("refused", o.Refused)
	w.timeIf("retry_at", o.RetryAt)
	w.timeIf("due", o.Due)
	w.statesIf("states", o.States)
	w.end('}')
	return w.done(dst)
}

// DecodeRound reads what AppendRound writes.
func DecodeRound(value []byte) (*Round, error) {
	r := readJSON(value)
	defer r.done()
	o := &Round{}
	if !r.round(o) {
		return nil, fmt.Errorf("decode round: %s", atByte(r.why, r.at))
	}
	if !r.end() {
		return nil, fmt.Errorf("decode round: %s", atByte("something follows the JSON object", r.offset()))
	}
	return o, nil
}

func (r *jsonReader) round(o *Round) bool {
	return r.object(func(key []byte) bool {
		switch string(key) {
		case "for":
			return r.intoText(&o.For)
		case "revision":
			return r.intoInt(&o.Revision, 64)
		case "home":
			return r.intoBool(&o.Home)
		case "home_revision":
			return r.intoInt(&o.HomeRevision, 64)
		case "last":
			return r.intoBool(&o.Last)
		case "segments":
			return r.intoCount(&o.Segments)
		case "cost":
			return r.intoCount(&o.Cost)
		case "channel":
			return r.intoText((*string)(&o.Channel))
		case "class":
			return r.intoText(&o.Class)
		case "template":
			return r.intoText(&o.Template)
		case "ask":
			return r.intoAsks(&o.Ask)
		case "taken":
			return r.intoCharges(&o.Taken)
		case "moved":
			return r.intoCharges(&o.Moved)
		case "passed":
			return r.intoAsks(&o.Passed)
		case "evidence":
			return r.intoEvidence(&o.Evidence)
		case "refused":
			return r.intoBool(&o.Refused)
		case "retry_at":
			return r.intoTime(&o.RetryAt)
		case "due":
			return r.intoTime(&o.Due)
		case "states":
			return r.intoStates(&o.States)
		}
		return r.skip()
	})
}

func (w *jsonWriter) boolIf(name string, v bool) {
	if v {
		w.name(name)
		w.literal("true")
	}
}

func (w *jsonWriter) asksIf(name string, asks []Ask) {
	if len(asks) == 0 {
		return
	}
	w.open(name, '[')
	for i := range asks {
		a := &asks[i]
		w.begin('{')
		w.text("limit", a.Limit)
		w.text("scope", a.Scope)
		w.int("cost", a.Cost)
		w.timeIf("t", a.T)
		w.end('}')
	}
	w.end(']')
}

func (r *jsonReader) intoAsks(dst *[]Ask) bool {
	*dst = nil
	if was, ok := r.null(); was || !ok {
		return ok
	}
	return r.array(func() bool {
		*dst = append(*dst, Ask{})
		a := &(*dst)[len(*dst)-1]
		if was, ok := r.null(); was || !ok {
			return ok
		}
		return r.object(func(key []byte) bool {
			switch string(key) {
			case "limit":
				return r.intoText(&a.Limit)
			case "scope":
				return r.intoText(&a.Scope)
			case "cost":
				return r.intoInt(&a.Cost, 64)
			case "t":
				return r.intoTime(&a.T)
			}
			return r.skip()
		})
	})
}

func (r *jsonReader) intoPartition(dst **int32) bool {
	if was, ok := r.null(); was || !ok {
		*dst = nil
		return ok
	}
	n := new(int32)
	*dst = n
	return r.intoInt32(n)
}
