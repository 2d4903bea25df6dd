package faultsim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/schemas"
)

// In a sixth of the cycles workers of one group have different time zones and numbering
// plans. A worker with the others reads policies from a topic of its own, with the same
// revisions: in them one zone's clocks show another time, and one tenant's national numbers
// are of another country. That is what it does to decisions when a zone's offset moves and a
// plan changes. Then each partition is decided by the data of its worker; nothing is over in
// rolling windows, lost or doubled; and the audit, which has one version, must name the
// other one, and neither prove the log nor object to it.

// others are the time zones and numbering plans of such a worker.
var others = admission.Data{Zones: "2026z", Phones: "other plans"}

const (
	zoneMoved   = "America/New_York"
	zoneThere   = "Asia/Kolkata" // hours begin at other moments
	tenantMoved = "moved"
	regionThere = "DE"
)

// hours is a limit that is full within a cycle, and whose period moves with the zone.
var hours = schemas.Limit{
	Name: "hours", Per: []string{"recipient"}, Timezone: zoneMoved,
	Allow: []schemas.Window{{Kind: schemas.WindowCalendar, Unit: "hour", N: 8}},
}

// mix adds to a policy what depends on the data.
func mix(p *schemas.Policy) {
	p.Limits = append(slices.Clone(p.Limits), hours)
}

// there is a policy as a worker with the other data understands it.
func there(p schemas.Policy) schemas.Policy {
	p.Limits, p.Tenants = slices.Clone(p.Limits), slices.Clone(p.Tenants)
	for i := range p.Limits {
		if p.Limits[i].Timezone == zoneMoved {
			p.Limits[i].Timezone = zoneThere
		}
	}
	for i := range p.Tenants {
		if p.Tenants[i].Name == tenantMoved {
			p.Tenants[i].DefaultRegion = regionThere
		}
	}
	return p
}

// configThere is the topic of those policies.
const configThere = "there.config"

// watchThere makes the topic, and begins to watch it.
func (c *cycle) watchThere(ctx context.Context) (err error) {
	if _, err = kadm.NewClient(c.cl).CreateTopic(ctx, 1, 1, nil, configThere); err == nil {
		c.there, err = policy.Watch(ctx, configThere, slog.New(slog.DiscardHandler), c.own()...)
	}
	return err
}

// nationals draws messages to numbers of the tenant whose plan changed.
func nationals(p *Plan) (all []send) {
	if !p.Mixed {
		return nil
	}
	r := rand.New(rand.NewPCG(p.Seed, 0x6e756d62))
	for i := range 6 + r.IntN(6) {
		at := time.Duration(r.Int64N(int64(p.Span)))
		q := schemas.Request{
			Channel: schemas.ChannelSMS, Class: []string{"verify", "notice"}[r.IntN(2)], Tenant: tenantMoved, Body: fmt.Sprintf("national %d", i),
			To: fmt.Sprintf(spellings[2+r.IntN(2)], 1+r.IntN(9)),
		}
		if r.IntN(3) == 0 {
			q.SendAt = schemas.MillisOf(p.Start.Add(at + time.Duration(r.IntN(15_000))*time.Millisecond))
		}
		all = append(all, place(r, p, send{at: at, message: true}, &q))
	}
	return all
}

// judgeMixed judges what the audit says of a group of two versions.
func (c *cycle) judgeMixed(r *audit.Report) {
	named := slices.ContainsFunc(r.Untold, func(u audit.Untold) bool { return strings.Contains(u.What, others.Zones) })
	switch {
	case r.Outcome == audit.Violated:
		c.fail("the audit of a group of two versions: %s %v", r.Outcome, r.Faults)
	case c.decidedThere.Load() && (r.Outcome != audit.CouldNotTell || !named):
		c.fail("a worker with other time zones and numbering plans decided, and the audit says %s, and names it: %v", r.Outcome, named)
	}
	if c.decidedThere.Load() {
		c.count(func(t *Tally) { t.Mixed++ })
	}
}
