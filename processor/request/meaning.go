package request

import (
	"cmp"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// scoped reports whether an action's tenant and class, where it gives them,
// narrow what it covers, and are every one where it does not.
func scoped(a schemas.Action) bool {
	return a == schemas.ActionSuppress || a == schemas.ActionUnsuppress
}

// Named reports whether an action's id is that of what it asks for; a cancel's and a
// release's is another's.
func Named(a schemas.Action) bool {
	return a == schemas.ActionSend || a == schemas.ActionRecord
}

// Addressee returns whom a request is for, as the policy reads its tenant's numbers.
// An action may leave out the channel; then the recipient's form tells: a URL, an
// address with @, a number, or else a token. A token without a letter needs its
// channel. The error is a *recipient.Error.
func Addressee(q *schemas.Request, pol *schemas.Policy) (recipient.Recipient, error) {
	channel := q.Channel
	if channel == "" {
		switch {
		case strings.Contains(q.To, "://"):
			channel = schemas.ChannelWebhook
		case strings.Contains(q.To, "@"):
			channel = schemas.ChannelEmail
		case strings.ContainsFunc(q.To, unicode.IsLetter):
			channel = schemas.ChannelPush
		default:
			channel = schemas.ChannelSMS
		}
	}
	tenant, _ := pol.Tenant(cmp.Or(q.Tenant, schemas.DefaultTenant))
	return recipient.Canonical(channel, q.To, tenant.DefaultRegion)
}

// Describe fills in what a request leaves to its class and to Weir, says of it in
// event what every status of it says, and in env what travels with it. Until when
// it must have ended counts from env.AcceptedAt.
func Describe(q *schemas.Request, pol *schemas.Policy, env *schemas.Envelope, event *schemas.Event) (class schemas.Class) {
	if scoped(q.Action) {
		event.Tenant, event.Channel, event.Class, event.To = q.Tenant, string(q.Channel), q.Class, q.To
		return class
	}
	q.Tenant = cmp.Or(q.Tenant, schemas.DefaultTenant)
	q.Class = cmp.Or(q.Class, schemas.DefaultClass)
	class = pol.Class(q.Class)
	env.Tenant = q.Tenant
	env.Priority = cmp.Or(q.Priority, class.Priority)
	if env.ExpiresAt == 0 {
		env.ExpiresAt = Expires(q, env.AcceptedAt, &class)
	}
	env.CallbackURL, event.CallbackURL = q.CallbackURL, q.CallbackURL
	event.Tenant, event.Channel, event.Class, event.Template = q.Tenant, string(q.Channel), q.Class, q.Template
	event.To = cmp.Or(event.To, q.To)
	if Named(q.Action) {
		event.Cost = max(q.Cost, 0) // a request that is rejected for its cost may say less
	}
	return class
}

// Expires is until when a message must have ended: as it says, or so long after it
// was accepted, or is to be sent, as its class has it.
func Expires(q *schemas.Request, accepted schemas.Millis, class *schemas.Class) schemas.Millis {
	if q.ExpiresAt != 0 {
		return q.ExpiresAt
	}
	return max(accepted, q.SendAt).Add(time.Duration(class.ExpiresAfter))
}

// Reason returns the stable reason of an error; every package that judges
// input gives its errors one.
func Reason(err error) string {
	if bad, ok := errors.AsType[*schemas.RequestError](err); ok {
		return bad.Reason()
	}
	if r, ok := errors.AsType[interface {
		error
		Code() string
	}](err); ok {
		return r.Code()
	}
	return "invalid"
}
