package request

import "github.com/weirhq/weir/schemas"

// Suppress is the value of a request that suppresses a recipient until somebody
// lifts it: what a stage writes when a provider says that the recipient is not to
// be sent to again. to is canonical. An empty tenant, channel or class covers every
// one. It goes to weir.requests, at the partition of to.
func Suppress(to, tenant string, channel schemas.Channel, class string, reason schemas.SuppressReason, provider string) []byte {
	return of(schemas.ActionSuppress, to, tenant, channel, class, reason, provider)
}

// Unsuppress is the value of a request that lifts exactly that suppression, such as
// when a recipient writes START.
func Unsuppress(to, tenant string, channel schemas.Channel, class string, reason schemas.SuppressReason, provider string) []byte {
	return of(schemas.ActionUnsuppress, to, tenant, channel, class, reason, provider)
}

func of(action schemas.Action, to, tenant string, channel schemas.Channel, class string, reason schemas.SuppressReason, provider string) []byte {
	q := schemas.Request{Action: action, To: to, Tenant: tenant, Channel: channel, Class: class}
	if reason != "" || provider != "" {
		q.Metadata = make(map[string]string, 2)
	}
	if reason != "" {
		q.Metadata[schemas.MetaReason] = string(reason)
	}
	if provider != "" {
		q.Metadata[schemas.MetaProvider] = provider
	}
	return schemas.RequestJSON(&q)
}
