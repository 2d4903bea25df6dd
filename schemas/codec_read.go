package schemas

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// maxJSONDepth bounds nesting, so that input never decides the stack's depth.
const maxJSONDepth = 200

// jsonSpace is RFC 8259's white space.
const jsonSpace = " \t\r\n"

// readOptions leave duplicate names and broken text to the callers: requests
// report them beside everything else that is wrong, events mend them.
var readOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// jsonReader reads one value in one pass without building a tree. jsontext
// knows the grammar; what is here is what a reader of fixed fields wants: bytes
// instead of strings, the first mistake kept with its place and none of the
// input's text, and the bound on nesting. After a method has returned false,
// why and at say what was wrong; nothing more may be read.
type jsonReader struct {
	dec     jsontext.Decoder
	src     bytes.Buffer
	scratch []byte // the last string
	broken  bool   // the last string was not whole Unicode; U+FFFD stands for what was not
	why     string
	at      int
}

var jsonReaders = sync.Pool{New: func() any { return new(jsonReader) }}

// readJSON begins to read value, which must not change before done.
func readJSON(value []byte) *jsonReader {
	r := jsonReaders.Get().(*jsonReader)
	r.src = *bytes.NewBuffer(value) // not copied
	r.dec.Reset(&r.src, readOptions...)
	r.why, r.at = "", 0
	return r
}

// done gives the reader back; what it returned as bytes is no longer valid.
func (r *jsonReader) done() {
	r.src = bytes.Buffer{}
	r.dec.Reset(&r.src) // lets go of the value
	jsonReaders.Put(r)
}

func (r *jsonReader) fail(why string, at int) bool {
	if r.why == "" {
		r.why, r.at = why, at
	}
	return false
}

// offset is where the input goes on: at the next value once peek has seen one.
// The whole input is in the decoder's buffer, as it reads from a bytes.Buffer.
func (r *jsonReader) offset() int {
	rest := r.dec.UnreadBuffer()
	return int(r.dec.InputOffset()) + len(rest) - len(bytes.TrimLeft(rest, jsonSpace+":,"))
}

// syntax keeps what is wrong with the JSON. The decoder's own words would
// repeat names and characters of the input.
func (r *jsonReader) syntax(err error) bool {
	rest, start := r.dec.UnreadBuffer(), int(r.dec.InputOffset())
	wrong, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return r.fail("unexpected end", start+len(rest))
	}
	why, at := "unexpected character", int(wrong.ByteOffset)
	if at >= start && at < start+len(rest) {
		switch c := rest[at-start]; {
		case c == '\\':
			why = "broken or misplaced escape"
		case c < ' ':
			why = "control character"
		}
	}
	return r.fail(why, at)
}

// peek returns the kind of what comes next, 0 for what cannot come; reading on
// then says why.
func (r *jsonReader) peek() jsontext.Kind { return r.dec.PeekKind() }

// token reads a literal or the begin or end of an object or array.
func (r *jsonReader) token() bool {
	if _, err := r.dec.ReadToken(); err != nil {
		return r.syntax(err)
	}
	if r.dec.StackDepth() > maxJSONDepth {
		return r.fail("nested too deep", int(r.dec.InputOffset()))
	}
	return true
}

// raw reads a value as it stands, valid until the next read.
func (r *jsonReader) raw() ([]byte, bool) {
	v, err := r.dec.ReadValue()
	if err != nil {
		return nil, r.syntax(err)
	}
	return v, true
}

// text reads a string, which peek has seen. The answer is not nil, and valid
// until the next read. Sets broken.
func (r *jsonReader) text() ([]byte, bool) {
	v, ok := r.raw()
	if !ok {
		return nil, false
	}
	var err error
	r.scratch, err = jsontext.AppendUnquote(r.scratch[:0], v)
	r.broken = err != nil
	return r.scratch, true
}

// expected fails for a value of another kind than why asks for, or for no value.
func (r *jsonReader) expected(why string) bool {
	if r.peek() == 0 {
		return r.token()
	}
	return r.fail(why, r.offset())
}

