package schemas

import "testing"

func TestHealthRoundTrip(t *testing.T) {
	want := Health{Provider: "aliyun", Lane: 2, Breaker: BreakerOpen, ProbeAt: 1_800_000_000_123, Calls: 40, Failures: 21, At: 1_800_000_000_000}
	got, err := DecodeHealth(want.Encode())
	if err != nil || got != want {
		t.Fatalf("DecodeHealth(Encode) = %+v, %v; want %+v", got, err, want)
	}
	if k := HealthKey(want.Provider, want.Lane); k != "aliyun/2" {
		t.Errorf("key %q", k)
	}
}

func TestHealthRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"torn":         `{"provider":"a"`,
		"no breaker":   `{"provider":"a","lane":0}`,
		"other state":  `{"provider":"a","breaker":"ajar"}`,
		"not a record": `7`,
	} {
		if h, err := DecodeHealth([]byte(text)); err == nil {
			t.Errorf("%s: DecodeHealth = %+v, want an error", name, h)
		}
	}
}
