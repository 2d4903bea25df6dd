// Package backtest answers, from recorded traffic, what another policy would
// have refused: it puts the questions that admission asked to the same limiter
// (processor/limit) again, at the times at which they were asked, under the policy
// that is tried.
//
// # What is read
//
// weir.status, the decision log, read committed and up to its end as of the
// call; where Kafka has let go of what is asked for, the same decisions from
// ClickHouse (History), up to the offset at which the log begins. Where the
// policy's limits look at metadata or content, weir.requests too, and of
// weir.readmit what was redriven; those are joined by where a request stands.
// ClickHouse has neither, and no cost, so a policy that looks at any of them is
// tried on what Kafka keeps.
//
// Events become steps, and steps are replayed as they come: what stays in memory
// is the limiter's table, the messages under way, a count for each recipient, and
// with such a join four bytes a request and each different value once. Config.Most
// bounds it.
//
// # In which order
//
// Each partition's steps in the order of the log, each at its own recorded time.
// For limits per recipient the partitions are independent, and are replayed side
// by side. With wide limits (processor/limit, Wide) they are replayed in one order:
// by time, but no step before the one that caused it, since partitions' clocks
// may differ. Each scope's places stand in the table of the partition that owns
// it, and are asked for at the owner's recorded step, with the owner's time. A
// wide limit that the policy in force does not have by that name and per has no
// steps in the log. It is asked at the home's last step, when the rest has passed, in
// a table of its own.
//
// # What is the same, and what is assumed
//
// Under the policy that was in force all the time every decision comes out as it
// was: verdict, limit, window and places. cmd/weir/faultsim holds it to that, over
// logs with crashes, takeovers, aborted transactions and clocks that differ. So
// further attempts move their places; attempts, if they count, keep them; what was
// given back, put back, released or recorded is so at its recorded time; and who
// waited is asked again when it was.
//
// Places that stood under another spelling of an address, from before keys ignored
// letter case, go to its key when they did, in limits that both policies have by one
// name. In others they stay where they are.
//
// Where the replay goes another way than the log, the log has no future to offer:
//   - Refused then and let through now: it is taken to be sent at its first attempt,
//     and keeps its place.
//   - Let through then and refused now: what came after did not happen. What its
//     round had taken is returned at once.
//   - A further attempt that is refused now: the message waits with its old place,
//     and is not asked again. If it gave that back in the end, it does.
//   - Refused now by a limit that defers: it is asked again only if it waited then
//     too, and at that time.
//
// # When the policy begins
//
// At Config.From. What lies before it is not decided but taken as it happened: who
// was let through takes a place in every limit that applies, room or not. It is
// read as far back as the longest window looks. So a window that the policy in
// force has too stands at From as it stood, and a new one as if it had counted
// all along. A window that the revision in force began at a marker before From
// counts from that marker, as it did.
//
// # What it does not do
//
// It changes nothing and joins no group. It does not judge what is not a limit's:
// who was suppressed, expired, rejected or a duplicate then is so now, and so
// are quiet hours and the choice of a provider. It renders content by the tried
// policy's templates, and takes parts (segments) and costs as they were. It is no proof:
// processor/audit recounts with code of its own.
package backtest
