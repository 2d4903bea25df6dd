package schemas

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDurationText(t *testing.T) {
	for _, c := range []struct {
		in   string
		want time.Duration
		out  string
	}{
		{"60s", time.Minute, "60s"},
		{"1m", time.Minute, "60s"},
		{"5m", 5 * time.Minute, "5m"},
		{"90s", 90 * time.Second, "90s"},
		{"1h30m", 90 * time.Minute, "90m"},
		{"1h", time.Hour, "1h"},
		{"60m", time.Hour, "1h"},
		{"72h", 72 * time.Hour, "72h"},
		{"3d", 72 * time.Hour, "72h"},
		{"31d", MaxWindow, "31d"},
		{"744h", MaxWindow, "31d"},
		{"1ms", time.Millisecond, "1ms"},
		{"1s500ms", 1500 * time.Millisecond, "1500ms"},
		{"0s", 0, "0s"},
	} {
		got, err := ParseDuration(c.in)
		if err != nil || time.Duration(got) != c.want || got.String() != c.out {
			t.Errorf("ParseDuration(%q) = %s, %v; want %s", c.in, got, err, c.out)
		}
	}
	for _, in := range []string{"", "60", "-5s", "1.5h", "1h ", "1us", "1ns", "5m1h", "1h1h", "300000d", "999999999d", "１s"} {
		if got, err := ParseDuration(in); err == nil {
			t.Errorf("ParseDuration(%q) = %s, want an error", in, got)
		}
	}
	if b, err := Duration(time.Microsecond).MarshalText(); err == nil {
		t.Errorf("a microsecond marshals as %s", b)
	}
}

func TestWindowText(t *testing.T) {
	for _, c := range []struct {
		in       string
		want     Window
		out, key string
	}{
		{"1/60s", Window{Kind: WindowRolling, N: 1, Length: time.Minute}, "1/60s", "60s"},
		{"5/1m", Window{Kind: WindowRolling, N: 5, Length: time.Minute}, "5/60s", "60s"},
		{"5/1h", Window{Kind: WindowRolling, N: 5, Length: time.Hour}, "5/1h", "1h"},
		{"1/31d", Window{Kind: WindowRolling, N: 1, Length: MaxWindow}, "1/31d", "31d"},
		{"10/calendar-day", Window{Kind: WindowCalendar, N: 10, Unit: "day"}, "10/calendar-day", "calendar-day"},
		{"bucket 10 refill 0.5/s", Window{Kind: WindowBucket, N: 10, RefillTokens: 1, RefillEvery: 2000}, "bucket 10 refill 0.5/s", "bucket refill 0.5/s"},
		{"bucket 10 refill 30/m", Window{Kind: WindowBucket, N: 10, RefillTokens: 1, RefillEvery: 2000}, "bucket 10 refill 0.5/s", "bucket refill 0.5/s"},
		{"bucket 1 refill 1/7s", Window{Kind: WindowBucket, N: 1, RefillTokens: 1, RefillEvery: 7000}, "bucket 1 refill 1/7s", "bucket refill 1/7s"},
		{"bucket 1 refill 0.001/m", Window{Kind: WindowBucket, N: 1, RefillTokens: 1, RefillEvery: 60_000_000}, "bucket 1 refill 0.001/m", "bucket refill 0.001/m"},
		{"bucket 30 refill 5/s", Window{Kind: WindowBucket, N: 30, RefillTokens: 1, RefillEvery: 200}, "bucket 30 refill 5/s", "bucket refill 5/s"},
	} {
		got, err := ParseWindow(c.in)
		if err != nil || got != c.want {
			t.Errorf("ParseWindow(%q) = %+v, %v; want %+v", c.in, got, err, c.want)
			continue
		}
		if got.String() != c.out || got.UnitKey() != c.key {
			t.Errorf("%q: String %q, UnitKey %q; want %q, %q", c.in, got.String(), got.UnitKey(), c.out, c.key)
		}
	}
	for _, in := range []string{
		"", "5", "/60s", "0/60s", "-1/60s", "05/60s", "1.5/60s", "5/0s", "5/32d", "5/60", "5/calendar-week", "5/day",
		"1000000001/1s", "99999999999999999999/1s", "5/60s ", "bucket", "bucket 0 refill 1/s", "bucket 10 refill 0/s",
		"bucket 10 refill 0.0001/s", "bucket 10 refill 1/w", "bucket 10 refill 0.5/7s", "bucket 10", "bucket 1000000000 refill 1/31d", "bucket 10 refill 1/0s",
	} {
		if got, err := ParseWindow(in); err == nil {
			t.Errorf("ParseWindow(%q) = %+v, want an error", in, got)
		} else if !strings.Contains(err.Error(), "5/60s") && !strings.Contains(err.Error(), "bucket 10 refill") && !strings.Contains(err.Error(), "/calendar-day") {
			t.Errorf("ParseWindow(%q): no example in %q", in, err)
		}
	}
}

