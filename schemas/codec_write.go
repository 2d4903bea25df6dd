package schemas

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
)

// appendMillis writes m as Millis.MarshalJSON does.
func appendMillis(dst []byte, m Millis) []byte {
	if m == 0 {
		return append(dst, "null"...)
	}
	return append(appendInstant(append(dst, '"'), m), '"')
}

// appendInstant writes m in RFC 3339, in UTC with milliseconds. Almost every
// moment is in these centuries; package time takes five times as long.
func appendInstant(dst []byte, m Millis) []byte {
	const perDay = 86_400_000
	if m < 0 || m >= 47_482*perDay { // 2100
		t := m.Time()
		dst = t.AppendFormat(dst, time.RFC3339) // a layout that it has fast code for
		ms := t.Nanosecond() / 1e6
		return append(dst[:len(dst)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
	}
	days, ms := int(m/perDay), int(m%perDay)
	// Years of 365 days and a leap day each fourth, from 1968-03-01: 2000 was one.
	days += 671
	year := (4*days + 3) / 1461
	day := days - year*1461/4
	month := (5*day + 2) / 153 // of a year from March
	day -= (153*month+2)/5 - 1
	if year, month = year+1968, month+3; month > 12 {
		year, month = year+1, month-12
	}
	two := func(v int) (byte, byte) { return byte('0' + v/10), byte('0' + v%10) }
	y1, y2 := two(year / 100)
	y3, y4 := two(year % 100)
	m1, m2 := two(month)
	d1, d2 := two(day)
	h1, h2 := two(ms / 3_600_000)
	i1, i2 := two(ms / 60_000 % 60)
	s1, s2 := two(ms / 1000 % 60)
	f := ms % 1000
	return append(dst, y1, y2, y3, y4, '-', m1, m2, '-', d1, d2, 'T', h1, h2, ':', i1, i2, ':', s1, s2,
		'.', byte('0'+f/100), byte('0'+f/10%10), byte('0'+f%10), 'Z')
}

// jsonWriter writes one value, the fields of its objects in the order of calls.
type jsonWriter struct {
	b     []byte
	comma bool // before what comes next in the object or array
}

var jsonWriters = sync.Pool{New: func() any { return new(jsonWriter) }}

func writeJSON() *jsonWriter {
	w := jsonWriters.Get().(*jsonWriter)
	w.b, w.comma = w.b[:0], false
	return w
}

// done appends what was written to dst and gives the writer back.
func (w *jsonWriter) done(dst []byte) []byte {
	dst = append(dst, w.b...)
	jsonWriters.Put(w)
	return dst
}

func (w *jsonWriter) next() {
	if w.comma {
		w.b = append(w.b, ',')
	}
	w.comma = true
}

// begin opens an object or an array.
func (w *jsonWriter) begin(c byte) {
	w.next()
	w.b, w.comma = append(w.b, c), false
}

func (w *jsonWriter) end(c byte) { w.b, w.comma = append(w.b, c), true }

func (w *jsonWriter) literal(s string) {
	w.next()
	w.b = append(w.b, s...)
}

// name begins a field.
func (w *jsonWriter) name(s string) {
	w.next()
	w.b, w.comma = append(appendQuoted(w.b, s), ':'), false
}

func (w *jsonWriter) string(s string) {
	w.next()
	w.b = appendQuoted(w.b, s)
}

// appendQuoted writes a string as encoding/json does without HTML escaping.
func appendQuoted(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			var b bytes.Buffer
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(s); err != nil {
				panic(err) // no string is refused
			}
			return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

func (w *jsonWriter) text(name, v string) {
	w.name(name)
	w.string(v)
}

func (w *jsonWriter) textIf(name, v string) {
	if v != "" {
		w.text(name, v)
	}
}

func (w *jsonWriter) int(name string, v int64) {
	w.name(name)
	w.next()
	w.b = strconv.AppendInt(w.b, v, 10)
}

func (w *jsonWriter) intIf(name string, v int64) {
	if v != 0 {
		w.int(name, v)
	}
}

func (w *jsonWriter) time(name string, v Millis) {
	w.name(name)
	w.next()
	w.b = appendMillis(w.b, v)
}

func (w *jsonWriter) timeIf(name string, v Millis) {
	if v != 0 {
		w.time(name, v)
	}
}

func (w *jsonWriter) textsIf(name string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	w.open(name, '{')
	for _, k := range sortedKeys(m) {
		w.text(k, m[k])
	}
	w.end('}')
}

// open begins an object or an array as a field.
func (w *jsonWriter) open(name string, begin byte) {
	w.name(name)
	w.begin(begin)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := slices.AppendSeq(make([]string, 0, len(m)), maps.Keys(m))
	slices.Sort(keys)
	return keys
}
