package admission

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// ring is the partitions of one Weir without Kafka: what one sends to readmit
// waits in the other's queue until the test delivers it.
type ring struct {
	t      failer
	parts  []*partition
	queues [][]*input
	now    schemas.Millis
	offset int64
	events []schemas.Event
	logs   []decided         // by partition
	sent   map[string]send   // by message: its last record on dispatch, delay or dlq
	away   map[string]send   // by message: what last came back of it
	bytes  map[string][]byte // by message: its request
	stand  map[string]int    // places that some window may see, by message, partition, limit, scope, t and cost
	unseen map[string]place  // those that none sees any more, nor ever will
	wait   replies           // who waits for a reply
}

// decided is all that a partition's log has of its decisions, and the revisions that it names.
type decided struct {
	events    []schemas.Event
	revisions map[int64]*schemas.Revision
}

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newRing(t failer, n int32, policy string) *ring {
	r := &ring{t: t, now: schemas.MillisOf(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)), sent: map[string]send{}, away: map[string]send{}, bytes: map[string][]byte{}, stand: map[string]int{}, unseen: map[string]place{}, queues: make([][]*input, n)}
	for num := range n {
		p, err := newPartition(num, environment{partitions: n, delays: 1, dlq: 1})
		if err != nil {
			t.Fatal(err)
		}
		r.parts = append(r.parts, p)
		r.logs = append(r.logs, decided{revisions: make(map[int64]*schemas.Revision)})
	}
	for num := range n {
		r.apply(num, 1, policy)
	}
	return r
}

// apply brings a revision into force in one partition.
func (r *ring) apply(num int32, revision int64, text string) {
	doc, err := schemas.ParsePolicy("test.yaml", []byte(text))
	if err != nil {
		r.t.Fatal(err)
	}
	p := r.parts[num]
	p.begin()
	p.advance(r.now)
	rev := &schemas.Revision{Revision: revision, Policy: doc.Policy}
	marker, err := p.switchTo(rev)
	if err != nil {
		r.t.Fatal(err)
	}
	p.commit()
	r.logs[num].events = append(r.logs[num].events, marker)
	r.logs[num].revisions[revision] = rev
	r.now = max(r.now, p.base.meta.T)
	r.forget()
	for k, pl := range r.unseen {
		if pl.num == num && r.sees(num, pl.Charge) {
			r.t.Fatalf("revision %d sees %s, which one before it did not", revision, k)
		}
	}
}

// forget strikes out the places that no window sees any more.
func (r *ring) forget() {
	for k := range r.stand {
		if pl := placeOf(k); !r.sees(pl.num, pl.Charge) {
			delete(r.stand, k)
			r.unseen[k] = pl
		}
	}
}

// put queues a request, in a partition that as a rule is not its recipient's.
func (r *ring) put(format string, args ...any) {
	num := int32(r.offset) % int32(len(r.parts))
	r.queues[num] = append(r.queues[num], &input{source: schemas.Source{Topic: "weir.requests", Partition: num}, value: fmt.Appendf(nil, format, args...)})
	r.offset++
}

// putWaiting is put for a request whose decision somebody waits for.
func (r *ring) putWaiting(format string, args ...any) {
	r.put(format, args...)
	num := int32(r.offset-1) % int32(len(r.parts))
	in := r.queues[num][len(r.queues[num])-1]
	in.env.Reply = r.wait.expect()
}

// from makes a partition the one that reads the next request.
func (r *ring) from(num int32) {
	for int32(r.offset)%int32(len(r.parts)) != num {
		r.offset++
	}
}

// back queues what was sent on as lane and delay do.
func (r *ring) back(reason string, s send, change func(*schemas.Envelope)) {
	env := s.env
	env.Reason = reason
	if change != nil {
		change(&env)
	}
	num := schemas.PartitionOf(env.Key, int32(len(r.parts)))
	r.queues[num] = append(r.queues[num], &input{readmit: true, value: r.bytes[env.ID], env: env})
	delete(r.sent, env.ID)
	s.env = env
	r.away[env.ID] = s
}