// genWindow draws any window that a policy can hold.
func genWindow(kinds ...WindowKind) *rapid.Generator[Window] {
	return rapid.Custom(func(t *rapid.T) Window {
		n := rapid.Int64Range(1, MaxPlaces).Draw(t, "n")
		switch rapid.SampledFrom(kinds).Draw(t, "kind") {
		case WindowRolling:
			return Window{Kind: WindowRolling, N: n, Length: time.Duration(rapid.Int64Range(1, MaxWindow.Milliseconds()).Draw(t, "ms")) * time.Millisecond}
		case WindowCalendar:
			return Window{Kind: WindowCalendar, N: n, Unit: rapid.SampledFrom(CalendarUnits).Draw(t, "unit")}
		default:
			w := Window{Kind: WindowBucket, N: rapid.Int64Range(1, 1000).Draw(t, "capacity"),
				RefillTokens: rapid.Int64Range(1, 100_000).Draw(t, "tokens"), RefillEvery: rapid.Int64Range(1, 100_000).Draw(t, "every")}
			g := gcd(w.RefillTokens, w.RefillEvery)
			w.RefillTokens, w.RefillEvery = w.RefillTokens/g, w.RefillEvery/g
			return w
		}
	})
}

func TestWindowRoundTrip(t *testing.T) {
	buckets := 0 // that were judged: not every draw may be dropped
	rapid.Check(t, func(t *rapid.T) {
		w := genWindow(WindowRolling, WindowCalendar, WindowBucket).Draw(t, "window")
		if err := w.check(); err != nil {
			if w.Kind != WindowBucket {
				t.Fatal(err)
			}
			t.Skip(err) // of this draw: a bucket that takes months to fill
		}
		if w.Kind == WindowBucket {
			buckets++
		}
		b, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		var got Window
		if err := json.Unmarshal(b, &got); err != nil || got != w {
			t.Fatalf("%s reads as %+v, %v; want %+v", b, got, err, w)
		}
	})
	if buckets == 0 {
		t.Error("every bucket was refused")
	}
}

// Every text that parses has one canonical text that means the same.
func TestWindowCanonical(t *testing.T) {
	form := rapid.StringMatching(`[1-9][0-9]{0,3}/([1-9][0-9]{0,1}h)?([1-9][0-9]{0,3}m)?([1-9][0-9]{0,3}s)|bucket [1-9][0-9]? refill [0-9]{1,3}(\.[0-9]{1,3})?/[smhd]|bucket [1-9] refill [1-9][0-9]?/[1-9][0-9]?(ms|s|m|h)`)
	buckets := 0 // that were judged: not every draw may be dropped
	rapid.Check(t, func(t *rapid.T) {
		text := form.Draw(t, "text")
		w, err := ParseWindow(text)
		if err != nil && strings.HasPrefix(text, "bucket ") {
			t.Skip(err) // of this draw: a bucket may take months to fill, or gain nothing
		} else if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if w.Kind == WindowBucket {
			buckets++
		}
		again, err := ParseWindow(w.String())
		if err != nil || again != w || again.String() != w.String() {
			t.Fatalf("%+v prints %q, which reads as %+v, %v", w, w.String(), again, err)
		}
	})
	if buckets == 0 {
		t.Error("every bucket was refused")
	}
}

func TestTemplateParts(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []TemplatePart
	}{
		{"", nil},
		{"plain { } text", []TemplatePart{{Text: "plain { } text"}}},
		{"Your code is {{code}}.", []TemplatePart{{Text: "Your code is "}, {Var: "code"}, {Text: "."}}},
		{"{{ a }}{{b_1}}", []TemplatePart{{Var: "a"}, {Var: "b_1"}}},
	} {
		got, err := TemplateParts(c.in)
		if err != nil || len(got) != len(c.want) {
			t.Errorf("TemplateParts(%q) = %v, %v; want %v", c.in, got, err, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("TemplateParts(%q)[%d] = %v, want %v", c.in, i, got[i], c.want[i])
			}
		}
	}
	for _, in := range []string{"{{", "}}", "a {{code", "{{code}", "{{}}", "{{a b}}", "{{1a}}", "{{a}} }}", "{{{a}}}", "{{#if a}}"} {
		if got, err := TemplateParts(in); err == nil {
			t.Errorf("TemplateParts(%q) = %v, want an error", in, got)
		}
	}
}
