package schemas

import "testing"

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
		{"both", &Price{PerMessage: "1", PerSegment: "0.000000001"}, 7, "1.000000007"},
		{"for nothing", &Price{PerMessage: "0"}, 1, "0"},
		{"more than an int64 holds", &Price{PerSegment: "999999999999.999999999"}, 255, "254999999999999.999999745"},
	} {
		if got := tt.price.Of(tt.segments); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
