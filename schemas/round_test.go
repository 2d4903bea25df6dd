package schemas

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRound holds the header weir-round to what encoding/json makes of a Round,
// both ways.
func TestRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genEvent().Draw(t, "event")
		o := &Round{
			For: genText().Draw(t, "for"), Revision: rapid.Int64().Draw(t, "revision"), Home: rapid.Bool().Draw(t, "home"), HomeRevision: rapid.Int64().Draw(t, "home revision"), Last: rapid.Bool().Draw(t, "last"), Segments: rapid.Int().Draw(t, "segments"), Cost: rapid.Int().Draw(t, "cost of the request"), Channel: Channel(genText().Draw(t, "channel")), Class: genText().Draw(t, "class"), Template: genText().Draw(t, "template"),
			Ask: genAsks().Draw(t, "ask"), Taken: genCharges().Draw(t, "taken"), Moved: genCharges().Draw(t, "moved"),
			Passed: genAsks().Draw(t, "passed"), Refused: rapid.Bool().Draw(t, "refused"),
			RetryAt: genMillis().Draw(t, "retry_at"), Due: genMillis().Draw(t, "due"), States: genStates().Draw(t, "states"),
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
		if own, ok := ownRound(string(text)); ok && !reflect.DeepEqual(own, &want) {
			t.Fatalf("%s\nread as its own as %+v\nwant    %+v", text, own, &want)
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

// TestOwnText: what is written as stages write it is read without the JSON
// reader, and nothing else is.
func TestOwnText(t *testing.T) {
	read := 0
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9=,%+.-]{0,20}`)
		moment := rapid.Int64Range(1, 4_102_444_799_999)
		var charges []Charge
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			charges = append(charges, Charge{name.Draw(t, "limit"), name.Draw(t, "scope"), Millis(moment.Draw(t, "t")), rapid.Int64Range(0, 1e17).Draw(t, "cost")})
		}
		text := AppendCharges(nil, charges)
		got, ok := ownCharges(string(text))
		if !ok || !reflect.DeepEqual(got, charges) {
			t.Fatalf("%s: %v, %+v", text, ok, got)
		}
		o := &Round{For: "retry", Revision: 7, Home: true, HomeRevision: 6, Last: true, Segments: 2, Cost: 4, Channel: ChannelSMS, Class: "code", Template: "hi", Ask: []Ask{{"a", "", 1, 0}, {"b", "tenant=x", 2, Millis(moment.Draw(t, "t"))}}, Taken: charges, Moved: charges}
		text = AppendRound(nil, o)
		if len(charges) == 0 {
			o.Taken, o.Moved = nil, nil
		}
		if own, ok := ownRound(string(text)); !ok || !reflect.DeepEqual(own, o) {
			t.Fatalf("%s: %v, %+v", text, ok, own)
		}
		// Broken anywhere, it is read as the JSON reader reads it, or not at all.
		i, c := rapid.IntRange(0, len(text)-1).Draw(t, "at"), rapid.SampledFrom([]byte("ax09,=\\\"}")).Draw(t, "byte")
		text[i] = c
		if own, ok := ownRound(string(text)); ok {
			read++
			want, err := DecodeRound(text)
			if err != nil || !reflect.DeepEqual(own, want) {
				t.Fatalf("%s: read as its own as %+v, and as %+v, %v", text, own, want, err)
			}
		}
	})
	if read == 0 {
		t.Error("no broken text was ever read: the test breaks too much")
	}
}

// TestOwnTextKnowsAll: a field that is new in Round is one that stages write, and
// would be read the slow way. What a refusal adds, and a waiting caller, is left to it.
func TestOwnTextKnowsAll(t *testing.T) {
	o := Round{For: "f", Revision: 1, Home: true, HomeRevision: 2, Last: true, Segments: 3, Cost: 4, Channel: ChannelSMS, Class: "code", Template: "hi", Ask: []Ask{{"a", "", 1, 0}}, Taken: []Charge{{"a", "", 1, 1}}, Moved: []Charge{{"a", "", 1, 1}}, Passed: []Ask{{"a", "", 1, 0}}}
	v := reflect.ValueOf(o)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != slices.Contains([]string{"Evidence", "Refused", "RetryAt", "Due", "States"}, name) {
			t.Errorf("the test does not say what becomes of %s", name)
		}
	}
	if own, ok := ownRound(string(AppendRound(nil, &o))); !ok || !reflect.DeepEqual(*own, o) {
		t.Errorf("%v, %+v", ok, own)
	}
}

func genStates() *rapid.Generator[[]LimitState] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) LimitState {
		return LimitState{genText().Draw(t, "limit"), genText().Draw(t, "window"), rapid.Int64().Draw(t, "n"), rapid.Int64().Draw(t, "remaining"), genMillis().Draw(t, "reset"), rapid.Bool().Draw(t, "violated")}
	}), 0, 3)
}
