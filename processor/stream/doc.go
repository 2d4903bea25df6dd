// Package stream is Weir's exactly-once runtime: one loop that reads
// partitions as a member of a consumer group, hands what it read to a Stage,
// and commits what the stage wrote together with the offsets it stands at, in
// one Kafka transaction (KIP-98, KIP-447).
//
// What it guarantees to a stage:
//
//   - All of a stage's methods run on one goroutine. A stage needs no lock.
//   - No record of a partition is handed over before Assign has returned for
//     it, and Assign sees the group's stable offsets: no transaction of a
//     former owner is still open over them (RequireStable, KIP-447).
//   - Every transaction carries an offset commit with the group's member and
//     generation, also when nothing was polled. A transaction without one is
//     not fenced: a process that was paused past its session and resumed would
//     commit it.
//   - Ended(false) means that nothing of the transaction will ever be seen by a
//     read-committed reader. When the outcome is unknown the stage is thrown
//     away, with its client, and a new one restores.
//
// A Reader brings a state back: it reads committed records up to the high
// watermark, outside of any group, and says where to go on. Whoever keeps the
// position with the state can go on later: a standby that follows what others
// own, or a member whose partition comes back.
//
// It knows nothing of messages, limits or providers, and keeps no state of its
// own between transactions.
package stream
