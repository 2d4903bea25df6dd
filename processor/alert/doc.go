// Package alert tells people what the policy's alerts ask for: a limit refuses or
// would refuse, a breaker is open, a message was given up on, ClickHouse differs
// from the log, a clock stalls a worker, a stage is stuck or behind.
//
// # Who sends
//
// One process at a time. The member of a consumer group that has weir.alerts/0 is
// the alerter, the others stand by. It reads weir.status and weir.dlq itself (the
// group only elects), looks at weir.health and weir.reports, and asks Kafka how far
// stages are.
//
// # What it remembers
//
// State is what was told and what is held back; Step changes it and is a function of
// state, facts and time. The state and the positions up to which the topics are in
// it are one record of weir.alerts, so after a crash exactly what is not in the sums
// is read again. The record is written in a transaction whose id is the same for
// every alerter: who comes next fences who was before, however long that one was
// paused. A notice is tried only when the record that has it is written, under an id
// that stays the same. So
//
//   - no refusal is left out of the sums: each is in one notice, or held for one;
//   - a notice that was on its way in a crash is tried again under the same id: of
//     each alert one notice at most is repeated, and who keeps ids drops it;
//   - at_most holds over takeovers, and counts from when a notice was taken.
//
// Where Kafka has deleted what was not read yet, that is logged and lost. The first
// alerter ever begins at the end of the logs, not with old history.
//
// # What it does not do
//
// It decides nothing about messages and writes no topic but its own. It does not
// judge how late a lane is: what waits for a provider's pace waits as it should. It
// does not make its own connections: package outbound does, and refuses addresses
// that are not public.
package alert
