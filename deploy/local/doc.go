// Package local runs Apache Kafka 4.3.1 on this machine, from jars that Maven
// fetches, for tests and benchmarks: no Docker, no installation.
//
// Each broker is a process of its own that ends when the process that started it
// ends, however that ends. Brokers listen on 127.0.0.1 without encryption or
// authentication.
//
// What it does not do: run in production, or on a system without a Unix shell.
package local
