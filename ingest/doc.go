// Package ingest is Weir's HTTP door: it takes messages in and says what
// became of them.
//
// A message is accepted when the brokers hold it and not before: the answer to
// POST /v1/messages follows the acknowledgement of all in-sync replicas, and
// where Kafka does not answer in time it is 503. What became of a message is
// read from a short tail of weir.status in memory, and from a History where
// the tail does not reach.
//
// It decides nothing about a message: whether it may be sent, and where, is
// admission's. It has no API keys yet: every caller is the tenant "default",
// and Serve refuses an address that others can reach unless told otherwise.
// Recipients stand in answers, because the caller has sent them, and never in
// logs or labels.
package ingest
