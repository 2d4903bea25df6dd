package audit_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// What a topic lost, or lost of its end, is found by the others. A real run's logs are
// copied to another broker without it.
func TestLostRecordsAreCaught(t *testing.T) {
	l := newLive(t)
	stop := l.start()
	l.send(5, 300)
	later := schemas.MillisOf(time.Now().Add(2 * time.Hour))
	const waiting = 6
	var to [waiting]string
	for i := range to {
		to[i] = fmt.Sprintf("+8613900000%03d", i)
		if err := l.cl.ProduceSync(t.Context(), &kgo.Record{Topic: l.names.Requests(), Value: fmt.Appendf(nil, `{"channel":"sms","to":%q,"class":"verify","body":"later","send_at":%q}`, to[i], later)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if c := l.settledBut(waiting).Checked; c.Waiting != waiting || c.Letters == 0 {
		t.Fatalf("%d wait, %d dead letters", c.Waiting, c.Letters)
	}
	stop()
	logs := l.logs()
	at := schemas.PartitionOf(to[0], parts)
	delays := func(n topics.Names) string { return n.Delay("1h") }
	for _, c := range []change{
		{name: "nothing", topic: topics.Names.Status, do: func(rs []*kgo.Record) []*kgo.Record { return rs }},
		{name: "the end of a delay topic", topic: delays, partition: at, want: audit.KindDelay, do: func(rs []*kgo.Record) []*kgo.Record { return rs[:len(rs)-1] }},
		{name: "the beginning of a delay topic", topic: delays, partition: at, want: audit.KindDelay, do: func(rs []*kgo.Record) []*kgo.Record { return rs[1:] }},
		{name: "a dead letter", topic: topics.Names.DLQ, want: audit.KindLetter, do: drop},
		{name: "a dead letter's reason", topic: topics.Names.DLQ, want: audit.KindLetter, do: func(rs []*kgo.Record) []*kgo.Record {
			for i, h := range rs[0].Headers {
				if h.Key == schemas.HeaderReason {
					rs[0].Headers[i].Value = []byte("another")
				}
			}
			return rs
		}},
		{name: "the end of the log", topic: topics.Names.Status, want: audit.KindLedger, do: func(rs []*kgo.Record) []*kgo.Record {
			for i := len(rs) - 1; i >= 0; i-- {
				if e, err := schemas.DecodeEvent(rs[i].Value); err == nil && e.Decision != nil {
					return rs[:i]
				}
			}
			return nil
		}},
		{name: "all of the log", topic: topics.Names.Status, want: audit.KindLedger, do: func(rs []*kgo.Record) []*kgo.Record { return rs[:0] }},
		{name: "the end of the ledger", topic: topics.Names.Ledger, want: audit.KindLedger, do: func(rs []*kgo.Record) []*kgo.Record { return rs[:len(rs)/2] }},
		{name: "other time zones", topic: topics.Names.Ledger, unsure: true, do: func(rs []*kgo.Record) []*kgo.Record {
			for _, r := range rs {
				r.Value = bytes.Replace(r.Value, []byte(`"zones":"`+schemas.ZonesVersion+`"`), []byte(`"zones":"2019a"`), 1)
			}
			return rs
		}},
		{name: "other time zones before the last decisions", topic: topics.Names.Ledger, unsure: true, do: func(rs []*kgo.Record) []*kgo.Record {
			for _, r := range rs {
				r.Value = bytes.Replace(r.Value, []byte(`"zones":`), []byte(`"others":[{"phones":"p","zones":"2019a","seq":3}],"zones":`), 1)
			}
			return rs
		}},
		{name: "all of the ledger", topic: topics.Names.Ledger, want: audit.KindLedger, do: func(rs []*kgo.Record) []*kgo.Record { return rs[:0] }},
	} {
		t.Run(c.name, func(t *testing.T) { c.copied(t, logs) })
	}
}
