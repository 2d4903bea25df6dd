package audit

import (
	"fmt"

	"github.com/weirhq/weir/schemas"
)

// adopt takes up the rules of the revision in force.
func (p *partition) adopt() error {
	pol := &schemas.Policy{}
	if p.revision >= 0 {
		if pol = p.config.policy(p.revision); pol == nil {
			p.fault(KindMarker, "weir.config has no valid revision %d", p.revision)
			pol = &schemas.Policy{}
			p.revision = -1
		}
	}
	r, err := newRules(pol, p.since, p.t)
	if err != nil {
		return fmt.Errorf("revision %d: %w", p.revision, err)
	}
	p.rules = r
	return nil
}

// marker judges the switch to a revision.
func (p *partition) marker() error {
	d, m := p.e.Decision, p.e.Decision.Marker
	p.counts.Markers += p.one()
	if m == nil {
		p.fault(KindMarker, "a marker that says nothing")
		return nil
	}
	if m.Seq != d.Seq || m.T != d.T || m.Revision != d.Revision {
		p.fault(KindMarker, "it says revision %d, seq %d, t %s of itself, and stands under revision %d", m.Revision, m.Seq, m.T, d.Revision)
	}
	if m.Revision <= p.revision {
		p.fault(KindMarker, "revision %d comes into force after %d", m.Revision, p.revision)
	}
	next := p.config.policy(m.Revision)
	if next == nil {
		p.fault(KindMarker, "weir.config has no valid revision %d", m.Revision)
	} else if p.otherZones() {
		p.cannotTellZones("histories of windows at markers")
	} else if p.revision >= 0 {
		prev := p.since
		if !p.known { // take the marker's own word for what went on
			prev = m.Since
		}
		want := sinceOf(p.rules.policy, prev, next, d.T)
		for name, windows := range want {
			for unit, moment := range windows {
				if got, ok := m.Since[name][unit]; !ok || got != moment {
					p.fault(KindSince, "limit %s, window %s: its history counts from %s, and the rule gives %s", name, unit, got, moment)
				}
			}
		}
		for name, windows := range m.Since {
			for unit := range windows {
				if _, ok := want[name][unit]; !ok {
					p.fault(KindSince, "limit %s has no window %s", name, unit)
				}
			}
		}
	} else {
		p.cannotTell("markers whose former revision lies before the log")
	}
	p.revision, p.since, p.known = m.Revision, m.Since, true
	if p.rules != nil && next == nil {
		return nil
	}
	return p.adopt()
}
