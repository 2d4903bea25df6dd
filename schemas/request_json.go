package schemas

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// DecodeRequestStrict reads the body of an HTTP request: one JSON object of at
// most MaxRequestBytes without unknown fields, duplicate names or anything
// after it. Names are case-sensitive; null is absent. The values of vars, data
// and metadata may be numbers and booleans: they become the text that stands
// in the JSON, because `"vars": {"code": 123456}` can mean nothing else.
//
// It looks at form only; Validate looks at values. The error is a
// *RequestError with every problem found. Nothing of body is kept.
func DecodeRequestStrict(body []byte) (*Request, error) {
	q, fault := decodeRequestJSON(body, true)
	if fault != nil {
		return nil, fault
	}
	return q, nil
}

// DecodeHTTPRequest is DecodeRequestStrict and ValidateHTTP in one, so that a
// client learns of everything that is wrong at once.
func DecodeHTTPRequest(body []byte, now Millis) (*Request, error) {
	q, fault := decodeRequestJSON(body, true)
	if fault != nil {
		if fault.Partial != nil {
			ps := requestProblems(fault.Problems)
			fault.Partial.problems(&ps, now, true)
			fault.Problems = ps
		}
		return nil, fault
	}
	if err := q.ValidateHTTP(now); err != nil {
		return nil, err
	}
	return q, nil
}

// requestDecoder reads one request.
type requestDecoder struct {
	*jsonReader
	q        *Request
	strict   bool
	seen     uint32 // a bit for each field that has been there
	problems requestProblems
}

func decodeRequestJSON(value []byte, strict bool) (*Request, *RequestError) {
	if len(value) > MaxRequestBytes {
		return nil, requestFault("", ReasonTooLarge, "is larger than 256 KiB")
	}
	if len(bytes.Trim(value, jsonSpace)) == 0 {
		return nil, requestFault("", ReasonEmpty, "is empty")
	}
	d := requestDecoder{jsonReader: readJSON(value), q: &Request{}, strict: strict}
	defer d.done()
	if d.peek() != '{' {
		if !d.skip() {
			return nil, requestFault("", ReasonNotJSON, atByte("is not JSON: "+d.why, d.at))
		}
		return nil, requestFault("", ReasonNotObject, "is not a JSON object")
	}
	if !d.object(d.field) {
		return nil, requestFault("", ReasonNotJSON, atByte("is not JSON: "+d.why, d.at))
	}
	if !d.end() {
		d.problems.add("", ReasonTrailingData, atByte("something follows the JSON object", d.offset()))
	}
	d.q.settle()
	if len(d.problems) > 0 {
		return nil, &RequestError{Problems: d.problems, Partial: d.q}
	}
	return d.q, nil
}

// settle gives the id and the cost one spelling each, whatever encoding they came in,
// because duplicates are found by the id and by what the request asks for.
func (q *Request) settle() {
	if len(q.ID) == 36 && uuid.Validate(q.ID) == nil {
		q.ID = strings.ToLower(q.ID)
	}
	if q.Cost == 1 {
		q.Cost = 0
	}
}

// field reads the value of one field. The order of the bits is that of Request.
func (d *requestDecoder) field(key []byte) bool {
	q := d.q
	switch string(key) {
	case "action":
		return d.text(0, "action", (*string)(&q.Action))
	case "tenant":
		return d.text(1, "tenant", &q.Tenant)
	case "channel":
		return d.text(2, "channel", (*string)(&q.Channel))
	case "to":
		return d.text(3, "to", &q.To)
	case "class":
		return d.text(4, "class", &q.Class)
	case "template":
		return d.text(5, "template", &q.Template)
	case "vars":
		return d.texts(6, "vars", &q.Vars)
	case "subject":
		return d.text(7, "subject", &q.Subject)
	case "body":
		return d.text(8, "body", &q.Body)
	case "html":
		return d.text(9, "html", &q.HTML)
	case "reply_to":
		return d.text(10, "reply_to", &q.ReplyTo)
	case "title":
		return d.text(11, "title", &q.Title)
	case "data":
		return d.texts(12, "data", &q.Data)
	case "from":
		return d.text(13, "from", &q.From)
	case "priority":
		return d.text(14, "priority", (*string)(&q.Priority))
	case "provider":
		return d.text(15, "provider", &q.Provider)
	case "idempotency_key":
		return d.text(16, "idempotency_key", &q.IdempotencyKey)
	case "id":
		return d.text(17, "id", &q.ID)
	case "send_at":
		return d.time(18, "send_at", ReasonSendAtOutOfRange, &q.SendAt)
	case "expires_at":
		return d.time(19, "expires_at", ReasonExpiresOutOfRange, &q.ExpiresAt)
	case "callback_url":
		return d.text(20, "callback_url", &q.CallbackURL)
	case "metadata":
		return d.texts(21, "metadata", &q.Metadata)
	case "at":
		return d.time(22, "at", ReasonAtOutOfRange, &q.At)
	case "cost":
		return d.cost(23, "cost", &q.Cost)
	}
	if d.strict {
		name := string(key)
		d.problems.add(appendPointer("", name), ReasonUnknownField, notAField(name))
	} else {
		q.Ignored(string(key))
	}
	return d.skip()
}

