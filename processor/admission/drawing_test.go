package admission

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/processor/status"
	"github.com/weirhq/weir/schemas"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata/lives.txt")

const (
	architecture = "../../ARCHITECTURE.md"
	transcript   = "testdata/lives.txt"
)

// step is one status after another, as the drawing has it.
type step struct{ from, to schemas.Status }

// drawn reads the steps of ARCHITECTURE.md that admission can cause: it writes
// all but what lanes and receipts do, and receipts are no steps of its.
func drawn(t *testing.T) map[step]bool {
	t.Helper()
	b, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "| state | what may follow |\n|---|---|\n")
	table, _, ok2 := strings.Cut(rest, "\n\n")
	if !ok || !ok2 {
		t.Fatal("ARCHITECTURE.md has no table of states")
	}
	others := []schemas.Status{schemas.StatusSending, schemas.StatusRetrying, schemas.StatusFailed, schemas.StatusDelivered, schemas.StatusUndelivered}
	steps := make(map[step]bool)
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		from := schemas.Status(strings.TrimSpace(cells[1]))
		if from == "(none yet)" {
			from = status.None
		}
		if from == schemas.StatusDelivered || from == schemas.StatusUndelivered || from == schemas.StatusSent {
			continue
		}
		for to := range strings.SplitSeq(cells[2], ",") {
			if s := schemas.Status(strings.TrimSpace(to)); slices.Contains(schemas.Statuses, s) && !slices.Contains(others, s) {
				steps[step{from, s}] = true
			}
		}
	}
	return steps
}

// scene plays one message's life against admission, with a lane and a delay
// that do as they are told.
type scene struct {
	*bench
	policy   string
	revision int64
	value    string
	last     send
	reason   string // why it next comes back
	attempt  int
	taint    schemas.Taint
	state    schemas.Status // by statuses that are no receipts
	ended    bool
	steps    map[step]bool
	story    []string
}

const (
	drawnID     = someID
	drawnPolicy = `
limits:
  - {name: code, match: {class: code}, per: [recipient], allow: [1/60s], on_refusal: defer}
classes:
  - {name: code, expires_after: 1h}
providers:
  - {name: one, type: simulated, channels: [sms]}
`
)

func newScene(t *testing.T, steps map[step]bool) *scene {
	s := &scene{bench: newBench(t), revision: 1, steps: steps}
	s.change(drawnPolicy)
	s.value = `{"id":"` + drawnID + `","channel":"sms","to":"+8613800000000","class":"code","body":"x"}`
	return s
}

func (s *scene) change(policy string) {
	s.revision++
	s.policy = policy
	s.apply(s.revision, policy)
}

// saw takes what admission did.
func (s *scene) saw(o outcome) {
	s.t.Helper()
	if o.event.Kind == schemas.KindStatus && o.event.MessageID == drawnID {
		s.story = append(s.story, brief(o))
		if s.ended {
			s.t.Fatalf("a status after its end: %v", s.story)
		}
		if _, ok := status.Next(s.state, o.event.Status); !ok {
			s.t.Fatalf("%s after %q is not drawn: %v", o.event.Status, s.state, s.story)
		}
		s.steps[step{s.state, o.event.Status}] = true
		s.state, s.ended = o.event.Status, o.event.Status.End()
	}
	for _, out := range o.send {
		if !out.dead && (o.event.MessageID == drawnID) {
			s.last = out
			s.reason = out.env.Reason
			if s.reason == "" {
				s.reason = schemas.ReadmitStale // a lane has it, and hands it back
			}
		}
	}
}

func (s *scene) send() { s.t.Helper(); s.saw(s.request("%s", s.value)) }

func (s *scene) returns() {
	s.t.Helper()
	s.saw(s.back(s.reason, s.last, s.value, func(e *schemas.Envelope) { e.Attempt, e.Taint = s.attempt, s.taint }))
}

// lane writes statuses as a lane or a receipt does.
func (s *scene) lane(all ...schemas.Status) {
	for _, st := range all {
		s.story = append(s.story, "["+string(st)+"]")
		if _, ok := status.Next(s.state, st); !ok {
			s.t.Fatalf("%s after %q is not drawn: %v", st, s.state, s.story)
		}
		if st == schemas.StatusDelivered || st == schemas.StatusUndelivered {
			continue
		}
		if s.state = st; st == schemas.StatusRetrying {
			s.attempt++
			s.reason = schemas.ReadmitRetry
		}
	}
}

// other takes the place that the message would need.
func (s *scene) other() {
	s.t.Helper()
	s.now += 61_000
	s.want(s.request(code), "queued admit +1 > dispatch.one.normal")
}

// due lets its wait be over.
func (s *scene) due() {
	if due := s.last.env.DueAt; due > s.now {
		s.now = due
	}
	s.now += 61_000
}

// tried makes an attempt that fails, maybe after it was received.
func (s *scene) tried(taint schemas.Taint) {
	s.lane(schemas.StatusSending, schemas.StatusRetrying)
	s.taint = taint
}

