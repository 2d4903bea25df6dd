package schemas

import (
	"math/big"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// TestSecondWindow compares ParseWindow with another parser of the same grammar, which is
// written by hand and reckons in fractions: valid texts, and texts with an edit.
func TestSecondWindow(t *testing.T) {
	texts := 50_000
	if os.Getenv("WEIR_CHAOS") != "" {
		texts = 5_000_000
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	valid := 0
	for range texts {
		s := windowText(rnd)
		got, err := ParseWindow(s)
		want, ok := secondWindow(s)
		if (err == nil) != ok || ok && got != want {
			t.Fatalf("%q: %+v, %v; the second parser says %+v, %v", s, got, err, want, ok)
		}
		if ok {
			valid++
		}
	}
	if valid < texts/10 || valid > texts*9/10 {
		t.Errorf("%d of %d are valid", valid, texts)
	}
	t.Logf("%d texts, %d of them valid", texts, valid)
}

// windowText draws a window, which may be beyond its limits or have a wrong character.
func windowText(rnd *rand.Rand) string {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	number := func() string {
		return pick("1", "2", "5", "7", "10", "60", "100", "1000", "99999", "999999999", "1000000000", "1000000001", "0", "05", "123456789012345678901")
	}
	length := func() string {
		return pick("1ms", "500ms", "1s", "60s", "7s", "1m", "1h30m", "1h", "24h", "1d", "31d", "32d", "744h", "1d1ms", "0s", "1s1h", "2678400s", "1.5h", "", "1w")
	}
	var s string
	switch rnd.IntN(3) {
	case 0:
		s = number() + "/" + length()
	case 1:
		s = number() + "/calendar-" + pick("minute", "hour", "day", "month", "week", "", "Day")
	default:
		rate := pick("1", "0.5", "0.001", "0.0001", "30", "1000", "999999999", "1000000000", "0", "0.000", "12.34", ".5", "1.", "01")
		s = pick("bucket ", "bucket  ", "bucket") + number() + pick(" refill ", "  refill  ", " ") + rate + "/" + pick("s", "m", "h", "d", "1s", "7s", "31d", "w", "")
	}
	if rnd.IntN(4) == 0 && s != "" {
		i := rnd.IntN(len(s))
		s = s[:i] + pick("", " ", "/", "0", "-", "+", ".", "s", "１", "\x00") + s[i+rnd.IntN(2):]
	}
	return s
}

// secondWindow reads what the policy's documentation calls a window; false where it is none.
func secondWindow(s string) (w Window, ok bool) {
	if rest, is := strings.CutPrefix(s, "bucket"); is {
		return secondBucket(rest)
	}
	count, length, found := strings.Cut(s, "/")
	if w.N, ok = secondCount(count); !found || !ok {
		return Window{}, false
	}
	if unit, is := strings.CutPrefix(length, "calendar-"); is {
		w.Kind, w.Unit = WindowCalendar, unit
		return w, unit == "minute" || unit == "hour" || unit == "day" || unit == "month"
	}
	ms, ok := secondLength(length)
	w.Kind, w.Length = WindowRolling, time.Duration(ms)*time.Millisecond
	return w, ok
}

func secondBucket(s string) (w Window, ok bool) {
	words := strings.FieldsFunc(s, func(r rune) bool { return r == ' ' })
	if len(words) != 3 || words[1] != "refill" || s[0] != ' ' || s[len(s)-1] == ' ' {
		return w, false
	}
	if w.N, ok = secondCount(words[0]); !ok {
		return Window{}, false
	}
	rate, unit, found := cutLast(words[2])
	whole, decimals, fraction := strings.Cut(rate, ".")
	if !found || !onlyDigits(whole, 9) || fraction && !onlyDigits(decimals, 3) {
		return Window{}, false
	}
	per, ok := map[string]int64{"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}[unit]
	if !ok {
		if per, ok = secondLength(unit); !ok || fraction {
			return Window{}, false
		}
	}
	tokens, _ := new(big.Rat).SetString(rate)
	if tokens.Sign() <= 0 {
		return Window{}, false
	}
	perMilli := tokens.Quo(tokens, new(big.Rat).SetInt64(per))
	// What it takes to fill: n / rate, in milliseconds, rounded down.
	full := new(big.Rat).Quo(new(big.Rat).SetInt64(w.N), perMilli)
	months := new(big.Rat).SetInt64(MaxWindow.Milliseconds() + 1)
	exact := big.NewInt(1 << 53)
	product := func(x *big.Int) bool { return new(big.Int).Mul(x, big.NewInt(w.N)).Cmp(exact) <= 0 }
	if full.Cmp(months) >= 0 || !product(perMilli.Denom()) || !product(perMilli.Num()) {
		return Window{}, false
	}
	w.Kind, w.RefillTokens, w.RefillEvery = WindowBucket, perMilli.Num().Int64(), perMilli.Denom().Int64()
	return w, true
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func onlyDigits(s string, most int) bool {
	return s != "" && len(s) <= most && strings.Trim(s, "0123456789") == ""
}

// secondCount reads a whole number from 1 to a thousand million, without leading zeros.
func secondCount(s string) (n int64, ok bool) {
	if s == "" || s[0] == '0' {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' || n > 1_000_000_000 {
			return 0, false
		}
		n = 10*n + int64(s[i]-'0')
	}
	return n, n <= 1_000_000_000
}

// secondLength reads a time from 1ms to 31d, in milliseconds.
func secondLength(s string) (ms int64, ok bool) {
	units := []struct {
		name string
		ms   int64
	}{{"d", 86_400_000}, {"h", 3_600_000}, {"m", 60_000}, {"s", 1000}, {"ms", 1}}
	for s != "" {
		number := s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
		s = s[len(number):]
		name := s[:len(s)-len(strings.TrimLeft(s, "dhms"))]
		s = s[len(name):]
		if number == "" || len(number) > 15 {
			return 0, false
		}
		for {
			if len(units) == 0 {
				return 0, false
			}
			u := units[0]
			units = units[1:]
			if u.name != name {
				continue
			}
			if u.ms > 1 && len(number) > 9 {
				return 0, false
			}
			n, _ := new(big.Int).SetString(number, 10)
			ms += n.Int64() * u.ms
			break
		}
	}
	return ms, 0 < ms && ms <= 31*86_400_000
}
