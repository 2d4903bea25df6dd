package audit_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/topics"
)

const (
	boxPolicy = `
limits:
  - {name: boxes, per: [mailbox], allow: [3/1h]}
  - {name: of-class, match: {class: verify}, per: [recipient, mailbox], allow: [2/1h]}
providers:
  - {name: sim, type: simulated, channels: [email], pace: [500/1s], settings: {latency: 1ms-2ms}}
`
	boxRules = `
mailboxes:
  - {domains: [gmail.example, googlemail.example], ignore: [dots, tag]}
`
)

// TestMailboxesAreProven: the audit counts mailboxes by itself as admission does. What
// a build did that ignores the rules of its policy is not proven, nor what one did
// whose policy has none.
func TestMailboxesAreProven(t *testing.T) {
	l := newLive(t)
	l.publish(boxPolicy + boxRules)
	stop := l.start()
	for i := range 24 {
		l.mail(int32(i%parts), fmt.Sprintf([]string{"delivered%d@gmail.example", "de.livered%d+a@gmail.example", "delivered%d@googlemail.example", "delivered%d@other.example", "+delivered%d@gmail.example", "delivered%d+b.c@other.example"}[i%6], i/6%2), "")
	}
	l.settled()
	l.publish(boxPolicy)
	l.mail(0, "delivered.late@gmail.example", "")
	l.settled()
	stop()
	c := l.proven().Checked
	shows(t, map[string]int64{"admitted": c.Admitted, "refused": c.Refused, "carried": c.Carried})
	logs := l.logs()
	for _, tt := range []struct {
		change
		policies []string
	}{
		{change{name: "its own policies"}, []string{boxPolicy + boxRules, boxPolicy}},
		{change{name: "as if the rules were ignored", want: audit.KindCharges}, []string{boxPolicy, boxPolicy}},
		{change{name: "as if there were rules", want: audit.KindCharges}, []string{boxPolicy + boxRules, boxPolicy + boxRules}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.topic, tt.do = topics.Names.Status, func(rs []*kgo.Record) []*kgo.Record { return rs }
			tt.copied(t, logs, tt.policies...)
		})
	}
}
