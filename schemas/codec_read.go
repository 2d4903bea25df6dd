package schemas

import (
	"bytes"
	"errors"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// maxJSONDepth bounds nesting, so that input never decides the stack's depth.
const maxJSONDepth = 200

// jsonReader reads RFC 8259 in one pass without building a tree: the requests
// and events that it serves have fixed fields, and encoding/json can tell
// neither duplicate names nor where a field stands. After a method has
// returned false, why and at say what was wrong; nothing more may be read.
type jsonReader struct {
	b       []byte
	i       int
	depth   int
	scratch []byte // the last string that had escapes
	broken  bool   // the last string was not whole Unicode; U+FFFD stands for what was not
	why     string
	at      int
}

func (r *jsonReader) fail(why string) bool {
	if r.why == "" {
		r.why, r.at = why, r.i
	}
	return false
}

func (r *jsonReader) space() {
	for r.i < len(r.b) {
		switch r.b[r.i] {
		case ' ', '\t', '\n', '\r':
			r.i++
		default:
			return
		}
	}
}

// peek returns the next byte after white space, 0 at the end of the input.
func (r *jsonReader) peek() byte {
	r.space()
	if r.i >= len(r.b) {
		return 0
	}
	return r.b[r.i]
}

// literal reads one of true, false and null.
func (r *jsonReader) literal(word string) bool {
	if !bytes.HasPrefix(r.b[r.i:], []byte(word)) {
		return r.unexpected()
	}
	r.i += len(word)
	return true
}

func (r *jsonReader) unexpected() bool {
	if r.i >= len(r.b) {
		return r.fail("unexpected end")
	}
	return r.fail("unexpected character")
}

// object reads an object, calling field at each value. The key is valid until
// the next read.
func (r *jsonReader) object(field func(key []byte) bool) bool {
	if r.peek() != '{' {
		return r.unexpected()
	}
	if r.depth++; r.depth > maxJSONDepth {
		return r.fail("nested too deep")
	}
	r.i++
	if r.peek() == '}' {
		r.i++
		r.depth--
		return true
	}
	for {
		if r.peek() != '"' {
			return r.unexpected()
		}
		key, ok := r.text()
		if !ok {
			return false
		}
		if r.peek() != ':' {
			return r.unexpected()
		}
		r.i++
		r.space()
		if !field(key) {
			return false
		}
		switch r.peek() {
		case ',':
			r.i++
		case '}':
			r.i++
			r.depth--
			return true
		default:
			return r.unexpected()
		}
	}
}

// array reads an array, calling item at each value.
func (r *jsonReader) array(item func() bool) bool {
	if r.peek() != '[' {
		return r.unexpected()
	}
	if r.depth++; r.depth > maxJSONDepth {
		return r.fail("nested too deep")
	}
	r.i++
	if r.peek() == ']' {
		r.i++
		r.depth--
		return true
	}
	for {
		r.space()
		if !item() {
			return false
		}
		switch r.peek() {
		case ',':
			r.i++
		case ']':
			r.i++
			r.depth--
			return true
		default:
			return r.unexpected()
		}
	}
}

// skip reads any value and forgets it.
func (r *jsonReader) skip() bool {
	switch c := r.peek(); c {
	case '{':
		return r.object(func([]byte) bool { return r.skip() })
	case '[':
		return r.array(r.skip)
	case '"':
		_, ok := r.text()
		return ok
	case 't':
		return r.literal("true")
	case 'f':
		return r.literal("false")
	case 'n':
		return r.literal("null")
	default:
		_, ok := r.number()
		return ok
	}
}

// number reads a number and returns its text.
func (r *jsonReader) number() ([]byte, bool) {
	start := r.i
	digits := func() bool {
		from := r.i
		for r.i < len(r.b) && r.b[r.i]-'0' <= 9 {
			r.i++
		}
		return r.i > from
	}
	if r.i < len(r.b) && r.b[r.i] == '-' {
		r.i++
	}
	if r.i < len(r.b) && r.b[r.i] == '0' {
		r.i++
	} else if !digits() {
		return nil, r.unexpected()
	}
	if r.i < len(r.b) && r.b[r.i] == '.' {
		r.i++
		if !digits() {
			return nil, r.unexpected()
		}
	}
	if r.i < len(r.b) && r.b[r.i]|0x20 == 'e' {
		r.i++
		if r.i < len(r.b) && (r.b[r.i] == '+' || r.b[r.i] == '-') {
			r.i++
		}
		if !digits() {
			return nil, r.unexpected()
		}
	}
	return r.b[start:r.i], true
}

// text reads a string. The answer is part of the input where it has no
// escapes, else of scratch: valid until the next read. Sets broken.
func (r *jsonReader) text() ([]byte, bool) {
	r.broken = false
	r.i++ // the quote, as the caller saw
	start := r.i
	ascii := true
	for r.i < len(r.b) {
		c := r.b[r.i]
		switch {
		case c == '"':
			s := r.b[start:r.i]
			r.i++
			if !ascii && !utf8.Valid(s) {
				r.broken = true
				s = bytes.ToValidUTF8(s, []byte("\ufffd"))
			}
			return s, true
		case c == '\\':
			return r.escaped(start)
		case c < 0x20:
			return nil, r.fail("control character in a string")
		case c >= utf8.RuneSelf:
			ascii = false
		}
		r.i++
	}
	return nil, r.fail("unexpected end")
}

// escaped goes on from the first backslash of a string that began at start.
func (r *jsonReader) escaped(start int) ([]byte, bool) {
	out := append(r.scratch[:0], r.b[start:r.i]...)
	for r.i < len(r.b) {
		c := r.b[r.i]
		switch {
		case c == '"':
			r.i++
			r.scratch = out
			if !utf8.Valid(out) {
				r.broken = true
				out = bytes.ToValidUTF8(out, []byte("\ufffd"))
			}
			return out, true
		case c < 0x20:
			return nil, r.fail("control character in a string")
		case c != '\\':
			out = append(out, c)
			r.i++
			continue
		}
		if r.i++; r.i >= len(r.b) {
			break
		}
		switch c = r.b[r.i]; c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			u, ok := r.hex4(r.i + 1)
			if !ok {
				return nil, r.fail("broken escape in a string")
			}
			r.i += 4
			if utf16.IsSurrogate(u) {
				whole := rune(utf8.RuneError)
				if r.i+2 < len(r.b) && r.b[r.i+1] == '\\' && r.b[r.i+2] == 'u' {
					if low, ok := r.hex4(r.i + 3); ok {
						whole = utf16.DecodeRune(u, low)
					}
				}
				if u = whole; whole == utf8.RuneError {
					r.broken = true
				} else {
					r.i += 6
				}
			}
			out = utf8.AppendRune(out, u)
		default:
			return nil, r.fail("broken escape in a string")
		}
		r.i++
	}
	return nil, r.fail("unexpected end")
}

