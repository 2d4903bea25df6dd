package recipient

import (
	"slices"
	"testing"
)

func TestZones(t *testing.T) {
	for key, want := range map[string]string{
		"+8613800000000": "Asia/Shanghai",
		"+12125550123":   "America/New_York",
		"+6591234567":    "Asia/Singapore",
		"+79161234567":   "Europe/Moscow",
	} {
		var got []string
		for _, z := range Zones(key) {
			got = append(got, z.String())
		}
		if !slices.Contains(got, want) {
			t.Errorf("%s may be in %v, want %s among them", key, got, want)
		}
	}
	for _, key := range []string{"", "a@example.com", "token", "+"} {
		if z := Zones(key); len(z) > 0 {
			t.Errorf("%q has zones %v", key, z)
		}
	}
}
