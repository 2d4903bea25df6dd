// Package input is the stage behind the policy's inputs: topics that are bound to
// one tenant each, so that Kafka's ACLs say who may send as whom. It reads them
// and writes each of their records to weir.requests, exactly once: as its
// tenant's, whatever it says, in one encoding, keyed by its canonical recipient.
// docs/inputs.md is for those who use it.
//
// Each input is a member of one consumer group, and follows the policy: one that is
// bound begins at the start of its topic, one that is unbound stops, and one that
// is bound again goes on where it was. One that cannot be read, say because its
// topic is gone, is told and tried again, and disturbs no other.
//
//	run.go    the inputs of the policy, as they come and go
//	keep.go   one input: whether its topic can be read exactly once, and from where
//	stage.go  the transaction
//	pass.go   what becomes of one record: a function of the record and the policy
//
// It judges form and tenant only. What names another tenant, or cannot be read,
// ends here as `rejected`, with its bytes in weir.dlq; such an end has no decision,
// since no partition's state has a part in it. All else is admission's to judge. It
// has no state but the group's offsets.
package input
