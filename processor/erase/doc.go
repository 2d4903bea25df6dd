// Package erase removes a person from ClickHouse, and says what of them Kafka
// still holds and until when.
//
// What is theirs goes: their rows of status_events and of the tables of lists, rewritten on disk, not only marked. What proves that nothing is missing
// stays without them: a decision keeps its sequence number, verdict and time and
// loses its message, recipient and scopes, and each row of status_events leaves an
// empty one of the same offset behind, so that what was loaded can be compared with
// Kafka as before. Rollups hold no recipients.
//
// It does not write to Kafka: a log cannot forget one record, and ends by its
// retention. It does not stop anybody from sending to the person again, and does
// not remove their opt-out, which must outlive them.
package erase
