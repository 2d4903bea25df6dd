package ingest

import (
	"cmp"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// fold makes the answer from the events of one message, in the order of the
// log. accepted is what this instance knows where there is no event yet; it
// may be nil if there are events.
func fold(id string, accepted *schemas.Event, events []*schemas.Event) *client.Message {
	m := &client.Message{ID: id, Status: schemas.StatusAccepted, Timeline: events}
	if len(events) == 0 {
		m.Timeline = []*schemas.Event{} // [] and not null
		describe(m, accepted)
		return m
	}
	at := events[0]
	for _, e := range events {
		describe(m, e)
		if e.Status.Rank() >= at.Status.Rank() {
			at = e
		}
	}
	m.Status, m.At, m.Reason = at.Status, at.At, at.Reason
	m.ErrorCode, m.Error = at.ErrorCode, at.Error
	m.Limit, m.Window, m.RetryAt = at.Limit, at.Window, at.RetryAt
	m.DuplicateOf = at.DuplicateOf
	return m
}

// describe takes over what a later step may know better.
func describe(m *client.Message, e *schemas.Event) {
	m.Tenant = cmp.Or(e.Tenant, m.Tenant)
	m.Channel = cmp.Or(e.Channel, m.Channel)
	m.Class = cmp.Or(e.Class, m.Class)
	m.Template = cmp.Or(e.Template, m.Template)
	m.To = cmp.Or(e.To, m.To)
	m.Attempt = max(m.Attempt, e.Attempt)
	m.AcceptedAt = cmp.Or(e.AcceptedAt, m.AcceptedAt)
	m.Provider = cmp.Or(e.Provider, m.Provider)
	m.ProviderMessageID = cmp.Or(e.ProviderMessageID, m.ProviderMessageID)
	m.Segments = cmp.Or(e.Segments, m.Segments)
	m.Cost = cmp.Or(e.Cost, m.Cost)
	m.RedriveOf = cmp.Or(e.RedriveOf, m.RedriveOf)
	m.Observed = m.Observed || e.Observed
}

// step tells one event of a message from another. What is stored keeps these.
type step struct {
	status  schemas.Status
	at      schemas.Millis
	attempt int
	reason  string
}

// join puts what the tail has behind what is stored. Both are in the order of
// the log, and the tail's are never older than what is stored and not in it:
// the store lags, and the tail has lost its beginning. Of a step that both have
// the tail's is taken, which has its decision.
func join(stored, tailed []*schemas.Event) []*schemas.Event {
	fresh := make(map[step]*schemas.Event, len(tailed))
	for _, e := range tailed {
		fresh[stepOf(e)] = e
	}
	out := make([]*schemas.Event, 0, len(stored)+len(tailed))
	for _, e := range stored {
		s := stepOf(e)
		out = append(out, cmp.Or(fresh[s], e))
		delete(fresh, s)
	}
	for _, e := range tailed {
		if fresh[stepOf(e)] == e {
			out = append(out, e)
		}
	}
	return out
}

func stepOf(e *schemas.Event) step { return step{e.Status, e.At, e.Attempt, e.Reason} }

// ofTenant drops the events of other tenants: an id that a producer made may
// be in use with two of them.
func ofTenant(tenant string, events []*schemas.Event) []*schemas.Event {
	out := make([]*schemas.Event, 0, len(events))
	for _, e := range events {
		if cmp.Or(e.Tenant, schemas.DefaultTenant) == tenant {
			out = append(out, e)
		}
	}
	return out
}
