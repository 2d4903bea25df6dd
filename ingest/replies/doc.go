// Package replies is the waiting room: callers who want to know what becomes of a
// request, and not only that Kafka has it.
//
// Each takes a ticket, and writes its request with the ticket's header
// (weir-reply). Admission tells the first decision on it, in the transaction that
// takes it, through one partition of weir.replies, which a Room reads from where
// it ended when the room opened, committed records only. Several processes may
// read one partition: correlations are 128 random bits, and what nobody here waits
// for is passed over.
//
// A room keeps nothing beyond its tickets, has no consumer group, and may lose
// what comes while it is not there: a reply is a courtesy to whoever waits. What
// was decided stands in weir.status, whether or not anybody is told.
//
// It knows nothing of HTTP, and decides nothing.
package replies
