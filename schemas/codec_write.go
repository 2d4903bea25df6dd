package schemas

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// appendMillis writes m as Millis.MarshalJSON does. RFC3339 is a layout that
// package time has fast code for, so the decimals are put in by hand.
func appendMillis(dst []byte, m Millis) []byte {
	if m == 0 {
		return append(dst, "null"...)
	}
	t := time.UnixMilli(int64(m)).UTC()
	dst = t.AppendFormat(append(dst, '"'), time.RFC3339)
	ms := t.Nanosecond() / 1e6
	return append(dst[:len(dst)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z', '"')
}

// writeOptions make of jsontext's bytes those of encoding/json. Raw strings
// are preserved for the sake of text.
var writeOptions = []jsontext.Options{
	jsontext.AllowDuplicateNames(true), jsontext.EscapeForJS(true), jsontext.PreserveRawStrings(true),
}

// jsonWriter writes one value, the fields of its objects in the order of calls.
type jsonWriter struct {
	enc jsontext.Encoder
	out bytes.Buffer
}

var jsonWriters = sync.Pool{New: func() any { return new(jsonWriter) }}

func writeJSON() *jsonWriter {
	w := jsonWriters.Get().(*jsonWriter)
	w.out.Reset()
	w.enc.Reset(&w.out, writeOptions...)
	return w
}

// done appends what was written to dst and gives the writer back.
func (w *jsonWriter) done(dst []byte) []byte {
	dst = append(dst, bytes.TrimSuffix(w.out.Bytes(), []byte("\n"))...)
	jsonWriters.Put(w)
	return dst
}

// token writes one token. Only calls in an order that gives no JSON can fail.
func (w *jsonWriter) token(t jsontext.Token) {
	if err := w.enc.WriteToken(t); err != nil {
		panic(err)
	}
}

func (w *jsonWriter) value(v jsontext.Value) {
	if err := w.enc.WriteValue(v); err != nil {
		panic(err)
	}
}

// string writes a name or a value as encoding/json does without HTML escaping.
// What is not UTF-8 becomes U+FFFD, which encoding/json writes as an escape and
// jsontext does not; it is rare enough to leave to encoding/json itself.
func (w *jsonWriter) string(s string) {
	if w.enc.WriteToken(jsontext.String(s)) == nil {
		return
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // no string is refused
	}
	w.value(b.Bytes())
}

func (w *jsonWriter) text(name, v string) {
	w.token(jsontext.String(name))
	w.string(v)
}

func (w *jsonWriter) textIf(name, v string) {
	if v != "" {
		w.text(name, v)
	}
}

func (w *jsonWriter) int(name string, v int64) {
	w.token(jsontext.String(name))
	w.token(jsontext.Int(v))
}

func (w *jsonWriter) intIf(name string, v int64) {
	if v != 0 {
		w.int(name, v)
	}
}

func (w *jsonWriter) time(name string, v Millis) {
	w.token(jsontext.String(name))
	w.value(appendMillis(w.enc.AvailableBuffer(), v))
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
	w.open(name, jsontext.BeginObject)
	for _, k := range sortedKeys(m) {
		w.string(k)
		w.string(m[k])
	}
	w.token(jsontext.EndObject)
}

// open begins an object or an array as a field.
func (w *jsonWriter) open(name string, begin jsontext.Token) {
	w.token(jsontext.String(name))
	w.token(begin)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := slices.AppendSeq(make([]string, 0, len(m)), maps.Keys(m))
	slices.Sort(keys)
	return keys
}
