package erase

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// What is there now is gone with its segment: that takes records for a while
// after the newest, and is kept for the retention after its last.
func TestUntil(t *testing.T) {
	const hour = int64(time.Hour / time.Millisecond)
	now := schemas.Millis(1000 * hour)
	for _, tt := range []struct {
		name, topic, cleanup, retention, segment string
		newest                                   schemas.Millis
		hours                                    int64 // after now; 0 is no date
		note                                     bool
	}{
		{"a topic at rest", "weir.requests", "delete", "36000000", "3600000", now - schemas.Millis(5*hour), 6, false},
		{"one in use", "weir.requests", "delete", "36000000", "3600000", now, 11, false},
		{"nobody knows its newest record", "weir.requests", "delete", "36000000", "3600000", 0, 11, false},
		{"a producer's clock", "weir.requests", "delete", "36000000", "3600000", now + schemas.Millis(100*hour), 11, false},
		{"Kafka's own segments", "acme.sends", "delete", "36000000", "", now, 10 + 7*24, false},
		{"for ever", "acme.sends", "delete", "-1", "3600000", now, 0, true},
		{"the ledger", "weir.ledger", "compact", "36000000", "3600000", now, 0, true},
		{"the policy", "weir.config", "delete", "-1", "3600000", now, 0, true},
		{"what alerts hold", "weir.alerts", "compact", "36000000", "3600000", now, 0, true},
		{"callbacks that wait", "weir.callbacks.state", "compact", "36000000", "3600000", now, 0, true},
		{"endpoints of callbacks", "weir.callbacks.endpoints", "compact", "36000000", "3600000", now, 0, true},
		{"somebody else's compacted topic", "acme.sends", "compact,delete", "36000000", "3600000", now, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := Holding{Topic: tt.topic, Newest: tt.newest}
			until(&h, topics.Names{}, tt.cleanup, tt.retention, tt.segment, now)
			want := schemas.Millis(0)
			if tt.hours > 0 {
				want = now + schemas.Millis(tt.hours*hour)
			}
			own := strings.HasPrefix(tt.topic, "weir.") && tt.cleanup == "compact"
			if h.Until != want || (h.Note != "") != tt.note || own && strings.HasSuffix(h.Note, "each key is removed") {
				t.Errorf("until %v, want %v; %q", h.Until, want, h.Note)
			}
		})
	}
}

// What is found of a person is all of it, and nobody else's: alone, within a scope,
// within JSON, within a sentence.
func TestPatterns(t *testing.T) {
	const her = "+8613800000001"
	boxes := []string{"ann@gmail.com", "o&n@gmail.com"}
	for _, tt := range []struct {
		keys                []string
		text, strict, loose string // as they are afterwards
	}{
		{[]string{her}, her, "erased", "erased"},
		{[]string{her}, "+86138000000012", "+86138000000012", "+86138000000012"},
		{[]string{her}, "recipient=" + her + ",class=verify", "recipient=erased,class=verify", "recipient=erased,class=verify"},
		{[]string{her}, `[{"scope":"` + her + `"}]`, `[{"scope":"erased"}]`, `[{"scope":"erased"}]`},
		{[]string{her}, "no such number: " + her + ".", "no such number: " + her + ".", "no such number: erased."},
		{[]string{her}, "mailbox=ann@gmail.com,tenant=t", "erased,tenant=t", "erased,tenant=t"},
		{[]string{her}, `[{"scope":"mailbox=o\u0026n@gmail.com"}]`, `[{"scope":"erased"}]`, `[{"scope":"erased"}]`},
		{[]string{her}, "recipient=ann@gmail.com,class=verify", "recipient=ann@gmail.com,class=verify", "recipient=ann@gmail.com,class=verify"}, // another address
		{[]string{her}, "mailbox=joann@gmail.com", "mailbox=joann@gmail.com", "mailbox=joann@gmail.com"},
		{[]string{"a=b"}, "recipient=a%3Db", "recipient=erased", "recipient=erased"},
		{[]string{`to"ken`}, `[{"scope":"to\"ken"}]`, `[{"scope":"erased"}]`, `[{"scope":"erased"}]`},
		{[]string{"a", "a,b"}, `"a,b"`, `"erased"`, `"erased"`}, // the longest
		{[]string{"a.b"}, `"axb"`, `"axb"`, `"axb"`},            // no pattern of theirs
	} {
		strict, loose := patterns(tt.keys, boxes)
		for pattern, want := range map[string]string{strict: tt.strict, loose: tt.loose} {
			if got := regexp.MustCompile(pattern).ReplaceAllString(tt.text, "${1}erased${3}"); got != want {
				t.Errorf("%q in %q: %q, want %q", tt.keys, tt.text, got, want)
			}
		}
	}
}
