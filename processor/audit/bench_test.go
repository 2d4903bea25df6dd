package audit

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// BenchmarkJudge is what a decision costs with its request, its statuses, its
// dispatch and its journal, without the reading from Kafka.
func BenchmarkJudge(b *testing.B) {
	const n = 150_000
	s := &sheet{place: make(map[string][]schemas.Charge), partitions: 1}
	s.policies = []schemas.Policy{policyOf(b, sheetPolicy)}
	s.policies[0].Limits[0].Allow = s.policies[0].Limits[0].Allow[:1]
	s.policies[0].Providers[0].Pace = nil
	s.marker(start, map[string]map[string]schemas.Millis{"two": {"10s": start}, "pair": {"5s": start}})
	for i := 0; len(s.requests) < n; i++ {
		to := fmt.Sprintf("+86138%08d", i%5000)
		at := start + 1 + schemas.Millis(i*3)
		name := func(k string) string { return fmt.Sprintf("%s%x", k, i) }
		for _, k := range []string{"a", "b"} {
			s.admit(name(k), to, "verify", at)
			s.call(name(k), to, "verify", schemas.StatusSent, 1, at)
		}
		e := evidence(at, at)
		e.Scope = to
		s.refuse(name("c"), to, "verify", at, at+10_000, e)
		clear(s.place)
	}
	logs := map[string][]written{"weir.status": s.status, "weir.requests": s.requests, "weir.readmit": nil, "weir.dispatch.sim.normal": s.dispatch, "weir.journal.sim": s.journal}
	ready := make(map[string][]*kgo.Record)
	for topic, from := range logs {
		for next := records(topic, from); ; {
			r, _ := next()
			if r == nil {
				break
			}
			ready[topic] = append(ready[topic], r)
		}
	}
	replay := func(topic string) source {
		i := 0
		return func() (*kgo.Record, error) {
			if i == len(ready[topic]) {
				return nil, nil
			}
			i++
			return ready[topic][i-1], nil
		}
	}
	b.ResetTimer()
	for b.Loop() {
		if r := s.auditFrom(b, replay); r.Outcome != Proven || r.Checked.Decisions < n {
			b.Fatal(show(r))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/decision")
}
