// Package admission is the one judge: it decides every message, first or
// returning, in the partition that owns its recipient.
//
// It reads weir.requests and weir.readmit, which are co-partitioned, and
// writes, in one transaction: verdicts and decisions to weir.status, the
// places taken, who opted out and who waits to weir.ledger, known keys and early
// cancels to weir.seen, admitted messages to
// their provider's dispatch topic, waiting ones to a delay topic, invalid ones
// to weir.dlq, misrouted ones to weir.readmit of their owner, and to weir.replies
// what somebody waits for.
//
// The rooms:
//
//	decide.go    one input, one decision: a function of the partition's state
//	life.go      what becomes of a message, at first and when it comes back
//	external.go  the end of messages whose provider Weir does not call
//	defer.go     what makes a message wait: quiet hours, limits that defer
//	routing.go   by whom: the policy's routes, the providers' health, and when to ask again
//	round.go     a message's round of the owners of wide limits, as its home begins and ends it
//	owner.go     an owner's step of it
//	giveback.go  places returned, here and at their owners, and old ones put back
//	reply.go     who waits for a decision is told it
//	quota.go     questions for what is left
//	actions.go   requests other than send: suppress, unsuppress, cancel, record, release
//	partition.go that state: places, known keys, sequence, time, revision
//	seen.go      idempotency keys and client ids, in hourly buckets
//	suppress.go  recipients that opted out
//	release.go   decisions without sending: what they took, and giving it back
//	waiting.go   messages in the delay topics, which a cancel ends at once
//	meta.go      the meta record: what the ledger says of the partition as a whole
//	replica.go   from the logs to state: where a state stands and what brings it on
//	restore.go   an assignment: whose state, and its checks
//	standby.go   the states of partitions that others own, followed
//	damage.go    records of the ledger that cannot be read, and those that are not Weir's
//	sums.go      the count and hash of a state, by which a restore knows that it is whole
//	missing.go   records of limits made anew of weir.status
//	inspect.go   what an operator may look at and repair: weir ledger
//	ahead.go     tells the tables whom the next records are about
//	stage.go     the transaction around it
//	clock.go     the process's time, held against the broker's
//	record.go    Kafka records in and out
//
// It calls no provider and keeps no timer: what must wait goes to a delay topic.
package admission
