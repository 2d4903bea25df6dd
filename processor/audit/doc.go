// Package audit proves from the logs what Weir promises, or shows where it was
// broken. It reads weir.config whole, then weir.status as the decision log,
// beside it the records of weir.requests and weir.readmit that the decisions
// answer, the dispatch topics and the journals, and checks:
//
//   - the sequence of each partition is dense and begins with 1 where nothing
//     was deleted, and its time never goes back, nor far from the broker's; so is
//     that of each journal;
//   - every committed record of requests and readmit, as far as they were
//     processed, is answered by exactly one decision, in order, and on the
//     message that it is;
//   - the markers: known revisions, in order, with the since that the rule gives;
//   - every verdict, both ways, by recounting plain places under the revision in
//     force, and buckets in integers: what was admitted has room in every window,
//     what was refused has a full one, and its evidence and retry time are right;
//     what a limit only observed, likewise;
//   - the places taken are those of the matching limits, content and parts made
//     anew from the request, and what was returned stood for that message and was
//     rightly returned;
//   - countries and quiet hours, both ways: what went on might, and what was held
//     had to be, until the right moment;
//   - repeats, by id and by idempotency key, both ways: what is called one names
//     the message that it repeats, and what is taken for new is none;
//   - suppressions and cancels: what ended by one was asked for, and nothing went
//     on while one stood;
//   - messages that Weir does not send: they end by their admission; and releases
//     of what was only decided, both ways: once each, by who asked for it;
//   - every message (a tenant's id to one recipient) has at most one end, in an
//     allowed order, not before and not after its expiry, and has one when the
//     log goes on beyond it; what amends one is a receipt, in its recipient's
//     partition. Whether the provider was right is not Weir's: receipts of messages
//     that ended otherwise, or that the log does not have, are told by their number;
//   - every admission was dispatched once, every forward arrived once, every
//     sending has its permit, and no outcome came before its permit; every outcome
//     has its status, which follows from it, and a message that a lane ends returns
//     its places if and only if no attempt of it may have been received;
//   - the ledger ends where the log does, what waits has a record that brings it back,
//     and what was given up on is in weir.dlq;
//   - the state, weir.ledger and weir.seen, has the hash that its own last record says, and
//     its contents are what the decisions leave;
//   - no pace window held more permits than any revision allowed. Beside it the
//     report has the densest real sending, by provider and by limit.
//
// It shares the policy's definition (schemas.Policy) with the limiter, and with
// all of Weir what a message is: its recipient's country and zones (recipient)
// and the text that is sent (content). It shares no table, no compiled rule, no
// calendar, no bucket and no clock of quiet hours. It changes nothing and joins
// no group. It does not judge the choice of a provider, the reading of a
// request's fields, or whether a repeat asks for the same.
//
// Limits that count without a recipient are judged where they are decided. At
// home, the partition of the recipient: what applies, in the policy's order, and
// that what a message holds was taken by its round of the owners. At each owner:
// never over, and refused by a full window only, under its own revision. What
// partitions send each other is joined hop by hop, with all that it carries, so
// that a proof needs no partition's log beside another's.
//
// The rooms. What judges a partition's log:
//
//	partition.go  walks it record by record; what is remembered between them, and what only its end shows
//	decision.go   one decision: its place in the log, and who judges its verdict
//	feed.go       the records that decisions answer, each once and in order
//	marker.go     revisions coming into force
//	request.go    what the record in hand asks for: what limits see of it, and until when it lives
//	gates.go      countries and quiet hours
//	recount.go    windows, counted again
//	taken.go      places that are taken
//	refused.go    refusals: a full window, the evidence, the retry time
//	returned.go   places that are returned
//	rounds.go     a message's round of the owners of wide limits, at its home
//	owners.go     an owner's step of it
//	wide.go       scopes of wide limits, and what a round has still to ask
//	causes.go     suppressions, cancels, redrives, and decisions that change nothing
//	release.go    decisions without sending, and their release
//	repeats.go    repeats, by id and by idempotency key
//	life.go       the states of a message, and what amends its end
//	doors.go      messages that an input turned away
//	spelling.go   requests and places that go from an address as it was spelled to its key
//	handover.go   who ends a message: a lane, or its admission
//	outcomes.go   what came of attempts, and whether a message's places go back at its end
//
// What they count by:
//
//	rules.go      a revision's limits as they stand in a partition
//	calendar.go   periods, minute by minute
//	places.go     places by scope; tall.go where one scope has many
//	bucket.go     token buckets
//	history.go    weir.config
//
// What spans partitions and topics:
//
//	run.go        an audit: its state and its workers; follow.go goes on from cut to cut
//	cut.go        a consistent cut through the logs; compare.go what only one of two topics has, and where it is
//	read.go       partitions, up to the cut
//	join.go       what two topics hold, compared; hops.go what partitions send each other, as it is compared
//	lanes.go      journals and dispatch topics; sequence.go the numbers of a journal's records
//	state.go      weir.ledger and weir.seen: their hash; contents.go what their records say; keys.go under which keys
//	ledger.go     the ledger's end; waits.go the delay topics, and what is overdue; letters.go weir.dlq
//	dense.go      the densest real sending; wide_calls.go in scopes that partitions share
//	memory.go     the bound
//	report.go     what was found; brief.go as others are told of it
//
// Memory. Partitions are read as streams, as many at a time as there are
// processors. Of each, in memory: some 50 B a place that the longest window of
// its limit still sees, and as much for each call in it; some 45 B a limit and
// scope; 150 B a message that is open or ended within the last 25 hours, 50 B an
// early cancel or message sent elsewhere, 110 B an idempotency key of 25 hours,
// 300 B a decision without sending that some window still sees,
// 270 B a recipient that opted out; and what the client has fetched ahead. While its state is compared, 110 B for
// each record of the ledger and 100 B for each of weir.seen. Joins across topics take 3 MiB each, whatever the log's size,
// and some 80 B for each record of the last two minutes. A provider of more than
// one lane costs 8 B a permit, and a call 20 B for each limit without recipient. Config.Memory bounds it all: half of it is for
// what is remembered, measured every 1024 records, and what does not fit is told
// as not judged.
package audit