// deliver lets a partition decide its next input; false when it has none.
func (r *ring) deliver(num int32) bool {
	if len(r.queues[num]) == 0 {
		return false
	}
	in := r.queues[num][0]
	r.queues[num] = r.queues[num][1:]
	p := r.parts[num]
	in.source = schemas.Source{Topic: "weir.requests", Partition: num, Offset: r.offset}
	if in.readmit {
		in.source.Topic = "weir.readmit"
	}
	r.offset++
	in.header = func(string) (string, bool) { return "", false }
	in.appended = r.now
	seq := p.base.meta.Seq
	p.begin()
	p.advance(r.now)
	o, err := p.decide(in)
	if err != nil {
		r.t.Fatalf("%v: %+v", err, in.env)
	}
	p.commit()
	if d := o.event.Decision; d == nil || d.Seq != seq+1 || *d.Input != in.source {
		r.t.Fatalf("decision %+v after seq %d", d, seq)
	}
	r.now = max(r.now, p.base.meta.T)
	r.events = append(r.events, o.event)
	r.logs[num].events = append(r.logs[num].events, o.event)
	r.account(num, &o.event)
	r.waits(num, in, &o)
	if o.event.Status == schemas.StatusSent { // decided, and not dispatched
		delete(r.away, o.event.MessageID)
	}
	for _, s := range o.send {
		// Through the headers, as they go through Kafka.
		var env schemas.Envelope
		s.env.Each(func(k string, v []byte) {
			if err := env.Set(k, string(v)); err != nil {
				r.t.Fatalf("%v", err)
			}
		})
		if s.topic == p.env.names.Readmit() {
			in := &input{readmit: true, value: in.value, env: env}
			if s.bare {
				in.value = nil
			}
			if in.env.Reply != "" && in.env.Reason != schemas.ReadmitForward && in.env.Reason != schemas.ReadmitCharge && in.env.Reason != schemas.ReadmitCharged {
				r.t.Fatalf("a reply is asked for once more, by %+v", in.env)
			}
			r.queues[s.partition] = append(r.queues[s.partition], in)
			continue
		}
		if env.Reply != "" {
			r.t.Fatalf("sent on to %s with who waits: %+v", s.topic, env)
		}
		s.env = env
		if strings.Contains(s.topic, "dispatch") {
			r.holdsOnce(num, &env)
		}
		r.sent[env.ID] = s
		delete(r.away, env.ID)
		r.bytes[env.ID] = in.value
	}
	return true
}

// holdsOnce checks that who goes on holds one place of each limit at most, and only of
// those that home has; and that home's own have the time of the dispatch.
func (r *ring) holdsOnce(num int32, env *schemas.Envelope) {
	held := map[string]bool{}
	for _, c := range env.Place {
		if held[c.Limit] || r.limit(num, c.Limit) == nil {
			r.t.Fatalf("%s goes on with %+v\n%s", env.ID, env.Place, strings.Join(r.full(), "\n"))
		}
		if drains := !slices.ContainsFunc(r.limit(num, c.Limit).Allow, func(w schemas.Window) bool { return w.Kind != schemas.WindowBucket }); !isWide(c) && c.T != env.DecidedAt && !drains {
			r.t.Fatalf("%s goes on at %s with a charge of %s in %s\n%s", env.ID, env.DecidedAt, c.T, c.Limit, strings.Join(r.full(), "\n"))
		}
		held[c.Limit] = true
	}
}

// account adds up the places that some window may see. Of others it does not
// matter whether they stand: a limit that was off, or counted otherwise, counts from
// its return on, so what it had before is seen by no window again.
func (r *ring) account(num int32, e *schemas.Event) {
	add := func(charges []schemas.Charge, n int) {
		for _, c := range charges {
			k := placeKey(e.MessageID, num, c)
			if !r.sees(num, c) {
				delete(r.stand, k)
				r.unseen[k] = place{num, c}
				continue
			}
			if r.stand[k] += n; r.stand[k] < 0 {
				r.t.Fatalf("%s does not stand and is returned: %s", k, schemas.AppendEvent(nil, e))
			}
			if r.stand[k] == 0 {
				delete(r.stand, k)
			}
		}
	}
	d := e.Decision
	r.recount(num, e)
	add(d.Returned, -1)
	add(d.Charges, 1)
	add(d.Restored, 1)
	for _, c := range d.Missing {
		if k := placeKey(e.MessageID, num, c); r.sees(num, c) {
			r.t.Fatalf("%s is asked back, and not found: %s", k, schemas.AppendEvent(nil, e))
		}
	}
	for _, a := range d.Passed {
		c := schemas.Charge{Limit: a.Limit, Scope: a.Scope, T: a.T, Cost: a.Cost}
		if a.T != 0 && r.sees(num, c) { // it is to be given or put back, and the limit has none
			r.t.Fatalf("%s is passed by: %s", placeKey(e.MessageID, num, c), schemas.AppendEvent(nil, e))
		}
	}
	if d.Verdict == schemas.VerdictRecord { // whether or not there is room
		return
	}
	for _, c := range d.Charges {
		l := r.limit(num, c.Limit)
		for _, w := range l.Allow {
			if w.Kind == schemas.WindowBucket {
				continue
			}
			if n := r.count(num, l, c.Scope, w, ""); n > w.N {
				r.t.Fatalf("%d of %s are taken in %s: %s", n, w, c.Limit, schemas.AppendEvent(nil, e))
			}
		}
	}
}

