package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirhq/weir/processor/dlq"
	"github.com/weirhq/weir/schemas"
)

const dlqPolicy = `
limits:
  - {name: verify, per: [recipient], allow: [1/1h]}
providers:
  - {name: callee, type: http, channels: [sms], timeout: 1m, settings: {url: %q}}
`

// redriven returns what says how many records the redrive under way has kept that it
// is done with. Call it before the redrive begins.
func (s *site) redriven() func() int64 {
	s.t.Helper()
	adm := kadm.NewClient(s.client())
	starts, err := adm.ListStartOffsets(s.t.Context(), s.names.DLQ())
	if err != nil {
		s.t.Fatal(err)
	}
	return func() (n int64) {
		s.t.Helper()
		at, err := adm.FetchOffsets(s.t.Context(), s.names.DLQ()+".redrive")
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			s.t.Fatal(err)
		}
		at.Each(func(o kadm.OffsetResponse) {
			if start, ok := starts.Lookup(o.Topic, o.Partition); ok && o.At > start.Offset {
				n += o.At - start.Offset
			}
		})
		return n
	}
}

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
	for _, do := range [][]string{{"dlq", "list"}, {"dlq", "redrive", "--dry-run"}} {
		if out := s.weir(append(do, "--tenant", "globex")...); !strings.Contains(out, "The policy in force has no tenant globex") {
			t.Errorf("%v of a tenant that is not known:\n%s", do, out)
		}
	}
	if out := s.weir("dlq", "list", "--reason", "nothing"); !strings.Contains(out, "Nothing matches") || strings.Contains(out, "no tenant") {
		t.Errorf("a reason that nothing has: %s", out)
	}
	shown := s.weir("dlq", "show", entries[0].Position)
	if strings.Contains(shown, "+861380") || strings.Contains(shown, "secret") || !strings.Contains(shown, entries[0].MessageID) {
		t.Errorf("shown without --body:\n%s", shown)
	}
	if shown = s.weir("dlq", "show", "--body", entries[0].MessageID); !strings.Contains(shown, `"secret"`) || !strings.Contains(shown, "+861380") {
		t.Errorf("shown with --body:\n%s", shown)
	}
	if out := s.weir("dlq", "redrive", "--dry-run"); !strings.Contains(out, fmt.Sprintf("0 of %d would be sent again", all)) {
		t.Errorf("dry run of what ended for good, and is not named: %s", out)
	}
	if out := s.weir("dlq", "redrive", "--reason", "permanent", "--dry-run"); !strings.Contains(out, fmt.Sprintf("%d of %d would be sent again", all, all)) {
		t.Errorf("dry run: %s", out)
	}
	if out, err := s.try("dlq", "redrive"); err == nil || !strings.Contains(out, "--all") {
		t.Errorf("a redrive without a filter: %v: %s", err, out)
	}

	callee.refuses.Store(false)
	// Two a second: a minute, in which it keeps how far it is about once a second. It is
	// killed at the first time.
	kept := s.redriven()
	cli, err := start(s.dir, "redrive", nil, s.bin, append([]string{"dlq", "redrive", "--reason", "permanent", "--rate", "2/s"}, s.flags()...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cli.Kill)
	if !poll(t, 30*time.Second, func() bool { return kept() > 0 }) {
		t.Fatalf("it keeps nothing: %s", cli.Output())
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
	if out := s.weir("dlq", "redrive", "--reason", "permanent"); !strings.Contains(out, fmt.Sprintf("0 of %d were asked for again", all)) {
		t.Errorf("a second redrive: %s", out)
	}
	if out := s.weir("dlq", "list", "--limit", "0"); strings.Count(out, "sent again ") != all {
		t.Errorf("the list does not say what was sent again:\n%s", out)
	}
	s.stop(worker)
	if out, err := s.try("audit"); err != nil || !strings.Contains(out, fmt.Sprintf("redriven, as new messages   %d", all)) {
		t.Errorf("weir audit: %v\n%s", err, out)
	}
}
