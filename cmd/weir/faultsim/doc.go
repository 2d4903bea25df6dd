// Package faultsim runs the real stages (admission, lanes, delay) on a broker
// in this process, in simulated time, under faults that a seed chooses, and
// lets two judges look at what they wrote.
//
// A cycle is one seed. From it comes a Plan: which policy, what traffic, and
// which faults: errors and lost answers of broker calls, calls that never
// arrive, coordinators and leaders that move, compaction, workers that join,
// leave, die at a certain broker call, or are cut off for longer than their
// session and come back as zombies, clocks that are wrong or step, and changes of
// the policy.
// In half of the cycles workers have standbys, and are killed and taken over.
// In half of them messages have two limits or more beyond one recipient, so that
// they go round the partitions that own those, several tenants and addresses, and
// cancels, opt-outs and expiries that meet them on their way.
// In a third of them some requests come through topics that are bound to two
// tenants, and among them are records that name another tenant, and garbage: each
// must become one message of that tenant, or one end.
// In all of them some messages are sent more than once, under ids of every form,
// under keys, or under neither: see repeats.go.
// In a sixth of them workers have time zones and numbering plans of two versions: see
// mixed.go.
// The cycle runs in a testing/synctest bubble on kfake's virtual network; a
// minute takes a fraction of a second.
//
//	plan.go        the seed's plan
//	policies.go    the policies that a plan begins with and changes to
//	traffic.go     hostile requests: few recipients, bursts at the edges of windows
//	repeats.go     records that producers write again, and what the provider may receive of them
//	mixed.go       workers of one group with other time zones and numbering plans
//	doors.go       requests that come through topics that are bound to tenants
//	wire.go        one worker's network: where calls are lost, held and cut
//	faults.go      which call a fault hits
//	worker.go      one process with its stages, and who starts it again
//	groups.go      what keeps kfake's consumer groups to what a broker does
//	compaction.go  when kfake may compact: at other times that loses what was committed
//	cycle.go       a whole cycle, from an empty broker to the judges' word
//	replies.go     who waits for a decision, and who asks what is left
//	trace.go       what happened
//
// When the traffic has ended and nothing is broken any more, every message must
// come to its end within simulated minutes. Then processor/audit must prove the
// logs, and cmd/weir/e2e's oracle, which shares no code with the limiter or the
// audit, must find nothing over, wrongly refused, lost, or ended twice. Whoever
// waited for a decision must have been told it once, as the log has it.
//
// What a seed does not fix: Go's scheduler and select are not seeded. A seed
// replays the plan and not the interleaving, so a failure may need several runs
// of its seed (-count). The printed trace says what really happened.
//
// What it does not show: kfake is one process without replicas, so no broker
// loses what it acknowledged; it answers a transaction's end at once, so the
// states between are not there (CONCURRENT_TRANSACTIONS is injected); a worker
// that is cut off goes on computing, while one that is stopped by SIGSTOP does
// not. Its groups get stuck where a broker's do not: a referee mends that, and
// excuses no cycle (groups.go). A standby reads at once what is committed, and is
// never far behind. cmd/weir/e2e has those, on Apache Kafka.
package faultsim
