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
// admission's. Who may ask is told by API keys, which stand hashed in the
// policy; where none is asked for, on loopback, every caller is the tenant
// "default".
// Recipients stand in answers, because the caller has sent them, and never in
// logs or labels.
package ingest
