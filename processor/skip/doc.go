// Package skip is weir.skips: the records of Weir's own state that an operator let
// it go on without.
//
// Where a stage meets a record of its state that it cannot read, and that may be
// one of its own, it stops, and its error names the command that resolves it:
//
//	weir skip TOPIC/PARTITION/OFFSET --reason "..."
//
// The command writes a Skip to weir.skips, and the record's bytes to weir.dlq. A
// stage looks the list up only when it meets such a record. A skip names the
// record's bytes by their sum, too: what a topic of that name holds at that offset
// later is not skipped.
//
// A batch beyond the bound of decompression is one record here, at its first offset:
// its bytes are those in the log.
//
// What no stage stops at cannot be skipped: see Effect.
package skip
