// Package sink loads weir.status into ClickHouse, every record exactly once.
//
// How, for each partition of the topic by itself:
//
//	          commit: confirmed up to a,        insert [a,b) in one        commit: confirmed up to b,
//	          about to insert [a,b)             statement with a token     about to insert [b,c)
//	gathering ─────────────────────► planning ─────────────────────► gathering …
//
// A range is planned before it is inserted, in the metadata of the group's
// offset commit. Whoever owns the partition next, after a crash or a rebalance,
// finds the plan, reads exactly [a,b) again and sends it with the same token:
// ClickHouse keeps the block if it has not got it, in every table by itself.
// Two owners that insert at once do no harm: their plan is the same.
//
// A token is remembered for a number of inserts only, so a plan expires. Then it is
// made once more, under its token, if ClickHouse is sure to remember that. Else, and
// where there is no plan although rows may exist (the group's offsets were lost, or
// set by hand, or are of another topic or database), the sink asks ClickHouse which
// records of the range it has, and plans each run of the others under a token of its
// own.
//
// It does not do this: it writes nothing to Kafka but its group's offsets, so it
// needs no transactions; it changes no event (what cannot be decoded becomes a
// row of kind poison); bodies and variables are not in weir.status and so never
// get here; it promises nothing about tables that an operator's own views fill,
// but refuses to start where such a table could not deduplicate.
//
// # Non-obvious
//
//   - Offsets have gaps, left by transactions: a range is of offsets, not of
//     records. Its last offset is always that of a record.
//   - A plan that expired is waited out before ClickHouse is asked what it has, by
//     two clocks: an insert that is under way elsewhere would land after the answer.
//   - A row is that of a record if both its offset and its time are: a topic that is
//     made again has its offsets again.
//   - A plan is carried out with the rows of the version that made it (Plan.Encoder):
//     an upgrade in the middle of one sends what the old owner sent. Rows that
//     this version cannot make, of a newer one or of a range that Kafka has
//     deleted a part of, make the plan one to wait out.
//   - Group commits carry the generation. A partition's plan and confirmation
//     are committed only between a poll and AllowRebalance, so never for a
//     partition that the group has given to somebody else.
package sink
