package schemas

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// durationForm has each unit at most once, largest first, in whole numbers: a
// fraction of a unit is written in the next one, so that no rounding can happen.
var durationForm = regexp.MustCompile(`^(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?(?:(\d{1,15})ms)?$`)

var durationUnits = []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second, time.Millisecond}

// ParseDuration reads "500ms", "60s", "1h30m", "31d": whole numbers of d, h, m,
// s and ms, largest first. It refuses signs, fractions and anything that
// time.Duration cannot hold.
func ParseDuration(s string) (Duration, error) {
	m := durationForm.FindStringSubmatch(s)
	if s == "" || m == nil {
		return 0, fmt.Errorf("%s is not a duration: write whole numbers of d, h, m, s or ms, such as 60s, 5m or 1h30m", quote(s))
	}
	var total time.Duration
	for i, unit := range durationUnits {
		if m[i+1] == "" {
			continue
		}
		n, err := strconv.ParseInt(m[i+1], 10, 64)
		if err != nil || time.Duration(n) > (math.MaxInt64-total)/unit {
			return 0, fmt.Errorf("%s is longer than any duration Weir can hold; write one such as 72h", quote(s))
		}
		total += time.Duration(n) * unit
	}
	return Duration(total), nil
}

// String writes d in the largest unit that divides it: ms, s, m, h, and from a
// week up d. One minute is 60s, as limits are usually written.
func (d Duration) String() string {
	t := time.Duration(d)
	switch {
	case t == 0:
		return "0s"
	case t%time.Second != 0:
		return strconv.FormatInt(t.Milliseconds(), 10) + "ms"
	case t == time.Minute || t%time.Minute != 0:
		return strconv.FormatInt(int64(t/time.Second), 10) + "s"
	case t%time.Hour != 0:
		return strconv.FormatInt(int64(t/time.Minute), 10) + "m"
	case t >= 7*24*time.Hour && t%(24*time.Hour) == 0:
		return strconv.FormatInt(int64(t/(24*time.Hour)), 10) + "d"
	default:
		return strconv.FormatInt(int64(t/time.Hour), 10) + "h"
	}
}

// MarshalText writes what ParseDuration reads. It refuses what has no exact
// text: negative durations and parts of a millisecond.
func (d Duration) MarshalText() ([]byte, error) {
	if d < 0 || time.Duration(d)%time.Millisecond != 0 {
		return nil, fmt.Errorf("duration %s is not a whole number of milliseconds from 0 up", time.Duration(d))
	}
	return []byte(d.String()), nil
}

// UnmarshalText reads what ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	if err != nil {
		return err
	}
	*d = v
	return nil
}

// CalendarUnits are the units of a calendar window.
var CalendarUnits = []string{"minute", "hour", "day", "month"}

const windowExamples = "5/60s, 10/calendar-day or bucket 10 refill 0.5/s"

// barePeriods are periods that people write without a number, and what a window has for them.
var barePeriods = func() map[string][]string {
	m := map[string][]string{}
	for words, lengths := range map[string][]string{
		"s sec secs second seconds": {"1s"},
		"m min mins minute minutes": {"1m", "calendar-minute"},
		"h hr hrs hour hours":       {"1h", "calendar-hour"},
		"d day days":                {"1d", "calendar-day"},
		"w wk week weeks":           {"7d"},
		"mo month months":           {"31d", "calendar-month"},
	} {
		for word := range strings.FieldsSeq(words) {
			m[word] = lengths
		}
	}
	return m
}()

var (
	countForm  = regexp.MustCompile(`^[0-9]{1,18}$`)
	bucketForm = regexp.MustCompile(`^bucket +(\S+) +refill +(\S+)/(\S+)$`)
	rateForm   = regexp.MustCompile(`^([0-9]{1,9})(?:\.([0-9]{1,3}))?$`)
)

// ParseWindow reads one entry of allow: "n/DURATION" (rolling),
// "n/calendar-minute", "-hour", "-day", "-month", or
// "bucket N refill RATE/UNIT", where RATE has at most three decimals and UNIT is
// s, m, h or d, or RATE is whole and UNIT is a duration.
func ParseWindow(s string) (Window, error) {
	if strings.HasPrefix(s, "bucket") {
		return parseBucket(s)
	}
	count, length, ok := strings.Cut(s, "/")
	if !ok {
		return Window{}, fmt.Errorf("%s is not a window: write %s", quote(s), windowExamples)
	}
	n, err := parsePlaces(s, count)
	if err != nil {
		return Window{}, err
	}
	if unit, ok := strings.CutPrefix(length, "calendar-"); ok {
		for _, u := range CalendarUnits {
			if u == unit {
				return Window{Kind: WindowCalendar, N: n, Unit: u}, nil
			}
		}
		return Window{}, fmt.Errorf("%s has no calendar unit: write calendar-minute, calendar-hour, calendar-day or calendar-month, such as 10/calendar-day", quote(s))
	}
	d, err := ParseDuration(length)
	if err != nil {
		examples := windowExamples
		if lengths := barePeriods[strings.ToLower(strings.TrimSpace(length))]; lengths != nil {
			examples = fmt.Sprintf("%d/%s", n, strings.Join(lengths, fmt.Sprintf(" or %d/", n)))
		}
		return Window{}, fmt.Errorf("%s is not a window: write %s", quote(s), examples)
	}
	if d <= 0 || time.Duration(d) > MaxWindow {
		return Window{}, fmt.Errorf("%s is a window of %s: a window lasts from 1ms to 31d, such as 5/60s", quote(s), d)
	}
	return Window{Kind: WindowRolling, N: n, Length: time.Duration(d)}, nil
}

