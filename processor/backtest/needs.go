package backtest

import (
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// needs says what of a message the limits of a policy look at, beyond what its
// decisions say.
type needs struct {
	metadata []string
	content  bool
	country  bool
	cost     bool
}

func needsOf(p *schemas.Policy) (n needs) {
	for i := range p.Limits {
		l := &p.Limits[i]
		if l.Off() {
			continue
		}
		n.country = n.country || len(l.Match.Country) > 0 || slices.Contains(l.Per, "country")
		n.cost = n.cost || l.Count == schemas.CountCost
		n.content = n.content || slices.Contains(l.Per, "content")
		for field := range l.Match.Metadata {
			n.metadata = append(n.metadata, field)
		}
		for _, per := range l.Per {
			if field, ok := strings.CutPrefix(per, "metadata."); ok {
				n.metadata = append(n.metadata, field)
			}
		}
	}
	slices.Sort(n.metadata)
	n.metadata = slices.Compact(n.metadata)
	return n
}

// requests reports whether the requests themselves must be read.
func (n *needs) requests() bool { return n.content || len(n.metadata) > 0 }

// stored reports whether the decisions that ClickHouse has will do: they say nothing of a
// request but what its events say, and not its cost.
func (n *needs) stored() bool { return !n.requests() && !n.cost }

const (
	minute = schemas.Millis(time.Minute / time.Millisecond)
	hour   = 60 * minute
	day    = 24 * hour
)

// longest returns how far back the windows of a policy's limits look.
func longest(p *schemas.Policy) (most schemas.Millis) {
	look := func(allow []schemas.Window) {
		for _, w := range allow {
			length := schemas.Millis(0)
			switch w.Kind {
			case schemas.WindowRolling:
				length = schemas.Millis(w.Length.Milliseconds())
			case schemas.WindowBucket:
				// What is in it may be as old as it was last full, and most are by night.
				length = max(schemas.Millis((w.N*w.RefillEvery+w.RefillTokens-1)/w.RefillTokens), day)
			case schemas.WindowCalendar:
				length = map[string]schemas.Millis{"minute": minute, "hour": 2 * hour, "day": 26 * hour, "month": 31*day + 2*hour}[w.Unit]
			}
			most = max(most, length)
		}
	}
	for i := range p.Limits {
		if l := &p.Limits[i]; !l.Off() {
			look(l.Allow)
			for _, o := range l.Overrides {
				look(o.Allow)
			}
		}
	}
	return most
}

// buckets reports whether a policy has any.
func buckets(p *schemas.Policy) bool {
	is := func(allow []schemas.Window) bool {
		return slices.ContainsFunc(allow, func(w schemas.Window) bool { return w.Kind == schemas.WindowBucket })
	}
	return slices.ContainsFunc(p.Limits, func(l schemas.Limit) bool {
		return !l.Off() && (is(l.Allow) || slices.ContainsFunc(l.Overrides, func(o schemas.Override) bool { return is(o.Allow) }))
	})
}

// knownLimits returns the wide limits of tried that the policy in force counts
// in the same scopes under the same name.
func knownLimits(tried, inForce *schemas.Policy) map[string]bool {
	out := map[string]bool{}
	for i := range tried.Limits {
		for j := range inForce.Limits {
			a, b := &tried.Limits[i], &inForce.Limits[j]
			if a.Name == b.Name && !a.Off() && !b.Off() && sameSet(a.Per, b.Per) && limit.SameMailboxes(a, inForce, tried) {
				out[a.Name] = true
			}
		}
	}
	return out
}

func sameSet(a, b []string) bool {
	sorted := func(v []string) []string { v = slices.Clone(v); slices.Sort(v); return slices.Compact(v) }
	return slices.Equal(sorted(a), sorted(b))
}
