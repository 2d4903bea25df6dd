// Package retryafter reads the value of a Retry-After header (RFC 9110, 10.2.3)
// and says in words what it asks of a client: weir explain retry-after. The
// console's page does the same in TypeScript, and both are held to
// ingest/console/testdata/retry-after.json.
//
// It is PURE. It does not wait, and knows nothing of what Weir itself answers: the
// Go client has its own policy of retries (ingest/client).
package retryafter

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Form is how a value was written.
type Form string

const (
	Seconds Form = "seconds" // delay-seconds
	Date    Form = "date"    // HTTP-date, in any of its three formats
)

// Explained is what a value asks for.
type Explained struct {
	Form Form
	// Seconds to wait from now on, rounded up; 0 where the time has passed.
	Seconds int64
	At      time.Time // when to try again, in UTC: never before now where Form is Seconds
	// Comment is one sentence for the comment of a client's code.
	Comment string
	// Note says what is odd about the value; empty as a rule.
	Note string
}

// Most is the longest delay, in seconds: what is longer counts as this, as RFC
// 9111, 1.2.2, has it for seconds that overflow.
const Most = 1 << 31

// likelyUnix is from when on a number of seconds is taken for a Unix time, in the
// note alone: nobody asks to wait for thirty years.
const likelyUnix = 1_000_000_000

// Explain reads a value as it stands in the header, with blanks around it or not.
// Its error says, for people, why it is none.
func Explain(value string, now time.Time) (Explained, error) {
	now = now.UTC()
	v := strings.Trim(value, " \t")
	if v != "" && strings.Trim(v, "0123456789") == "" {
		return ofSeconds(v, now), nil
	}
	at, err := parseDate(v, now)
	if err != nil {
		return Explained{}, err
	}
	e := Explained{Form: Date, At: at, Seconds: int64((at.Sub(now) + time.Second - 1) / time.Second)}
	day := at.Format("2006-01-02 15:04:05")
	if !at.After(now) {
		e.Seconds = 0
		e.Comment = fmt.Sprintf("Retry-After: %s means: try again at once, since %s UTC has passed.", v, day)
		return e, nil
	}
	if at.Sub(now) > Most*time.Second {
		e.Seconds = Most
		e.Note = "That is more than 68 years away: treat it as a refusal for good."
	}
	e.Comment = fmt.Sprintf("Retry-After: %s means: do not try again before %s UTC.", v, day)
	return e, nil
}

func ofSeconds(digits string, now time.Time) Explained {
	n, err := strconv.ParseInt(digits, 10, 64)
	e := Explained{Form: Seconds, Seconds: n}
	switch {
	case err != nil || n > Most:
		e.Seconds = Most
		e.Note = "That is more than 68 years: treat it as a refusal for good."
	case n >= likelyUnix:
		e.Note = "It looks like a Unix time, but the header takes seconds from now."
	}
	e.At = now.Add(time.Duration(e.Seconds) * time.Second)
	if e.Seconds == 0 {
		e.Comment = fmt.Sprintf("Retry-After: %s means: try again at once.", digits)
		return e
	}
	e.Comment = fmt.Sprintf("Retry-After: %s means: wait %s after this answer came, then try again.", digits, Span(e.Seconds))
	return e
}

// Span says how long a number of seconds is, in its two largest units: 1 day 2
// hours, 90 seconds as 1 minute 30 seconds.
func Span(seconds int64) string {
	var parts []string
	for _, unit := range []struct {
		name string
		of   int64
	}{{"day", 86_400}, {"hour", 3600}, {"minute", 60}, {"second", 1}} {
		n := seconds / unit.of
		seconds %= unit.of
		switch {
		case n == 0 && len(parts) == 0:
			continue
		case n == 1:
			parts = append(parts, "1 "+unit.name)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", n, unit.name))
		default:
			parts = append(parts, "")
		}
		if len(parts) == 2 {
			break
		}
	}
	if len(parts) == 0 {
		return "0 seconds"
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// The three formats of an HTTP-date (RFC 9110, 5.6.7), which is case-sensitive.
const (
	months = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
	clock  = `(\d{2}):(\d{2}):(\d{2})`
)

var (
	fixdate = regexp.MustCompile(`^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (\d{2}) ` + months + ` (\d{4}) ` + clock + ` GMT$`)
	rfc850  = regexp.MustCompile(`^(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday), (\d{2})-` + months + `-(\d{2}) ` + clock + ` GMT$`)
	asctime = regexp.MustCompile(`^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ` + months + ` (\d{2}| \d) ` + clock + ` (\d{4})$`)
)

// What people write instead.
var (
	negative = regexp.MustCompile(`^[-+]\d`)
	decimal  = regexp.MustCompile(`^\d*[.,]\d+$`)
	suffixed = regexp.MustCompile(`^\d+ ?[A-Za-z]+$`)
	iso8601  = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}`)
	zoned    = regexp.MustCompile(`^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun).*(?:UTC|[A-Z]{2,4}|[-+]\d{4})$`)
)

func parseDate(v string, now time.Time) (time.Time, error) {
	var year, month, day, hour, minute, second string
	if m := fixdate.FindStringSubmatch(v); m != nil {
		day, month, year, hour, minute, second = m[1], m[2], m[3], m[4], m[5], m[6]
	} else if m := rfc850.FindStringSubmatch(v); m != nil {
		day, month, year, hour, minute, second = m[1], m[2], m[3], m[4], m[5], m[6]
	} else if m := asctime.FindStringSubmatch(v); m != nil {
		month, day, hour, minute, second, year = m[1], strings.TrimSpace(m[2]), m[3], m[4], m[5], m[6]
	} else {
		return time.Time{}, notADate(v)
	}
	y, d := number(year), number(day)
	h, m, s := number(hour), number(minute), number(second)
	mon := time.Month((strings.Index(months, month)-1)/4 + 1)
	two := len(year) == 2
	if two {
		y += now.Year() / 100 * 100
	}
	// Second 60 is a leap second: it ends when the next minute begins.
	if h > 23 || m > 59 || s > 60 || s == 60 && (h != 23 || m != 59) {
		return time.Time{}, errors.New("there is no such time of day")
	}
	at := time.Date(y, mon, d, h, m, s, 0, time.UTC)
	if two && at.After(now.AddDate(50, 0, 0)) { // RFC 9110, 5.6.7
		y -= 100
		at = time.Date(y, mon, d, h, m, s, 0, time.UTC)
	}
	if d < 1 || time.Date(y, mon, d, 0, 0, 0, 0, time.UTC).Day() != d {
		return time.Time{}, errors.New("there is no such day")
	}
	return at, nil
}

func notADate(v string) error {
	switch {
	case v == "":
		return errors.New("it is empty: write seconds, such as 120, or a date, such as Sun, 22 Nov 2026 01:00:00 GMT")
	case negative.MatchString(v):
		return errors.New("a delay has no sign: it is whole seconds from now, 0 or more")
	case decimal.MatchString(v):
		return errors.New("a delay has no fraction: it is whole seconds")
	case suffixed.MatchString(v):
		return errors.New("a delay has no unit: it is whole seconds")
	case iso8601.MatchString(v):
		return errors.New("a date of ISO 8601 is none for HTTP: it is written as Sun, 22 Nov 2026 01:00:00 GMT")
	case zoned.MatchString(v):
		return errors.New("it is no date for HTTP, which is written as Sun, 22 Nov 2026 01:00:00 GMT and always in GMT")
	}
	return errors.New("it is neither whole seconds, such as 120, nor a date, such as Sun, 22 Nov 2026 01:00:00 GMT")
}

// number reads two or four digits.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