// recount holds a refusal's evidence to the places that stand, without the message's
// own. What an owner has found full, home says as it came.
func (r *ring) recount(num int32, e *schemas.Event) {
	d := e.Decision
	if d.Verdict == schemas.VerdictCharge || d.Verdict == schemas.VerdictAdmit || d.Verdict == schemas.VerdictMove { // what only observes was found full at other times
		return
	}
	for _, v := range d.Evidence {
		if isWide(schemas.Charge{Scope: v.Scope}) && schemas.PartitionOf(v.Scope, int32(len(r.parts))) != num {
			continue
		}
		l := r.limit(num, v.Limit)
		if l == nil {
			r.t.Fatalf("refused by %s, which it does not have: %s", v.Limit, schemas.AppendEvent(nil, e))
		}
		for _, w := range l.Allow {
			if w.String() != v.Window || w.Kind == schemas.WindowBucket {
				continue
			}
			if n := r.count(num, l, v.Scope, w, e.MessageID); n != v.Count || n+v.Cost <= w.N {
				r.t.Fatalf("refused by %s %s with %d, and %d stand: %s", v.Limit, v.Window, v.Count, n, schemas.AppendEvent(nil, e))
			}
		}
	}
}

// limit is one in force in a partition, or nil.
func (r *ring) limit(num int32, name string) *schemas.Limit {
	pol := r.parts[num].cur.pol
	for i := range pol.Limits {
		if l := &pol.Limits[i]; l.Name == name && !l.Off() {
			return l
		}
	}
	return nil
}

// sees reports whether some window may see a place: one that is in force, or one
// whose history is retained for a later revision. A bucket sees none: what was drawn
// is gone.
func (r *ring) sees(num int32, c schemas.Charge) bool {
	if l := r.limit(num, c.Limit); l != nil {
		for key := range r.parts[num].cur.meta.Marker.Since[l.Name] {
			w, err := schemas.ParseWindow("1/" + key)
			if err == nil && w.Kind != schemas.WindowBucket && c.T > r.opens(num, l, w) {
				return true
			}
		}
	}
	return false
}

// opens is the moment after which a window counts; no test goes on into another
// calendar period.
func (r *ring) opens(num int32, l *schemas.Limit, w schemas.Window) schemas.Millis {
	p := r.parts[num]
	from := p.cur.meta.Marker.Since[l.Name][w.UnitKey()]
	if w.Kind == schemas.WindowRolling {
		from = max(from, p.cur.meta.T-schemas.Millis(w.Length/time.Millisecond))
	}
	return from
}

// count adds up what a window counts, but for the places of one message.
func (r *ring) count(num int32, l *schemas.Limit, scope string, w schemas.Window, but string) (n int64) {
	from := r.opens(num, l, w)
	for k, times := range r.stand {
		id, _, _ := strings.Cut(k, " ")
		if pl := placeOf(k); pl.num == num && pl.Limit == l.Name && pl.Scope == scope && pl.T > from && id != but {
			n += int64(times) * pl.Cost
		}
	}
	return n
}

// place is a place of a partition.
type place struct {
	num int32
	schemas.Charge
}

func placeKey(id string, num int32, c schemas.Charge) string {
	return fmt.Sprintf("%s %d %s [%s] %d %d", id, num, c.Limit, c.Scope, c.T, c.Cost)
}

// placeOf is the place that a key of placeKey names.
func placeOf(k string) (p place) {
	head, rest, _ := strings.Cut(k, " [")
	scope, tail, _ := strings.Cut(rest, "] ")
	var id string
	if _, err := fmt.Sscan(head, &id, &p.num, &p.Limit); err != nil {
		panic(err)
	}
	if _, err := fmt.Sscan(tail, (*int64)(&p.T), &p.Cost); err != nil {
		panic(err)
	}
	p.Scope = scope
	return p
}

// settle delivers everything.
func (r *ring) settle() {
	for more := true; more; {
		more = false
		for num := range r.parts {
			for r.deliver(int32(num)) {
				more = true
			}
		}
	}
}

