// Package route chooses the provider of a message from the policy and from the
// providers' health.
//
// It is pure: the same message, policy, pick and shares give the same provider,
// and the same records of weir.health at the same times give the same shares.
//
//	route.go   which provider: routes, weights, failover
//	next.go    which provider after others were tried
//	silent.go  how long a message waits for a provider that throttles everyone
//	health.go  how much of its weight a provider gets: breaker, silence, success rate, hysteresis
//
// A message that comes back, to be tried again or because it went stale or its
// lane gave it back, is chosen for like a new one, but that it prefers another
// healthy provider than those that failed it. A call whose outcome is unknown is
// repeated under the same idempotency key, which only the same provider can
// recognise, as long as that is healthy.
//
// It does not measure health, hash ids or check the provider's pace; and
// whether a refusal means rejected or deferred is admission's to say, by the
// error's reason. Health advises: it is no part of any decision's proof.
package route
