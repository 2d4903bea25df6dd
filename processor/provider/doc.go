// Package provider is the contract between a lane and an adapter: what one call
// is, what can come of it, and the table of adapters by type.
//
// An adapter makes exactly one attempt a call and says what came of it. It does
// not retry, pace, bound concurrency, choose a recipient or write a status: the
// lane does. Adapters live in folders of their own; cmd names them in a Types
// table, and nothing registers itself.
package provider
