package schemas

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestRound holds the header weir-round to what encoding/json makes of a Round,
// both ways.
func TestRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genEvent().Draw(t, "event")
		o := &Round{
			For: genText().Draw(t, "for"), Revision: rapid.Int64().Draw(t, "revision"), Home: rapid.Bool().Draw(t, "home"),
			Ask: genAsks().Draw(t, "ask"), Taken: genCharges().Draw(t, "taken"), Moved: genCharges().Draw(t, "moved"),
			Passed: genAsks().Draw(t, "passed"), Refused: rapid.Bool().Draw(t, "refused"),
			RetryAt: genMillis().Draw(t, "retry_at"), Due: genMillis().Draw(t, "due"),
		}
		if e.Decision != nil {
			o.Evidence = e.Decision.Evidence
		}
		text := AppendRound(nil, o)
		var want Round
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got, err := DecodeRound(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !reflect.DeepEqual(got, &want) {
			t.Fatalf("%s\nread as %+v\nwant    %+v", text, got, &want)
		}
		if again := AppendRound(nil, got); string(again) != string(text) {
			t.Fatalf("written again\n%s\nwas\n%s", again, text)
		}
	})
	for _, bad := range []string{``, `null`, `[]`, `{"ask":{}}`, `{"taken":[{"t":5}]}`, `{"revision":1}x`} {
		if o, err := DecodeRound([]byte(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, o)
		}
	}
}
