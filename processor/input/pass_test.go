package input

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const n, dlq = 8, 4

var (
	at      = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	aDoor   = door{names: topics.Names{}, partitions: n, dlq: dlq, tenant: "acme"}
	inForce = func() *schemas.Policy {
		doc, err := schemas.ParsePolicy("p.yaml", []byte(`
tenants: [{name: acme, default_region: CN}]
classes: [{name: verify, expires_after: 5m}]
inputs: [{topic: acme.sends, tenant: acme}]
`))
		if err != nil {
			panic(err)
		}
		return &doc.Policy
	}()
)

// record is one of the bound topic, stamped by its broker.
func record(value []byte, headers ...string) *kgo.Record {
	r := &kgo.Record{Topic: "acme.sends", Partition: 11, Offset: 42, Key: []byte("theirs"), Value: value, Timestamp: at}
	for i := 0; i < len(headers); i += 2 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
	}
	return r
}

func headers(r *kgo.Record) map[string]string {
	m := make(map[string]string)
	for _, h := range r.Headers {
		m[h.Key] = string(h.Value)
	}
	return m
}

func encoded(t *testing.T, q *schemas.Request) []byte {
	t.Helper()
	b, err := schemas.RequestProto(q)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPasses: in whatever encoding a request comes, one record of weir.requests
// means it, as the tenant's.
func TestPasses(t *testing.T) {
	sms := schemas.Request{Channel: schemas.ChannelSMS, To: "138 0013 8000", Body: "hi", Metadata: map[string]string{"a": "b"}}
	const key, own = "+8613800138000", "6f0c3a0e-3c1f-4a51-9d59-0d6e6ff0a001"
	derived := schemas.DerivedID(schemas.Source{Topic: "acme.sends", Partition: 11, Offset: 42}, schemas.MillisOf(at))
	withID := sms
	withID.ID = own
	prefix := binary.BigEndian.AppendUint32([]byte{0}, 7)
	for _, tt := range []struct {
		name    string
		value   []byte
		headers []string
		id      string
		says    string // content-type of what is passed on
	}{
		{"JSON", schemas.RequestJSON(&sms), nil, derived, ""},
		{"JSON that says so", schemas.RequestJSON(&sms), []string{"Content-Type", "application/json; charset=utf-8"}, derived, "application/json"},
		{"protobuf", encoded(t, &sms), []string{"content-type", "application/x-protobuf"}, derived, "application/json"},
		{"Schema Registry, JSON", append(prefix, schemas.RequestJSON(&sms)...), nil, derived, ""},
		{"Schema Registry, protobuf", append(append(prefix, 0), encoded(t, &sms)...), nil, derived, ""},
		{"its own id", schemas.RequestJSON(&withID), nil, own, ""},
		{"CloudEvents' id", schemas.RequestJSON(&sms), []string{"ce_specversion", "1.0", "ce_id", own}, own, ""},
		{"its own tenant", []byte(`{"tenant":"acme","channel":"sms","to":"138 0013 8000","body":"hi","metadata":{"a":"b"}}`), nil, derived, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := record(tt.value, append(tt.headers, "traceparent", "00-1", "Weir-Tenant", "globex", "weir-id", own, "weir-timestamp", "2026-11-21T08:59:59.000Z", "Weir-Reply", "nobody", "weir-reply", "3/abc")...)
			out, refused := aDoor.pass(r, inForce, schemas.MillisOf(at)+5)
			if refused != "" || len(out) != 1 {
				t.Fatalf("refused as %q, %d records", refused, len(out))
			}
			got := out[0]
			if got.Topic != "weir.requests" || string(got.Key) != key || got.Partition != schemas.PartitionOf(key, n) {
				t.Errorf("to %s/%d under %q", got.Topic, got.Partition, got.Key)
			}
			h := headers(got)
			if h["traceparent"] != "00-1" || h["weir-timestamp"] != "2026-11-21T08:59:59.000Z" || h["weir-origin"] != "acme.sends/11/42" || h["Weir-Tenant"] != "" || h["weir-id"] != "" || h["weir-reply"] != "3/abc" || h["Weir-Reply"] != "" {
				t.Errorf("headers %v", h)
			}
			if h["content-type"]+h["Content-Type"] != tt.says {
				t.Errorf("content type %v, want %q", h, tt.says)
			}
			// As admission will read it.
			q, err := schemas.DecodeRequest(got.Value, request.Header(got))
			if err != nil {
				t.Fatal(err)
			}
			want := sms
			want.Tenant = "acme"
			if q.ID != tt.id || q.Tenant != "acme" || q.To != sms.To || schemas.ContentHash(q) != schemas.ContentHash(&want) {
				t.Errorf("passed on %+v", q)
			}
		})
	}
}

