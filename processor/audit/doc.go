// Package audit proves from the logs what Weir promises, or shows where it was
// broken. It reads weir.config whole, then weir.status as the decision log,
// beside it the records of weir.requests and weir.readmit that the decisions
// answer, the dispatch topics and the journals, and checks:
//
//   - the sequence of each partition is dense and its time never goes back;
//   - every committed record of requests and readmit, as far as they were
//     processed, is answered by exactly one decision, in order;
//   - the markers: known revisions, in order, with the since that the rule gives;
//   - every verdict, both ways, by recounting plain places under the revision in
//     force: what was admitted has room in every window, what was refused has a
//     full one, and its evidence and retry time are right;
//   - the places taken are those of the matching limits, and what was returned
//     stood for that message and was rightly returned;
//   - every message has at most one end, in an allowed order, within its expiry;
//   - every admission was dispatched once, every forward arrived once, every
//     sending has its permit, and no outcome came before its permit.
//
// It shares the policy's definition (schemas.Policy) with the limiter and
// nothing else: no table, no compiled rule, no calendar. It changes nothing and
// joins no group. It does not judge the choice of a provider, the content, the
// reading of a request's fields, or duplicates.
//
// Memory. Partitions are read as streams, as many at a time as there are
// processors. Of each, in memory: 40 B a place that the longest window of its
// limit still sees, some 60 B a limit and scope, some 80 B a message that is
// open or ended within the last 25 hours, and what the client has fetched
// ahead. Joins across topics take 4 MB each, whatever the log's size, and some
// 100 B for each record of the last two minutes. A provider of more than one
// lane costs 8 B a permit.
package audit
