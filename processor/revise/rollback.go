package revise

import (
	"fmt"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
)

// Rollback returns have with what decides about messages as an earlier policy has it:
// limits, classes, providers, routes, templates, and the settings beside them. Keys stay
// as they are, so no revoked secret works again and no new key ends; so do tenants,
// alerts and inputs. The error is ErrRefused where a channel would have no provider any
// more and that is not accepted, or a schemas.PolicyErrors: what comes back may refer to
// a tenant that is gone since.
func Rollback(have, to *schemas.Policy, accept bool) (*schemas.Policy, error) {
	next := *to
	next.Tenants, next.Keys, next.Alerts, next.Inputs = have.Tenants, have.Keys, have.Alerts, have.Inputs
	if err := Judge(&next); err != nil {
		return nil, err
	}
	if without := route.Unroutable(have, &next); len(without) > 0 && !accept {
		return nil, fmt.Errorf("%w: no provider would be left for %v, and all messages of that kind would be rejected (no_route)", ErrRefused, without)
	}
	return &next, nil
}
