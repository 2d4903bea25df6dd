package audit_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// A request whose times lie at the end of what RFC 3339 can write ends once, wherever it
// was read: no time that follows from it is one that no one can read.
func TestTheLastYear(t *testing.T) {
	l := newLive(t)
	stop := l.start()
	defer stop()
	times := []string{
		`"send_at":"9999-12-31T23:59:59Z"`,
		`"send_at":"9999-12-31T23:57:00Z","expires_at":"9999-12-31T23:59:59-10:00"`,
		`"expires_at":"9999-12-31T23:59:59-10:00"`,
		`"expires_at":"9999-12-31T23:59:59Z"`,
		`"send_at":"0000-01-01T00:00:00+10:00"`,
	}
	var records []*kgo.Record
	for i, at := range times {
		for num := range int32(parts) { // its owner's partition, and others
			records = append(records, &kgo.Record{Topic: l.names.Requests(), Partition: num,
				Value: fmt.Appendf(nil, `{"channel":"sms","to":"+86138004000%d%d","class":"code","body":"x",%s}`, i, num, at)})
		}
	}
	if err := l.cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	l.settled()
	r := l.proven()
	// An expiry of the last year alone is a lawful one.
	if n := r.Ends[schemas.StatusRejected]; n != int64((len(times)-1)*parts) || r.Ends[schemas.StatusSent] != parts || len(r.Aside) > 0 {
		t.Errorf("%d of %d are rejected:\n%s", n, (len(times)-1)*parts, text(r))
	}
}