// TestActions: what is asked of other messages keeps its id, and covers no more
// than the tenant.
func TestActions(t *testing.T) {
	const own = "6f0c3a0e-3c1f-4a51-9d59-0d6e6ff0a001"
	for _, tt := range []struct{ value, want string }{
		{`{"action":"cancel","id":"` + own + `","to":"+8613800138000"}`, `{"action":"cancel","tenant":"acme","to":"+8613800138000","id":"` + own + `"}`},
		{`{"action":"release","id":"` + own + `","to":"+8613800138000"}`, `{"action":"release","tenant":"acme","to":"+8613800138000","id":"` + own + `"}`},
		{`{"action":"suppress","to":"+8613800138000"}`, `{"action":"suppress","tenant":"acme","to":"+8613800138000"}`},
		{`{"action":"unsuppress","to":"a@example.com","tenant":"acme"}`, `{"action":"unsuppress","tenant":"acme","to":"a@example.com"}`},
		{`{"action":"explode","to":"+8613800138000"}`, `{"action":"explode","tenant":"acme","to":"+8613800138000"}`},
	} {
		out, refused := aDoor.pass(record([]byte(tt.value)), inForce, schemas.MillisOf(at))
		if refused != "" || len(out) != 1 || string(out[0].Value) != tt.want {
			t.Errorf("%s: %q %s, want %s", tt.value, refused, out[0].Value, tt.want)
		}
	}
}

// TestUnaddressed: whom nobody can tell is admission's to reject, in whatever
// partition.
func TestUnaddressed(t *testing.T) {
	out, refused := aDoor.pass(record([]byte(`{"channel":"sms","to":"12","body":"x"}`)), inForce, schemas.MillisOf(at))
	if refused != "" || len(out) != 1 || out[0].Key != nil || out[0].Topic != "weir.requests" || out[0].Partition != 11%n {
		t.Fatalf("%q %+v", refused, out)
	}
}

// TestRefuses: what names another tenant or cannot be read ends as the door's, never
// as what it says, under an id of its own place, and its bytes are kept.
func TestRefuses(t *testing.T) {
	const own = "6f0c3a0e-3c1f-4a51-9d59-0d6e6ff0a001"
	for _, tt := range []struct {
		name, value, reason string
		headers             []string
		to                  string
	}{
		{"another tenant", `{"tenant":"globex","id":"` + own + `","channel":"sms","to":"+8613800138000","body":"hi"}`, "forbidden_tenant", nil, "+8613800138000"},
		{"the default tenant", `{"tenant":"default","channel":"sms","to":"+8613800138000","body":"hi"}`, "forbidden_tenant", nil, "+8613800138000"},
		{"another tenant's action", `{"action":"suppress","tenant":"globex","to":"+8613800138000"}`, "forbidden_tenant", nil, "+8613800138000"},
		{"no JSON", `garbage`, "not_json", nil, ""},
		{"nothing", ``, "empty", nil, ""},
		{"no protobuf", "\xff\xff", "bad_protobuf", []string{"content-type", "application/x-protobuf"}, ""},
		{"a field twice, and another tenant", `{"to":"1","to":"2","tenant":"globex"}`, "duplicate_field", nil, "2"},
		{"structured CloudEvent", `{}`, "structured_cloudevent", []string{"content-type", "application/cloudevents+json"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := record([]byte(tt.value), append(tt.headers, "weir-tenant", "globex", "theirs", "1")...)
			now := schemas.MillisOf(at) + 5
			out, refused := aDoor.pass(r, inForce, now)
			if refused != tt.reason || len(out) != 2 {
				t.Fatalf("refused as %q with %d records", refused, len(out))
			}
			e, err := schemas.DecodeEvent(out[0].Value)
			if err != nil {
				t.Fatal(err)
			}
			src := schemas.Source{Topic: "acme.sends", Partition: 11, Offset: 42}
			id := schemas.DerivedID(src, schemas.MillisOf(at))
			if e.Kind != schemas.KindStatus || e.Status != schemas.StatusRejected || e.Reason != tt.reason || e.Tenant != "acme" || e.MessageID != id || e.To != tt.to ||
				e.Source == nil || *e.Source != src || e.AcceptedAt != schemas.MillisOf(at) || e.At != now || e.Decision != nil || e.Error == "" {
				t.Errorf("its end is %+v", e)
			}
			if strings.Contains(e.Error, "globex") || strings.Contains(e.Error, "138") {
				t.Errorf("its end repeats what it says: %s", e.Error)
			}
			key := tt.to
			if key == "" {
				key = id
			}
			if out[0].Topic != "weir.status" || out[0].Partition != schemas.PartitionOf(key, n) || string(out[0].Key) != key {
				t.Errorf("its end stands in %s/%d under %s", out[0].Topic, out[0].Partition, out[0].Key)
			}
			h := headers(out[1])
			if out[1].Topic != "weir.dlq" || string(out[1].Value) != tt.value || string(out[1].Key) != "theirs" || out[1].Partition != schemas.PartitionOf(tt.to, dlq) {
				t.Errorf("its bytes are %q in %s/%d", out[1].Value, out[1].Topic, out[1].Partition)
			}
			if h["weir-id"] != id || h["weir-tenant"] != "acme" || h["weir-reason"] != tt.reason || h["weir-origin"] != src.String() || h["theirs"] != "1" || h["weir-error"] == "" || h["weir-key"] != "" {
				t.Errorf("headers %v", h)
			}
		})
	}
}

