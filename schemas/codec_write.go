package schemas

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// appendJSONText writes s as encoding/json does without HTML escaping: what is
// not UTF-8 becomes U+FFFD.
func appendJSONText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\b':
				dst = append(dst, '\\', 'b')
			case '\f':
				dst = append(dst, '\\', 'f')
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		u, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case u == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			start = i + size
		case u == '\u2028' || u == '\u2029': // line ends to JavaScript, though not to JSON
			dst = append(append(dst, s[start:i]...), `\u202`...)
			dst = append(dst, hexDigits[u&15])
			start = i + size
		}
		i += size
	}
	return append(append(dst, s[start:]...), '"')
}

// appendMillis writes m as Millis.MarshalJSON does.
func appendMillis(dst []byte, m Millis) []byte {
	if m == 0 {
		return append(dst, "null"...)
	}
	t := time.UnixMilli(int64(m)).UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return append(t.AppendFormat(append(dst, '"'), millisLayout), '"')
	}
	hour, minute, sec := t.Clock()
	ms := t.Nanosecond() / 1e6
	d := func(n int) byte { return byte('0' + n%10) }
	return append(dst, '"',
		d(year/1000), d(year/100), d(year/10), d(year), '-', d(int(month)/10), d(int(month)), '-', d(day/10), d(day),
		'T', d(hour/10), d(hour), ':', d(minute/10), d(minute), ':', d(sec/10), d(sec),
		'.', d(ms/100), d(ms/10), d(ms), 'Z', '"')
}

// jsonWriter writes one object's fields in order.
type jsonWriter struct {
	b     []byte
	comma bool
}

// name begins a field. Names are the contract's: they need no escaping.
func (w *jsonWriter) name(name string) {
	if w.comma {
		w.b = append(w.b, ',')
	}
	w.comma = true
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

func (w *jsonWriter) open(c byte) {
	w.b = append(w.b, c)
	w.comma = false
}

func (w *jsonWriter) close(c byte) {
	w.b = append(w.b, c)
	w.comma = true
}

// next separates the items of an array.
func (w *jsonWriter) next() {
	if w.comma {
		w.b = append(w.b, ',')
	}
	w.comma = true
}

func (w *jsonWriter) text(name, v string) {
	w.name(name)
	w.b = appendJSONText(w.b, v)
}

func (w *jsonWriter) textIf(name, v string) {
	if v != "" {
		w.text(name, v)
	}
}

func (w *jsonWriter) int(name string, v int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, v, 10)
}

func (w *jsonWriter) time(name string, v Millis) {
	w.name(name)
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
	w.name(name)
	w.open('{')
	for _, k := range sortedKeys(m) {
		w.next()
		w.b = append(appendJSONText(w.b, k), ':')
		w.b = appendJSONText(w.b, m[k])
	}
	w.close('}')
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
