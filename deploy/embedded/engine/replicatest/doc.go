// Package replicatest makes replicas of the embedded engine, for tests: each is a
// process of its own with ReplicatedMergeTree tables on a real ZooKeeper. Tokens,
// quorum, mutations, read-only tables and the way back from them are ClickHouse's
// own code and ZooKeeper's.
//
// The engine is a library and lacks three things of a server, which stand here
// instead and are no evidence of ClickHouse's:
//
//   - It never sets the address at which other replicas reach it, without which
//     its replicated tables stay read-only. The function that reads it is patched in
//     memory (address_linux_amd64.go): it knows one build of the library and fails
//     on any other.
//   - It serves no parts to other replicas. exchange.go sends them as
//     ClickHouse's own protocol has it; who fetches is the engine.
//   - It runs nothing ON CLUSTER. front.go takes the words out of a statement and
//     runs it on each replica.
//
// So what this does not show: ClickHouse's queue of ON CLUSTER statements, queries over
// several replicas (clusterAllReplicas), users and grants, ClickHouse Keeper itself.
package replicatest
