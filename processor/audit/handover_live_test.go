package audit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// TestWhatWeirDoesNotCallIsProven: messages that a consumer takes, and those that
// are only decided, have one end each, and the audit proves it over restarts and
// a change of who sends.
func TestWhatWeirDoesNotCallIsProven(t *testing.T) {
	l := newLive(t)
	change := func(to string) {
		t.Helper()
		text := strings.Replace(firstPolicy, "providers:\n", "providers:\n  - {name: mine, type: external, channels: [sms], lanes: 2, price: {currency: CNY, per_segment: 0.05}}\n  - {name: nobody, type: none, channels: [sms]}\n", 1)
		text += "routes:\n  - {name: texts, match: {channel: sms}, to: " + to + "}\n"
		pol := parse(t, text)
		adm := kadm.NewClient(l.cl)
		diff, err := topics.Plan(t.Context(), adm, topics.Catalogue(topics.Config{Partitions: parts, Replication: 1}, &pol))
		if err == nil {
			err = topics.Apply(t.Context(), l.cl, diff, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		l.publish(text)
	}
	change("[{provider: mine}, {provider: nobody}, {provider: sim}]")
	stop := l.start()
	l.send(1, 400)
	l.settled()
	stop()
	change("[{provider: nobody}, {provider: sim}]")
	stop = l.start()
	l.send(2, 400)
	l.settled()
	// A release of every message, and of every other one two: only what was
	// decided without sending has places to give back, and once.
	var releases []*kgo.Record
	for _, all := range l.logs()[l.names.Status()] {
		for i, rec := range all {
			e, err := schemas.DecodeEvent(rec.Value)
			if err != nil {
				t.Fatal(err)
			}
			for range 1 + i%2 {
				if e.Kind == schemas.KindStatus && e.Status != schemas.StatusRejected {
					releases = append(releases, &kgo.Record{Topic: l.names.Requests(), Partition: int32(i % parts),
						Value: fmt.Appendf(nil, `{"action":"release","id":%q,"channel":%q,"to":%q}`, e.MessageID, e.Channel, e.To)})
				}
			}
		}
	}
	if err := l.cl.ProduceSync(t.Context(), releases...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	stop()
	stop = l.start()
	l.send(3, 400)
	r := l.settled()
	stop()
	t.Log(text(r))
	if r.Checked.GivenBack == 0 || r.Checked.Returned == 0 || r.Checked.GivenBack >= r.Checked.Admitted {
		t.Errorf("%d releases gave back %d places", r.Checked.GivenBack, r.Checked.Returned)
	}
	if r.Outcome != audit.Proven || r.Ends[schemas.StatusSent] == 0 || r.Checked.Dispatched >= r.Checked.Admitted+r.Checked.Moved {
		t.Fatal(text(r))
	}
}
