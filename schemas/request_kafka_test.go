package schemas

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weirhq/weir/schemas/weirpb"
)

const (
	plainRequest = `{"channel":"sms","to":"+8613812345678","body":"code 1"}`
	someUUID     = "0192f0c1-2a3b-7c4d-8e5f-60718293a4b5"
)

// registered puts a Schema Registry prefix before a value.
func registered(indexes []byte, value string) string {
	return "\x00\x00\x00\x00\x11" + string(indexes) + value
}

func varints(v ...int64) []byte {
	var b []byte
	for _, i := range v {
		b = binary.AppendVarint(b, i)
	}
	return b
}

func TestDecodeRequestFromKafka(t *testing.T) {
	plain := &Request{Channel: ChannelSMS, To: "+8613812345678", Body: "code 1"}
	unknown := func(names ...string) *Request {
		q := *plain
		q.Unknown = names
		return &q
	}
	withID := *plain
	withID.ID = someUUID
	pb, err := RequestProto(plain)
	if err != nil {
		t.Fatal(err)
	}
	newer := string(protowire.AppendVarint(protowire.AppendTag(pb, 1000, protowire.VarintType), 7))
	broken := func(p *weirpb.SendRequest) string {
		b, err := proto.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	protobuf := map[string]string{"content-type": "application/x-protobuf"}
	event := func(more ...string) map[string]string {
		m := map[string]string{"ce_specversion": "1.0", "ce_id": someUUID, "ce_type": "shop.order", "ce_source": "/shop",
			"content-type": "application/json; charset=utf-8"}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}

	tests := []struct {
		name    string
		value   string
		headers map[string]string
		want    *Request
		problem string
	}{
		{name: "plain", value: plainRequest, want: plain},
		{name: "unknown fields are ignored", value: strings.Replace(plainRequest, "{", `{"new":[{"a":null}],"new":1,"Body":2,"+8613800000000":1,"a@b.c":1,`, 1), want: unknown("new", "Body", "other")},
		{name: "unknown fields nest up to a bound", value: strings.Replace(plainRequest, "{", `{"x":`+strings.Repeat("[", 199)+strings.Repeat("]", 199)+`,`, 1), want: unknown("x")},
		{name: "and no further", value: strings.Replace(plainRequest, "{", `{"x":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`,`, 1), problem: " not_json"},
		{name: "objects too", value: strings.Repeat(`{"x":`, 201) + `1` + strings.Repeat("}", 201), problem: " not_json"},
		{name: "known fields are not", value: strings.Replace(plainRequest, "{", `{"to":"b",`, 1), problem: "/to duplicate_field"},
		{name: "wrong type", value: `{"to":8613812345678}`, problem: "/to wrong_type"},
		{name: "null record", value: "", problem: " empty"},
		{name: "not JSON", value: "hello", problem: " not_json"},
		{name: "not an object", value: "[]", problem: " not_object"},
		{name: "300 KiB", value: `{"body":"` + strings.Repeat("a", 300<<10) + `"}`, problem: " too_large"},
		{name: "1970", value: `{"send_at":"1970-01-01T00:00:00Z"}`, problem: "/send_at send_at_out_of_range"},

		{name: "registry, JSON", value: registered(nil, plainRequest), want: plain},
		{name: "registry, JSON behind white space", value: registered(nil, "\n"+plainRequest), want: plain},
		{name: "registry, not JSON", value: registered(nil, "hello"), problem: " not_json"},
		{name: "registry, protobuf", value: registered([]byte{0}, string(pb)), want: plain},
		{name: "registry, protobuf, long form of the first message", value: registered(varints(1, 0), string(pb)), want: plain},
		{name: "registry, protobuf, nested message", value: registered(varints(2, 3, 300), string(pb)), headers: protobuf, want: plain},
		{name: "registry cut in the id", value: "\x00\x00\x00", problem: " bad_schema_registry_prefix"},
		{name: "registry and nothing more", value: "\x00\x00\x00\x00\x11", problem: " bad_schema_registry_prefix"},
		{name: "registry, indexes cut short", value: registered([]byte{4}, ""), problem: " bad_schema_registry_prefix"},
		{name: "registry, negative count", value: registered(varints(-1), string(pb)), headers: protobuf, problem: " bad_schema_registry_prefix"},
		{name: "registry, negative index", value: registered(varints(1, -1), string(pb)), headers: protobuf, problem: " bad_schema_registry_prefix"},
		{name: "registry, deeper than any schema", value: registered(append(varints(33), make([]byte, 33)...), string(pb)), headers: protobuf, problem: " bad_schema_registry_prefix"},
		{name: "registry, endless varint", value: registered([]byte(strings.Repeat("\xff", 20)), ""), headers: protobuf, problem: " bad_schema_registry_prefix"},
		{name: "registry, huge count", value: registered(varints(1<<40), string(pb)), headers: protobuf, problem: " bad_schema_registry_prefix"},

		{name: "protobuf", value: string(pb), headers: protobuf, want: plain},
		{name: "protobuf by its other name", value: string(pb), headers: map[string]string{"content-type": " Application/Protobuf ; x=y"}, want: plain},
		{name: "protobuf with unknown fields", value: newer, headers: protobuf, want: unknown("field_1000")},
		{name: "protobuf unannounced", value: string(pb), problem: " not_json"},
		{name: "JSON announced as protobuf", value: plainRequest, headers: protobuf, problem: " bad_protobuf"},
		{name: "protobuf cut short", value: string(pb[:len(pb)-1]), headers: protobuf, problem: " bad_protobuf"},
		{name: "protobuf text that is not UTF-8", value: "\x22\x01\xff", headers: protobuf, problem: " bad_protobuf"},
		{name: "protobuf, unknown channel", value: broken(&weirpb.SendRequest{Channel: 99}), headers: protobuf, problem: "/channel unknown_value"},
		{name: "protobuf, negative priority", value: broken(&weirpb.SendRequest{Priority: -1}), headers: protobuf, problem: "/priority unknown_value"},
		{name: "protobuf, unknown action", value: broken(&weirpb.SendRequest{Action: 99}), headers: protobuf, problem: "/action unknown_value"},
		{name: "protobuf, no time", value: broken(&weirpb.SendRequest{SendAt: &timestamppb.Timestamp{Nanos: -1}}), headers: protobuf, problem: "/send_at bad_time"},
		{name: "protobuf, the epoch is not absent", value: broken(&weirpb.SendRequest{SendAt: &timestamppb.Timestamp{}}), headers: protobuf, problem: "/send_at send_at_out_of_range"},

		{name: "CloudEvent, binary", value: plainRequest, headers: event(), want: &withID},
		{name: "CloudEvent, binary, protobuf", value: string(pb), headers: event("content-type", "application/protobuf"), want: &withID},
		{name: "CloudEvent, upper case id", value: plainRequest, headers: event("ce_id", strings.ToUpper(someUUID)), want: &withID},
		{name: "CloudEvent, id that is no UUID", value: plainRequest, headers: event("ce_id", "order-17"), want: plain},
		{name: "CloudEvent beside the request's own id", value: `{"id":"` + someUUID + `"}`, headers: event("ce_id", "00000000-0000-4000-8000-000000000001"), want: &Request{ID: someUUID}},
		{name: "CloudEvent's id names no other message", value: `{"action":"cancel","to":"a"}`, headers: event(), want: &Request{Action: ActionCancel, To: "a"}},
		{name: "ce_id without an envelope", value: plainRequest, headers: map[string]string{"ce_id": someUUID}, want: plain},
		{name: "CloudEvent of another version", value: plainRequest, headers: event("ce_specversion", "2.0"), problem: " bad_cloudevent"},
		{name: "CloudEvent, structured", value: `{"specversion":"1.0","data":{}}`, headers: map[string]string{"content-type": "application/cloudevents+json; charset=UTF-8"}, problem: " structured_cloudevent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeRequest([]byte(tt.value), headersOf(tt.headers))
			if tt.problem != "" {
				if ps := problemsOf(t, err); len(ps) != 1 || ps[0] != tt.problem {
					t.Errorf("problems %q, want %q", ps, tt.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// A rejected status can name the tenant and the recipient.
func TestRequestErrorKeepsWhatCouldBeRead(t *testing.T) {
	_, err := DecodeRequest([]byte(`{"vars":[],"tenant":"acme","to":"+8613812345678"}`), nil)
	fault, ok := errors.AsType[*RequestError](err)
	if !ok || fault.Reason() != ReasonWrongType || fault.Partial == nil || fault.Partial.Tenant != "acme" || fault.Partial.To != "+8613812345678" {
		t.Errorf("%+v", fault)
	}
}

func TestDecodedRequestKeepsNothingOfTheValue(t *testing.T) {
	value := []byte(plainRequest)
	q, err := DecodeRequest(value, nil)
	if err != nil {
		t.Fatal(err)
	}
	clear(value)
	if q.To != "+8613812345678" {
		t.Error("the request changed with the buffer it was read from")
	}
}
