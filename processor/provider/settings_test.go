package provider

import (
	"encoding/json"
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
		{"not a setting", map[string]any{"user": "u", "usr": "u"}, nil, "settings.usr is not a setting of this type: it has user, key, form, on, n, every, port"},
		{"misspelt", map[string]any{"usr": "u"}, nil, "settings.usr is not a setting of this type: it has user, key, form, on, n, every, port"},
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
