// Package client is the Go client of Weir's HTTP API, and the types of its
// answers: the server writes what it reads.
//
// A call that fails in passing is made again, with exponential backoff and full
// jitter, no sooner than the server says, for at most as many tries and as long
// as Retry allows: see there for what is repeated. Every message has an
// idempotency key, made once a call where the caller gives none, so that
// however often it is tried it is one message.
//
// All calls of one Client have one pace: where one of them is asked to wait (429 of
// the caller's own rate, 503), none goes out before that time. Kinds of call that the
// server counts apart (queries, writes, batches) wait apart for a 429. A 429 of a
// recipient's limit holds nothing back, nor does a 503 of what other calls do not need.
//
// It does not keep what could not be sent, or log: an error says whether and when to try again. The
// API key, recipients and bodies are in no error.
package client
