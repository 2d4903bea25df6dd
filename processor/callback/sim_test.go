package callback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const (
	simParts = 3
	whsec    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	whsec2   = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

// sim is logs in memory, with a stage that reads and writes them: in the simulated time
// of a bubble. A commit is one step, so what a test sees is the stage's own doing.
type sim struct {
	t         *testing.T
	rnd       *rand.Rand
	names     topics.Names
	policy    schemas.Policy
	revision  int64
	status    [simParts][]*kgo.Record
	callbacks [simParts][]*kgo.Record
	state     [simParts][]*kgo.Record
	delayed   []waits // in the order of their writing
	committed map[int32]meta
	stage     *stage
	read      map[int32]meta // where the reader of the stage is
	cancel    context.CancelFunc
	aborts    int // one commit of so many is aborted; 0: none

	mu       sync.Mutex
	answer   func(tenant string, at time.Time) (code int, took time.Duration, err error)
	after    time.Duration // Retry-After
	got      []told
	attempts int
	flying   map[string]int
	most     map[string]int
}

// waits is a record of a delay topic.
type waits struct {
	*kgo.Record
	due   time.Time
	part  int32  // of weir.callbacks
	queue string // a partition of a tier is a FIFO
}

// told is a callback that a receiver took.
type told struct {
	tenant, id, url string
	at              time.Time
	body            string
}

func newSim(t *testing.T, seed uint64) *sim {
	s := &sim{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), committed: make(map[int32]meta),
		answer: func(string, time.Time) (int, time.Duration, error) { return 200, 20 * time.Millisecond, nil },
		flying: make(map[string]int), most: make(map[string]int),
	}
	for _, name := range []string{"acme", "calm"} {
		s.policy.Tenants = append(s.policy.Tenants, schemas.Tenant{Name: name, Callback: &schemas.Callback{URL: "https://" + name + ".example/hook", Secret: "${SECRET}"}})
	}
	s.start()
	return s
}

// Post is the receivers.
func (s *sim) Post(ctx context.Context, address, _ string, h http.Header, body []byte) (*outbound.Answer, error) {
	tenant, _, _ := strings.Cut(strings.TrimPrefix(address, "https://"), ".")
	s.mu.Lock()
	code, took, err := s.answer(tenant, time.Now())
	s.attempts++
	s.flying[tenant]++
	s.most[tenant] = max(s.most[tenant], s.flying[tenant])
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.flying[tenant]--
		s.mu.Unlock()
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(took):
	}
	if errors.Is(err, errPanics) {
		panic("a bug")
	}
	if err != nil {
		return nil, err
	}
	if code == 200 {
		wh, werr := standardwebhooks.NewWebhook(whsec)
		if werr == nil {
			werr = wh.Verify(body, h)
		}
		if werr != nil {
			s.t.Errorf("the official library does not verify it: %v", werr)
		}
		s.mu.Lock()
		s.got = append(s.got, told{tenant: tenant, id: h.Get("webhook-id"), at: time.Now(), body: string(body), url: address})
		s.mu.Unlock()
	}
	return &outbound.Answer{Code: code, RetryAfter: s.after}, nil
}

// start begins a life of the stage: from what was committed.
func (s *sim) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	cfg := &Config{
		Names: s.names, Partitions: simParts, DelayPartitions: 2, Slot: "0", Client: s, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Policy: func() *schemas.Revision { return &schemas.Revision{Revision: s.revision, Policy: s.policy} },
		Getenv: func(name string) string {
			switch name {
			case "SECRET":
				return whsec
			case "SECRET2":
				return whsec2
			}
			return ""
		},
	}
	r := &runner{
		cfg: cfg, metrics: newMetrics(nil), notes: newNotes(*cfg), waker: &stream.Waker{}, quit: func() {}, calling: ctx,
		complained: make(map[endpointKey]time.Time), reports: make(chan Report, 1),
	}
	s.stage = newStage(r)
	s.read = make(map[int32]meta)
	for n := range int32(simParts) {
		p := &part{num: n, salt: saltOf(n, simParts), book: newBook(), own: make(map[messageKey]own)}
		for _, rec := range s.state[n] {
			if string(rec.Key) != metaKey {
				if err := p.recall(rec); err != nil {
					s.t.Fatal(err)
				}
			}
		}
		at := s.committed[n]
		p.status, p.callbacks = newIntake(at.Status), newIntake(at.Callbacks)
		p.stood = p.meta()
		s.stage.parts[n], s.read[n] = p, at
	}
	s.stage.held = true
}

// crash ends a life in the middle of whatever it does.
func (s *sim) crash() {
	s.cancel()
	synctest.Wait()
	s.start()
}