// TestExpiry: what waited in the topic lives no longer for it, unless its times are
// its producer's.
func TestExpiry(t *testing.T) {
	const given = "2026-11-21T12:00:00.000Z"
	for _, tt := range []struct {
		name, fields string
		age          time.Duration
		want         time.Duration // after the append; 0 is none
	}{
		{"just written", ``, time.Second, 0},
		{"waited", ``, time.Minute, 5 * time.Minute},
		{"waited for too long", ``, time.Hour, 5 * time.Minute},
		{"its own", `,"expires_at":"` + given + `"`, time.Hour, 3 * time.Hour},
		{"to be sent later", `,"send_at":"2026-11-21T09:30:00.000Z"`, time.Minute, 35 * time.Minute},
		{"a key, in time: the same content whenever it comes", `,"idempotency_key":"k"`, time.Minute, 0},
		{"a key, too late", `,"idempotency_key":"k"`, time.Hour, 5 * time.Minute},
	} {
		for _, times := range []string{"the broker's", "its producer's"} {
			r := record([]byte(`{"channel":"sms","to":"+8613800138000","class":"verify","body":"hi"` + tt.fields + `}`))
			want := tt.want
			if times == "the broker's" {
				r.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{TimestampType: 1})
			} else if !strings.Contains(tt.fields, given) {
				want = 0
			}
			out, _ := aDoor.pass(r, inForce, schemas.MillisOf(at.Add(tt.age)))
			q, err := schemas.DecodeRequest(out[0].Value, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := time.Duration(0)
			if q.ExpiresAt != 0 {
				got = q.ExpiresAt.Time().Sub(at)
			}
			if got != want {
				t.Errorf("%s, %s times: expires %v after its append, want %v", tt.name, times, got, want)
			}
		}
	}
}

