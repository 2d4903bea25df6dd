package audit_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/processor/dlq"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// topic reads all of a topic.
func (l *live) topic(name string) (out []*kgo.Record) {
	l.t.Helper()
	var ranges []stream.Range
	for p := range int32(parts) {
		ranges = append(ranges, stream.Range{Partition: stream.Partition{Topic: name, Partition: p}})
	}
	if err := stream.Read(l.t.Context(), stream.ReadConfig{Brokers: l.seeds}, ranges, func(r *kgo.Record) error {
		out = append(out, r)
		return nil
	}); err != nil {
		l.t.Fatal(err)
	}
	return out
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

const calmPolicy = `
limits:
  - {name: verify, match: {class: verify}, per: [recipient], allow: [1/60s]}
classes:
  - {name: verify, retries: []}
providers:
  - {name: sim, type: simulated, channels: [sms, email], pace: [500/1s], settings: {latency: 1ms-2ms}}
tenants:
  - {name: default, default_region: CN}
`

// TestDeadLettersAreIntactAndRedriven goes through the real stages: what a
// producer wrote is in the DLQ as it wrote it, sending it again makes new
// messages, asking twice changes nothing, and the audit proves all of it.
func TestDeadLettersAreIntactAndRedriven(t *testing.T) {
	l := newLive(t)
	l.publish(calmPolicy)
	stop := l.start()
	const n = 60
	values := make(map[string]*kgo.Record) // what was written, by the value's own mark
	var records []*kgo.Record
	for i := range n {
		value := fmt.Sprintf(`{ "channel":"email", "to":"permanent@R%d.Example.com", "class":"verify", "subject":"s%d", "body":"b\u00e9" , "idempotency_key":"k", "unknown":%d}`, i, i, i)
		switch i % 10 {
		case 8:
			value = fmt.Sprintf(`{"channel":"sms","to":"12","body":"%d"}`, i) // no recipient
		case 9:
			value = fmt.Sprintf(`{"channel":"email","to":"a@r%d.example.com","template":"gone"}`, i) // rejected, readable
		}
		r := &kgo.Record{Topic: l.names.Requests(), Partition: int32(i % parts), Value: []byte(value), Headers: []kgo.RecordHeader{
			{Key: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}, {Key: "mine", Value: []byte{0, 255, byte(i)}},
			{Key: "mine", Value: []byte("again")}, {Key: "weir-timestamp", Value: []byte("2020-02-03T04:05:06.789Z")}, {Key: "weir-place", Value: []byte("forged")},
		}}
		if i%2 == 0 {
			r.Key = []byte{'k', 0, 0xff, byte(i)}
		}
		values[value] = r
		records = append(records, r)
	}
	if err := l.cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	l.settled()
	dead := l.topic(l.names.DLQ())
	if len(dead) != n {
		t.Fatalf("%d records in the DLQ, want %d", len(dead), n)
	}
	accepted := make(map[string]schemas.Millis)
	for _, r := range l.topic(l.names.Requests()) {
		accepted[string(r.Value)] = schemas.MillisOf(r.Timestamp)
	}
	for _, r := range dead {
		was := values[string(r.Value)]
		if was == nil {
			t.Fatalf("the bytes are not those that were written: %s", r.Value)
		}
		key := header(r, schemas.HeaderRequestKey)
		if header(r, schemas.HeaderKey) == "" {
			key = string(r.Key) // nobody's: it has the key that it came with
		}
		if key != string(was.Key) {
			t.Errorf("the producer's key is %q, was %q", key, was.Key)
		}
		if canonical := header(r, schemas.HeaderKey); canonical != "" && string(r.Key) != canonical {
			t.Errorf("its key is %q and not the recipient's, %q", r.Key, canonical)
		}
		var theirs []kgo.RecordHeader
		for _, h := range r.Headers {
			if len(h.Key) < 5 || h.Key[:5] != "weir-" {
				theirs = append(theirs, h)
			}
		}
		if !slices.EqualFunc(theirs, was.Headers[:3], func(a, b kgo.RecordHeader) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }) {
			t.Errorf("the producer's headers are %v, were %v", theirs, was.Headers[:3])
		}
		if got := header(r, schemas.HeaderTimestamp); got != "2020-02-03T04:05:06.789Z" {
			t.Errorf("the producer's time is %q", got)
		}
		if got := header(r, schemas.HeaderAcceptedAt); got != accepted[string(r.Value)].String() {
			t.Errorf("accepted at %q, was %s", got, accepted[string(r.Value)])
		}
		if origin := header(r, schemas.HeaderOrigin); origin != (schemas.Source{Topic: was.Topic, Partition: was.Partition, Offset: was.Offset}).String() {
			t.Errorf("its origin is %s", origin)
		}
		if header(r, schemas.HeaderPlace) != "" || header(r, schemas.HeaderReason) == "" || header(r, schemas.HeaderError) == "" || header(r, schemas.HeaderID) == "" {
			t.Errorf("its headers: %v", r.Headers)
		}
	}

	box, err := dlq.Open(dlq.Config{Brokers: l.seeds, Names: l.names})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	asked := len(l.topic(l.names.Readmit()))
	sum, err := box.Redrive(t.Context(), dlq.Filter{}, dlq.RedriveOptions{DryRun: true})
	if err != nil || sum.Matched != n || sum.Redriven != 6 || sum.Skipped["permanent"] != 48 || sum.Skipped[dlq.SkipRecipient] != 6 || sum.ByReason["unknown_template"] != 6 || sum.Cursor != "" {
		t.Fatalf("a dry run: %+v, %v", sum, err)
	}
	if got := len(l.topic(l.names.Readmit())); got != asked {
		t.Fatalf("the dry run wrote %d records to readmit", got-asked)
	}
	before := l.audit().Checked
	// Twice the same, in one breath: what comes second is repeated.
	first, err := box.Redrive(t.Context(), dlq.Filter{Reason: "permanent"}, dlq.RedriveOptions{Rate: 5000, Most: 30})
	if err != nil || first.Redriven != 30 || first.Cursor == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := box.Redrive(t.Context(), dlq.Filter{Reason: "permanent", Until: schemas.MillisOf(time.Now()), Again: true}, dlq.RedriveOptions{Rate: 5000})
	if err != nil || again.Redriven < 48 {
		t.Fatalf("%+v, %v", again, err)
	}
	l.settled()
	stop()
	r := l.audit()
	if r.Outcome != audit.Proven || r.Checked.Open != 0 {
		t.Fatal(text(r))
	}
	// Those of the first that failed anew are in the DLQ as messages of their own;
	// the second call may have found some of them.
	if r.Checked.Redriven < 48 || r.Checked.Redriven > 48+30 {
		t.Errorf("%d were redriven; before %+v", r.Checked.Redriven, before)
	}
	ends := make(map[string]int)
	repeated := 0
	for _, rec := range l.topic(l.names.Status()) {
		e, err := schemas.DecodeEvent(rec.Value)
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == schemas.KindDecision && e.Reason == "repeated" && e.Decision.Verdict == schemas.VerdictDuplicate {
			repeated++
		}
		if e.RedriveOf != "" && e.Kind == schemas.KindStatus && e.Status.End() {
			ends[e.MessageID]++
		}
	}
	if repeated != 30 {
		t.Errorf("%d redrives were recognised, want the 30 that were asked for twice", repeated)
	}
	if int64(len(ends)) != r.Checked.Redriven {
		t.Errorf("%d redriven messages have an end, of %d", len(ends), r.Checked.Redriven)
	}
	for id, n := range ends {
		if n != 1 {
			t.Errorf("%s ended %d times", id, n)
		}
	}
}
