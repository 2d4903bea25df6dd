// Package broker is the embedded Kafka broker of `weir dev`: kfake, on disk, as
// a child process.
//
// kfake writes a transaction's markers one partition after another, without a
// record that announces them, so a kill -9 in between tears the transaction.
// That is why the broker is a process of its own: when its parent is killed, it
// lets the requests that are under way finish, and only then closes.
//
// What it does not do: replicate, survive its own kill -9 with every transaction
// whole, compact (kfake's compaction loses records that were committed: see never),
// or serve other hosts. It is for development and tests. Exactness is
// claimed on Apache Kafka.
package broker
