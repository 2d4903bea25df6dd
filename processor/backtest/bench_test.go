package backtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// benchLimits refuse about a half of what the benchmarks bring.
const benchLimits = "  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [2/60s, 5/1h, 10/calendar-day], timezone: Asia/Shanghai}\n" +
	"  - {name: everyone, per: [recipient], allow: [30/24h]}"

// loaded is recorded traffic in memory: 500,000 messages to 25,000 recipients
// within a day, in eight partitions.
type loaded struct {
	policy, other *schemas.Policy
	steps         [][]step
	n             int
}

var load = sync.OnceValues(func() (*loaded, error) {
	parse := func(limits string) (*schemas.Policy, error) {
		doc, err := schemas.ParsePolicy("bench.yaml", []byte("limits:\n"+limits+"\nclasses:\n  - {name: verify}\nproviders:\n  - {name: sim, type: simulated, channels: [sms]}\n"))
		if err != nil {
			return nil, err
		}
		return &doc.Policy, nil
	}
	g := &loaded{n: 500_000, steps: make([][]step, 8)}
	var err error
	if g.policy, err = parse(benchLimits); err != nil {
		return nil, err
	}
	if g.other, err = parse("  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [1/60s, 4/1h]}\n  - {name: everyone, per: [recipient], allow: [9/24h]}"); err != nil {
		return nil, err
	}
	rules, err := limit.Compile(g.policy, nil)
	if err != nil {
		return nil, err
	}
	table := limit.NewTable()
	defer table.Close()
	r := rand.New(rand.NewPCG(1, 2))
	seqs := make([]int64, 8)
	for i := range g.n {
		m := msg(i, fmt.Sprintf("+86138%08d", r.IntN(25_000)), "verify")
		at := t0 + schemas.Millis(i)*day/schemas.Millis(g.n)
		sub := limit.Subject{Recipient: m.To, Tenant: m.Tenant, Channel: m.Channel, Class: m.Class, Provider: m.Provider, Segments: 1}
		d := table.Decide(rules, &sub, nil, at)
		e := with(m, at, schemas.StatusQueued, schemas.VerdictAdmit, d.Charges...)
		if !d.OK {
			e = refusedBy(m, at, d.Refused[0].Limit, d.Refused[0].Window)
			e.Decision.Evidence = d.Refused
		}
		n := schemas.PartitionOf(m.To, 8)
		seqs[n]++
		e.Kind, e.Decision.Partition, e.Decision.Seq, e.Decision.T = schemas.KindStatus, n, seqs[n], at
		var s step
		s.read(e, 8)
		g.steps[n] = append(g.steps[n], s)
		if d.OK {
			sent := with(m, at+1, schemas.StatusSent, "")
			sent.Kind = schemas.KindStatus
			s.read(sent, 8)
			g.steps[n] = append(g.steps[n], s)
		}
	}
	return g, nil
})

func (g *loaded) feeds() []feed {
	out := make([]feed, len(g.steps))
	for n, steps := range g.steps {
		out[n] = func(_ context.Context, fn func(*step) error) error {
			for i := range steps {
				if err := fn(&steps[i]); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return out
}

// rate reports by the clock and by what the processors worked: the latter tells
// where other programs run beside.
func rate(b *testing.B, g *loaded, cpu time.Duration) {
	b.ReportMetric(float64(b.N)*float64(g.n)/b.Elapsed().Seconds(), "decisions/s")
	b.ReportMetric(float64((processorTime()-cpu).Nanoseconds())/float64(b.N)/float64(g.n), "cpu-ns/decision")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchmarkReplay(b *testing.B, tried, inForce *schemas.Policy, g *loaded) {
	rules, err := limit.Compile(tried, nil)
	if err != nil {
		b.Fatal(err)
	}
	cpu := processorTime()
	for b.Loop() {
		x := newEngine(8, rules, tried, &schemas.Revision{Revision: 1, Policy: *inForce}, 0, 1<<50, 1<<40)
		if err := x.run(b.Context(), g.feeds()); err != nil {
			b.Fatal(err)
		}
		if r := x.result(tried); r.Messages != int64(g.n) {
			b.Fatalf("%d messages", r.Messages)
		}
		x.close()
	}
	rate(b, g, cpu)
}

// BenchmarkReplay decides what is in memory again: under the same policy, another,
// and one with a limit that counts over all recipients.
func BenchmarkReplay(b *testing.B) {
	g, err := load()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("same", func(b *testing.B) { benchmarkReplay(b, g.policy, g.policy, g) })
	b.Run("other", func(b *testing.B) { benchmarkReplay(b, g.other, g.policy, g) })
	b.Run("wide", func(b *testing.B) {
		doc, err := schemas.ParsePolicy("bench.yaml", []byte("limits:\n"+benchLimits+"\n  - {name: tenant, per: [tenant], allow: [400/60s]}\nclasses:\n  - {name: verify}\nproviders:\n  - {name: sim, type: simulated, channels: [sms]}\n"))
		if err != nil {
			b.Fatal(err)
		}
		benchmarkReplay(b, &doc.Policy, g.policy, g)
	})
}

// BenchmarkLimiter is what stands beside it: the same questions, put to the
// limiter alone, on as many processors.
func BenchmarkLimiter(b *testing.B) {
	g, err := load()
	if err != nil {
		b.Fatal(err)
	}
	rules, err := limit.Compile(g.policy, nil)
	if err != nil {
		b.Fatal(err)
	}
	cpu := processorTime()
	for b.Loop() {
		parts := make(chan int)
		var workers sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			workers.Go(func() {
				for n := range parts {
					table := limit.NewTable()
					var res limit.Result
					asked := 0
					for i := range g.steps[n] {
						s := &g.steps[n][i]
						if s.kind != stepAsk {
							continue
						}
						sub := limit.Subject{Recipient: s.to, Tenant: s.tenant, Channel: s.channel, Class: s.class, Provider: s.provider, Segments: 1}
						table.DecideInto(&res, rules, &sub, nil, s.t)
						if asked++; asked%batch == 0 {
							table.Sweep(rules, s.t, 64)
							table.Commit()
						}
					}
					table.Close()
				}
			})
		}
		for n := range g.steps {
			parts <- n
		}
		close(parts)
		workers.Wait()
	}
	rate(b, g, cpu)
}
