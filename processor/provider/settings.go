package provider

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/schemas"
)

// Settings reads a provider's settings one by one and keeps the first mistake,
// which Err returns. What was not asked for is not a setting of the type, so
// whatever is wrong, all of them are asked for before Err. Errors never hold a
// value: it may be a secret.
type Settings struct {
	all    map[string]any
	getenv func(string) string
	asked  []string
	err    error
}

// SettingsOf begins to read p's settings.
func SettingsOf(p schemas.Provider, getenv func(string) string) *Settings {
	return &Settings{all: p.Settings, getenv: getenv}
}

// Err refuses settings that nobody asked for, and is otherwise the first mistake: of
// a setting whose name is misspelt, that says more than that it is missing.
func (s *Settings) Err() error {
	if err := Known(s.all, s.asked...); err != nil {
		return err
	}
	return s.err
}

// Others names settings that are read elsewhere, or not at all here.
func (s *Settings) Others(names ...string) {
	for _, name := range names {
		s.Any(name)
	}
}

// Fail adds a mistake that the caller found.
func (s *Settings) Fail(name, format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("settings."+name+" "+format, args...)
	}
}

// Any returns a setting as it was written; nil when absent.
func (s *Settings) Any(name string) any {
	if !slices.Contains(s.asked, name) {
		s.asked = append(s.asked, name)
	}
	return s.all[name]
}

// Text returns text with ${NAME} and file:PATH resolved; otherwise when absent.
func (s *Settings) Text(name, otherwise string) string {
	v := s.Any(name)
	if v == nil {
		return otherwise
	}
	text, ok := v.(string)
	if !ok {
		s.Fail(name, "must be text")
		return otherwise
	}
	text, err := Resolve(name, text, s.getenv)
	if err != nil && s.err == nil {
		s.err = err
	}
	return text
}

// Written is Text that may be written as a number too, such as a port or a price.
func (s *Settings) Written(name, otherwise string) string {
	switch v := s.Any(name).(type) {
	case int, int64, uint64, json.Number:
		return fmt.Sprint(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return s.Text(name, otherwise)
}

// Required is Text that may not be absent or empty; what says what to write.
func (s *Settings) Required(name, what string) string {
	text := s.Text(name, "")
	if text == "" {
		s.Fail(name, "is missing: write %s", what)
	}
	return text
}

// OneOf returns one of the given texts; the first of them when absent.
func (s *Settings) OneOf(name string, all ...string) string {
	text := s.Text(name, all[0])
	if !slices.Contains(all, text) {
		s.Fail(name, "must be one of %s", strings.Join(all, ", "))
	}
	return text
}

// Flag returns what is written as true or false, or as on or off, which YAML 1.2
// reads as text; otherwise when absent.
func (s *Settings) Flag(name string, otherwise bool) bool {
	switch s.Any(name) {
	case nil:
		return otherwise
	case true, "true", "on":
		return true
	case false, "false", "off":
		return false
	}
	s.Fail(name, "must be true or false, or on or off")
	return false
}

// Int returns a whole number from low to high; otherwise when absent.
func (s *Settings) Int(name string, otherwise, low, high int) int {
	v := s.Any(name)
	if v == nil {
		return otherwise
	}
	n, ok := whole(v)
	if !ok || n < low || n > high {
		s.Fail(name, "must be a whole number from %d to %d", low, high)
		return otherwise
	}
	return n
}

// whole reads a number as the decoders of policies give it.
func whole(v any) (int, bool) {
	switch n := v.(type) {
	case int:
		return n, true
	case int64:
		return int(n), true
	case uint64:
		return int(n), n <= math.MaxInt32
	case float64:
		return int(n), n == math.Trunc(n) && math.Abs(n) <= math.MaxInt32
	case json.Number:
		i, err := strconv.Atoi(n.String())
		return i, err == nil
	}
	return 0, false
}

// Duration returns a duration such as 30s from low to high; otherwise when absent.
func (s *Settings) Duration(name string, otherwise, low, high time.Duration) time.Duration {
	v := s.Any(name)
	if v == nil {
		return otherwise
	}
	text, _ := v.(string)
	d, err := schemas.ParseDuration(text)
	if err != nil || time.Duration(d) < low || time.Duration(d) > high {
		s.Fail(name, "must be a duration from %v to %v", low, high)
		return otherwise
	}
	return time.Duration(d)
}
