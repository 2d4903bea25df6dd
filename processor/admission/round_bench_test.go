package admission

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// BenchmarkRound is what each step of a round costs without Kafka.
func BenchmarkRound(b *testing.B) {
	r := newRing(b, 8, `
limits:
  - {name: verify, per: [recipient], allow: [5/60s, 10/1h, 20/calendar-day]}
  - {name: tenant, per: [tenant], allow: [2000/60s, 20000/1h]}
`+roundRest)
	step := func(p *partition, rec *kgo.Record, readmit bool) []*kgo.Record {
		in := new(input)
		readInput(in, rec, readmit)
		p.begin()
		p.advance(r.now)
		o, err := p.decide(in)
		if err != nil {
			b.Fatal(err)
		}
		p.commit()
		schemas.AppendEvent(nil, &o.event)
		var out []*kgo.Record
		for i := range o.send {
			out = append(out, o.send[i].record(rec))
		}
		return out
	}
	run := func(name string, n int) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var recs []*kgo.Record
			for i := range b.N {
				to := fmt.Sprintf("+8613800%06d", i%1000000)
				recs = append(recs, &kgo.Record{Topic: "weir.requests", Partition: schemas.PartitionOf(to, 8), Offset: int64(i), Key: []byte(to), Timestamp: r.now.Time(),
					Value: fmt.Appendf(nil, `{"tenant":"t%d","channel":"sms","to":%q,"class":"code","body":"your code is 123456 and this is some more text to make it long enough","metadata":{"order":"1234567"}}`, i%1000, to)})
			}
			for range n {
				var next []*kgo.Record
				for _, rec := range recs {
					next = append(next, step(r.parts[rec.Partition], rec, rec.Topic == "weir.readmit")...)
				}
				recs = next
			}
			b.ResetTimer()
			for _, rec := range recs {
				step(r.parts[rec.Partition], rec, rec.Topic == "weir.readmit")
				r.now++
			}
		})
	}
	run("home", 0)
	run("owner", 1)
	run("last", 2)
}