// object reads an object, calling field at each value. The key is valid until
// the next read.
func (r *jsonReader) object(field func(key []byte) bool) bool {
	if r.peek() != '{' {
		return r.expected("an object was expected")
	}
	if !r.token() {
		return false
	}
	for {
		switch r.peek() {
		case '"':
			if key, ok := r.text(); !ok || !field(key) {
				return false
			}
		case '}':
			return r.token()
		default:
			return r.expected("a name was expected")
		}
	}
}

// array reads an array, calling item at each value.
func (r *jsonReader) array(item func() bool) bool {
	if r.peek() != '[' {
		return r.expected("an array was expected")
	}
	if !r.token() {
		return false
	}
	for r.peek() != ']' {
		if !item() {
			return false
		}
	}
	return r.token()
}

// skip reads any value and forgets it.
func (r *jsonReader) skip() bool {
	for depth := r.dec.StackDepth(); r.token(); {
		if r.dec.StackDepth() <= depth {
			return true
		}
	}
	return false
}

// end reports whether nothing but white space is left.
func (r *jsonReader) end() bool {
	return len(bytes.TrimLeft(r.dec.UnreadBuffer(), jsonSpace)) == 0
}

// null reads a null, if that is what comes next.
func (r *jsonReader) null() (was, ok bool) {
	if r.peek() != 'n' {
		return false, true
	}
	return true, r.token()
}

// What follows reads a value into a variable; null leaves it alone, as
// encoding/json does.

func (r *jsonReader) intoText(dst *string) bool {
	b, ok := r.textOrNull("a string was expected")
	if b != nil {
		*dst = wireText(b)
	}
	return ok
}

// textOrNull gives nil for null.
func (r *jsonReader) textOrNull(why string) ([]byte, bool) {
	switch r.peek() {
	case '"':
		return r.text()
	case 'n':
		return nil, r.token()
	}
	return nil, r.expected(why)
}

func (r *jsonReader) intoInt(dst *int64, bits int) bool {
	if was, ok := r.null(); was || !ok {
		return ok
	}
	if r.peek() != '0' {
		return r.expected("a whole number was expected")
	}
	b, ok := r.raw()
	if !ok {
		return false
	}
	v, err := strconv.ParseInt(string(b), 10, bits)
	if err != nil {
		return r.fail("a whole number was expected, or it is too large", int(r.dec.InputOffset()))
	}
	*dst = v
	return true
}

func (r *jsonReader) intoBool(dst *bool) bool {
	switch k := r.peek(); k {
	case 't', 'f':
		*dst = k == 't'
		return r.token()
	case 'n':
		return r.token()
	}
	return r.expected("true or false was expected")
}

func (r *jsonReader) intoTime(dst *Millis) bool {
	const why = "a time in RFC 3339 was expected"
	b, ok := r.textOrNull(why)
	if b == nil {
		return ok
	}
	m, err := parseWireTime(b)
	if err != nil {
		return r.fail(why, int(r.dec.InputOffset()))
	}
	*dst = m
	return true
}

// maxWireTime is the last time that RFC 3339 can write. Nothing that has a time is
// older than 1970, so what is less than 0 is refused too.
var maxWireTime = MillisOf(time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC))

var errWireTime = errors.New("not a time in RFC 3339")

// parseWireTime reads RFC 3339, truncated to the millisecond; "" is absent.
func parseWireTime(b []byte) (Millis, error) {
	if len(b) == 0 {
		return 0, nil
	}
	t, ok := parseTime(string(b))
	if !ok {
		return 0, errWireTime
	}
	m := Millis(t.UnixMilli())
	if m < 0 || m > maxWireTime {
		return 0, errWireTime
	}
	return m, nil
}

// wireWords are the words of the contract that every second record repeats.
var wireWords = func() map[string]string {
	words := make(map[string]string)
	for _, w := range []string{
		"", "sms", "voice", "email", "push", "webhook", "default", "status", "decision", "urgent", "normal", "bulk",
		"queued", "sending", "retrying", "sent", "delivered", "failed", "limited",
		"admit", "refuse", "move", "give_back", "forward", "weir.requests", "weir.readmit",
	} {
		words[w] = w
	}
	return words
}()

// wireText copies b, without allocating for wireWords.
func wireText(b []byte) string {
	if w, ok := wireWords[string(b)]; ok {
		return w
	}
	return string(b)
}
