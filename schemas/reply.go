package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Reply is what a caller who waits for a decision is told: the value of a record
// of weir.replies, whose key is the caller's correlation. Whoever writes a
// request with the header weir-reply gets one, with the first decision on it.
type Reply struct {
	// Event is the event of weir.status, without its decision. Of a message the
	// status always says what was decided: where the log has a decision that is
	// no status, because its id was seen before, that is duplicate with the
	// reason repeated, or rejected with the reason key_reused. Of another action,
	// and of a quota question, it is of kind decision; then the decision says its
	// verdict and where it stands, and no more.
	Event *Event `json:"event"`
	// Limits has every window of every enforced limit that was asked, in the
	// policy's order. It is empty where none was, since the message ended or
	// waits for another reason.
	Limits []LimitState `json:"limits,omitempty"`
	// Suppressed is, of a quota question that asks for it, what the recipient has
	// opted out of, the latest first.
	Suppressed []Suppression `json:"suppressed,omitempty"`
}

// Suppression is what a recipient has opted out of: messages that have each field
// it gives.
type Suppression struct {
	Tenant  string `json:"tenant,omitempty"` // empty: every tenant's, as with the others
	Channel string `json:"channel,omitempty"`
	Class   string `json:"class,omitempty"`
	At      Millis `json:"at"`
	Until   Millis `json:"expires_at,omitzero"` // from then on it covers nothing; 0: until it is lifted
	Reason  string `json:"reason,omitempty"`
	// Provider is whose answer or receipt it came of; empty where somebody asked for it.
	Provider string `json:"provider,omitempty"`
}

// LimitState is what is left in one window, after the decision that tells it. Of a
// limit beyond one recipient that another partition owns, it is as of that
// owner's step, some milliseconds before.
type LimitState struct {
	Limit     string `json:"limit"`
	Window    string `json:"window"` // as printed in the policy: 5/1h
	N         int64  `json:"n"`
	Remaining int64  `json:"remaining"`
	Reset     Millis `json:"reset,omitzero"`     // when Remaining next grows, if nothing else happens; 0: it is N already
	Violated  bool   `json:"violated,omitempty"` // this window refused the message
}

// maxCorrelation bounds a correlation, in bytes.
const maxCorrelation = 64

// ReplyTo returns the header weir-reply that asks for a reply to a partition of
// weir.replies.
func ReplyTo(partition int32, correlation string) string {
	return strconv.Itoa(int(partition)) + "/" + correlation
}

// ParseReplyTo reads the header weir-reply: partition/correlation, where the
// correlation is 1 to 64 letters, digits, dots, hyphens and underscores. Anyone
// may write that header, so what is not of this form is no error; nobody is
// told then.
func ParseReplyTo(text string) (partition int32, correlation string, ok bool) {
	part, correlation, ok := strings.Cut(text, "/")
	n, err := strconv.ParseUint(part, 10, 31)
	if !ok || err != nil || len(part) > 1 && part[0] == '0' || correlation == "" || len(correlation) > maxCorrelation {
		return 0, "", false
	}
	for i := range len(correlation) {
		switch c := correlation[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
		default:
			return 0, "", false
		}
	}
	return int32(n), correlation, true
}

// AppendReply appends a reply as one JSON object to dst.
func AppendReply(dst []byte, r *Reply) []byte {
	w := writeJSON()
	w.begin('{')
	w.name("event")
	w.event(r.Event)
	w.statesIf("limits", r.Limits)
	w.suppressedIf("suppressed", r.Suppressed)
	w.end('}')
	return w.done(dst)
}

// DecodeReply reads what AppendReply writes.
func DecodeReply(value []byte) (*Reply, error) {
	var r Reply
	err := json.Unmarshal(value, &r)
	if err == nil && r.Event == nil {
		err = errors.New("it has no event")
	}
	if err != nil {
		return nil, fmt.Errorf("decode reply: %w", err)
	}
	return &r, nil
}

// QuotaAsk is a question for what is left: the value of a record of weir.readmit
// with the reason quota, addressed to the partition that owns all its scopes.
type QuotaAsk struct {
	To     string       `json:"to,omitempty"` // canonical recipient; where a limit's scope has one, it is this one
	Scopes []QuotaScope `json:"scopes"`
	// Of is a tenant: what To has opted out of is told too, of what covers messages
	// of this tenant. Empty does not ask.
	Of string `json:"of,omitempty"`
}

// QuotaScope is one limit in one scope.
type QuotaScope struct {
	Limit string `json:"limit"`
	Scope string `json:"scope"` // as in Charge
}

// EncodeQuotaAsk returns a question as JSON.
func EncodeQuotaAsk(q *QuotaAsk) []byte {
	b, err := json.Marshal(q)
	if err != nil {
		panic(err) // text alone
	}
	return b
}

// DecodeQuotaAsk reads what EncodeQuotaAsk writes.
func DecodeQuotaAsk(value []byte) (*QuotaAsk, error) {
	var q QuotaAsk
	if err := json.Unmarshal(value, &q); err != nil {
		return nil, fmt.Errorf("decode quota question: %w", err)
	}
	return &q, nil
}

func (w *jsonWriter) statesIf(name string, states []LimitState) {
	if len(states) == 0 {
		return
	}
	w.open(name, '[')
	for i := range states {
		s := &states[i]
		w.begin('{')
		w.text("limit", s.Limit)
		w.text("window", s.Window)
		w.int("n", s.N)
		w.int("remaining", s.Remaining)
		w.timeIf("reset", s.Reset)
		w.boolIf("violated", s.Violated)
		w.end('}')
	}
	w.end(']')
}

func (w *jsonWriter) suppressedIf(name string, all []Suppression) {
	if len(all) == 0 {
		return
	}
	w.open(name, '[')
	for i := range all {
		s := &all[i]
		w.begin('{')
		w.textIf("tenant", s.Tenant)
		w.textIf("channel", s.Channel)
		w.textIf("class", s.Class)
		w.time("at", s.At)
		w.timeIf("expires_at", s.Until)
		w.textIf("reason", s.Reason)
		w.textIf("provider", s.Provider)
		w.end('}')
	}
	w.end(']')
}

func (r *jsonReader) intoStates(dst *[]LimitState) bool {
	*dst = nil
	if was, ok := r.null(); was || !ok {
		return ok
	}
	return r.array(func() bool {
		*dst = append(*dst, LimitState{})
		s := &(*dst)[len(*dst)-1]
		if was, ok := r.null(); was || !ok {
			return ok
		}
		return r.object(func(key []byte) bool {
			switch string(key) {
			case "limit":
				return r.intoText(&s.Limit)
			case "window":
				return r.intoText(&s.Window)
			case "n":
				return r.intoInt(&s.N, 64)
			case "remaining":
				return r.intoInt(&s.Remaining, 64)
			case "reset":
				return r.intoTime(&s.Reset)
			case "violated":
				return r.intoBool(&s.Violated)
			}
			return r.skip()
		})
	})
}
