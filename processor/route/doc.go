// Package route chooses the provider of a message from the policy.
//
// It is pure: the same message, policy, pick and health give the same provider.
// It does not measure health, hash ids or check the provider's pace; and
// whether a refusal means rejected or deferred is admission's to say, by the
// error's reason.
package route
