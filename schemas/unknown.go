package schemas

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxUnknown is how many unknown fields of one request are named.
const maxUnknown = 8

// OtherField stands for an unknown field whose name is not repeated: a producer may
// have put anything there, such as a recipient.
const OtherField = "other"

// plainField is how a name looks that is repeated in logs, metrics and statuses. Five
// digits in a row may be part of a number that someone is called at.
var (
	plainField = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,39}$`)
	digits     = regexp.MustCompile(`[0-9]{5}|^[a-z]*_?[0-9a-f-]{16,}$`)
)

// Ignored notes that a request has a field that Weir does not know.
func (q *Request) Ignored(name string) {
	if !plainField.MatchString(name) || digits.MatchString(name) {
		name = OtherField
	}
	if len(q.Unknown) < maxUnknown && !slices.Contains(q.Unknown, name) {
		q.Unknown = append(q.Unknown, name)
	}
}

// ignoredProto notes the fields that a message of protobuf has beyond the contract, by
// their numbers.
func (q *Request) ignoredProto(unknown []byte) {
	for len(unknown) > 0 && len(q.Unknown) < maxUnknown {
		number, _, n := protowire.ConsumeField(unknown)
		if n < 0 {
			return
		}
		name := OtherField
		if number <= 9999 {
			name = "field_" + strconv.Itoa(int(number))
		}
		q.Ignored(name)
		unknown = unknown[n:]
	}
}

// KnowsFields returns why a request is rejected that has fields that Weir does not
// know, where the policy says strict: true; nil when it has none. An opt-out is never
// rejected for it: what it leaves out makes it wider.
func (q *Request) KnowsFields() error {
	if len(q.Unknown) == 0 || q.Action == ActionSuppress {
		return nil
	}
	e := &RequestError{Partial: q}
	for _, name := range q.Unknown {
		if name == OtherField {
			e.Problems = append(e.Problems, FieldProblem{Code: ReasonUnknownField, Message: "it has a field that is not one of a request, and whose name is not repeated here"})
			continue
		}
		e.Problems = append(e.Problems, FieldProblem{Pointer: appendPointer("", name), Code: ReasonUnknownField, Message: notAField(name)})
	}
	return e
}

// Strict reports whether requests over Kafka of a tenant, written to topic, may have no
// field that Weir does not know. topic is that of an input, or any other.
func (p *Policy) Strict(tenant, topic string) bool {
	if t, _ := p.Tenant(tenant); t.Strict {
		return true
	}
	return slices.ContainsFunc(p.Inputs, func(in Input) bool { return in.Topic == topic && in.Strict })
}

func notAField(name string) string {
	return strings.TrimSuffix("is not a field of a request"+DidYouMean(name, requestFields), ".")
}

// NearestField returns the field of a request that name may be a misspelling of; ""
// when there is none.
func NearestField(name string) string { return nearest(name, requestFields) }

// requestFields are the names of Request's fields, in their order.
var requestFields = []string{
	"action", "tenant", "channel", "to", "class", "template", "vars", "subject", "body", "html", "reply_to", "title", "data", "from",
	"priority", "provider", "idempotency_key", "id", "send_at", "expires_at", "callback_url", "metadata", "at", "cost",
}
