package schemas

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestNestingIsBounded(t *testing.T) {
	nested := func(arrays int) string {
		return `{"x":` + strings.Repeat("[", arrays) + strings.Repeat("]", arrays) + `}`
	}
	if _, err := DecodeRequest([]byte(nested(maxJSONDepth-1)), nil); err != nil {
		t.Errorf("%d deep: %v", maxJSONDepth, err)
	}
	for _, deep := range []string{nested(maxJSONDepth), nested(100_000), strings.Repeat("[", maxJSONDepth+1) + strings.Repeat("]", maxJSONDepth+1)} {
		_, err := DecodeRequest([]byte(deep), nil)
		if got := problemsOf(t, err); got[0] != " not_json" || !strings.Contains(err.Error(), "nested too deep") {
			t.Errorf("%.20s…: %v", deep, err)
		}
		if _, err := DecodeEvent([]byte(deep)); err == nil {
			t.Errorf("%.20s… is an event", deep)
		}
	}
}

// What was wrong is said in Weir's words: the decoder's would repeat the input.
func TestNotJSONSaysWhereAndNotWhat(t *testing.T) {
	for value, want := range map[string]string{
		`{"to":"secret" 7}`:           "unexpected character at byte 15",
		`{"to":"secret","secret":@}`:  "unexpected character at byte 24",
		`{"secret":{"secret":"\s"}}`:  "broken or misplaced escape at byte 21",
		`{\"to\":\"secret\"}`:         "broken or misplaced escape at byte 1",
		"{\"secret\":\"secret\x01\"}": "control character at byte 17",
		`{"to":"secret`:               "unexpected end at byte 13",
		`{"secret":"secret"  `:        "unexpected end at byte 20",
	} {
		if _, err := DecodeRequestStrict([]byte(value)); err == nil || err.Error() != "invalid request: is not JSON: "+want {
			t.Errorf("%q: %v, want %s", value, err, want)
		}
		if _, err := DecodeEvent([]byte(value)); err == nil || err.Error() != "decode status event: "+want {
			t.Errorf("%q: %v, want %s", value, err, want)
		}
	}
}

// Readers and writers are used again: nothing of one value may show in another.
func TestValuesShareNothing(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var last *Request
			var written []byte
			for i := range 200 {
				body := fmt.Sprintf(`{"to":"\u0061%d-%d","vars":{"k\n":"v\t%d"}}`, g, i, i)
				if i%3 == 0 {
					_, _ = DecodeRequestStrict([]byte(body[:len(body)-i%7-1])) // a reader left half-way
				}
				q, err := DecodeRequestStrict([]byte(body))
				if err != nil || q.To != fmt.Sprintf("a%d-%d", g, i) || q.Vars["k\n"] != fmt.Sprintf("v\t%d", i) {
					t.Errorf("%s became %+v, %v", body, q, err)
					return
				}
				b := RequestJSON(q)
				if last != nil && (last.To != fmt.Sprintf("a%d-%d", g, i-1) || string(written) != string(RequestJSON(last))) {
					t.Errorf("%+v, %s changed", last, written)
					return
				}
				last, written = q, b
			}
		})
	}
	wg.Wait()
}

// What is not UTF-8 takes another way than other text: it must escape alike.
func TestBrokenTextIsWrittenAsEncodingJSONDoes(t *testing.T) {
	q := &Request{Body: "<\xff>&\u2028\"\x01\ufffd\xff\xfe", Vars: map[string]string{"<\xff>": "\xed\xa0\x80&", "b": "\ufffd"}}
	if got, want := string(RequestJSON(q)), plainJSON(t, q); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
