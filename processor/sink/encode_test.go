package sink_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/schemas/clickhouse"
)

// row encodes one record and returns its columns by name.
func row(t *testing.T, r sink.Record) map[string]any {
	t.Helper()
	b := sink.NewBlock([]byte("key"))
	b.Append(r)
	cols := b.Columns()
	if len(cols) != len(clickhouse.StatusLog.Columns) || b.Rows() != 1 {
		t.Fatalf("%d columns and %d rows, want %d and 1", len(cols), b.Rows(), len(clickhouse.StatusLog.Columns))
	}
	out := make(map[string]any)
	for i, c := range cols {
		v := reflect.ValueOf(c)
		if v.Len() != 1 {
			t.Fatalf("column %s has %d values", clickhouse.StatusLog.Columns[i], v.Len())
		}
		out[clickhouse.StatusLog.Columns[i]] = v.Index(0).Interface()
	}
	return out
}

var appended = schemas.Millis(1_763_719_200_000) // 2025-11-21T10:00:00Z

func TestEncode(t *testing.T) {
	full := schemas.Event{
		Kind: schemas.KindStatus, MessageID: "m1", Tenant: "acme", Channel: "sms", Class: "verify", Template: "login", To: "+8613812345678",
		Status: schemas.StatusLimited, At: appended - 5, Reason: "limited", Attempt: 70_000, Provider: "aliyun", ProviderMessageID: "p1",
		ErrorCode: "E1", Error: "no", Limit: "verify", Window: "1/60s", RetryAt: appended + 60_000, AcceptedAt: appended - 9, Segments: 2,
		Price: "0.045", Currency: "CNY", DuplicateOf: "m0", RedriveOf: "r0", Observed: true,
		Source: &schemas.Source{Topic: "weir.requests", Partition: 3, Offset: 4},
		Decision: &schemas.Decision{Verdict: schemas.VerdictRefuse, Partition: 5, Seq: 6, T: appended - 5, Revision: 7,
			Input:    &schemas.Source{Topic: "weir.readmit", Partition: 8, Offset: 9},
			Charges:  []schemas.Charge{{Limit: "verify", Scope: "s", T: appended, Cost: 2}},
			Returned: []schemas.Charge{{Limit: "old", Scope: "s", T: appended, Cost: 1}},
			Carried:  []schemas.Charge{{Limit: "acme", Scope: "tenant=acme", T: appended - 2, Cost: 1}, {Limit: "all", T: appended - 1, Cost: 3}},
			Passed:   []schemas.Ask{{Limit: "p", Scope: "prefix:3=861", Cost: 1}},
			Restored: []schemas.Charge{{Limit: "r", Scope: "s", T: appended, Cost: 1}}, Released: []schemas.Charge{{Limit: "l", Scope: "s", T: appended, Cost: 1}},
			Reinstated: []schemas.Charge{{Limit: "i", Scope: "s", T: appended, Cost: 1}}, Onward: new(int32(0)),
			Evidence: []schemas.Evidence{{Limit: "verify", Scope: "s", Window: "1/60s", N: 1, Count: 1, Cost: 1, Oldest: appended - 50}},
			Marker:   &schemas.Marker{Revision: 7, Seq: 6, T: appended}},
	}
	raw, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	got := row(t, sink.Record{Partition: 1, Offset: 2, Appended: appended, Value: raw})
	if got["recipient_hash"] == uint64(0) {
		t.Error("no recipient_hash")
	}
	delete(got, "recipient_hash")
	want := map[string]any{
		"kind": "status", "message_id": "m1", "tenant": "acme", "channel": "sms", "class": "verify", "template": "login",
		"to": "+8613812345678", "country": "CN", "status": "limited", "at": int64(appended - 5), "reason": "limited",
		"attempt": uint16(65535), "provider": "aliyun", "provider_message_id": "p1", "error_code": "E1", "error": "no",
		"limit": "verify", "window": "1/60s", "retry_at": int64(appended + 60_000), "accepted_at": int64(appended - 9), "segments": uint16(2),
		"price": "0.045", "currency": "CNY", "duplicate_of": "m0", "redrive_of": "r0", "observed": true,
		"source_topic": "weir.requests", "source_partition": int32(3), "source_offset": int64(4),
		"decision_verdict": "refuse", "decision_partition": int32(5), "decision_seq": int64(6), "decision_t": int64(appended - 5), "revision": int64(7),
		"input_topic": "weir.readmit", "input_partition": int32(8), "input_offset": int64(9),
		"charges.limit": []string{"verify"}, "charges.scope": []string{"s"}, "charges.t": []time.Time{time.UnixMilli(int64(appended))}, "charges.cost": []int64{2},
		"carried.limit": []string{"acme", "all"}, "carried.scope": []string{"tenant=acme", ""}, "carried.cost": []int64{1, 3},
		"carried.t": []time.Time{time.UnixMilli(int64(appended - 2)), time.UnixMilli(int64(appended - 1))},
		"returned":  `[{"limit":"old","scope":"s","t":"2025-11-21T10:00:00.000Z","cost":1}]`, "missing": "",
		"passed":     `[{"limit":"p","scope":"prefix:3=861","cost":1}]`,
		"restored":   `[{"limit":"r","scope":"s","t":"2025-11-21T10:00:00.000Z","cost":1}]`,
		"released":   `[{"limit":"l","scope":"s","t":"2025-11-21T10:00:00.000Z","cost":1}]`,
		"reinstated": `[{"limit":"i","scope":"s","t":"2025-11-21T10:00:00.000Z","cost":1}]`, "onward": int32(0),
		"evidence": `[{"limit":"verify","scope":"s","window":"1/60s","n":1,"count":1,"cost":1,"oldest":"2025-11-21T09:59:59.950Z"}]`,
		"marker":   `{"revision":7,"seq":6,"t":"2025-11-21T10:00:00.000Z"}`,
		"bytes":    uint32(len(raw)), "status_partition": int32(1), "status_offset": int64(2),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The rows of one version never change: a token sent again with other rows
// would be dropped without a word.
func TestEncodeIsRepeatable(t *testing.T) {
	a, b := sink.NewBlock([]byte("k")), sink.NewBlock([]byte("k"))
	for i := range 1000 {
		raw, err := json.Marshal(event(i))
		if err != nil {
			t.Fatal(err)
		}
		r := sink.Record{Offset: int64(i), Appended: appended, Value: raw}
		a.Append(r)
		b.Append(r)
	}
	if !reflect.DeepEqual(a.Columns(), b.Columns()) {
		t.Error("the same records gave other rows")
	}
}

func TestPoison(t *testing.T) {
	const secret = "+8613812345678"
	for _, tt := range []struct{ name, value, want string }{
		{"nothing", "", "the record has no value"},
		{"not JSON", "\x00\x01" + secret, "decode status event"},
		{"cut short", `{"kind":"status","to":"` + secret, "decode status event"},
		{"another type", `{"kind":"status","to":["` + secret + `"]}`, "decode status event"},
		{"impossible time", `{"kind":"status","status":"sent","at":"` + secret + `"}`, "decode status event"},
		{"unknown kind", `{"kind":"` + secret + `"}`, "unknown kind"},
		{"unknown status", `{"kind":"status","status":"` + secret + `"}`, "unknown status"},
		{"a decision without one", `{"kind":"decision","to":"` + secret + `"}`, "a decision without its decision"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := row(t, sink.Record{Partition: 1, Offset: 2, Appended: appended, Value: []byte(tt.value)})
			if got["kind"] != "poison" || got["at"] != int64(appended) || got["bytes"] != uint32(len(tt.value)) || got["status_offset"] != int64(2) || got["to"] != "" {
				t.Errorf("row %v", got)
			}
			if s, _ := got["error"].(string); !strings.Contains(s, tt.want) || strings.Contains(s, secret) {
				t.Errorf("error %q: want %q and nothing of the value", s, tt.want)
			}
		})
	}
}

func TestAtNeverLeavesTheCalendar(t *testing.T) {
	for _, tt := range []struct {
		name     string
		at, want schemas.Millis
	}{
		{"as stamped", appended - 1000, appended - 1000},
		{"absent", 0, appended},
		{"1970", 5, appended},
		{"an old backlog", appended.Add(-300 * 24 * time.Hour), appended.Add(-300 * 24 * time.Hour)},
		{"from the future", appended.Add(48 * time.Hour), appended},
	} {
		t.Run(tt.name, func(t *testing.T) {
			raw, err := json.Marshal(schemas.Event{Kind: schemas.KindStatus, Status: schemas.StatusSent, At: tt.at})
			if err != nil {
				t.Fatal(err)
			}
			if got := row(t, sink.Record{Appended: appended, Value: raw})["at"]; got != int64(tt.want) {
				t.Errorf("at %v, want %v", got, tt.want)
			}
		})
	}
}

func TestCountry(t *testing.T) {
	for to, want := range map[string]string{
		"+8613812345678": "CN", "+6591234567": "SG", "+12125550123": "US", "+16042345678": "CA", "+18762345678": "JM",
		"+447400123456": "GB", "+79123456789": "RU", "+77012345678": "KZ", "+85251234567": "HK",
		"": "", "a@b.example": "", "+": "", "+1": "", "+999999999999": "", "+80012345678": "", "+x2125550123": "", "https://a.example/+86": "",
	} {
		raw, err := json.Marshal(schemas.Event{Kind: schemas.KindStatus, Status: schemas.StatusSent, At: appended, To: to})
		if err != nil {
			t.Fatal(err)
		}
		if got := row(t, sink.Record{Appended: appended, Value: raw})["country"]; got != want {
			t.Errorf("%q is of %q, want %q", to, got, want)
		}
	}
}

func TestRecipientHash(t *testing.T) {
	of := func(key, to string) any {
		b := sink.NewBlock([]byte(key))
		raw, _ := json.Marshal(schemas.Event{Kind: schemas.KindStatus, Status: schemas.StatusSent, At: appended, To: to})
		b.Append(sink.Record{Appended: appended, Value: raw})
		return b.Columns()[7].([]uint64)[0]
	}
	if of("k", "a") != of("k", "a") || of("k", "a") == of("k", "b") || of("k", "a") == of("l", "a") || of("k", "") != uint64(0) {
		t.Error("a hash must depend on the key and the recipient and nothing else, and be 0 for none")
	}
}

func BenchmarkEncode(b *testing.B) {
	var recs []sink.Record
	for i := range 10_000 {
		raw, _ := json.Marshal(event(i))
		recs = append(recs, sink.Record{Offset: int64(i), Appended: appended, Value: raw})
	}
	for b.Loop() {
		blk := sink.NewBlock(nil)
		for _, r := range recs {
			blk.Append(r)
		}
	}
	b.ReportMetric(float64(len(recs)*b.N)/b.Elapsed().Seconds(), "rows/s")
}
