package schemas

import (
	"fmt"
	"strconv"
	"strings"
)

// Reasons for which a request is refused: the code of an HTTP problem's
// errors[] and the reason of a `rejected` status. They are stable.
const (
	// The bytes.
	ReasonEmpty                = "empty"                      // no bytes at all, or a null record
	ReasonTooLarge             = "too_large"                  // over MaxRequestBytes, or its key and headers over MaxHeaderBytes
	ReasonInternalError        = "internal_error"             // a fault of Weir's own: the record cannot be processed
	ReasonBatchTooLarge        = "batch_too_large"            // a batch that decompresses to more than 16 MiB, which was not read
	ReasonNotJSON              = "not_json"                   // not RFC 8259
	ReasonNotObject            = "not_object"                 // JSON, but no object
	ReasonTrailingData         = "trailing_data"              // something follows the object
	ReasonBadSchemaPrefix      = "bad_schema_registry_prefix" // begins with magic byte 0 but is cut short or has no valid message index
	ReasonNoCallbackSecret     = "no_callback_secret"         // callback_url of a tenant whose policy has no callback.secret to sign with
	ReasonBadProtobuf          = "bad_protobuf"               // said to be protobuf and is none, or holds text that is not UTF-8
	ReasonBadCloudEvent        = "bad_cloudevent"             // a ce_specversion that Weir does not know
	ReasonStructuredCloudEvent = "structured_cloudevent"      // CloudEvents structured or batch mode: only binary mode is read

	// One field's form.
	ReasonUnknownField   = "unknown_field"
	ReasonDuplicateField = "duplicate_field" // the same name twice in one object: which one counts would be a guess
	ReasonWrongType      = "wrong_type"
	ReasonBadValue       = "bad_value" // of a policy: what it says it may be
	ReasonBadText        = "bad_text"  // not UTF-8, or half of a surrogate pair
	ReasonBadTime        = "bad_time"  // not RFC 3339, or outside the years 1 to 9999

	// One field's value.
	ReasonRequired           = "required"
	ReasonUnknownValue       = "unknown_value" // not one of the values listed
	ReasonBadName            = "bad_name"
	ReasonBadID              = "bad_id" // no UUID, or the nil UUID
	ReasonBadURL             = "bad_url"
	ReasonTooLong            = "too_long"
	ReasonTooMany            = "too_many"
	ReasonControlCharacter   = "control_character"
	ReasonSendAtOutOfRange   = "send_at_out_of_range"    // before 2000, or beyond 31 days from now
	ReasonExpiresOutOfRange  = "expires_at_out_of_range" // before 2000; of a suppression, in the past
	ReasonAtOutOfRange       = "at_out_of_range"         // before 2000, or in the future
	ReasonCostOutOfRange     = "cost_out_of_range"       // below 1, or over MaxCost
	ReasonNotPermitted       = "not_permitted"           // the channel, the action or HTTP does not have this field
	ReasonTemplateAndContent = "template_and_content"
	ReasonContentRequired    = "content_required" // neither a template nor what the channel needs
	ReasonForbiddenTenant    = "forbidden_tenant" // it names another tenant than the one whose door it came through
)

// maxProblems bounds what one refusal lists, and maxPointerName what of a
// client's own names it repeats, so that an answer or a status never grows
// with the input.
const (
	maxProblems    = 32
	maxPointerName = 64 // bytes
)

// FieldProblem is one thing wrong with a request. It never holds a value of the
// request, because it travels to statuses and logs.
type FieldProblem struct {
	Pointer string `json:"pointer"` // RFC 6901; "" is the whole request
	Code    string `json:"code"`    // Reason…
	Message string `json:"message"` // for people
}

// RequestError says everything that is wrong with a request.
type RequestError struct {
	Problems []FieldProblem // at least one, at most 32
	// Partial is what could be read all the same, so that a rejected status
	// can name its tenant and recipient; nil when nothing could.
	Partial *Request
}

// Reason is the first problem's code: the reason of a rejected status.
func (e *RequestError) Reason() string {
	if len(e.Problems) == 0 {
		return ""
	}
	return e.Problems[0].Code
}

// Error lists the problems: "/to: is required; /channel: …".
func (e *RequestError) Error() string {
	var b strings.Builder
	b.WriteString("invalid request: ")
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteString("; ")
		}
		if p.Pointer != "" {
			b.WriteString(p.Pointer)
			b.WriteString(": ")
		}
		b.WriteString(p.Message)
	}
	if e.Partial != nil && len(e.Problems) > 0 && e.Reason() != ReasonUnknownField {
		for _, name := range e.Partial.Unknown { // perhaps what is missing, misspelt
			if name != OtherField {
				fmt.Fprintf(&b, "; %s: %s", appendPointer("", name), notAField(name))
			}
		}
	}
	return b.String()
}

// requestProblems collects problems up to the bound. A pointer that already has
// one gets no second: what follows from a mistake is not another mistake.
type requestProblems []FieldProblem

func (ps *requestProblems) add(pointer, code, message string) {
	if len(*ps) >= maxProblems {
		return
	}
	for _, p := range *ps {
		if p.Pointer == pointer {
			return
		}
	}
	*ps = append(*ps, FieldProblem{Pointer: pointer, Code: code, Message: message})
}

// requestFault is an error with a single problem.
func requestFault(pointer, code, message string) *RequestError {
	return &RequestError{Problems: []FieldProblem{{Pointer: pointer, Code: code, Message: message}}}
}

// appendPointer adds one reference token to an RFC 6901 pointer. Long names are
// cut at a character.
func appendPointer(pointer, name string) string {
	if len(name) > maxPointerName {
		cut := maxPointerName
		for cut > 0 && name[cut]&0xc0 == 0x80 {
			cut--
		}
		name = name[:cut] + "…"
	}
	if strings.ContainsAny(name, "~/") {
		name = strings.ReplaceAll(name, "~", "~0")
		name = strings.ReplaceAll(name, "/", "~1")
	}
	return pointer + "/" + name
}

func atByte(what string, i int) string { return what + " at byte " + strconv.Itoa(i) }