// TestLarge: what JSON writes longer goes on in protobuf, and what no topic takes
// ends, rather than that it stands in the way of all behind it.
func TestLarge(t *testing.T) {
	q := &schemas.Request{Channel: schemas.ChannelEmail, To: "a@example.com", Subject: "s", Body: strings.Repeat("\x01", schemas.MaxRequestBytes-200)}
	t.Run("longer in JSON", func(t *testing.T) {
		out, refused := aDoor.pass(record(encoded(t, q), "content-type", "application/protobuf"), inForce, schemas.MillisOf(at))
		if refused != "" || len(out) != 1 {
			t.Fatalf("refused as %q", refused)
		}
		got, err := schemas.DecodeRequest(out[0].Value, request.Header(out[0]))
		if err != nil || got.Body != q.Body || got.Tenant != "acme" {
			t.Errorf("passed on as %v, %v", err, headers(out[0]))
		}
	})
	t.Run("no room for its tenant and id", func(t *testing.T) {
		full := *q
		full.Body += strings.Repeat("\x01", schemas.MaxRequestBytes-len(encoded(t, q)))
		out, refused := aDoor.pass(record(encoded(t, &full), "content-type", "application/protobuf"), inForce, schemas.MillisOf(at))
		if refused != "too_large" || len(out) != 2 || len(out[1].Value) != schemas.MaxRequestBytes {
			t.Errorf("refused as %q", refused)
		}
	})
	t.Run("beyond all topics", func(t *testing.T) {
		out, refused := aDoor.pass(record(make([]byte, 3<<20)), inForce, schemas.MillisOf(at))
		if refused != "too_large" || len(out) != 2 || len(out[1].Value) != 64<<10 || headers(out[1])["weir-value-bytes"] != "3145728" || len(headers(out[1])["weir-value-sha256"]) != 64 {
			t.Errorf("refused as %q", refused)
		}
	})
	t.Run("its headers", func(t *testing.T) {
		out, refused := aDoor.pass(record([]byte(`{"channel":"sms","to":"+8613800138000","body":"hi"}`), "x", strings.Repeat("x", topics.MaxMessageBytes-1000)), inForce, schemas.MillisOf(at))
		if refused != "too_large" || len(out) != 2 || len(out[1].Value) == 0 {
			t.Errorf("refused as %q", refused)
		}
	})
}

func FuzzPass(f *testing.F) {
	f.Add([]byte(`{"tenant":"globex","to":"+8613800138000"}`), "", "")
	f.Add([]byte(`{"channel":"sms","to":"+8613800138000","body":"b"}`), "content-type", "application/json")
	f.Fuzz(func(t *testing.T, value []byte, header, text string) {
		out, refused := aDoor.pass(record(value, header, text), inForce, schemas.MillisOf(at))
		if refused != "" {
			if e, err := schemas.DecodeEvent(out[0].Value); err != nil || e.Tenant != "acme" || e.Status != schemas.StatusRejected {
				t.Fatalf("refused as %+v, %v", e, err)
			}
			return
		}
		q, err := schemas.DecodeRequest(out[0].Value, request.Header(out[0]))
		if err != nil || q.Tenant != "acme" {
			t.Fatalf("passed on as %+v, %v", q, err)
		}
		want, err := schemas.DecodeRequest(value, request.Header(record(value, header, text)))
		if err != nil {
			t.Fatal(err)
		}
		if want.Tenant = "acme"; schemas.ContentHash(q) != schemas.ContentHash(want) || q.To != want.To || q.IdempotencyKey != want.IdempotencyKey || want.ID != "" && q.ID != want.ID {
			t.Fatalf("%+v was passed on as %+v", want, q)
		}
	})
}

// TestStrictInputs: a record with an unknown field ends where the input or its tenant is
// strict, since what is passed on has that field no more. An opt-out passes.
func TestStrictInputs(t *testing.T) {
	for _, tt := range []struct {
		input, tenant bool
		value, want   string
	}{
		{false, false, `{"channel":"sms","to":"+8613800138000","body":"x","clas":"a"}`, ""},
		{true, false, `{"channel":"sms","to":"+8613800138000","body":"x","clas":"a"}`, schemas.ReasonUnknownField},
		{false, true, `{"channel":"sms","to":"+8613800138000","body":"x","clas":"a"}`, schemas.ReasonUnknownField},
		{true, true, `{"channel":"sms","to":"+8613800138000","body":"x","class":"a"}`, ""},
		{true, true, `{"action":"suppress","to":"+8613800138000","clas":"a"}`, ""},
	} {
		r := record([]byte(tt.value))
		pol := &schemas.Policy{
			Tenants: []schemas.Tenant{{Name: aDoor.tenant, Strict: tt.tenant}},
			Inputs:  []schemas.Input{{Topic: "other", Tenant: aDoor.tenant, Strict: true}, {Topic: r.Topic, Tenant: aDoor.tenant, Strict: tt.input}},
		}
		if _, refused := aDoor.pass(r, pol, schemas.MillisOf(at)); refused != tt.want {
			t.Errorf("%s, input %v, tenant %v: %q", tt.value, tt.input, tt.tenant, refused)
		}
	}
}
