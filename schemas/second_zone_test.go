package schemas

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestSecondZone compares Zone with another reader of the same files, for every zone:
// around each transition, and at random moments of the years 1970 to 2100.
func TestSecondZone(t *testing.T) {
	moments := 200
	if os.Getenv("WEIR_CHAOS") != "" {
		moments = 20_000
	}
	files, err := zoneFiles()
	if err != nil {
		t.Fatal(err)
	}
	from, to := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	rnd := rand.New(rand.NewPCG(1, 2))
	zones, compared := 0, 0
	for _, f := range files.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		zone, err := Zone(f.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		second, err := readTZif(f.Name)
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		zones++
		at := make([]int64, 0, moments)
		for _, tr := range second.transitions {
			if tr >= from {
				at = append(at, tr-1, tr)
			}
		}
		for y := 2030; y < 2100; y += 7 { // transitions that the footer's rule makes
			if r := second.rule; r.dst {
				at = append(at, r.start(y)-1, r.start(y), r.end(y)-1, r.end(y))
			}
		}
		for range moments {
			at = append(at, from+rnd.Int64N(to-from))
		}
		for _, u := range at {
			compared++
			if _, got := time.Unix(u, 0).In(zone).Zone(); got != second.offset(u) {
				t.Errorf("%s at %s: %d s from UTC, the second reader says %d", f.Name, time.Unix(u, 0).UTC(), got, second.offset(u))
				break
			}
		}
	}
	if zones < 400 {
		t.Errorf("%d zones", zones)
	}
	t.Logf("%d moments in %d zones of %s", compared, zones, ZonesVersion)
}

// tzif is a file of the time zone database (RFC 9636): local time types by transition, and
// a rule for what comes after the last.
type tzif struct {
	transitions []int64
	types       []byte // of each transition
	offsets     []int  // of each type, seconds east of UTC
	rule        tzRule // POSIX TZ string
	ruled       bool   // it has one
}

func readTZif(name string) (z tzif, err error) {
	files, err := zoneFiles()
	if err != nil {
		return z, err
	}
	f, err := files.Open(name)
	if err != nil {
		return z, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return z, err
	}
	b := make([]byte, info.Size())
	for n := 0; n < len(b); {
		m, err := f.Read(b[n:])
		if n += m; m == 0 && err != nil {
			return z, err
		}
	}
	counts := func(b []byte) (isut, isstd, leap, times, types, chars int) {
		n := func(i int) int { return int(binary.BigEndian.Uint32(b[20+4*i:])) }
		return n(0), n(1), n(2), n(3), n(4), n(5)
	}
	isut, isstd, leap, times, types, chars := counts(b)
	b = b[44+times*5+types*6+chars+leap*8+isstd+isut:] // the block of version 1
	isut, isstd, leap, times, types, chars = counts(b)
	b = b[44:]
	for i := range times {
		z.transitions = append(z.transitions, int64(binary.BigEndian.Uint64(b[8*i:])))
	}
	b = b[8*times:]
	z.types, b = b[:times], b[times:]
	for i := range types {
		z.offsets = append(z.offsets, int(int32(binary.BigEndian.Uint32(b[6*i:]))))
	}
	footer := strings.Trim(string(b[types*6+chars+leap*12+isstd+isut:]), "\n")
	if z.ruled = footer != ""; z.ruled {
		z.rule = parseTZ(footer)
	}
	return z, nil
}

// offset is that in force at a Unix time, by the last transition that is not later.
func (z *tzif) offset(u int64) int {
	last := -1
	for i, tr := range z.transitions {
		if tr <= u {
			last = i
		}
	}
	switch {
	case z.ruled && last == len(z.transitions)-1:
		return z.rule.offset(u)
	case last < 0:
		return z.offsets[0]
	}
	return z.offsets[z.types[last]]
}

// tzRule is a POSIX TZ string, such as CET-1CEST,M3.5.0,M10.5.0/3.
type tzRule struct {
	std, summer int // seconds east of UTC
	dst         bool
	from, until string // M3.5.0/2, J60, 59
}

func parseTZ(s string) (r tzRule) {
	name := func() {
		if s[0] == '<' {
			s = s[strings.IndexByte(s, '>')+1:]
			return
		}
		s = strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	}
	offset := func() int {
		i := 0
		for i < len(s) && strings.IndexByte("+-:0123456789", s[i]) >= 0 {
			i++
		}
		n := seconds(s[:i])
		s = s[i:]
		return n
	}
	name()
	r.std = -offset()
	if s == "" {
		return r
	}
	name()
	r.dst, r.summer = true, r.std+3600
	if s != "" && s[0] != ',' {
		r.summer = -offset()
	}
	rules := strings.Split(s, ",")
	r.from, r.until = rules[1], rules[2]
	return r
}

// seconds are those of [+-]h[:m[:s]].
func seconds(s string) int {
	sign := 1
	if strings.HasPrefix(s, "-") {
		sign = -1
	}
	total, unit := 0, 3600
	for _, part := range strings.Split(strings.TrimLeft(s, "+-"), ":") {
		n, _ := strconv.Atoi(part)
		total += n * unit
		unit /= 60
	}
	return sign * total
}

func (r tzRule) start(year int) int64 { return moment(r.from, year) - int64(r.std) }
func (r tzRule) end(year int) int64   { return moment(r.until, year) - int64(r.summer) }

// moment is when a rule's date and time are shown by a clock of UTC.
func moment(rule string, year int) int64 {
	day, at, timed := strings.Cut(rule, "/")
	after := 2 * 3600
	if timed {
		after = seconds(at)
	}
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	date := func(m time.Month, d int) time.Time { return time.Date(year, m, d, 0, 0, 0, 0, time.UTC) }
	var begins time.Time
	switch day[0] {
	case 'M': // day d of week w of month m; week 5 is the last
		f := strings.Split(day[1:], ".")
		month, week, weekday := time.Month(number(f[0])), number(f[1]), number(f[2])
		begins = date(month, 1+(weekday-int(date(month, 1).Weekday())+7)%7+7*(week-1))
		for begins.Month() != month {
			begins = begins.AddDate(0, 0, -7)
		}
	case 'J': // day 1 to 365, without 29 February
		begins = date(1, number(day[1:]))
		if leap := date(3, 0).Day() == 29; leap && number(day[1:]) >= 60 {
			begins = begins.AddDate(0, 0, 1)
		}
	default: // day 0 to 365
		begins = date(1, 1+number(day))
	}
	return begins.Unix() + int64(after)
}

func (r tzRule) offset(u int64) int {
	if !r.dst {
		return r.std
	}
	year := time.Unix(u+int64(r.std), 0).UTC().Year()
	start, end := r.start(year), r.end(year)
	summer := start <= u && u < end
	if end < start { // the south
		summer = u < end || start <= u
	}
	if summer {
		return r.summer
	}
	return r.std
}
