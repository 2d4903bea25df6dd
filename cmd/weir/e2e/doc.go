// Package e2e runs the real weir program, as processes, against real brokers,
// kills and pauses it, and judges what it wrote.
//
// The rooms:
//
//	oracle.go     judges weir.status against the policy; shares no code with the limiter
//	refusals.go   what the oracle makes of a refusal: was a window full, and until when
//	finish.go     what only the whole log shows: nothing lost, calls as permitted
//	report.go     what the oracle found
//	windows.go    the oracle's own arithmetic of windows and scopes
//	wide.go       limits without a recipient: their scopes, owners, steps and buckets
//	between.go    what the logs of several partitions say of one another
//	walk.go       each message's way round the owners, and what may be decided on it
//	trail.go      reads weir.status as it grows, and hands it to the oracle
//	trace.go      requests made from a seed, in many spellings
//	produce.go    producers as other clients partition
//	lanes.go      reads a lane's journal, and says what its pace would have allowed
//	process.go    weir as a process: start, kill, pause, stop; it dies with the test (tied_linux.go)
//
// The tests are one suite for two brokers: the embedded one in every go test,
// and Apache Kafka (deploy/local) behind the build tag e2e. TestChaos, which is
// what make chaos runs, has scenarios on clusters of its own: workers killed,
// paused and restarted, brokers killed, clocks set wrong, each under the same
// load and judged in the same way (load_test.go). Those that damage a topic, cut the
// network in one direction or set brokers' clocks apart are judged by what a provider
// received (chaos_phone_test.go). TestChaosLanes has what lanes promise
// in numbers, against a provider's server that writes every call down.
//
// What it does not do: judge ClickHouse's rows (processor/sink does), or measure
// throughput (bench does).
package e2e
