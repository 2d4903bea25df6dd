package schemas

import (
	"encoding/hex"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// Every field of a request changes the hash, but the three that the hash says
// it leaves out: a new field must be one or the other.
func TestContentHashCoversEveryField(t *testing.T) {
	without := map[string]bool{"To": true, "ID": true, "IdempotencyKey": true}
	base := ContentHash(&Request{})
	seen := map[[16]byte]string{base: "nothing"}
	for field := range reflect.TypeFor[Request]().Fields() {
		q := &Request{}
		v := reflect.ValueOf(q).Elem().FieldByIndex(field.Index)
		if field.Tag.Get("json") == "-" {
			continue // no part of what was sent
		}
		switch v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Int64, reflect.Int:
			v.SetInt(7)
		case reflect.Map:
			v.Set(reflect.ValueOf(map[string]string{"k": "x"}))
		default:
			t.Fatalf("%s is a %s", field.Name, v.Kind())
		}
		h := ContentHash(q)
		if without[field.Name] {
			if h != base {
				t.Errorf("%s changes the hash", field.Name)
			}
			continue
		}
		if twin, ok := seen[h]; ok {
			t.Errorf("%s hashes as %s does", field.Name, twin)
		}
		seen[h] = field.Name
	}
}

func TestContentHash(t *testing.T) {
	hash := func(body string) [16]byte {
		t.Helper()
		q, err := DecodeRequestStrict([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return ContentHash(q)
	}
	tests := []struct {
		name, a, b string
		same       bool
	}{
		{"order and space", `{"to":"a","body":"b","vars":{"x":"1","y":"2"}}`, ` { "vars":{"y":"2","x":"1"},"body":"\u0062","to":"a"}`, true},
		{"defaults", `{"body":"b"}`, `{"body":"b","tenant":"default","class":"default"}`, true},
		{"spellings of a recipient", `{"to":"+8613812345678"}`, `{"to":"138 1234 5678"}`, true},
		{"numbers in vars", `{"vars":{"x":1}}`, `{"vars":{"x":"1"}}`, true},
		{"zones", `{"send_at":"2026-11-22T01:00:00Z"}`, `{"send_at":"2026-11-22T09:00:00+08:00"}`, true},
		{"a cost of one", `{"cost":1}`, `{}`, true},
		{"cost", `{"cost":2}`, `{"cost":3}`, false},
		{"some cost", `{"cost":2}`, `{}`, false},
		{"body", `{"body":"a"}`, `{"body":"b"}`, false},
		{"body is not html", `{"body":"a"}`, `{"html":"a"}`, false},
		{"borders of pairs", `{"vars":{"a":"bc"}}`, `{"vars":{"ab":"c"}}`, false},
		{"pairs of other maps", `{"vars":{"a":"b"}}`, `{"data":{"a":"b"}}`, false},
		{"text that looks like a field", `{"subject":"a\u0008\u0001b"}`, `{"subject":"a","body":"b"}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if (hash(tt.a) == hash(tt.b)) != tt.same {
				t.Errorf("same is %v", !tt.same)
			}
		})
	}
}

// A request that a program made, and did not read, may say a cost of 1.
func TestContentHashOfACostOfOne(t *testing.T) {
	if ContentHash(&Request{Cost: 1}) != ContentHash(&Request{}) {
		t.Error("it is another request")
	}
}

// Hashes stand in topics for a day: a version that hashes otherwise refuses
// the repeats of the version before it.
func TestContentHashIsPinned(t *testing.T) {
	q, err := DecodeRequestStrict([]byte(benchRequest))
	if err != nil {
		t.Fatal(err)
	}
	h := ContentHash(q)
	if got, want := hex.EncodeToString(h[:]), "966524046f39a3df4060a209461e0e65"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestContentHashFollowsContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genRequest().Draw(t, "a"), genRequest().Draw(t, "b")
		plain := func(q Request) string {
			q.To, q.ID, q.IdempotencyKey = "", "", ""
			if q.Tenant == "" {
				q.Tenant = DefaultTenant
			}
			if q.Class == "" {
				q.Class = DefaultClass
			}
			return string(RequestJSON(&q))
		}
		if same := plain(*a) == plain(*b); same != (ContentHash(a) == ContentHash(b)) {
			t.Fatalf("same content is %v, same hash is %v", same, !same)
		}
	})
}
