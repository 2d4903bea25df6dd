package schemas

import (
	"reflect"
	"testing"
)

// TestEnvelopeRoundTrip fills every field, so that a field without a header
// is noticed.
func TestEnvelopeRoundTrip(t *testing.T) {
	want := Envelope{
		ID: "i", Key: "+8613800000000", Tenant: "acme", Origin: Source{"weir.requests", 3, 42}, Reason: ReadmitRetry,
		Attempt: 2, Provider: "p", Priority: PriorityBulk, Revision: 7, DecidedAt: 1, AcceptedAt: 2, ExpiresAt: 3, DueAt: 4,
		Place: []Charge{{Limit: "verify", Scope: "s", T: 5, Cost: 1}}, Taint: TaintUnknown, Return: "r", Turn: 12, Error: "e",
		LastError: "l", RedriveOf: "o", Timestamp: 6, RequestKey: "k", CallbackURL: "https://a.example/x", Reply: "3/abc",
		CallBy: 13, Stale: 2, ValueBytes: 10, ValueSHA256: "ab", RestBytes: 11,
		Round: &Round{Revision: 8}, Tried: []Tried{{"a", RetryTransient}, {"b", RetryUnknown}}, Restore: []Charge{{Limit: "tenant", Scope: "tenant=acme", T: 9, Cost: 2}},
	}
	v := reflect.ValueOf(want)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Fatalf("the test leaves %s empty", v.Type().Field(i).Name)
		}
	}
	var got Envelope
	want.Each(func(k string, val []byte) {
		if err := got.Set(k, string(val)); err != nil {
			t.Fatal(err)
		}
	})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, bad := range []string{"", "topic", "topic/1", "topic/x/1", "/1/2"} {
		if _, err := ParseSource(bad); err == nil {
			t.Errorf("%q was read as an origin", bad)
		}
	}
}
