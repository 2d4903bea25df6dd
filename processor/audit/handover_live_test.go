package audit_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

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
			err = topics.Apply(t.Context(), adm, diff, nil)
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
	r := l.settled()
	stop()
	t.Log(text(r))
	if r.Outcome != audit.Proven || r.Ends[schemas.StatusSent] == 0 || r.Checked.Dispatched >= r.Checked.Admitted+r.Checked.Moved {
		t.Fatal(text(r))
	}
}
