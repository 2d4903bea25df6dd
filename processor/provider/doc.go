// Package provider is the contract between a lane and an adapter: what one call
// is, what can come of it, what a provider's codes mean, what it tells later, and
// the table of adapters by type.
//
// An adapter makes exactly one attempt a call and says what came of it. It does
// not retry, pace, bound concurrency, choose a recipient or write a status: the
// lane does. What a provider tells later is read by the type's Listener, which
// verifies who calls and translates; it neither looks messages up nor writes
// anything: the receipts' stage does.
//
// What an adapter is:
//
//   - a folder of its own that exports Type, named in cmd/weir's table; nothing
//     registers itself;
//   - codes.go, a [Codes]: the one place where the provider's codes have a meaning,
//     each read in a source that it names. weir explain provider TYPE prints it;
//   - one function that reads the settings, for Open and for Check alike: a policy is
//     refused when it is applied for all that its lane would refuse later, but for
//     what secrets hold ([Stated]);
//   - for HTTP, httpcall, so that it is known whether the provider may have a
//     request whose answer was lost;
//   - a server of the provider's protocol in its tests, against which it passes
//     providertest, and docs/provider-TYPE.md;
//   - nothing in an outcome, a log or an error that is a secret, a recipient or a
//     message's text: the provider's own words repeat them, so they are not passed on.
package provider
