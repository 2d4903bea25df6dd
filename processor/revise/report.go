package revise

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Report says what an edit changed, or in a dry run would change.
type Report struct {
	Revision  int64            `json:"revision"` // in force at the end
	DryRun    bool             `json:"dry_run,omitempty"`
	Changes   []schemas.Change `json:"changes"`
	Unchanged int              `json:"unchanged"` // resources
	// Kept are those of the unchanged that a file does not have, as "limit verify".
	Kept    []string        `json:"kept,omitempty"`
	Warming []limit.Warming `json:"warming,omitempty"`
	Lost    []limit.Loss    `json:"lost,omitempty"` // history that limits lose by it
	// Warnings are what the policy says that is hardly meant.
	Warnings []string     `json:"warnings,omitempty"`
	Topics   *topics.Diff `json:"topics,omitempty"` // what a dry run would create

	At schemas.Millis `json:"-"` // when it comes into force
	// Unroutable are channels whose messages would all be rejected (no_route).
	Unroutable []schemas.Channel `json:"unroutable,omitempty"`
}

// Report compares both ends of the edit. A dry run, which has no end, is as if
// it came into force at now.
func (r *Result) Report(dryRun bool, now time.Time) *Report {
	out := &Report{
		Revision: r.Now.Revision,
		DryRun:   dryRun,
		Changes:  schemas.DiffPolicy(&r.From.Policy, r.Next),
	}
	if out.Changes == nil {
		out.Changes = []schemas.Change{}
	}
	touched := 0
	for _, c := range out.Changes {
		if c.Op != schemas.ChangeRemove && c.Kind != schemas.SettingsKind {
			touched++
		}
	}
	for _, kind := range schemas.ResourceKinds {
		out.Unchanged += len(r.Next.Names(kind))
	}
	out.Unchanged -= touched
	at := schemas.MillisOf(now)
	if !dryRun {
		at = r.Now.At
	}
	out.At, out.Warnings = at, slices.Concat(r.Next.Warnings(), r.revived(schemas.MillisOf(now)))
	if len(out.Changes) > 0 {
		out.Warming, out.Lost = r.course.Warming(r.Next, at), r.course.Lost(r.Next, at)
		out.Unroutable = route.Unroutable(&r.From.Policy, r.Next)
	}
	if dryRun && !r.Topics.Empty() {
		out.Topics = &r.Topics
	}
	return out
}

// revived warns of keys whose secrets were revoked, or replaced by a rotation, and work again.
func (r *Result) revived(now schemas.Millis) (warnings []string) {
	for i := range r.Next.Keys {
		k := &r.Next.Keys[i]
		if r.ended[k.Hash] || k.Previous != nil && k.Previous.ExpiresAt > now && r.ended[k.Previous.Hash] {
			warnings = append(warnings, fmt.Sprintf("key %s: a secret of it was revoked or replaced before, and works again with this policy; if that is not meant: weir keys rotate %s, or weir keys revoke %s", k.Name, k.Name, k.Name))
		}
	}
	return warnings
}

// secretsOf are the hashes of the secrets that a policy has, but for those that a rotation replaced and
// whose overlap is over by now.
func secretsOf(p *schemas.Policy, now schemas.Millis) map[string]bool {
	all := make(map[string]bool)
	for i := range p.Keys {
		all[p.Keys[i].Hash] = true
		if prev := p.Keys[i].Previous; prev != nil && prev.ExpiresAt > now {
			all[prev.Hash] = true
		}
	}
	delete(all, "")
	return all
}
