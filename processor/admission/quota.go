package admission

import (
	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// reasonQuota is the reason of the decision on a question for what is left.
const reasonQuota = "quota"

// quota answers what is left in the scopes that a record names: exactly as of its
// place in the partition's log. It changes nothing, and is a decision since every
// record has one. What the revision in force here does not have, or what stands
// elsewhere, is left out of the answer. So it is with what the recipient has opted
// out of, where that is asked for.
func (p *partition) quota(in *input) outcome {
	q, err := schemas.DecodeQuotaAsk(in.value)
	if err != nil || !in.env.Inquires() {
		in.foreign = true
		return p.foreign(in)
	}
	m := p.read(in)
	m.event.Kind, m.event.Reason, m.event.Source = schemas.KindDecision, reasonQuota, nil
	m.event.Decision = p.stamp(schemas.VerdictNothing, &m.source)
	o := outcome{event: m.event}
	for _, s := range q.Scopes {
		to, key := "", s.Scope
		if !limit.Wide(s.Scope) {
			to, key = q.To, q.To
		}
		if schemas.PartitionOf(key, p.env.partitions) == p.num {
			o.limits = p.table.StatesIn(o.limits, p.cur.rules, s.Limit, s.Scope, to, p.cur.meta.T)
		}
	}
	if q.Of != "" && schemas.PartitionOf(q.To, p.env.partitions) == p.num {
		o.suppressed = p.suppressed.told(q.To, q.Of, p.cur.meta.T)
	}
	return o
}
