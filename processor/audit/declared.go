package audit

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// declared judges by the revision in force whether a message was rejected for its class
// or its fields, or was not: where the class "default" rejects classes that nobody
// declared, and where the tenant is strict. What was let in once is not held to it
// again, and an action other than a message has no class of its own.
func (p *partition) declared(in *kgo.Record, env *schemas.Envelope) {
	e, pol := p.e, p.rules.policy
	rejected := e.Decision.Verdict == schemas.VerdictReject
	forClass, forField := rejected && e.Reason == schemas.ReasonUnknownClass, rejected && e.Reason == schemas.ReasonUnknownField
	came := !p.blind && (env == nil || env.Round == nil && (env.Reason == schemas.ReadmitForward || env.Reason == schemas.ReadmitRedrive))
	switch e.Decision.Verdict {
	case schemas.VerdictAdmit, schemas.VerdictRefuse, schemas.VerdictDefer, schemas.VerdictCharge:
		if !came {
			return
		}
	default:
		if !forClass && !forField {
			return
		}
	}
	if p.revision < 0 {
		p.cannotTell("classes and fields under a revision that is not known")
		return
	}
	closed := slices.ContainsFunc(pol.Classes, func(c schemas.Class) bool {
		return c.Name == schemas.DefaultClass && c.Unknown == schemas.UnknownReject
	})
	known := e.Class == schemas.DefaultClass || slices.ContainsFunc(pol.Classes, func(c schemas.Class) bool { return c.Name == e.Class })
	switch unknown := closed && !known; {
	case forClass && !unknown:
		p.fault(KindUnknown, "rejected for its class %s, which the policy does not reject", e.Class)
	case !rejected && unknown:
		p.fault(KindUnknown, "%s, and the policy rejects its class %s, which nobody declared", e.Decision.Verdict, e.Class)
	}
	strict := slices.ContainsFunc(pol.Tenants, func(t schemas.Tenant) bool { return t.Name == e.Tenant && t.Strict })
	if !strict {
		if forField {
			p.fault(KindUnknown, "rejected for a field that Weir does not know, and tenant %s is not strict", e.Tenant)
		}
		return
	}
	req := p.request(in)
	if req == nil {
		return // the record is gone
	}
	switch unknown := len(req.Unknown) > 0 && req.Action != schemas.ActionSuppress; {
	case forField && !unknown:
		p.fault(KindUnknown, "rejected for a field that Weir does not know, and its request has none, or is an opt-out")
	case !rejected && unknown:
		p.fault(KindUnknown, "%s, and its request has a field that Weir does not know, of a strict tenant", e.Decision.Verdict)
	}
}
