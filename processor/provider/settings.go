package provider

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/secret"
	"github.com/weirhq/weir/schemas"
)

// Settings reads a provider's settings one by one and keeps what is wrong with them,
// which Err returns. What was not asked for is not a setting of the type, so whatever
// is wrong, all of them are asked for before Err. Errors never hold a value: it may be
// a secret.
type Settings struct {
	Provider schemas.Provider // whose they are
	all      map[string]any
	within   string // sign. of what stands in settings.sign
	getenv   func(string) string
	secrets  secret.Bounds
	private  outbound.Networks
	stated   bool
	asked    []string
	under    []*Settings
	notes    *notes // those under it write into the same
}

type notes struct {
	mistakes []mistake
	withheld []string
}

// mistake is what is wrong with a setting: the first that was found.
type mistake struct {
	setting string // sign.header
	err     error  // begins with settings. and the setting
}

// Settings begins to read p's settings.
func (deps Deps) Settings(p schemas.Provider) *Settings {
	s := SettingsOf(p, deps.Getenv)
	s.secrets, s.private = deps.Secrets, deps.Private
	return s
}

// Dialer makes the connections to the provider: to public addresses, and to those of
// the networks that the operator opened. Each address that a name resolves to is
// judged right before it is connected to.
func (s *Settings) Dialer() net.Dialer {
	return net.Dialer{KeepAlive: 15 * time.Second, Control: s.private.Control}
}

// SettingsOf begins to read p's settings where no secret has bounds.
func SettingsOf(p schemas.Provider, getenv func(string) string) *Settings {
	return &Settings{Provider: p, all: p.Settings, getenv: getenv, notes: new(notes)}
}

// Stated begins to read p's settings where nobody calls the provider, as when the policy
// is applied: no environment is asked and no file read. What would come from there
// counts as given, and nothing that is found wrong with it is a mistake.
func Stated(p schemas.Provider) *Settings {
	return &Settings{Provider: p, all: p.Settings, stated: true, notes: new(notes)}
}

// Stated reports whether nobody calls the provider here: what the process that does
// would add of its own is not known.
func (s *Settings) Stated() bool { return s.stated }

// Err refuses settings that nobody asked for, and is otherwise the first mistake: of
// a setting whose name is misspelt, that says more than that it is missing.
func (s *Settings) Err() error {
	if all := s.mistakes(); len(all) > 0 {
		return all[0].err
	}
	return nil
}

func (s *Settings) mistakes() []mistake { return append(s.unknown(), s.notes.mistakes...) }

func (s *Settings) unknown() (out []mistake) {
	for _, k := range s.Names() {
		if !slices.Contains(s.asked, k) {
			name := s.within + k
			it := ": it"
			if guess := schemas.DidYouMean(k, s.asked); guess != "." {
				it = guess + " It"
			}
			out = append(out, mistake{name, fmt.Errorf("settings.%s is not a setting of this type%s has %s", name, it, strings.Join(s.asked, ", "))})
		}
	}
	for _, u := range s.under {
		out = append(out, u.unknown()...)
	}
	return out
}

// Names are those of the settings that are there, sorted.
func (s *Settings) Names() []string { return slices.Sorted(maps.Keys(s.all)) }

// Others names settings that are read elsewhere, or not at all here.
func (s *Settings) Others(names ...string) {
	for _, name := range names {
		s.Any(name)
	}
}

// Fail adds a mistake that the caller found in what stands at name. Only the first of
// one name is kept, and none where what stands there is not known: Withheld.
func (s *Settings) Fail(name, format string, args ...any) {
	if !s.Withheld(name) {
		s.note(name, fmt.Errorf("settings."+s.within+name+" "+format, args...))
	}
}

func (s *Settings) note(name string, err error) {
	name = s.within + name
	if !slices.ContainsFunc(s.notes.mistakes, func(m mistake) bool { return m.setting == name }) {
		s.notes.mistakes = append(s.notes.mistakes, mistake{name, err})
	}
}

// Withheld reports whether what stands at name comes from where the provider is
// called, and is not known here: Stated. Whoever concludes something about another
// setting from it has to ask.
func (s *Settings) Withheld(name string) bool {
	return slices.Contains(s.notes.withheld, s.within+name)
}

func (s *Settings) withhold(name string) {
	s.notes.withheld = append(s.notes.withheld, s.within+name)
}

// Any returns a setting as it was written; nil when absent.
func (s *Settings) Any(name string) any {
	if !slices.Contains(s.asked, name) {
		s.asked = append(s.asked, name)
	}
	return s.all[name]
}

// Under reads the mapping of a setting as settings of their own, whose mistakes are
// those of s too. It is nil when the setting is absent, or no mapping.
func (s *Settings) Under(name, example string) *Settings {
	v := s.Any(name)
	if v == nil {
		return nil
	}
	all, ok := v.(map[string]any)
	if !ok {
		s.Fail(name, "must be a mapping, such as %s", example)
		return nil
	}
	u := &Settings{Provider: s.Provider, all: all, within: s.within + name + ".", getenv: s.getenv, secrets: s.secrets, private: s.private, stated: s.stated, notes: s.notes}
	s.under = append(s.under, u)
	return u
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
	return s.Resolve(name, text)
}

// Resolve returns text that stands at name, such as headers.X-Key, with ${NAME} and
// file:PATH resolved; as it was written where it is withheld.
func (s *Settings) Resolve(name, text string) string {
	if s.stated {
		if secret.Refers(text) {
			s.withhold(name)
		}
		return text
	}
	text, err := s.secrets.Resolve("settings."+s.within+name, text, s.getenv)
	if err != nil {
		s.note(name, err)
	}
	return text
}

// TextOr is Text, or what a variable of the environment holds where the setting is
// absent or empty.
func (s *Settings) TextOr(name, variable string) string {
	text := s.Text(name, "")
	switch {
	case text != "":
		return text
	case s.stated:
		s.withhold(name)
		return ""
	}
	return s.getenv(variable)
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

// Word refuses the text of a setting that cannot stand in a header's list: one with a
// space, a comma or what is no printable ASCII.
func (s *Settings) Word(name, text string) {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }) {
		s.Fail(name, "holds what cannot stand in a header, such as a space")
	}
}

// OneOf returns one of the given texts; the first of them when absent or withheld.
func (s *Settings) OneOf(name string, all ...string) string {
	text := s.Text(name, all[0])
	if s.Withheld(name) {
		return all[0]
	}
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