func parsePlaces(s, count string) (int64, error) {
	if !countForm.MatchString(count) {
		return 0, fmt.Errorf("%s does not begin with a whole number above 0: write %s", quote(s), windowExamples)
	}
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil || n < 1 || n > MaxPlaces || count[0] == '0' {
		return 0, fmt.Errorf("%s allows %s: n is a whole number from 1 to 1000000000, such as 5/60s; to let nothing through, suppress the recipient or remove the provider", quote(s), count)
	}
	return n, nil
}

func parseBucket(s string) (Window, error) {
	m := bucketForm.FindStringSubmatch(s)
	if m == nil {
		return Window{}, fmt.Errorf("%s is not a bucket: write bucket CAPACITY refill RATE/UNIT, such as bucket 10 refill 0.5/s", quote(s))
	}
	n, err := parsePlaces(s, m[1])
	if err != nil {
		return Window{}, err
	}
	r := rateForm.FindStringSubmatch(m[2])
	if r == nil {
		return Window{}, fmt.Errorf("%s has no refill rate: write a number with at most three decimals, such as bucket 10 refill 0.5/s", quote(s))
	}
	unit := m[3]
	switch {
	case unit == "s" || unit == "m" || unit == "h" || unit == "d":
		unit = "1" + unit
	case r[2] != "":
		return Window{}, fmt.Errorf("%s has a fraction by a duration: write whole tokens, such as bucket 10 refill 1/7s, or a rate by s, m, h or d, such as bucket 10 refill 0.5/s", quote(s))
	}
	per, err := ParseDuration(unit)
	if err != nil || per <= 0 || time.Duration(per) > MaxWindow {
		return Window{}, fmt.Errorf("%s does not refill in s, m, h or d, or a duration up to 31d: write bucket 10 refill 0.5/s", quote(s))
	}
	whole, frac := r[1], r[2]
	tokens, _ := strconv.ParseInt(whole+frac, 10, 64) // at most 12 digits
	every := time.Duration(per).Milliseconds()
	for range len(frac) {
		every *= 10
	}
	if tokens == 0 {
		return Window{}, fmt.Errorf("%s never refills: the rate is above 0, such as bucket 10 refill 0.5/s", quote(s))
	}
	g := gcd(tokens, every)
	w := Window{Kind: WindowBucket, N: n, RefillTokens: tokens / g, RefillEvery: every / g}
	if err := w.check(); err != nil {
		return Window{}, err
	}
	return w, nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

const (
	maxExact  = 1 << 53     // bounds products of window numbers
	maxRefill = 999_999_999 // tokens: what fits the digits of a rate
)

// check says what is impossible in w, however it was made.
func (w Window) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf(format+": write %s", append(args, windowExamples)...)
	}
	if w.N < 1 || w.N > MaxPlaces {
		return bad("a window allows %d, and n is a whole number from 1 to 1000000000", w.N)
	}
	rolling, calendar, bucket := w.Length != 0, w.Unit != "", w.RefillTokens != 0 || w.RefillEvery != 0
	switch w.Kind {
	case WindowRolling:
		if w.Length < time.Millisecond || w.Length > MaxWindow || w.Length%time.Millisecond != 0 || calendar || bucket {
			return bad("a rolling window lasts from 1ms to 31d in whole milliseconds, and this one lasts %s", w.Length)
		}
	case WindowCalendar:
		known := false
		for _, u := range CalendarUnits {
			known = known || u == w.Unit
		}
		if !known || rolling || bucket {
			return bad("a calendar window has no unit %q; there are minute, hour, day and month", w.Unit)
		}
	case WindowBucket:
		switch {
		case w.RefillTokens < 1 || w.RefillEvery < 1 || rolling || calendar || gcd(w.RefillTokens, w.RefillEvery) != 1:
			return bad("a bucket's refill is a fraction above 0 in lowest terms, and this one is %d every %d ms", w.RefillTokens, w.RefillEvery)
		case w.RefillEvery > maxExact/w.N || w.RefillTokens > maxExact/w.N || w.refill() == "":
			return bad("a bucket of %d with a refill of %d every %d ms is finer than Weir can count", w.N, w.RefillTokens, w.RefillEvery)
		case w.N*w.RefillEvery/w.RefillTokens > MaxWindow.Milliseconds():
			return bad("a bucket of %d would take longer than 31d to fill", w.N)
		}
	default:
		return bad("a window has no kind %q; there are rolling, calendar and bucket", w.Kind)
	}
	return nil
}

