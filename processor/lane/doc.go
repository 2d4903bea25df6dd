// Package lane calls providers: every call paced, permitted in the journal
// before it is made, and accounted for after.
//
// One loop a provider (package stream) reads its four dispatch topics and
// writes, in one transaction, permits and outcomes to the provider's journal,
// statuses to weir.status, retries to the delay topics, what is given up on to
// weir.dlq, what admission must judge again to weir.readmit, and whom a provider
// says not to send to again to weir.requests, as a suppress request. A call starts
// when the transaction with its permit has committed and the moment that the
// permit names has come, and at no other time. Most permits are given a little
// before that moment (pace.go).
//
// The journal is the whole state. From it a new owner knows the pace (times of
// permits), what is in doubt (permits without outcome) and what is finished
// beyond the position of the group, which is the low-water mark: everything
// below it is finished.
//
// The rooms:
//
//	pace.go       PURE when the next permit may be given, and how much of a burst ahead
//	smooth.go     PURE the same, evenly spaced
//	breaker.go    when no call is made because the last ones failed
//	throttle.go   PURE when a lane is silent because its provider throttles everyone
//	choose.go     PURE which queue is next
//	settle.go     PURE what becomes of a message after a call
//	journal.go    the journal's records, and the text beside the group's positions
//	queue.go      one dispatch partition: what waits, and the low-water mark
//	stage.go      what one turn does, and what comes into a lane
//	advance.go    permits for the heads of the queues
//	end.go        what ends, after a call or without one
//	handback.go   what goes back uncalled: breaker open, provider silent, or removed
//	stale.go      PURE how many that went stale may be on their way back
//	turn.go       PURE what a lane sees of its queues between two permits
//	health.go     what a lane tells routing of its provider
//	commit.go     the transaction: what it holds, kept or undone
//	join.go       several lanes: each its share, also while they grow
//	restore.go    from the journal back to state
//	calls.go      calls under way: they outlive a stage
//	write.go      Kafka records out
//	lane.go       Run: one provider
//	supervise.go  one Run for each provider of the policy
//	drain.go      whether a removed provider's queues are empty
//
// It decides about no limit and no route, keeps no timer of a message, and
// does not create topics. A breaker and a silence are no state of the journal: a lane
// that starts or moves begins with a closed one, and without the other.
package lane
