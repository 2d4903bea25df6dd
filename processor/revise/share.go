package revise

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/schemas"
)

// All entries of a policy share one record of weir.config, and the windows of all its
// limits share one marker. Keys of a tenant may add entries of the tenant, so two bounds
// hold for their edits, and for no one else's:
//
//	bytes of the tenant's own entries ≤ its policy_bytes
//	bytes of all, and of the marker   ≤ three quarters of what is possible
//
// The first keeps a tenant from taking the room of others. The second keeps room for
// the operator where many tenants take all of theirs.
//
// Each revision is a whole policy, which weir.config and every process keep. So a tenant's
// keys make at most shareRevisions of them within shareTime, rotations too.
//
// An edit that does not make the tenant's entries larger passes, whatever they take. A
// key counts as if it was just rotated, so a rotation never makes them larger.

// ErrShare is in the error of an edit by a key of a tenant that would take more room in
// the policy than such edits may.
var ErrShare = errors.New("the tenant's share of the policy is used up")

const (
	shareTime      = 24 * time.Hour
	shareRevisions = 500
)

// madeBy counts the revisions up to newest that keys of the tenant made within shareTime.
func madeBy(ctx context.Context, w *policy.Watcher, newest int64, tenant string) (made int, err error) {
	since := schemas.MillisOf(time.Now().Add(-shareTime))
	before := &schemas.Policy{}
	for n := newest; n >= 1; n-- {
		rev, err := w.Get(ctx, n) // read already: it does not wait
		if err != nil || rev.At <= since {
			return made, err
		}
		if n > 1 {
			parent, err := w.Get(ctx, n-1)
			if err != nil {
				return 0, err
			}
			before = &parent.Policy
		}
		name, isKey := strings.CutPrefix(rev.By, ByKey)
		if i := keyIndex(before, name); isKey && i >= 0 && before.Keys[i].Tenant == tenant {
			made++
		}
	}
	return made, nil
}

// For returns an editor for the edits of a tenant's keys.
func (e *Editor) For(tenant string) *Editor {
	some := *e
	some.tenant = tenant
	return &some
}

// share refuses an edit by a key of the tenant that takes more room than it may.
func (r *Result) share(tenant string, t schemas.Millis) error {
	if r.made >= shareRevisions {
		return fmt.Errorf("%w: %w: keys of the tenant %s made %d changes of the policy in the last 24 hours, and more are not possible; the operator can make this one", ErrRefused, ErrShare, tenant, r.made)
	}
	have, next := r.From.Policy.Of(tenant), r.Next.Of(tenant)
	is := r.room(next, t)
	if is <= r.room(have, t) {
		return nil
	}
	own, _ := r.From.Policy.Tenant(tenant)
	if most := cmp.Or(own.PolicyBytes, schemas.DefaultPolicyBytes); int64(is) > most {
		return fmt.Errorf("%w: %w: the own entries of the tenant %s would take %d bytes, and edits by its keys may make them take at most %d; that is its policy_bytes, which the operator sets", ErrRefused, ErrShare, tenant, is, most)
	}
	const most = schemas.MaxPolicyBytes / 4 * 3
	if n := policyBytes(r.Next); n > most {
		return fmt.Errorf("%w: %w: the whole policy would take %d bytes, and edits by tenants' keys may make it take at most %d; the rest is kept for the operator", ErrRefused, ErrShare, n, most)
	}
	if n := r.course.MarkerBytes(r.Next, t); n > maxMarkerBytes/4*3 {
		return fmt.Errorf("%w: %w: since when each window of the whole policy counts would take %d bytes of a record, and edits by tenants' keys may make it take at most %d; the rest is kept for the operator", ErrRefused, ErrShare, n, maxMarkerBytes/4*3)
	}
	return nil
}

// room is how many bytes entries take: as text, and in the marker, which also has the
// windows that were removed in the last 24 hours.
func (r *Result) room(p *schemas.Policy, t schemas.Millis) int {
	return policyBytes(p) + r.course.MarkerBytes(p, t)
}

// policyBytes is the length of a policy as JSON with every key just rotated.
func policyBytes(p *schemas.Policy) int {
	rotated := *p
	rotated.Keys = slices.Clone(p.Keys)
	for i := range rotated.Keys {
		rotated.Keys[i].Previous = &schemas.PreviousKey{Hash: rotated.Keys[i].Hash, ExpiresAt: 1}
	}
	text, err := json.Marshal(&rotated)
	if err != nil {
		return schemas.MaxPolicyBytes // a valid policy can be written
	}
	return len(text)
}
