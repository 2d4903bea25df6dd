package admission

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/processor/status"
	"github.com/weirhq/weir/schemas"
)

// lives plays the world around one partition: producers, delay topics, a lane
// and operators, in an order of a seed's choice, and keeps what every message
// was told and what it holds.
type lives struct {
	*bench
	r       *rand.Rand
	state   map[string]schemas.Status
	ended   map[string]schemas.Status
	taint   map[string]schemas.Taint
	holds   map[string][]schemas.Charge
	values  map[string]string // by id
	ids     []string
	waiting []record // in delay topics
	queue   []record // in dispatch topics
	due     []record // in readmit
	down    bool     // the only provider
}

// record is a record somewhere in Kafka.
type record struct {
	env   schemas.Envelope
	value string
}

// saw judges one event.
func (l *lives) saw(e *schemas.Event) {
	l.t.Helper()
	if e.Kind != schemas.KindStatus {
		if e.Status != "" {
			l.t.Fatalf("a decision with a status: %+v", e)
		}
		return
	}
	id := e.MessageID
	if was, over := l.ended[id]; over {
		l.t.Fatalf("%s was %s, and now is %s (%s)", id, was, e.Status, e.Reason)
	}
	next, ok := status.Next(l.state[id], e.Status)
	if !ok {
		l.t.Fatalf("%s: %s after %q", id, e.Status, l.state[id])
	}
	l.state[id] = next
	if e.Status.End() {
		l.ended[id] = e.Status
		if l.taint[id] == schemas.TaintUnknown && e.Status != schemas.StatusUnknown && e.Status != schemas.StatusSent {
			l.t.Fatalf("%s ends %s, and may have been sent", id, e.Status)
		}
	}
}

// took follows a message's places through a decision.
func (l *lives) took(id string, d *schemas.Decision) {
	if d == nil {
		return
	}
	for _, gone := range append(slices.Clone(d.Returned), d.Missing...) {
		i := slices.Index(l.holds[id], gone)
		if i < 0 {
			l.t.Fatalf("%s gives back %+v, and holds %+v", id, gone, l.holds[id])
		}
		l.holds[id] = slices.Delete(l.holds[id], i, i+1)
	}
	l.holds[id] = append(l.holds[id], d.Charges...)
}

// put takes an outcome's event and records.
func (l *lives) put(o outcome, value string) {
	l.t.Helper()
	l.saw(&o.event)
	l.took(o.event.MessageID, o.event.Decision)
	if o.event.Status.End() && l.taint[o.event.MessageID] == schemas.TaintNone && len(l.holds[o.event.MessageID]) > 0 {
		l.t.Fatalf("%s ends %s in admission, surely not received, and keeps %+v", o.event.MessageID, o.event.Status, l.holds[o.event.MessageID])
	}
	for _, s := range o.send {
		rec := record{env: s.env, value: value}
		switch {
		case s.env.Return != "":
			l.waiting = append(l.waiting, rec)
		case o.event.Status == schemas.StatusQueued:
			l.queue = append(l.queue, rec)
		}
	}
}