// say writes a status.
func (s *sim) say(tenant, id string, st schemas.Status, attempt int, own string) *schemas.Event {
	to := "+86138" + id
	e := &schemas.Event{Kind: schemas.KindStatus, MessageID: id, Tenant: tenant, To: to, Status: st, At: schemas.MillisOf(time.Now()), Attempt: attempt, CallbackURL: own,
		Decision: &schemas.Decision{Verdict: schemas.VerdictAdmit}, Source: &schemas.Source{Topic: "weir.requests"}}
	n := schemas.PartitionOf(to, simParts)
	s.status[n] = append(s.status[n], &kgo.Record{Topic: s.names.Status(), Partition: n, Offset: int64(len(s.status[n])), Timestamp: time.Now(), Value: schemas.AppendEvent(nil, e)})
	return e
}

// step moves what is due, lets the stage read a part of what is new, and commits.
func (s *sim) step() {
	now := time.Now()
	kept := s.delayed[:0]
	blocked := map[string]bool{}
	for _, r := range s.delayed {
		if blocked[r.queue] || now.Before(r.due) {
			kept = append(kept, r)
			blocked[r.queue] = r.queue != ""
			continue
		}
		n := r.part
		s.callbacks[n] = append(s.callbacks[n], &kgo.Record{Topic: s.names.Callbacks(), Partition: n, Offset: int64(len(s.callbacks[n])), Timestamp: now, Headers: r.Headers, Value: r.Value})
	}
	s.delayed = kept
	var polled []*kgo.Record
	for n := range int32(simParts) {
		at := s.read[n]
		take := func(log []*kgo.Record, from int64) int64 {
			until := int64(len(log))
			if until > from && s.rnd.IntN(3) == 0 { // not all of it
				until = from + s.rnd.Int64N(until-from+1)
			}
			polled = append(polled, log[from:until]...)
			return until
		}
		if s.rnd.IntN(2) == 0 { // topics come in any order
			at.Status = take(s.status[n], at.Status)
			at.Callbacks = take(s.callbacks[n], at.Callbacks)
		} else {
			at.Callbacks = take(s.callbacks[n], at.Callbacks)
			at.Status = take(s.status[n], at.Status)
		}
		s.read[n] = at
	}
	if !s.stage.turn(polled) {
		return
	}
	s.stage.prepare()
	if s.aborts > 0 && s.rnd.IntN(s.aborts) == 0 {
		s.stage.Ended(false)
		for n := range s.read { // the client goes back to what was committed
			s.read[n] = s.committed[n]
		}
		return
	}
	for _, r := range s.stage.out {
		again := *r
		again.Timestamp = now
		switch {
		case again.Topic == s.names.CallbackState():
			s.state[again.Partition] = append(s.state[again.Partition], &again)
		case strings.HasPrefix(again.Topic, "weir.delay."):
			s.delay(&again, now)
		case again.Topic == s.names.Endpoints():
		default:
			s.t.Fatalf("wrote to %s", again.Topic)
		}
	}
	for n, m := range s.stage.stands {
		if was := s.committed[n]; m.Status < was.Status || m.Callbacks < was.Callbacks {
			s.t.Fatalf("partition %d goes back from %v to %v", n, was, m)
		}
		s.committed[n] = m
	}
	s.stage.Ended(true)
}

// delay lets a record wait.
func (s *sim) delay(r *kgo.Record, now time.Time) {
	tier, ok := s.names.TierOf(r.Topic)
	var env schemas.Envelope
	for _, h := range r.Headers {
		if err := env.Set(h.Key, string(h.Value)); err != nil {
			s.t.Fatal(err)
		}
	}
	if !ok || env.Return != s.names.Callbacks() {
		s.t.Fatalf("%s returns to %s", r.Topic, env.Return)
	}
	w := waits{Record: r, due: now.Add(tier.Wait), part: schemas.PartitionOf(env.Key, simParts)}
	if env.DueAt > 0 { // its further hops
		w.due = env.DueAt.Time()
	} else {
		w.queue = fmt.Sprint(r.Topic, r.Partition)
	}
	s.delayed = append(s.delayed, w)
}

func (s *sim) caughtUp() bool {
	for n, at := range s.read {
		if at.Status < int64(len(s.status[n])) || at.Callbacks < int64(len(s.callbacks[n])) {
			return false
		}
	}
	return true
}

// run lets time pass, in steps of at least gap: longer ones where nothing is under way.
func (s *sim) run(d, gap time.Duration) {
	for until := time.Now().Add(d); time.Now().Before(until); {
		pause := gap
		if s.stage.count == 0 && s.caughtUp() && len(s.stage.out) == 0 && !s.stage.moved() {
			at := until
			for _, r := range s.delayed {
				if r.due.Before(at) {
					at = r.due
				}
			}
			pause = max(gap, time.Until(at))
		}
		time.Sleep(pause)
		synctest.Wait()
		s.step()
	}
}

