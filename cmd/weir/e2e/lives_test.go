package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// lives collects what weir.status says of each message, by its id.
type lives struct {
	mu     sync.Mutex
	events map[string][]*schemas.Event
}

func newLives() *lives { return &lives{events: make(map[string][]*schemas.Event)} }

func (l *lives) add(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events[r.Event.MessageID] = append(l.events[r.Event.MessageID], r.Event)
}

func (l *lives) of(id string) []*schemas.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events[id])
}

// statuses is a message's life in words, with attempts.
func (l *lives) statuses(id string) string {
	var words []string
	for _, e := range l.of(id) {
		switch {
		case e.Kind == schemas.KindDecision:
			if e.Decision.Verdict != schemas.VerdictForward {
				words = append(words, "("+string(e.Decision.Verdict)+")")
			}
		case e.Attempt > 0:
			words = append(words, fmt.Sprintf("%s:%d", e.Status, e.Attempt))
		default:
			words = append(words, string(e.Status))
		}
	}
	return strings.Join(words, " ")
}

const livesPolicy = `
limits:
  - {name: verify, per: [recipient, class], allow: [1/1h]}
classes:
  - {name: verify, retries: [1s, 1s]}
  - {name: hold, retries: [1s], on_unknown: hold}
providers:
  - {name: sim, type: simulated, channels: [email], timeout: 1m, settings: {latency: 1ms-5ms}}
  - {name: slow, type: simulated, channels: [email], timeout: 1m, settings: {latency: 1ms-5ms}}
  - {name: brief, type: simulated, channels: [email], timeout: 3s, settings: {latency: 1ms-5ms}} # for what hangs, and so takes all of it
routes:
  - {name: all, to: [{provider: sim}]}
`

// livesOfMessages sends one message into each fate, then a second to the same
// recipient: the place of the first stands or does not.
func livesOfMessages(t *testing.T, brokers []string) {
	type fate struct {
		to, class, provider string
		want                string // the first message's life
		stands              bool   // its place
		attempts            int    // the place stands at this attempt
	}
	fates := map[string]fate{
		"retried":                 {"transient-1@a.example.com", "verify", "", "queued sending:1 retrying:1 queued:1 sending:2 sent:2", true, 2},
		"refused for good":        {"permanent@a.example.com", "verify", "", "queued sending:1 failed:1 (give_back)", false, 0},
		"throttled":               {"throttled-1@a.example.com", "verify", "slow", "queued sending:1 retrying:1 queued:1 sending:2 sent:2", true, 2},
		"unknown, sent again":     {"timeout-1@a.example.com", "verify", "brief", "queued sending:1 retrying:1 queued:1 sending:2 sent:2", true, 2},
		"unknown, held":           {"timeout@a.example.com", "hold", "brief", "queued sending:1 unknown:1", true, 1},
		"never received":          {"transient@a.example.com", "verify", "", "queued sending:1 retrying:1 queued:1 sending:2 retrying:2 queued:2 sending:3 failed:3 (give_back)", false, 0},
		"perhaps received":        {"maybe@a.example.com", "verify", "", "queued sending:1 retrying:1 queued:1 sending:2 retrying:2 queued:2 sending:3 failed:3", true, 3},
		"a receipt, delivered":    {"late@a.example.com", "verify", "", "queued sending:1 sent:1 delivered:1", true, 1}, // no receipt overtakes its message
		"a receipt, not received": {"undelivered@a.example.com", "verify", "", "queued sending:1 sent:1 undelivered:1", true, 1},
	}
	s := newSite(t, brokers, "lives", livesPolicy)
	seen := newLives()
	trail := s.follow(seen.add)
	worker := s.run(0, "admission,lanes,delay,receipts")

	send := func(suffix string) (ids map[string]string, at []Offset) {
		ids = make(map[string]string)
		p, err := NewProducer(brokers, s.names, CRC32)
		if err != nil {
			t.Fatal(err)
		}
		for name, f := range fates {
			id, err := schemas.NewID() // so that it counts as the producer's own
			if err != nil {
				t.Fatal(err)
			}
			ids[name] = id
			p.Send(t.Context(), &schemas.Request{ID: id, Channel: schemas.ChannelEmail, To: f.to, Class: f.class, Provider: f.provider, Subject: "code", Body: "code " + suffix}, f.to)
		}
		at, err = p.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return ids, at
	}
	first, requests := send("1")
	s.settle(trail, requests, 60*time.Second)
	complete := func() bool {
		for name, f := range fates {
			if seen.statuses(first[name]) != f.want {
				return false
			}
		}
		return true
	}
	poll(t, 20*time.Second, complete)
	for name, f := range fates {
		if got := seen.statuses(first[name]); got != f.want {
			t.Errorf("%s (%s):\n got %s\nwant %s", name, f.to, got, f.want)
		}
	}

	second, more := send("2")
	s.settle(trail, more, 60*time.Second)
	for name, f := range fates {
		life := seen.of(second[name])
		i := slices.IndexFunc(life, func(e *schemas.Event) bool {
			return e.Decision != nil && (e.Decision.Verdict == schemas.VerdictAdmit || e.Decision.Verdict == schemas.VerdictRefuse)
		})
		if i < 0 {
			t.Errorf("%s: the second was not decided: %s", name, seen.statuses(second[name]))
			continue
		}
		if refused := life[i].Decision.Verdict == schemas.VerdictRefuse; refused != f.stands {
			t.Errorf("%s: the first one's place stands %v, want %v: %s, then %s", name, refused, f.stands, seen.statuses(first[name]), seen.statuses(second[name]))
			continue
		}
		if !f.stands {
			continue
		}
		// The place moved with each attempt, so the window opens an hour after
		// the last.
		var last *schemas.Decision
		for _, e := range seen.of(first[name]) {
			if e.Decision != nil && len(e.Decision.Charges) > 0 {
				last = e.Decision
			}
		}
		if want := last.T.Add(time.Hour); life[i].RetryAt != want {
			t.Errorf("%s: try again at %s, want %s", name, life[i].RetryAt, want)
		}
		if moved := last.Verdict == schemas.VerdictMove; moved != (f.attempts > 1) {
			t.Errorf("%s: the last decision is %s at attempt %d", name, last.Verdict, f.attempts)
		}
	}
	s.stop(worker)
	_, report := s.judge(append(requests, more...), nil)
	t.Logf("LIVES %s", report)
	if !report.OK() {
		t.Error("the log does not hold what it promises")
	}
}

// patience is how long a test waits at least for what must come. It bounds a test
// that fails and measures nothing: two processors that run three packages at once
// may take a quarter of a minute for what takes a second.
const patience = 2 * time.Minute

// poll looks until done, for as long as it takes a process at most: within, or
// patience if that is longer.
func poll(t *testing.T, within time.Duration, done func() bool) bool {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(max(within, patience))
	defer deadline.Stop()
	for {
		if done() {
			return true
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return done()
		case <-t.Context().Done():
			return false
		}
	}
}
