package revise

import "github.com/weirhq/weir/schemas"

// Rollback returns have with what decides about messages as an earlier policy has it:
// limits, classes, providers, routes, templates, and the settings beside them. Keys stay
// as they are, so no revoked secret works again and no new key ends; so do tenants,
// alerts and inputs. The result need not be valid: what comes back may refer to a tenant
// that is gone since.
func Rollback(have, to *schemas.Policy) *schemas.Policy {
	next := *to
	next.Tenants, next.Keys, next.Alerts, next.Inputs = have.Tenants, have.Keys, have.Alerts, have.Inputs
	return &next
}