// expect adds up what messages hold, as far as some window may see it.
func (r *ring) expect(holding map[string][]schemas.Charge) map[string]int {
	want := map[string]int{}
	for id, charges := range holding {
		home := schemas.PartitionOf(r.sent[id].env.Key, int32(len(r.parts)))
		for _, c := range charges {
			num := home
			if isWide(c) {
				num = schemas.PartitionOf(c.Scope, int32(len(r.parts)))
			}
			if r.sees(num, c) {
				want[placeKey(r.sent[id].env.ID, num, c)]++
			}
		}
	}
	return want
}

// said are the decisions since the last call, in short.
func (r *ring) said() string {
	var lines []string
	for i := range r.events {
		e := &r.events[i]
		o := outcome{event: *e}
		d := e.Decision
		line := fmt.Sprintf("%d %s", d.Partition, brief(o))
		for _, f := range []struct {
			mark string
			n    int
		}{{"carried", len(d.Carried)}, {"passed", len(d.Passed)}, {"restored", len(d.Restored)}, {"released", len(d.Released)}, {"reinstated", len(d.Reinstated)}} {
			if f.n > 0 {
				line += fmt.Sprintf(" %s %d", f.mark, f.n)
			}
		}
		if d.Onward != nil {
			line += fmt.Sprintf(" to %d", *d.Onward)
		}
		lines = append(lines, line)
	}
	r.events = nil
	return strings.Join(lines, "\n")
}

const roundRest = `
tenants:
  - {name: shop}
classes:
  - {name: code, expires_after: 1h, retries: [5s]}
providers:
  - {name: one, type: simulated, channels: [sms]}
  - {name: nobody, type: none, channels: [sms]}
routes:
  - {name: all, to: [{provider: one}]}
`

// In a ring of 4, +8613800000000 is at home in partition homeOf, tenant=shop is
// owned by ownerOf("tenant=shop"), and the scope of all by ownerOf("").
func ownerOf(scope string) int32 { return schemas.PartitionOf(scope, 4) }

