// Package local runs Apache Kafka 4.3.1 on this machine, from jars that Maven
// fetches, for tests and benchmarks: no Docker, no installation.
//
// Each broker is a process of its own that ends when the process that started it
// ends, however that ends. Brokers listen on 127.0.0.1 without encryption or
// authentication.
//
// # A broker that is killed
//
// Kafka answers EndTxn when the transaction's log says PrepareCommit; it writes the
// markers into the partitions after that, and again after a crash. While it does,
// Kafka 4.3.1 takes a partition that has no leader at the moment for one that was
// deleted, skips its marker and notes CompleteCommit ("Couldn't find leader endpoint
// for partitions … likely deleted already and hence can be skipped"): records that
// were committed are never seen by readers of committed records, and their last
// stable offset stands still for ever.
//
// A node that is broker and controller at once, alone, comes upon this in 9 of 10
// restarts after a kill -9 right after EndTxn: it starts on metadata that say it
// still leads everything, becomes the transactions' coordinator, fails to reach its
// own listener, which is not open yet, and then sees its earlier registration
// expire, which leaves every partition without a leader. The segments are whole:
// nothing is lost on disk, so flush settings do not help.
//
// So exactness can be promised where a partition keeps a leader (three copies, two
// in sync), and on a single broker only if its controller is another process
// (Options.Apart) and it comes back after its registration has ended, which Restart
// waits for: then it becomes leader and coordinator in one step.
//
// What it does not do: run in production, or on a system without a Unix shell.
package local
