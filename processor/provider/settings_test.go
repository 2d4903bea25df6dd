package provider

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// TestSettings are read with their forms, and the first mistake is kept.
func TestSettings(t *testing.T) {
	getenv := func(name string) string { return map[string]string{"KEY": "s3cret"}[name] }
	read := func(all map[string]any) (*Settings, []any) {
		s := SettingsOf(schemas.Provider{Settings: all}, getenv)
		return s, []any{s.Required("user", "a name"), s.Text("key", ""), s.OneOf("form", "a", "b"), s.Flag("on", true), s.Int("n", 10, 1, 99), s.Duration("every", 30*time.Second, time.Second, time.Minute), s.Written("port", "25")}
	}
	for _, tt := range []struct {
		name string
		all  map[string]any
		want []any
		err  string
	}{
		{"all absent but one", map[string]any{"user": "u"}, []any{"u", "", "a", true, 10, 30 * time.Second, "25"}, ""},
		{"all there", map[string]any{"user": "u", "key": "${KEY}", "form": "b", "on": false, "n": 5, "every": "10s"}, []any{"u", "s3cret", "b", false, 5, 10 * time.Second, "25"}, ""},
		{"a number of JSON", map[string]any{"user": "u", "n": float64(7)}, []any{"u", "", "a", true, 7, 30 * time.Second, "25"}, ""},
		{"a number kept as text", map[string]any{"user": "u", "n": json.Number("7")}, []any{"u", "", "a", true, 7, 30 * time.Second, "25"}, ""},
		{"on", map[string]any{"user": "u", "on": "on"}, []any{"u", "", "a", true, 10, 30 * time.Second, "25"}, ""},
		{"off", map[string]any{"user": "u", "on": "off"}, []any{"u", "", "a", false, 10, 30 * time.Second, "25"}, ""},
		{"a number for text", map[string]any{"user": "u", "port": 587}, []any{"u", "", "a", true, 10, 30 * time.Second, "587"}, ""},
		{"a number of JSON for text", map[string]any{"user": "u", "port": 0.05}, []any{"u", "", "a", true, 10, 30 * time.Second, "0.05"}, ""},
		{"a number kept as text, for text", map[string]any{"user": "u", "port": json.Number("587")}, []any{"u", "", "a", true, 10, 30 * time.Second, "587"}, ""},
		{"text that may be a number", map[string]any{"user": "u", "port": "${KEY}"}, []any{"u", "", "a", true, 10, 30 * time.Second, "s3cret"}, ""},
		{"neither text nor a number", map[string]any{"user": "u", "port": true}, nil, "settings.port must be text"},
		{"missing", nil, nil, "settings.user is missing: write a name"},
		{"no text", map[string]any{"user": 5}, nil, "settings.user must be text"},
		{"no secret", map[string]any{"user": "u", "key": "${NONE}"}, nil, "the environment has no NONE"},
		{"none of them", map[string]any{"user": "u", "form": "c"}, nil, "settings.form must be one of a, b"},
		{"no flag", map[string]any{"user": "u", "on": "yes"}, nil, "settings.on must be true or false, or on or off"},
		{"no whole number", map[string]any{"user": "u", "n": 7.5}, nil, "settings.n must be a whole number from 1 to 99"},
		{"too much", map[string]any{"user": "u", "n": 100}, nil, "settings.n must be a whole number from 1 to 99"},
		{"no duration", map[string]any{"user": "u", "every": 10}, nil, "settings.every must be a duration from 1s to 1m0s"},
		{"too long", map[string]any{"user": "u", "every": "2m"}, nil, "settings.every must be a duration from 1s to 1m0s"},
		{"not a setting", map[string]any{"user": "u", "pigeon": "u"}, nil, "settings.pigeon is not a setting of this type: it has user, key, form, on, n, every, port"},
		{"misspelt", map[string]any{"usr": "u"}, nil, "settings.usr is not a setting of this type; did you mean user? It has user, key, form, on, n, every, port"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, got := read(tt.all)
			err := s.Err()
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Errorf("value %d is %v, want %v", i, got[i], tt.want[i])
				}
			}
		})
	}
}

// TestStated: what would come from where the provider is called counts as given, and
// everything that stands in the policy itself is judged.
func TestStated(t *testing.T) {
	read := func(all map[string]any) []string {
		in := Stated(schemas.Provider{Settings: all})
		if host := in.Required("host", "a name"); host != "here" && !in.Withheld("host") {
			in.Fail("host", "is not here")
		}
		in.TextOr("region", "REGION")
		if in.Text("region", "") == "" {
			in.Fail("region", "is missing")
		}
		in.OneOf("form", "a", "b")
		in.Int("n", 1, 1, 9)
		if sign := in.Under("sign", "{secret: x}"); sign != nil {
			if len(sign.Required("secret", "a secret")) < 30 {
				sign.Fail("secret", "is too short")
			}
		}
		var out []string
		for _, m := range in.mistakes() {
			out = append(out, m.setting)
		}
		return out
	}
	for _, tt := range []struct {
		name string
		all  map[string]any
		want []string
	}{
		{"as it should be", map[string]any{"host": "here", "region": "r", "sign": map[string]any{"secret": "0123456789012345678901234567890"}}, nil},
		{"all from elsewhere", map[string]any{"host": "${HOST}", "region": "file:/r", "form": "${FORM}", "sign": map[string]any{"secret": "x${SECRET}"}}, nil},
		{"what the environment may have", map[string]any{"host": "here"}, nil},
		{"several mistakes, and the first of each", map[string]any{"host": "", "form": "c", "sign": map[string]any{"secret": ""}}, []string{"host", "form", "sign.secret"}},
		{"a number from elsewhere", map[string]any{"host": "here", "n": "${N}"}, []string{"n"}},
		{"names that are none, before the rest", map[string]any{"hots": "${HOST}", "sign": map[string]any{"secret": 5, "key": "x"}}, []string{"hots", "sign.key", "host", "sign.secret"}},
		{"no mapping", map[string]any{"host": "here", "sign": "x"}, []string{"sign"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := read(tt.all); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
