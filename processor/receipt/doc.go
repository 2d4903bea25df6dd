// Package receipt is the stage behind weir.receipts: what providers tell later
// about messages that they took. Each receipt becomes an amendment in weir.status,
// at the partition of its recipient, and where the provider says that the recipient
// is not to be sent to again, a suppress request in weir.requests too, in one
// transaction.
//
//	record.go   a receipt as a record, and the writer that adapters are given
//	decide.go   what a receipt says, and how long one waits: functions of values
//	stage.go    the transaction
//	find.go     the messages of receipts that name none: asked of the store
//	memory.go   which receipts came already
//	inbound.go  messages from recipients: what becomes of STOP and START
//
// A receipt that names its message by Weir's id and recipient is amended at once.
// Any other is looked up in the store (ClickHouse) by the provider's id; since the
// send may not be recorded yet it waits in the delay topics, as long as three days,
// and then goes to weir.dlq. A store that is away finds nothing and loses nothing:
// only an answer counts as one, and receipts that need none do not wait for it.
//
// It does not verify who sent a receipt (provider.Listener does, before it is
// written), and knows no state of a message: an amendment counts by its rank
// (schemas.Status.Rank), whenever it comes. Repeats are dropped while they are
// remembered, which a restart ends: then a repeat is one amendment more that
// changes nothing, but is counted and called back once more.
package receipt
