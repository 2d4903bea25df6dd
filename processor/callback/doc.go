// Package callback tells tenants what becomes of their messages: one signed POST
// (Standard Webhooks, standardwebhooks.com) for each status that the policy asks for.
//
// One loop (package stream) reads weir.status and weir.callbacks, which have the same
// partitions. What cannot be told now waits in the delay topics and comes back to
// weir.callbacks; weir.callbacks.state (compacted) says of each message which of its
// callbacks wait, so that none overtakes another of its message, also across a
// restart. Records of delay and state are written with the positions, in one
// transaction; calls are made outside it. A position is committed up to the first
// callback that is neither told nor waiting, so after a crash what was told beyond it
// is told again, under the same webhook-id: at least once.
//
// The rooms:
//
//	payload.go    PURE what is told, and under which id
//	when.go       PURE what an answer means, and when the next try is
//	book.go       PURE which callback of a message is next
//	record.go     what waits, and what says so, as records
//	target.go     whom to call, signed with which secrets
//	pool.go       endpoints: their queues, breakers and calls
//	stage.go      one turn: what came, what ended, the transaction
//	intake.go     how far a partition is read, and told
//	read.go       which records are callbacks
//	course.go     what becomes of one: told, sent away, given up
//	restore.go    from the state's topic back to books
//	run.go        Run, its configuration, and its end
//	endpoints.go  which endpoints are disabled, and how the others are
//	replay.go     what asks for a message's callbacks again
//
// It decides nothing about messages, keeps no timer, reads no ClickHouse, and makes
// no connection: package outbound does, and refuses addresses that are not public.
package callback
