package admission

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// BenchmarkRead is reading and deciding one record of ten million recipients:
// as Step does it, and one after another. What is sent is not encoded.
func BenchmarkRead(b *testing.B) {
	const recipients = 10_000_000
	p, err := newPartition(0, environment{partitions: 1, delays: 1, dlq: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer p.close()
	doc, err := schemas.ParsePolicy("test.yaml", []byte(lifePolicy))
	if err != nil {
		b.Fatal(err)
	}
	p.begin()
	p.advance(1_790_000_000_000)
	if _, err := p.switchTo(&schemas.Revision{Revision: 1, Policy: doc.Policy}); err != nil {
		b.Fatal(err)
	}
	p.commit()
	number := func(i int) string { return fmt.Sprintf("+86138%08d", i) }
	var res limit.Result
	for i := range recipients {
		p.table.DecideInto(&res, p.cur.rules, &limit.Subject{Recipient: number(i), Class: "code"}, nil, p.cur.meta.T)
		if i%1024 == 0 {
			p.table.Commit()
		}
	}
	p.table.Commit()
	s := &stage{parts: map[int32]*partition{0: p}, env: p.env}
	records := make([]*kgo.Record, 1<<17)
	for i := range records {
		records[i] = &kgo.Record{Topic: "weir.requests", Value: fmt.Appendf(nil, `{"to":%q,"channel":"sms","class":"code","template":"hi","vars":{"name":"x"}}`, number(rand.IntN(recipients)))}
	}
	one := make([]input, 1)
	alone := func(records []*kgo.Record) []input {
		readInput(&one[0], records[0], false)
		return one
	}
	for _, way := range []struct {
		name string
		size int
		read func([]*kgo.Record) []input
	}{{"ahead", foreseen, s.read}, {"alone", 1, alone}} {
		b.Run(way.name, func(b *testing.B) {
			began := cpuTime(b)
			for i := 0; b.Loop(); i += 1024 {
				p.begin()
				p.advance(p.cur.meta.T + 2*60_000)
				chunk := records[i%len(records):][:1024]
				for _, r := range chunk {
					r.Timestamp = p.cur.meta.T.Time()
				}
				for some := range slices.Chunk(chunk, way.size) {
					inputs := way.read(some)
					for i := range inputs {
						if o, err := p.decide(&inputs[i]); err != nil || o.event.Status != schemas.StatusQueued && o.event.Status != schemas.StatusLimited {
							b.Fatal(o.event, err)
						}
					}
				}
				p.commit()
			}
			b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N)/1024, "cpu-ns/record")
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/1024, "ns/record")
		})
	}
}

// cpuTime is what this process used of the processors so far.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