// once reports a name that stands twice in the object. Weir refuses it from
// Kafka too: parsers differ in which one they take, and a guess is not sent.
func (d *requestDecoder) once(bit uint, name string) {
	if d.seen&(1<<bit) != 0 {
		d.problems.add("/"+name, ReasonDuplicateField, "stands twice")
	}
	d.seen |= 1 << bit
}

func (d *requestDecoder) text(bit uint, name string, dst *string) bool {
	d.once(bit, name)
	switch d.peek() {
	case '"':
		b, ok := d.jsonReader.text()
		if !ok {
			return false
		}
		if d.broken {
			d.problems.add("/"+name, ReasonBadText, "is not whole Unicode text")
		}
		*dst = wireText(b)
		return true
	case 'n':
		return d.token()
	}
	return d.wrongType("/"+name, "must be a string")
}

func (d *requestDecoder) wrongType(pointer, message string) bool {
	if !d.skip() {
		return false
	}
	d.problems.add(pointer, ReasonWrongType, message)
	return true
}

// time reads a time. The very moment that Millis keeps for "absent" is long
// past what any of these fields may say, and must not pass as absent.
func (d *requestDecoder) time(bit uint, name, outOfRange string, dst *Millis) bool {
	d.once(bit, name)
	switch d.peek() {
	case '"':
		b, ok := d.jsonReader.text()
		if !ok {
			return false
		}
		m, err := parseWireTime(b)
		switch {
		case err != nil:
			d.problems.add("/"+name, ReasonBadTime, "is not a time in RFC 3339 from 1970 on, such as 2026-11-22T01:00:00Z")
		case m == 0 && len(b) > 0:
			d.problems.add("/"+name, outOfRange, "is before 2000")
		}
		*dst = m
		return true
	case 'n':
		return d.token()
	}
	return d.wrongType("/"+name, "must be a time in RFC 3339, such as 2026-11-22T01:00:00Z")
}

// cost reads a number of places. 0, which Request keeps for "absent", is refused, and
// what is too large for an int is refused as what is over the bound.
func (d *requestDecoder) cost(bit uint, name string, dst *int) bool {
	d.once(bit, name)
	switch d.peek() {
	case '0':
	case 'n':
		return d.token()
	default:
		return d.wrongType("/"+name, costForm)
	}
	b, ok := d.raw()
	if !ok {
		return false
	}
	v, err := strconv.ParseInt(string(b), 10, 32)
	switch {
	case errors.Is(err, strconv.ErrSyntax): // a fraction, or an exponent
		d.problems.add("/"+name, ReasonWrongType, costForm)
	case err != nil || v < 1 || v > MaxCost:
		d.problems.add("/"+name, ReasonCostOutOfRange, costForm)
	default:
		*dst = int(v)
	}
	return true
}

func (d *requestDecoder) texts(bit uint, name string, dst *map[string]string) bool {
	d.once(bit, name)
	switch d.peek() {
	case '{':
	case 'n':
		return d.token()
	default:
		return d.wrongType("/"+name, "must be an object with strings as values")
	}
	var m map[string]string
	ok := d.object(func(key []byte) bool {
		k := string(key)
		if d.broken {
			d.problems.add("/"+name, ReasonBadText, "has a name that is not whole Unicode text")
		}
		if _, twice := m[k]; twice {
			d.problems.add(appendPointer("/"+name, k), ReasonDuplicateField, "stands twice")
		}
		var v string
		switch d.peek() {
		case '"':
			b, ok := d.jsonReader.text()
			if !ok {
				return false
			}
			if d.broken {
				d.problems.add(appendPointer("/"+name, k), ReasonBadText, "is not whole Unicode text")
			}
			v = string(b)
		case '0', 't', 'f':
			b, ok := d.raw()
			if !ok {
				return false
			}
			v = string(b)
		default: // null too: it would be sent as a hole
			if !d.wrongType(appendPointer("/"+name, k), "must be a string, a number or a boolean") {
				return false
			}
		}
		if m == nil {
			m = make(map[string]string, 4)
		}
		m[k] = v
		return true
	})
	*dst = m
	return ok
}

// RequestJSON writes a request as one JSON object, with the fields in the order
// of Request and the names of maps sorted: equal requests give equal bytes.
func RequestJSON(q *Request) []byte {
	w := writeJSON()
	w.begin('{')
	w.textIf("action", string(q.Action))
	w.textIf("tenant", q.Tenant)
	w.textIf("channel", string(q.Channel))
	w.textIf("to", q.To)
	w.textIf("class", q.Class)
	w.textIf("template", q.Template)
	w.textsIf("vars", q.Vars)
	w.textIf("subject", q.Subject)
	w.textIf("body", q.Body)
	w.textIf("html", q.HTML)
	w.textIf("reply_to", q.ReplyTo)
	w.textIf("title", q.Title)
	w.textsIf("data", q.Data)
	w.textIf("from", q.From)
	w.textIf("priority", string(q.Priority))
	w.textIf("provider", q.Provider)
	w.textIf("idempotency_key", q.IdempotencyKey)
	w.textIf("id", q.ID)
	w.timeIf("send_at", q.SendAt)
	w.timeIf("expires_at", q.ExpiresAt)
	w.textIf("callback_url", q.CallbackURL)
	w.textsIf("metadata", q.Metadata)
	w.timeIf("at", q.At)
	w.intIf("cost", int64(q.Cost))
	w.end('}')
	return w.done(nil)
}
