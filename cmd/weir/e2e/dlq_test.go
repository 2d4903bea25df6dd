package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/dlq"
	"github.com/weirhq/weir/schemas"
)

const dlqPolicy = `
limits:
  - {name: verify, per: [recipient], allow: [1/1h]}
providers:
  - {name: callee, type: http, channels: [sms], timeout: 5s, settings: {url: %q}}
`

// deadLetters lets a provider refuse everything for good, looks into the DLQ,
// and sends again what is in it when the provider is well: with the CLI killed
// on the way.
func deadLetters(t *testing.T, brokers []string) {
	callee := newCallee(t)
	callee.refuses.Store(true)
	s := newSite(t, brokers, "dlq", fmt.Sprintf(dlqPolicy, callee.URL))
	seen := newLives()
	trail := s.follow(seen.add)
	worker := s.run(0, "admission,lanes,delay")
	const recipients, twice = 120, 10 // so many of them have two messages
	send := func(n int) []Offset {
		p, err := NewProducer(brokers, s.names, CRC32)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			to := fmt.Sprintf("+861380000%04d", i)
			p.Send(t.Context(), &schemas.Request{Channel: schemas.ChannelSMS, To: to, Class: "verify", Body: "secret"}, to)
		}
		at, err := p.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	requests := send(recipients)
	s.settle(trail, requests, 60*time.Second)
	more := send(twice) // the first ones gave their places back
	s.settle(trail, more, 60*time.Second)
	const all = recipients + twice

	var entries []dlq.Entry
	listed := s.weir("dlq", "list", "--json", "--limit", "0", "--reason", "permanent", "--provider", "callee", "--class", "verify", "--since", "1h")
	for line := range strings.Lines(listed) {
		var e dlq.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		entries = append(entries, e)
	}
	if len(entries) != all {
		t.Fatalf("%d entries, want %d:\n%s", len(entries), all, listed)
	}
	if strings.Contains(listed, "+861380") || strings.Contains(listed, "secret") {
		t.Error("the list shows a recipient or a body")
	}
	if out := s.weir("dlq", "list", "--reason", "nothing"); !strings.Contains(out, "Nothing matches") {
		t.Errorf("a reason that nothing has: %s", out)
	}
	shown := s.weir("dlq", "show", entries[0].Position)
	if strings.Contains(shown, "+861380") || strings.Contains(shown, "secret") || !strings.Contains(shown, entries[0].MessageID) {
		t.Errorf("shown without --body:\n%s", shown)
	}
	if shown = s.weir("dlq", "show", "--body", entries[0].MessageID); !strings.Contains(shown, `"secret"`) || !strings.Contains(shown, "+861380") {
		t.Errorf("shown with --body:\n%s", shown)
	}
	if out := s.weir("dlq", "redrive", "--dry-run"); !strings.Contains(out, fmt.Sprintf("%d of %d would be sent again", all, all)) {
		t.Errorf("dry run: %s", out)
	}

	callee.refuses.Store(false)
	// 40 a second: three seconds, so that it has kept how far it is.
	cli, err := start(s.dir, "redrive", nil, s.bin, append([]string{"dlq", "redrive", "--rate", "40/s"}, s.flags()...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cli.Kill)
	if !poll(t, 30*time.Second, func() bool { return len(callee.record()) >= 60 }) {
		t.Fatalf("%d calls: %s", len(callee.record()), cli.Output())
	}
	cli.Kill()
	if cli.Err() == nil {
		t.Fatal("the redrive came to its end before it was killed")
	}
	out := s.weir("dlq", "redrive", "--resume", "--rate", "500/s")
	again := make(map[string]string) // new ids, by the old one
	poll(t, 30*time.Second, func() bool {
		ended := 0
		seen.mu.Lock()
		defer seen.mu.Unlock()
		for _, events := range seen.events {
			for _, e := range events {
				if e.RedriveOf != "" && e.Kind == schemas.KindStatus && e.Status.End() {
					ended++
				}
			}
		}
		return ended >= all
	})
	// What was asked for twice has been decided as well.
	s.settle(trail, requests, 60*time.Second)
	ends, repeated := make(map[schemas.Status]int), 0
	seen.mu.Lock()
	lived := maps.Clone(seen.events)
	seen.mu.Unlock()
	for id, events := range lived {
		of, n := "", 0
		for _, e := range events {
			if e.RedriveOf != "" {
				of = e.RedriveOf
			}
			if e.Kind == schemas.KindStatus && e.Status.End() {
				n++
				if e.RedriveOf != "" {
					ends[e.Status]++
				}
			}
			if e.Kind == schemas.KindDecision && e.Reason == "repeated" {
				repeated++
			}
		}
		if of == "" {
			continue
		}
		if n != 1 || again[of] != "" {
			t.Errorf("%s, which sends %s again: %s; beside it %s", id, of, seen.statuses(id), again[of])
		}
		again[of] = id
	}
	t.Logf("DLQ resumed: %s; ends %v, %d repeated", strings.ReplaceAll(strings.TrimSpace(out), "\n", " "), ends, repeated)
	if len(again) != all || ends[schemas.StatusSent] != recipients || ends[schemas.StatusLimited] != twice {
		t.Errorf("%d of %d were redriven; ends %v, want %d sent and %d refused by the limit", len(again), all, ends, recipients, twice)
	}
	for id, n := range callee.record() {
		if n != 1 {
			t.Errorf("%s was called %d times", id, n)
		}
	}
	if out, err := s.try("dlq", "redrive", "--resume"); err == nil || !strings.Contains(out, "no redrive to go on with") {
		t.Errorf("after its end: %s", out)
	}
	s.stop(worker)
	if out, err := s.try("audit"); err != nil || !strings.Contains(out, fmt.Sprintf("redriven, as new messages   %d", all)) {
		t.Errorf("weir audit: %v\n%s", err, out)
	}
}