func (r *ring) want(want string, args ...any) {
	r.t.Helper()
	want = strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf(want, args...)), "\t", "")
	if got := r.said(); got != want {
		r.t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRoundOfTwoOwners(t *testing.T) {
	const to = "+8613800000000"
	home, shop, all := ownerOf(to), ownerOf("tenant=shop"), ownerOf("")
	if home == shop || home == all || shop == all {
		t.Fatalf("the test needs three partitions: %d %d %d", home, shop, all)
	}
	r := newRing(t, 4, `
limits:
  - {name: verify, per: [recipient], allow: [2/60s]}
  - {name: shop, match: {tenant: shop}, per: [tenant], allow: [2/1h]}
  - {name: all, per: [], allow: [1/1h]}
`+roundRest)
	send := func(to string) { r.put(`{"tenant":"shop","channel":"sms","to":%q,"class":"code","body":"x"}`, to) }
	r.from(home)
	send(to)
	r.settle()
	r.want(`
		%d decision charge +1 to %d
		%d decision charge +1 to %d
		%d decision charge +1 to %d
		%d queued admit carried 3`, home, shop, shop, all, all, home, home)
	for id, s := range r.sent {
		if len(s.env.Place) != 3 || s.env.Round != nil || s.env.Reason != "" {
			t.Fatalf("%s was dispatched as %+v", id, s.env)
		}
		if d := r.expect(map[string][]schemas.Charge{id: s.env.Place}); !maps.Equal(d, r.stand) {
			t.Fatalf("it holds %v, and there stands %v", d, r.stand)
		}
	}
	r.from(home)
	send(to) // the limit for all is full: what the others took comes back
	r.settle()
	got := r.events[len(r.events)-2]
	if got.Limit != "all" || got.Window != "1/1h" || got.RetryAt == 0 || len(got.Decision.Evidence) != 1 {
		t.Fatalf("%+v", got)
	}
	r.want(`
		%d decision charge +1 to %d
		%d decision charge +1 to %d
		%d decision refuse limited to %d
		%d limited refuse limited -1 released 1
		%d decision give_back -1`, home, shop, shop, all, all, home, home, shop)
	if len(r.stand) != 3 {
		t.Fatalf("%v", r.stand)
	}
	// A lane gives back what it could not send: home passes it on.
	for _, s := range r.sent {
		r.back(schemas.ReadmitGiveBack, s, nil)
	}
	r.settle()
	if len(r.stand) != 0 {
		t.Fatalf("%v", r.stand)
	}
	r.from(home)
	send(to)
	r.settle()
	if len(r.stand) != 3 {
		t.Fatalf("after everything was given back: %v", r.stand)
	}
}

// TestRoundOrder: a limit before the recipient's is asked first, and one that
// refuses leaves the recipient's places alone.
// TestRoundKeepsWhatItIs: who comes home has not been read again, and its status
// says all the same of what class and template it is.
func TestRoundKeepsWhatItIs(t *testing.T) {
	r := newRing(t, 4, `
limits:
  - {name: all, per: [], allow: [9/1h]}
templates:
  - {name: login, channel: sms, body: "x"}
`+roundRest)
	for i := range 8 { // of any home
		r.put(`{"tenant":"shop","channel":"sms","to":%q,"class":"code","template":"login"}`, fmt.Sprintf("+861380000000%d", i))
		r.settle()
		if e := r.events[len(r.events)-1]; e.Status != schemas.StatusQueued || e.Class != "code" || e.Template != "login" || e.Tenant != "shop" || e.Channel != "sms" {
			t.Fatalf("%+v", e)
		}
	}
}

func TestRoundOrder(t *testing.T) {
	const to = "+8613800000000"
	ip := ownerOf("metadata.ip=192.0.2.1")
	home := ownerOf(to)
	r := newRing(t, 4, `
limits:
  - {name: ip, per: [metadata.ip], allow: [1/1h]}
  - {name: nobody, per: [template], allow: [1/1h]}
  - {name: verify, per: [recipient], allow: [5/60s]}
`+roundRest)
	if ip == home {
		t.Fatal("the test needs another address")
	}
	for range 2 {
		r.from(home)
		r.put(`{"channel":"sms","to":%q,"class":"code","body":"x","metadata":{"ip":"192.0.2.1"}}`, to)
		r.settle()
	}
	r.want(`
		%d decision charge to %d
		%d decision charge +1 to %d
		%d queued admit +1 carried 1
		%d decision charge to %d
		%d decision refuse limited to %d
		%d limited refuse limited`, home, ip, ip, home, home, home, ip, ip, home, home)
}

// TestRoundUnwindsAMove: a retry that a later owner refuses waits with its old
// places, where they were.
func TestRoundUnwindsAMove(t *testing.T) {
	const to = "+8613800000000"
	r := newRing(t, 4, `
limits:
  - {name: verify, per: [recipient], allow: [5/60s]}
  - {name: shop, match: {tenant: shop}, per: [tenant], allow: [5/1h]}
  - {name: all, per: [], allow: [1/1h]}
`+roundRest)
	r.put(`{"tenant":"shop","channel":"sms","to":%q,"class":"code","body":"x"}`, to)
	r.settle()
	var first send
	for _, s := range r.sent {
		first = s
	}
	r.now += 1000
	r.apply(ownerOf(""), 2, `
limits:
  - {name: verify, per: [recipient], allow: [5/60s]}
  - {name: shop, match: {tenant: shop}, per: [tenant], allow: [5/1h]}
  - {name: all, per: [], allow: [1/1h], count: segments}
`+roundRest) // begins anew: full by the next
	r.put(`{"channel":"sms","to":"+8613800000001","class":"code","body":"x"}`)
	r.settle()
	before := maps.Clone(r.stand)
	r.events = nil
	r.now += 1000
	r.back(schemas.ReadmitRetry, first, func(e *schemas.Envelope) { e.Attempt = 1 })
	r.settle()
	home, shop, all := ownerOf(to), ownerOf("tenant=shop"), ownerOf("")
	r.want(`
		%d decision charge +1 -1 to %d
		%d decision charge +1 -1 to %d
		%d decision refuse limited to %d
		%d deferred defer limited -1 restored 1 released 1 reinstated 1
		%d decision give_back -1 restored 1`, home, shop, shop, all, all, home, home, shop)
	if !maps.Equal(r.stand, before) || len(before) != 4 { // two of each message: none sees the first's place in the limit for all
		t.Errorf("there stand %v, and before %v", r.stand, before)
	}
}

// TestRounds plays anything that may happen to messages on their rounds, under
// revisions that come into force partition by partition, and holds the places
// that stand to those that messages hold, and to those that the log has.
func TestRounds(t *testing.T) {
	policies := []string{`
limits:
  - {name: verify, per: [recipient], allow: [3/1h]}
  - {name: tenant, per: [tenant], allow: [3/1h], on_refusal: defer}
  - {name: all, per: [], allow: [4/1h]}
`, `
limits:
  - {name: ip, per: [metadata.ip], allow: [3/1h]}
  - {name: verify, per: [recipient], allow: [2/1h, 4/1d]}
  - {name: tenant, per: [tenant, class], allow: [3/1h]}
  - {name: all, per: [], allow: [3/1h], on_refusal: defer}
`, `
limits:
  - {name: all, per: [], allow: [2/1h, 20/calendar-month], mode: observe}
  - {name: tenant, per: [tenant], allow: [2/1h], on_refusal: defer}
  - {name: verify, match: {tenant: shop}, per: [recipient], allow: [3/1h]}
  - {name: parts, per: ["prefix:3"], allow: [4/1h], count: segments}
`, `
limits:
  - {name: tenant, per: [tenant], allow: [6/1h], mode: off}
  - {name: verify, per: [recipient, tenant], allow: [3/1h]}
  - {name: late, per: [provider], allow: [3/1h], on_refusal: defer}
`, `
limits:
  - {name: verify, per: [recipient], allow: [3/1h]}
`}
	counts := map[string]int{}
	for i := 0; i < 10 || i < 60 && counts["reinstated"] == 0; i++ { // what is rare comes too
		replay(1 + i)
		rapid.Check(t, func(t *rapid.T) {
			playRounds(t, counts, []string{`"body":"x"`}, func(t *rapid.T) string {
				return policies[rapid.IntRange(0, len(policies)-1).Draw(t, "policy")]
			}, 2).applied()
		})
	}
	for _, k := range []string{"charge decision", "refuse decision", "refuse status", "admit status", "move status", "defer status", "give_back decision", "cancel status", "restored", "reinstated", "released", "passed", "released wide", "released here", "told admit", "told refuse", "told defer", "told give_back", "told cancel", "told of an owner", "told of home"} {
		if counts[k] == 0 {
			t.Errorf("never: %s (%v)", k, counts)
		}
	}
}

// playRounds plays one run, under limits that are drawn. Of so many changes of
// policy, and one, one is made. The actions of without are left out.
func playRounds(t *rapid.T, counts map[string]int, contents []string, limits func(*rapid.T) string, rarely int, without ...string) *ring {
	n := rapid.SampledFrom([]int32{1, 2, 4, 4, 7}).Draw(t, "partitions")
	r := newRing(t, n, limits(t)+roundRest)
	held := map[string][]schemas.Charge{} // what each message holds that is with a lane, waits, or was sent
	made := 0
	ids := func() []string { return slices.Sorted(maps.Keys(r.sent)) }
	lane := func() (string, send, bool) { // a message that a lane has
		var on []string
		for _, id := range ids() {
			if strings.Contains(r.sent[id].topic, "dispatch") && !strings.HasPrefix(id, "sent ") {
				on = append(on, id)
			}
		}
		if len(on) == 0 {
			return "", send{}, false
		}
		id := rapid.SampledFrom(on).Draw(t, "message")
		return id, r.sent[id], true
	}
	actions := map[string]func(*rapid.T){
		"send": func(t *rapid.T) {
			for range rapid.IntRange(1, 4).Draw(t, "messages") {
				made++
				put, content := r.put, contents[0]
				if len(contents) > 1 {
					content = rapid.SampledFrom(contents).Draw(t, "content")
				}
				if rapid.Bool().Draw(t, "waits") {
					put = r.putWaiting
				}
				put(`{"id":"00000000-0000-4000-8000-%012d","provider":%q,"tenant":%q,"channel":"sms","to":%q,"class":"code",%s,"metadata":{"ip":%q}}`, made,
					rapid.SampledFrom([]string{"", "", "nobody"}).Draw(t, "provider"),
					rapid.SampledFrom([]string{"shop", "default"}).Draw(t, "tenant"), rapid.SampledFrom([]string{"+8613800000000", "+8613800000001", "+15005550006"}).Draw(t, "to"), content,
					rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2"}).Draw(t, "ip"))
			}
		},
		"deliver": func(t *rapid.T) { r.deliver(rapid.Int32Range(0, n-1).Draw(t, "to")) },
		"settle":  func(t *rapid.T) { r.settle() },
		"sent": func(t *rapid.T) {
			if id, s, ok := lane(); ok {
				held["sent "+id] = s.env.Place
				r.sent["sent "+id] = s
				delete(r.sent, id)
			}
		},
		"failed": func(t *rapid.T) {
			if id, s, ok := lane(); ok {
				r.back(schemas.ReadmitGiveBack, s, nil)
				delete(r.away, id)
			}
		},
		"back": func(t *rapid.T) {
			if _, s, ok := lane(); ok {
				reason := rapid.SampledFrom([]string{schemas.ReadmitRetry, schemas.ReadmitStale, schemas.ReadmitReroute}).Draw(t, "reason")
				taint := rapid.SampledFrom([]schemas.Taint{schemas.TaintNone, schemas.TaintReceived, schemas.TaintUnknown}).Draw(t, "taint")
				r.back(reason, s, func(e *schemas.Envelope) {
					if reason == schemas.ReadmitRetry {
						e.Attempt, e.Taint = e.Attempt+1, e.Taint.Join(taint)
					}
				})
			}
		},
		"due": func(t *rapid.T) {
			for _, id := range ids() {
				if s := r.sent[id]; strings.Contains(s.topic, "delay") {
					r.back(s.env.Reason, s, nil)
					return
				}
			}
		},
		"cancel": func(t *rapid.T) {
			if made == 0 {
				return
			}
			r.putWaiting(`{"action":"cancel","id":"00000000-0000-4000-8000-%012d","tenant":%q,"channel":"sms","to":%q}`, rapid.IntRange(1, made).Draw(t, "id"),
				rapid.SampledFrom([]string{"shop", "default"}).Draw(t, "tenant"), rapid.SampledFrom([]string{"+8613800000000", "+8613800000001", "+15005550006"}).Draw(t, "to"))
		},
		"release": func(t *rapid.T) {
			if made == 0 {
				return
			}
			r.putWaiting(`{"action":"release","id":"00000000-0000-4000-8000-%012d","tenant":%q,"channel":"sms","to":%q}`, rapid.IntRange(1, made).Draw(t, "id"),
				rapid.SampledFrom([]string{"shop", "default"}).Draw(t, "tenant"), rapid.SampledFrom([]string{"+8613800000000", "+8613800000001", "+15005550006"}).Draw(t, "to"))
		},
		"apply": func(t *rapid.T) {
			if rapid.IntRange(0, rarely).Draw(t, "rarely") > 0 {
				return
			}
			num := rapid.Int32Range(0, n-1).Draw(t, "partition")
			r.apply(num, r.parts[num].cur.meta.Marker.Revision+1, limits(t)+roundRest)
		},
		"time": func(t *rapid.T) { r.now += schemas.Millis(rapid.IntRange(1, 2000).Draw(t, "ms")) },
	}
	for _, name := range without {
		delete(actions, name)
	}
	t.Repeat(actions)
	r.settle()
	r.told(counts)
	ended := map[string]schemas.Event{}
	for _, e := range r.events {
		d := e.Decision
		if decided := "decided " + e.MessageID; e.Status == schemas.StatusSent {
			held[decided] = slices.Concat(d.Carried, d.Charges)
			r.sent[decided] = send{topic: "nowhere", env: schemas.Envelope{ID: e.MessageID, Key: e.To}}
		} else if e.Reason == reasonReleased {
			delete(held, decided)
			delete(r.sent, decided)
			counts["released wide"] += min(len(d.Released), 1)
			counts["released here"] += min(len(d.Returned), 1)
		}
		counts[string(d.Verdict)+" "+string(e.Kind)]++
		for what, n := range map[string]int{"restored": len(d.Restored), "reinstated": len(d.Reinstated), "released": len(d.Released), "passed": len(d.Passed), "missing": len(d.Missing)} {
			counts[what] += min(n, 1)
		}
		if e.Kind == schemas.KindStatus && e.Status.End() {
			if first, twice := ended[e.Tenant+e.To+e.MessageID]; twice {
				t.Fatalf("two ends: %+v\n%+v", first, e)
			}
			ended[e.Tenant+e.To+e.MessageID] = e
		}
	}
	for _, id := range ids() {
		s := r.sent[id]
		e, over := ended[s.env.Tenant+s.env.Key+id]
		switch {
		case strings.HasPrefix(id, "sent "), strings.HasPrefix(id, "decided "):
		case strings.HasSuffix(s.topic, topics.Names{}.DLQ()):
		case over && e.Status != schemas.StatusUnknown && s.env.Taint == schemas.TaintNone: // ended while its record waits
		default:
			held[id] = s.env.Place
		}
	}
	for id, s := range r.away { // ended at home, and may have been received
		if _, again := r.sent[id]; !again && s.env.Taint != schemas.TaintNone {
			held["away "+id] = s.env.Place
			r.sent["away "+id] = s
		}
	}
	r.forget()
	want := r.expect(held)
	if !maps.Equal(want, r.stand) {
		t.Fatalf("%s\nstand  %v\nheld   %v", strings.Join(r.full(), "\n"), sorted(r.stand), sorted(want))
	}
	return r
}

// applied applies each partition's log to an empty state, as a repair does, and compares what
// limits that were charged have left.
func (r *ring) applied() {
	for num, p := range r.parts {
		log := r.logs[num]
		q, err := newPartition(int32(num), p.env)
		if err != nil {
			r.t.Fatal(err)
		}
		defer q.close()
		q.begin()
		scopes := make(map[schemas.Charge]string) // without time and cost, with their recipient
		for i := range log.events {
			e := &log.events[i]
			if err := q.apply(context.Background(), e, func(_ context.Context, n int64) (*schemas.Revision, error) { return log.revisions[n], nil }); err != nil {
				r.t.Fatal(err)
			}
			for _, c := range slices.Concat(e.Decision.Charges, e.Decision.Returned, e.Decision.Restored) {
				scopes[schemas.Charge{Limit: c.Limit, Scope: c.Scope}] = e.To
			}
		}
		q.commit()
		if a, b := p.base.meta, q.base.meta; a.Seq != b.Seq || a.Marker.Revision != b.Marker.Revision || b.T > a.T {
			r.t.Fatalf("partition %d is at %d of revision %d at %s, and its log applied at %d of %d at %s", num, a.Seq, a.Marker.Revision, a.T, b.Seq, b.Marker.Revision, b.T)
		}
		for c, to := range scopes {
			for _, whose := range []string{"", to} {
				is := p.table.StatesIn(nil, p.base.rules, c.Limit, c.Scope, whose, r.now)
				again := q.table.StatesIn(nil, q.base.rules, c.Limit, c.Scope, whose, r.now)
				if !slices.Equal(is, again) {
					r.t.Fatalf("%s\npartition %d, %s %s: %+v, and its log applied %+v", strings.Join(r.full(), "\n"), num, c.Limit, c.Scope, is, again)
				}
			}
		}
	}
}

func sorted(m map[string]int) []string {
	var out []string
	for k, n := range m {
		out = append(out, fmt.Sprintf("%s x%d", k, n))
	}
	slices.SortFunc(out, cmp.Compare[string])
	return out
}

// full are all decisions since the last said, whole.
func (r *ring) full() (lines []string) {
	for i := range r.events {
		lines = append(lines, string(schemas.AppendEvent(nil, &r.events[i])))
	}
	return lines
}

// TestRelayed: what an owner sends on is what it was sent, but for the round.
func TestRelayed(t *testing.T) {
	env := schemas.Envelope{
		ID: "i", Key: "+8613800000000", Tenant: "shop", Origin: schemas.Source{Topic: "weir.requests", Partition: 1, Offset: 7}, Reason: schemas.ReadmitCharge,
		Attempt: 2, Provider: "one", Priority: schemas.PriorityBulk, DecidedAt: 5, AcceptedAt: 6, ExpiresAt: 7, Place: []schemas.Charge{{Limit: "verify", Scope: "x", T: 3, Cost: 1}},
		Taint: schemas.TaintReceived, RedriveOf: "r", Timestamp: 8, RequestKey: "k", LastError: "l", Round: &schemas.Round{For: "retry", Revision: 1, Ask: []schemas.Ask{{Limit: "all", Cost: 1}}},
	}
	in := &kgo.Record{Topic: "weir.readmit", Key: []byte(env.Key), Value: []byte("x"), Headers: []kgo.RecordHeader{{Key: "traceparent", Value: []byte("tp")}}}
	env.Each(func(k string, v []byte) { in.Headers = append(in.Headers, kgo.RecordHeader{Key: k, Value: v}) })
	next := env
	next.Reason, next.DecidedAt = schemas.ReadmitCharged, 9
	next.Round = &schemas.Round{For: "retry", Revision: 1, Taken: []schemas.Charge{{Limit: "all", T: 9, Cost: 1}}}
	relayed := (&send{topic: "weir.readmit", partition: 3, env: next, relayed: true}).record(in)
	whole := (&send{topic: "weir.readmit", partition: 3, env: next}).record(in)
	headers := func(r *kgo.Record) string {
		var all []string
		for _, h := range r.Headers {
			all = append(all, h.Key+"="+string(h.Value))
		}
		slices.Sort(all)
		return strings.Join(all, "\n")
	}
	if headers(relayed) != headers(whole) || string(relayed.Key) != string(whole.Key) || string(relayed.Value) != string(whole.Value) || relayed.Partition != 3 {
		t.Errorf("got\n%s\nwant\n%s", headers(relayed), headers(whole))
	}
}