// finish checks that all was told that was said.
func (s *sim) finish(want []*schemas.Event) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	order := make(map[string][]string) // of what is told first, by message
	times := make(map[string]int)
	for _, g := range s.got {
		if times[g.id]++; times[g.id] == 1 {
			order[g.tenant] = append(order[g.tenant], g.id)
		}
	}
	place := make(map[string]int)
	for _, ids := range order {
		for i, id := range ids {
			place[id] = i
		}
	}
	last := make(map[string]int)
	for _, e := range want {
		id := ID(e)
		at, ok := place[id]
		if !ok {
			s.t.Errorf("%s %s of %s was never told", e.MessageID, e.Status, e.Tenant)
			continue
		}
		m := e.Tenant + e.MessageID
		if before, ok := last[m]; ok && at < before {
			s.t.Errorf("%s %s was told before what happened before it", e.MessageID, e.Status)
		}
		last[m] = at
	}
	for n, p := range s.stage.parts {
		if len(p.book.threads) != 0 || p.status.low() != int64(len(s.status[n])) || p.callbacks.low() != int64(len(s.callbacks[n])) {
			s.t.Errorf("partition %d: %d messages wait, at %v of %d and %d", n, len(p.book.threads), p.meta(), len(s.status[n]), len(s.callbacks[n]))
		}
	}
	if s.stage.count != 0 {
		s.t.Errorf("%d callbacks are still open", s.stage.count)
	}
}

// lives says random lives of messages for a while.
func (s *sim) lives(tenants []string, n int, span time.Duration, each func()) (want []*schemas.Event) {
	steps := []schemas.Status{schemas.StatusQueued, schemas.StatusSending, schemas.StatusRetrying, schemas.StatusSending, schemas.StatusSent, schemas.StatusDelivered}
	type life struct {
		tenant, id string
		next       int
	}
	var open []*life
	for i := range n {
		open = append(open, &life{tenants[i%len(tenants)], fmt.Sprintf("%08d", i), 0})
	}
	gap := span / time.Duration(n*len(steps))
	for len(open) > 0 {
		i := s.rnd.IntN(min(len(open), 8))
		l := open[i]
		want = append(want, s.say(l.tenant, l.id, steps[l.next], l.next, ""))
		if l.next++; l.next == len(steps) {
			open = append(open[:i], open[i+1:]...)
		}
		s.run(gap, min(gap, 50*time.Millisecond))
		each()
	}
	return want
}

func TestTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 1)
		want := s.lives([]string{"acme", "calm"}, 60, time.Minute, func() {})
		s.run(10*time.Second, 50*time.Millisecond)
		s.finish(want)
		if s.attempts != len(want) {
			t.Errorf("%d calls for %d callbacks", s.attempts, len(want))
		}
		for _, g := range s.got {
			for _, private := range []string{"decision", "source", "kind", "callback_url"} {
				if strings.Contains(g.body, `"`+private+`"`) {
					t.Fatalf("%s", g.body)
				}
			}
		}
		if want := `{"type":"message.queued","timestamp":"`; !strings.HasPrefix(s.got[0].body, want) {
			t.Errorf("%s", s.got[0].body)
		}
	})
}

// An endpoint is down for an hour, in three ways; commits are aborted and the process
// crashes. Nothing is lost, nothing overtakes, and the other tenant's are told at once.
func TestAnHourAway(t *testing.T) {
	for seed := range uint64(9) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, seed)
				began := time.Now()
				s.answer = func(tenant string, at time.Time) (int, time.Duration, error) {
					if tenant != "acme" || at.Sub(began) > time.Hour {
						return 200, 20 * time.Millisecond, nil
					}
					switch seed % 3 {
					case 0:
						return 0, 10 * time.Second, context.DeadlineExceeded // it hangs
					case 1:
						return 503, 5 * time.Millisecond, nil
					}
					return 0, time.Millisecond, errors.New("connection refused")
				}
				crashes := seed >= 3
				if crashes {
					s.aborts = 5
				}
				want := s.lives([]string{"acme", "calm"}, 120, 80*time.Minute, func() {
					if crashes && s.rnd.IntN(25) == 0 {
						s.crash()
					}
				})
				for range 30 {
					s.run(10*time.Minute, time.Second)
					if crashes && s.rnd.IntN(3) == 0 {
						s.crash()
					}
				}
				s.run(7*time.Hour, time.Second)
				s.finish(want)
				said := make(map[string]time.Time)
				for _, e := range want {
					said[ID(e)] = e.At.Time()
				}
				worst := time.Duration(0)
				for _, g := range s.got {
					if at, first := said[g.id]; first && g.tenant == "calm" {
						worst = max(worst, g.at.Sub(at))
						delete(said, g.id)
					}
				}
				if worst > 5*time.Second && !crashes || worst > 2*time.Minute {
					t.Errorf("the other tenant waited %v", worst)
				}
				if s.most["acme"] > maxCalls {
					t.Errorf("%d calls at once", s.most["acme"])
				}
			})
		})
	}
}