func (r *jsonReader) hex4(i int) (rune, bool) {
	if i+4 > len(r.b) {
		return 0, false
	}
	var u rune
	for _, c := range r.b[i : i+4] {
		switch {
		case c-'0' <= 9:
			u = u<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			u = u<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return u, true
}

// end reports whether nothing but white space is left.
func (r *jsonReader) end() bool { return r.peek() == 0 && r.i >= len(r.b) }

// What follows reads a value into a variable; null leaves it alone, as
// encoding/json does.

func (r *jsonReader) intoText(dst *string) bool {
	switch r.peek() {
	case '"':
		b, ok := r.text()
		if ok {
			*dst = wireText(b)
		}
		return ok
	case 'n':
		return r.literal("null")
	}
	return r.fail("a string was expected")
}

func (r *jsonReader) intoInt(dst *int64, bits int) bool {
	c := r.peek()
	if c == 'n' {
		return r.literal("null")
	}
	if c != '-' && c-'0' > 9 {
		return r.fail("a whole number was expected")
	}
	b, ok := r.number()
	if !ok {
		return false
	}
	v, err := strconv.ParseInt(string(b), 10, bits)
	if err != nil {
		return r.fail("a whole number was expected, or it is too large")
	}
	*dst = v
	return true
}

func (r *jsonReader) intoBool(dst *bool) bool {
	switch r.peek() {
	case 't':
		*dst = true
		return r.literal("true")
	case 'f':
		*dst = false
		return r.literal("false")
	case 'n':
		return r.literal("null")
	}
	return r.fail("true or false was expected")
}

func (r *jsonReader) intoTime(dst *Millis) bool {
	switch r.peek() {
	case '"':
		b, ok := r.text()
		if !ok {
			return false
		}
		m, err := parseWireTime(b)
		if err != nil {
			return r.fail("a time in RFC 3339 was expected")
		}
		*dst = m
		return true
	case 'n':
		return r.literal("null")
	}
	return r.fail("a time in RFC 3339 was expected")
}

// Times outside these years cannot be written in RFC 3339, whatever zone they
// were read in.
var (
	minWireTime = MillisOf(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))
	maxWireTime = MillisOf(time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC))
)

var errWireTime = errors.New("not a time in RFC 3339")

// parseWireTime reads RFC 3339, truncated to the millisecond; "" is absent.
func parseWireTime(b []byte) (Millis, error) {
	if len(b) == 0 {
		return 0, nil
	}
	t, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return 0, errWireTime
	}
	m := Millis(t.UnixMilli())
	if m < minWireTime || m > maxWireTime {
		return 0, errWireTime
	}
	return m, nil
}

// wireText copies b, without allocating for the words of the contract that
// every second record repeats.
func wireText(b []byte) string {
	switch string(b) {
	case "":
		return ""
	case "sms":
		return "sms"
	case "voice":
		return "voice"
	case "email":
		return "email"
	case "push":
		return "push"
	case "webhook":
		return "webhook"
	case "default":
		return "default"
	case "status":
		return "status"
	case "decision":
		return "decision"
	case "urgent":
		return "urgent"
	case "normal":
		return "normal"
	case "bulk":
		return "bulk"
	case "queued":
		return "queued"
	case "sending":
		return "sending"
	case "retrying":
		return "retrying"
	case "sent":
		return "sent"
	case "delivered":
		return "delivered"
	case "failed":
		return "failed"
	case "limited":
		return "limited"
	case "admit":
		return "admit"
	case "refuse":
		return "refuse"
	case "move":
		return "move"
	case "give_back":
		return "give_back"
	case "forward":
		return "forward"
	case "weir.requests":
		return "weir.requests"
	case "weir.readmit":
		return "weir.readmit"
	}
	return string(b)
}
