package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestPrice(t *testing.T) {
	for _, tt := range []struct {
		name     string
		price    *Price
		segments int
		want     string
	}{
		{"none", nil, 3, ""},
		{"one segment", &Price{PerSegment: "0.045"}, 1, "0.045"},
		{"three, exactly", &Price{PerSegment: "0.1"}, 3, "0.3"},
		{"a whole number", &Price{PerSegment: "0.5"}, 2, "1"},
		{"a channel without segments", &Price{PerSegment: "0.045"}, 0, "0.045"},
		{"by message", &Price{PerMessage: "0.050"}, 3, "0.05"},
		{"both", &Price{PerMessage: "1", PerSegment: "0.000001"}, 7, "1.000007"},
		{"for nothing", &Price{PerMessage: "0"}, 1, "0"},
		{"more than a column holds", &Price{PerSegment: "999999999999.999999999"}, 255, "255000000000000"},
		{"of an earlier version, to the nearest", &Price{PerSegment: "0.000000499"}, 1, "0"},
		{"the higher of two", &Price{PerSegment: "0.0000005"}, 1, "0.000001"},
		{"rounded once", &Price{PerSegment: "0.0000004"}, 10, "0.000004"},
		{"and carried", &Price{PerMessage: "0.9999999"}, 1, "1"},
	} {
		if got := tt.price.Of(tt.segments); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Whatever amounts a policy may have, the price of a message fits its column.
func TestEveryPriceFits(t *testing.T) {
	for _, d := range []Decimal{"0", "0.000001", "1.1", "9999999999.999999", "0.000000"} {
		if err := d.check(); err != nil {
			t.Fatal(err)
		}
		for _, segments := range []int{0, 1, MaxSMSSegments} {
			p := Price{PerSegment: d, PerMessage: d}
			if got := p.Of(segments); !PriceFits(got) || p.Rounds() {
				t.Errorf("%s twice, %d segments: %s", d, segments, got)
			}
		}
	}
	for _, d := range []Decimal{"0.0000001", "10000000000", "-1", "+1", "1e3", "", ".5", "5.", "01", "NaN", "0x1"} {
		if err := d.check(); err == nil {
			t.Errorf("%s is taken", d)
		}
	}
	for text, want := range map[string]bool{
		"999999999999.999999": true, "0": true, "0.045": true,
		"1000000000000": false, "0.0450000": false, "": false, "-1": false, "1e3": false, "1 ": false, "1\n": false,
	} {
		if PriceFits(text) != want {
			t.Errorf("%q fits: %v", text, !want)
		}
	}
}

// A policy that an earlier version recorded keeps its prices, and can be changed; what
// is written now has the digits that the tables keep.
func TestPriceOfARecordedPolicy(t *testing.T) {
	const fine = `{"name":"a","type":"simulated","channels":["sms"],"price":{"currency":"USD","per_segment":"0.0000005","per_message":"999999999999.999999999"}}`
	r, err := NextRevision([]byte(`{"revision":1,"parent":0,"policy":{"providers":[`+fine+`]}}`), 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &r.Policy
	if price := p.Providers[0].Price; !price.Rounds() || (&Price{PerMessage: "0.0450000"}).Rounds() || (*Price)(nil).Rounds() {
		t.Errorf("%+v rounds: %v", price, price.Rounds())
	}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	doc, err := ParsePolicyOver("more.yaml", []byte("limits: [{name: verify, per: [recipient], allow: [1/60s]}]"), p)
	if err != nil {
		t.Fatal("a change of something else:", err)
	}
	if text, _ := json.Marshal(doc.Policy.Providers[0]); string(text) != fine {
		t.Errorf("it became %s", text)
	}
	put, err := p.WithResource(ResourceLimit, "verify", []byte(`{"per":["recipient"],"allow":["1/60s"]}`), "")
	if err == nil {
		err = put.Check()
	}
	if err != nil {
		t.Error("a change of something else by HTTP:", err)
	}
	// Named, it must have the digits that are kept.
	const want = `"0.0000005" is not an amount: write at most ten digits before the point and six after it`
	if _, err = ParsePolicyOver("same.yaml", fmt.Appendf(nil, "providers: [%s]", fine), p); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a file: %v", err)
	}
	put, err = p.WithResource(ResourceProvider, "a", []byte(fine), "")
	if err == nil {
		err = put.Check()
	}
	if errs, ok := errors.AsType[PolicyErrors](err); !ok || len(errs) != 2 || !strings.Contains(errs[0].Message, want) || errs[0].Path != "providers[0].price.per_segment" {
		t.Errorf("by HTTP: %v", err)
	}
}