// TestTheDrawing plays every beginning of a life with every turn that it can
// take in admission. What is seen must be drawn, and what is drawn must be seen;
// and each life reads as it stands in testdata/lives.txt.
func TestTheDrawing(t *testing.T) {
	type part struct {
		name string
		play func(s *scene)
	}
	beginnings := []part{
		{"new", func(*scene) {}},
		{"scheduled", func(s *scene) {
			s.value = strings.Replace(s.value, "{", fmt.Sprintf(`{"send_at":%q,`, s.now+600_000), 1)
			s.send()
		}},
		{"deferred", func(s *scene) { s.other(); s.send() }},
		{"queued", func(s *scene) { s.send() }},
		{"permitted, not called", func(s *scene) { s.send(); s.lane(schemas.StatusSending) }},
		{"retrying", func(s *scene) { s.send(); s.tried(schemas.TaintNone) }},
		{"retrying, maybe received", func(s *scene) { s.send(); s.tried(schemas.TaintReceived) }},
		{"retrying, unknown", func(s *scene) { s.send(); s.tried(schemas.TaintUnknown) }},
		{"retrying, unknown, and a receipt", func(s *scene) { s.send(); s.tried(schemas.TaintUnknown); s.lane(schemas.StatusUndelivered) }},
		{"deferred between attempts", func(s *scene) { s.send(); s.tried(schemas.TaintNone); s.other(); s.returns() }},
		{"deferred between attempts, unknown", func(s *scene) { s.send(); s.tried(schemas.TaintUnknown); s.other(); s.returns() }},
		{"queued again, unknown", func(s *scene) { s.send(); s.tried(schemas.TaintUnknown); s.returns() }},
		{"permitted again, unknown", func(s *scene) {
			s.send()
			s.tried(schemas.TaintUnknown)
			s.returns()
			s.lane(schemas.StatusSending)
		}},
	}
	arrive := func(s *scene) {
		if s.state == status.None {
			s.send()
		} else {
			s.returns()
		}
	}
	turns := []part{
		{"has its turn", func(s *scene) { s.due(); arrive(s) }},
		{"comes before its time", func(s *scene) {
			if s.state != status.None {
				arrive(s)
			}
		}},
		{"another took the place", func(s *scene) { s.due(); s.other(); arrive(s) }},
		{"another took the place, and the limit rejects now", func(s *scene) {
			s.due()
			s.change(strings.Replace(drawnPolicy, "on_refusal: defer", "on_refusal: reject", 1))
			s.other()
			arrive(s)
		}},
		{"scheduled for later", func(s *scene) {
			if s.state == status.None {
				s.value = strings.Replace(s.value, "{", fmt.Sprintf(`{"send_at":%q,`, s.now+600_000), 1)
				s.send()
			}
		}},
		{"opted out", func(s *scene) {
			s.due()
			s.want(s.request(`{"action":"suppress","to":"+8613800000000"}`), "decision suppress suppress")
			arrive(s)
		}},
		{"cancelled", func(s *scene) {
			s.saw(s.request(cancelSome))
			s.due()
			arrive(s)
		}},
		{"expired", func(s *scene) {
			if s.state == status.None {
				s.value = strings.Replace(s.value, "{", fmt.Sprintf(`{"expires_at":%q,`, s.now+1), 1)
			}
			s.now += 2 * 3_600_000
			arrive(s)
		}},
		{"no longer permitted", func(s *scene) {
			s.due()
			s.change(strings.Replace(drawnPolicy, "name: code, expires_after", "name: code, countries: [US], expires_after", 1))
			arrive(s)
		}},
		{"a consumer takes it", func(s *scene) {
			s.due()
			s.change(strings.Replace(drawnPolicy, "name: one, type: simulated", "name: mine, type: external", 1))
			arrive(s)
		}},
		{"only decided", func(s *scene) {
			s.due()
			s.change(strings.Replace(drawnPolicy, "name: one, type: simulated", "name: nobody, type: none", 1))
			arrive(s)
		}},
		{"the same key again", func(s *scene) {
			if s.state == status.None {
				keyed := strings.Replace(s.value, "{", `{"idempotency_key":"k",`, 1)
				s.want(s.request("%s", strings.Replace(keyed, drawnID, otherID, 1)), "queued admit +1 > dispatch.one.normal")
				s.value = keyed
				s.send()
			}
		}},
		{"its id again", func(s *scene) {
			if s.state != status.None {
				s.send()
			}
		}},
	}
	seen, text := make(map[step]bool), strings.Builder{}
	for _, begin := range beginnings {
		for _, turn := range turns {
			t.Run(begin.name+"/"+turn.name, func(t *testing.T) {
				s := newScene(t, seen)
				begin.play(s)
				before := len(s.story)
				turn.play(s)
				if len(s.story) > before {
					fmt.Fprintf(&text, "# %s, then: %s\n  %s\n", begin.name, turn.name, strings.Join(s.story, "\n  "))
				}
				// Whatever comes after an end, it stays the end.
				if !s.ended || s.last.topic == "" {
					return
				}
				s.saw(s.back(schemas.ReadmitGiveBack, s.last, s.value, nil))
				s.saw(s.request(cancelSome))
				s.send()
			})
		}
	}
	want := drawn(t)
	for _, s := range slices.SortedFunc(maps.Keys(want), byName) {
		if !seen[s] {
			t.Errorf("drawn, and no life has it: %q to %s", s.from, s.to)
		}
	}
	for _, s := range slices.SortedFunc(maps.Keys(seen), byName) {
		if !want[s] {
			t.Errorf("seen, and not drawn: %q to %s", s.from, s.to)
		}
	}
	if *rewrite {
		if err := os.WriteFile(transcript, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(transcript)
	if err != nil {
		t.Fatal(err)
	}
	if string(golden) != text.String() {
		t.Errorf("the lives are not those of %s. If they are right: go test ./processor/admission -run TheDrawing -rewrite\n%s", transcript, text.String())
	}
}

func byName(a, b step) int {
	return strings.Compare(string(a.from)+" "+string(a.to), string(b.from)+" "+string(b.to))
}
