package schemas

import (
	"reflect"
	"slices"
	"time"
)

// LegacyWindows are the lengths that a limit of the legacy API can have, each
// once: its requestsPerSecond, requestsPerMinute and requestsPerHour.
var LegacyWindows = []time.Duration{time.Second, time.Minute, time.Hour}

// Off reports whether the limit limits nobody: its mode is off, or the legacy API
// has given it no number.
func (l *Limit) Off() bool { return l.Mode == ModeOff || l.LegacyID != 0 && len(l.Allow) == 0 }

// legacy checks a limit that the legacy API shows: it must be one that this can
// say in full.
func (c *checker) legacy(l *Limit, path string) {
	for j := range c.policy.Limits {
		if o := &c.policy.Limits[j]; o == l {
			break
		} else if o.LegacyID == l.LegacyID {
			c.failf(path+".legacy_id", "%d is also %s's: each limit has its own, such as %d", l.LegacyID, itemPath("limits", j), l.LegacyID+1)
			break
		}
	}
	const hint = "take legacy_id out, or write a limit that the legacy API can show, such as {per: [], allow: [10/1s, 500/60s], legacy_id: 1}"
	m := l.Match
	m.Provider = nil
	switch all := len(l.Match.Provider) == 0 && l.Per != nil && len(l.Per) == 0; {
	case !reflect.ValueOf(m).IsZero() || !all && !(len(l.Match.Provider) == 1 && slices.Equal(l.Per, []string{"provider"})):
		c.failf(path+".legacy_id", "the legacy API has limits for all, and for one provider with per: [provider] and match: {provider: NAME}: %s", hint)
	case !all:
		if v, ok := c.policy.Provider(l.Match.Provider[0]); ok && v.LegacyID == 0 {
			c.failf(path+".legacy_id", "the legacy API knows a provider by its legacy_id, and %s has none: give it one, such as legacy_id: 1", v.Name)
		}
	}
	for i, w := range l.Allow {
		if w.check() == nil && (w.Kind != WindowRolling || !slices.Contains(LegacyWindows, w.Length)) {
			c.failf(itemPath(path+".allow", i), "%s is no window of a second, a minute or an hour: %s", w, hint)
		}
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"mode", l.Mode == ModeObserve}, {"on_refusal", l.OnRefusal == RefusalDefer}, {"count", l.Count != "" && l.Count != CountMessage},
		{"timezone", l.Timezone != ""}, {"exempt", len(l.Exempt) > 0}, {"overrides", len(l.Overrides) > 0},
	} {
		if f.set {
			c.failf(path+"."+f.name, "is nothing that the legacy API can show: %s", hint)
		}
	}
}
