// Package outbound makes the calls whose addresses come from outside the
// operator's own configuration of providers: alerts and callbacks. Such an
// address may point anywhere, so the client reaches public addresses only, unless
// the operator names a network (WEIR_CALLBACK_ALLOW_PRIVATE).
//
// The address is judged when the connection is made, after names have been
// resolved, for each address that is tried. So it does not help that a name
// resolves to something else the second time (DNS rebinding), that an address is
// written in decimal, or as IPv6 that means IPv4. No redirect is followed: it
// would be an address that nobody wrote. Proxies of the environment are not used:
// a proxy would make the connection, and could not be judged. Whoever needs one
// names its network and puts it in the address.
//
// Errors and log lines never have more of an address than its host: who knows a
// whole Slack webhook's address may post. Signatures are those of Standard
// Webhooks (standardwebhooks.com).
//
// It retries nothing and remembers nothing: whoever calls decides when again.
package outbound
