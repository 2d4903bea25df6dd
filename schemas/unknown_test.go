package schemas

import (
	"strings"
	"testing"
)

// TestUnknownFieldsAreNamed: what is not plain is never repeated, the names are bounded,
// and a rejection says what was probably meant.
func TestUnknownFieldsAreNamed(t *testing.T) {
	for name, want := range map[string]string{
		"clas": "clas", "expire_at": "expire_at", "X-Trace": "X-Trace", "": OtherField, "+8613800000000": OtherField, "p8613800000000": OtherField,
		"ann@example.com": OtherField, "a b": OtherField, "ü": OtherField, "token_0192f0c12a3b7c4d": OtherField, strings.Repeat("a", 41): OtherField,
	} {
		q := &Request{}
		if q.Ignored(name); q.Unknown[0] != want {
			t.Errorf("%q is named %q", name, q.Unknown[0])
		}
	}
	q, err := DecodeRequest([]byte(`{"clas":1,"clas":2,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1}`), nil)
	if err != nil || len(q.Unknown) != maxUnknown {
		t.Fatal(q, err)
	}
	if err := q.KnowsFields(); err == nil || !strings.Contains(err.Error(), "/clas: is not a field of a request; did you mean class?") {
		t.Error(err)
	}
	_, err = DecodeRequestStrict([]byte(`{"expire_at":1}`))
	if err == nil || !strings.Contains(err.Error(), "did you mean expires_at?") {
		t.Error(err)
	}
	q, err = DecodeRequest([]byte(`{"type":"suppress","acton":"suppress","to":"+8613800000000","channel":"sms"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err = q.Validate(1); err == nil || !strings.Contains(err.Error(), "/body: is required") || !strings.Contains(err.Error(), "; /acton: is not a field of a request; did you mean action?") {
		t.Error("what is missing is misspelt:", err)
	}
	optOut := &Request{Action: ActionSuppress, Unknown: []string{"clas"}}
	if err := optOut.KnowsFields(); err != nil {
		t.Error("an opt-out is lost:", err)
	}
}