// UnitKey names w without its n, in one spelling, so that 60s and 1m are the
// same: "60s", "calendar-day", "bucket refill 0.5/s". A limit has at most one
// window of a unit, and Marker.Since is kept by it.
func (w Window) UnitKey() string {
	switch w.Kind {
	case WindowRolling:
		return Duration(w.Length).String()
	case WindowCalendar:
		return "calendar-" + w.Unit
	case WindowBucket:
		return "bucket refill " + w.refill()
	}
	return ""
}

// String writes what ParseWindow reads, in one spelling: "5/60s",
// "10/calendar-day", "bucket 10 refill 0.5/s"; the empty string for no window.
func (w Window) String() string {
	switch w.Kind {
	case WindowRolling, WindowCalendar:
		return strconv.FormatInt(w.N, 10) + "/" + w.UnitKey()
	case WindowBucket:
		return "bucket " + strconv.FormatInt(w.N, 10) + " refill " + w.refill()
	}
	return ""
}

// refill writes the rate in the first unit in which it is a decimal of at most
// three places, else as whole tokens by duration; the empty string if neither
// can say it.
func (w Window) refill() string {
	if w.RefillEvery < 1 || w.RefillTokens < 1 || w.RefillTokens > maxRefill {
		return ""
	}
	for _, u := range []struct {
		name string
		ms   int64
	}{{"s", 1000}, {"m", 60_000}, {"h", 3_600_000}, {"d", 86_400_000}} {
		// Thousandths of a token in one unit: at most 86.4e9 times maxRefill, and
		// what would overflow is too fast for this unit anyway.
		if w.RefillTokens > math.MaxInt64/(u.ms*1000) || w.RefillTokens*u.ms*1000%w.RefillEvery != 0 {
			continue
		}
		milli := w.RefillTokens * u.ms * 1000 / w.RefillEvery
		if milli/1000 > maxRefill {
			continue
		}
		s := fmt.Sprintf("%d.%03d", milli/1000, milli%1000)
		return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") + "/" + u.name
	}
	if w.RefillEvery > MaxWindow.Milliseconds() {
		return ""
	}
	return strconv.FormatInt(w.RefillTokens, 10) + "/" + Duration(time.Duration(w.RefillEvery)*time.Millisecond).String()
}

// MarshalText writes what ParseWindow reads, and refuses an impossible window.
func (w Window) MarshalText() ([]byte, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	return []byte(w.String()), nil
}

// UnmarshalText reads what ParseWindow reads.
func (w *Window) UnmarshalText(b []byte) error {
	v, err := ParseWindow(string(b))
	if err != nil {
		return err
	}
	*w = v
	return nil
}

var (
	decimalForm         = regexp.MustCompile(`^(0|[1-9][0-9]{0,9})(\.[0-9]{1,6})?$`)
	recordedDecimalForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,11})(\.[0-9]{1,9})?$`)
)

// check judges an amount of a file or a request.
func (d Decimal) check() error { return d.match(decimalForm) }

// checkRecorded judges one of a policy that is in force, perhaps since an earlier
// version: to refuse it would stop every change of that policy.
func (d Decimal) checkRecorded() error { return d.match(recordedDecimalForm) }

func (d Decimal) match(form *regexp.Regexp) error {
	if !form.MatchString(string(d)) {
		return fmt.Errorf("%s is not an amount: write at most ten digits before the point and six after it, such as 0.045", quote(string(d)))
	}
	return nil
}

// UnmarshalJSON reads a number or a string of a recorded policy, and keeps its text.
func (d *Decimal) UnmarshalJSON(b []byte) error {
	s := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &s); err != nil {
			return fmt.Errorf("read amount: %w", err)
		}
	}
	if err := Decimal(s).checkRecorded(); err != nil {
		return err
	}
	*d = Decimal(s)
	return nil
}

// TemplatePart is a piece of a template: fixed Text, or the name of a variable.
type TemplatePart struct {
	Text string
	Var  string
}

var variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// TemplateParts splits a template's text at its variables, written {{name}};
// spaces inside the braces do not matter. A {{ or }} that is no variable is an
// error, so that no message goes out with braces in it.
func TemplateParts(text string) ([]TemplatePart, error) {
	var parts []TemplatePart
	for text != "" {
		before, rest, open := strings.Cut(text, "{{")
		if strings.Contains(before, "}}") {
			return nil, fmt.Errorf("a }} stands without its {{: write a variable as {{code}}")
		}
		if before != "" {
			parts = append(parts, TemplatePart{Text: before})
		}
		if !open {
			break
		}
		inside, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return nil, fmt.Errorf("a {{ is never closed: write a variable as {{code}}")
		}
		name := strings.Trim(inside, " ")
		if !variableForm.MatchString(name) {
			return nil, fmt.Errorf("%s is not a variable's name: write letters, digits, _, . and -, beginning with a letter or _, such as {{code}}", quote(name))
		}
		parts = append(parts, TemplatePart{Var: name})
		text = after
	}
	return parts, nil
}

// quote shows a value of the file in an error, bounded, on one line.
func quote(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strconv.Quote(s)
}
