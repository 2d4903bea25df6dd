// Package client is the Go client of Weir's HTTP API, and the types of its
// answers: the server writes what it reads.
//
// It does not retry, wait or batch: a failed Send says whether and when to try
// again, and an idempotency key makes that safe.
package client
