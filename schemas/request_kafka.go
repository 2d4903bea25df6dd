package schemas

import (
	"encoding/binary"
	"strings"

	"github.com/google/uuid"
)

// DecodeRequest reads the value of a weir.requests record. It ignores fields it
// does not know, names them in Unknown, and is otherwise as strict as DecodeRequestStrict. headers
// returns a record header's value by its name; nil means that there are none.
//
//   - A Confluent Schema Registry prefix (magic byte 0 and four bytes of schema
//     id; for protobuf the message indexes too) is skipped; no registry is
//     asked. Behind it, JSON and protobuf are told apart by their first byte,
//     as serializers do not say.
//   - The header content-type application/x-protobuf or application/protobuf
//     says that the value is a weir.v1.SendRequest.
//   - CloudEvents 1.0 binary mode means the same message: the value is the
//     data. A ce_id that is a UUID is the id of a send or record request that
//     has none, because CloudEvents calls two events of one id duplicates.
//     Structured mode is refused.
//
// It looks at form only; Validate looks at values. The error is a
// *RequestError. Nothing of value is kept.
func DecodeRequest(value []byte, headers func(key string) (string, bool)) (*Request, error) {
	header := func(key string) string {
		if headers == nil {
			return ""
		}
		v, _ := headers(key)
		return v
	}
	if len(value) == 0 {
		return nil, requestFault("", ReasonEmpty, "is empty")
	}
	if len(value) > MaxRequestBytes {
		return nil, requestFault("", ReasonTooLarge, "is larger than 256 KiB")
	}
	kind := mediaType(header("content-type"))
	if strings.HasPrefix(kind, "application/cloudevents") {
		return nil, requestFault("", ReasonStructuredCloudEvent,
			"is a CloudEvent in structured mode; send it in binary mode, with the request as the record's value")
	}
	version := header("ce_specversion")
	if version != "" && version != "1.0" && version != "0.3" {
		return nil, requestFault("", ReasonBadCloudEvent, "has a ce_specversion that is neither 1.0 nor 0.3")
	}

	protobuf := kind == "application/x-protobuf" || kind == "application/protobuf"
	if value[0] == 0 {
		if len(value) < 6 {
			return nil, requestFault("", ReasonBadSchemaPrefix, "has a Schema Registry prefix that is cut short")
		}
		value = value[5:]
		protobuf = protobuf || isMessageIndex(value[0])
		if protobuf {
			rest, ok := skipMessageIndexes(value)
			if !ok {
				return nil, requestFault("", ReasonBadSchemaPrefix, "has a Schema Registry prefix with broken message indexes")
			}
			value = rest
		}
	}

	var q *Request
	var fault *RequestError
	if protobuf {
		q, fault = decodeRequestProto(value)
	} else {
		q, fault = decodeRequestJSON(value, false)
	}
	if fault != nil {
		return nil, fault
	}
	if version != "" && q.ID == "" && (q.Action == ActionSend || q.Action == ActionRecord) {
		if id := header("ce_id"); len(id) == 36 && uuid.Validate(id) == nil {
			q.ID = id
			q.settle()
		}
	}
	return q, nil
}

// mediaType is the type of a content-type header, without parameters.
func mediaType(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// isMessageIndex reports whether c, behind the schema id, begins the message
// indexes of protobuf rather than JSON: no JSON begins with a control character
// other than white space.
func isMessageIndex(c byte) bool {
	return c < 0x20 && c != '\t' && c != '\n' && c != '\r'
}

// skipMessageIndexes skips the path to the message within its schema, in
// Confluent's wire format: a zigzag varint count and as many zigzag varints,
// or a single 0 for the first message.
func skipMessageIndexes(b []byte) ([]byte, bool) {
	const deepest = 32 // no schema nests messages deeper
	count, n := binary.Varint(b)
	if n <= 0 || count < 0 || count > deepest {
		return nil, false
	}
	b = b[n:]
	for range count {
		index, n := binary.Varint(b)
		if n <= 0 || index < 0 {
			return nil, false
		}
		b = b[n:]
	}
	return b, true
}