func pop(r *rand.Rand, from *[]record) record {
	i := r.IntN(len(*from))
	rec := (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return rec
}

// lane takes a message and does one thing that lanes do.
func (l *lives) lane() {
	if len(l.queue) == 0 {
		return
	}
	rec := pop(l.r, &l.queue)
	id := rec.env.ID
	tell := func(s schemas.Status) {
		l.saw(&schemas.Event{Kind: schemas.KindStatus, MessageID: id, Status: s})
	}
	if l.r.IntN(5) == 0 {
		rec.env.Reason = []string{schemas.ReadmitStale, schemas.ReadmitReroute}[l.r.IntN(2)]
		l.due = append(l.due, rec)
		return
	}
	tell(schemas.StatusSending)
	taint := []schemas.Taint{schemas.TaintNone, schemas.TaintReceived, schemas.TaintUnknown}[l.r.IntN(3)].Join(rec.env.Taint)
	switch l.r.IntN(4) {
	case 0:
		tell(schemas.StatusSent)
	case 1: // for good
		l.taint[id] = taint
		if taint == schemas.TaintUnknown {
			tell(schemas.StatusUnknown)
			return
		}
		tell(schemas.StatusFailed)
		if taint == schemas.TaintNone {
			rec.env.Reason = schemas.ReadmitGiveBack
			l.due = append(l.due, rec)
		}
	default:
		l.taint[id], rec.env.Taint = taint, taint
		rec.env.Attempt++
		tell(schemas.StatusRetrying)
		rec.env.Reason, rec.env.DueAt, rec.env.Return = schemas.ReadmitRetry, l.now+5000, "weir.readmit"
		l.waiting = append(l.waiting, rec)
	}
}

// delay lets what is due return.
func (l *lives) delay() {
	for i := 0; i < len(l.waiting); {
		if l.waiting[i].env.DueAt > l.now {
			i++
			continue
		}
		l.due = append(l.due, l.waiting[i])
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
}

func (l *lives) readmit() {
	if len(l.due) == 0 {
		return
	}
	rec := pop(l.r, &l.due)
	l.put(l.back(rec.env.Reason, send{env: rec.env}, rec.value, nil), rec.value)
}

func (l *lives) to() string { return fmt.Sprintf("+861380000000%d", l.r.IntN(3)) }

func (l *lives) id() string {
	if len(l.ids) > 0 && l.r.IntN(4) > 0 {
		return l.ids[l.r.IntN(len(l.ids))]
	}
	id := fmt.Sprintf("0b6f0e7e-0000-4000-8000-%012d", len(l.ids)+1)
	l.ids = append(l.ids, id)
	return id
}

func (l *lives) message() {
	id := l.id()
	value, again := l.values[id]
	if !again {
		value = fmt.Sprintf(`{"id":%q,"channel":"sms","to":%q,"class":"code","body":"x"`, id, l.to())
		if l.r.IntN(2) == 0 {
			value += fmt.Sprintf(`,"send_at":%q`, l.now+schemas.Millis(l.r.IntN(100_000)))
		}
		if l.r.IntN(3) == 0 {
			value += fmt.Sprintf(`,"idempotency_key":"k%d"`, l.r.IntN(5))
		}
		value += "}"
		l.values[id] = value
	}
	l.put(l.request("%s", value), value)
}

func (l *lives) action() {
	switch l.r.IntN(8) {
	case 0:
		l.put(l.request(`{"action":"suppress","to":%q}`, l.to()), "")
	case 1, 3, 4:
		l.put(l.request(`{"action":"unsuppress","to":%q}`, l.to()), "")
	case 2:
		value := fmt.Sprintf(`{"action":"record","channel":"sms","to":%q,"class":"code","at":%q}`, l.to(), l.now)
		if e := l.request("%s", value).event; e.Kind != schemas.KindDecision {
			l.t.Fatalf("a record has a status: %+v", e)
		}
	default:
		id, to := l.id(), l.to()
		if q, err := schemas.DecodeRequestStrict([]byte(l.values[id])); err == nil && l.r.IntN(8) > 0 {
			to = q.To
		}
		l.put(l.request(`{"action":"cancel","id":%q,"to":%q}`, id, to), "")
	}
}

// health is what the provider's lane would say.
func (l *lives) health() route.Health {
	h := schemas.Health{Provider: "one", Breaker: schemas.BreakerClosed, At: l.now}
	if l.down {
		h.Breaker, h.ProbeAt = schemas.BreakerOpen, l.now+10_000
	}
	return route.Health{"one": route.Step(route.Standing{}, []schemas.Health{h}, l.now)}
}

func (l *lives) step() {
	if l.r.IntN(20) == 0 {
		l.down = !l.down
	}
	if l.r.IntN(12) == 0 {
		l.restart()
	}
	switch l.r.IntN(8) {
	case 0, 1:
		l.message()
	case 2:
		l.action()
	case 3:
		l.now += schemas.Millis(l.r.IntN(20_000))
	case 4:
		l.lane()
	default:
		l.delay()
		l.readmit()
	}
}

// play runs a seed's life, lets everything end, and checks that it did, once.
func play(t *testing.T, seed uint64, steps int) map[schemas.Status]int {
	t.Helper()
	l := &lives{
		bench: newBench(t), r: rand.New(rand.NewPCG(seed, 4)),
		state: make(map[string]schemas.Status), ended: make(map[string]schemas.Status), taint: make(map[string]schemas.Taint),
		holds: make(map[string][]schemas.Charge), values: make(map[string]string),
	}
	policy := deferPolicy
	if seed%3 == 0 {
		policy = strings.Replace(policy, "on_refusal: defer", "on_refusal: reject", 1)
	}
	l.apply(2, policy)
	l.p.env.routing = newRouting(l.health)
	for range steps {
		l.step()
	}
	l.down = false
	for range 100_000 {
		if len(l.waiting)+len(l.queue)+len(l.due) == 0 {
			break
		}
		l.now += 1000
		l.delay()
		l.readmit()
		l.lane()
	}
	if n := len(l.waiting) + len(l.queue) + len(l.due); n > 0 {
		t.Fatalf("seed %d: %d records never came to rest", seed, n)
	}
	count := make(map[schemas.Status]int)
	for id, s := range l.state {
		if l.ended[id] == "" {
			t.Fatalf("seed %d: %s never ended: %s", seed, id, s)
		}
		count[l.ended[id]]++
	}
	if !l.p.waiting.none() || l.log.of(waitingKind) != 0 {
		t.Fatalf("seed %d: %d still wait, %d in the ledger", seed, l.p.waiting.base.n, l.log.of(waitingKind))
	}
	return count
}

const deferPolicy = `
limits:
  - {name: code, match: {class: code}, per: [recipient], allow: [2/20s], on_refusal: defer}
classes:
  - {name: code, expires_after: 40s, retries: [5s]}
providers:
  - {name: one, type: simulated, channels: [sms]}
`

// TestAnEndStaysAnEnd plays random lives.
func TestAnEndStaysAnEnd(t *testing.T) {
	total := make(map[schemas.Status]int)
	for seed := range uint64(300) {
		for s, n := range play(t, seed, 200) {
			total[s] += n
		}
	}
	t.Log(total)
	for _, s := range []schemas.Status{schemas.StatusSent, schemas.StatusFailed, schemas.StatusUnknown, schemas.StatusExpired,
		schemas.StatusLimited, schemas.StatusCancelled, schemas.StatusSuppressed, schemas.StatusDuplicate, schemas.StatusRejected} {
		if total[s] < 20 {
			t.Errorf("only %d ended %s: the lives are not what they should be", total[s], s)
		}
	}
}

func FuzzAnEndStaysAnEnd(f *testing.F) {
	f.Add(uint64(1), uint16(100))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) { play(t, seed, int(steps)%1000) })
}
