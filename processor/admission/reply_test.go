package admission

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// replies is what a ring knows of those who wait.
type replies struct {
	asked  int
	got    map[string][]schemas.Reply                 // by header
	events map[string][]schemas.Event                 // the decisions that owe them
	owners map[string]map[string][]schemas.LimitState // what was left at owners, in their last step: by header and limit
	homes  map[string]map[string][]schemas.LimitState // what was left at home, when it decided
	counts map[string]int
}

// expect returns the header of one more who waits.
func (w *replies) expect() string {
	w.asked++
	return schemas.ReplyTo(0, fmt.Sprintf("c%d", w.asked))
}

// waits takes down what a decision tells, and should.
func (r *ring) waits(num int32, in *input, o *outcome) {
	at, d := in.env.Reply, o.event.Decision
	if w := &r.wait; w.got == nil {
		w.got, w.events = map[string][]schemas.Reply{}, map[string][]schemas.Event{}
		w.counts = map[string]int{}
		w.owners, w.homes = map[string]map[string][]schemas.LimitState{}, map[string]map[string][]schemas.LimitState{}
	}
	if o.reply != nil {
		if o.reply.at != at {
			r.t.Fatalf("%q waits, and %q is told", at, o.reply.at)
		}
		value, err := schemas.DecodeReply(schemas.AppendReply(nil, &o.reply.to))
		if err != nil {
			r.t.Fatal(err)
		}
		r.wait.got[at] = append(r.wait.got[at], *value)
	}
	if at == "" {
		return
	}
	if in.readmit && in.env.Reason == schemas.ReadmitCharge {
		if d.Verdict == schemas.VerdictCharge && schemas.PartitionOf(in.env.Key, int32(len(r.parts))) == num {
			return // home, in between: it tells at the end
		}
		if r.wait.owners[at] == nil {
			r.wait.owners[at] = map[string][]schemas.LimitState{}
		}
		for _, a := range in.env.Round.Ask {
			if schemas.PartitionOf(a.Scope, int32(len(r.parts))) != num {
				break
			}
			r.wait.owners[at][a.Limit] = r.naive(num, a.Limit, a.Scope)
		}
		return
	}
	if d.Verdict == schemas.VerdictForward || d.Verdict == schemas.VerdictCharge {
		return
	}
	r.wait.events[at] = append(r.wait.events[at], o.event)
	if o.reply == nil {
		return
	}
	r.wait.homes[at] = map[string][]schemas.LimitState{}
	for _, s := range o.reply.to.Limits {
		r.wait.homes[at][s.Limit] = r.naive(num, s.Limit, r.scope(num, s.Limit, &o.event, in))
	}
	r.toldLimits(at, &o.reply.to, &o.event)
}

// scope is the text of a message's scope in a limit, as these tests' policies have it.
func (r *ring) scope(num int32, name string, e *schemas.Event, in *input) string {
	var parts []string
	l := limitIn(r.parts[num].cur.pol, name)
	if l == nil {
		return ""
	}
	if slices.Equal(l.Per, []string{"recipient"}) {
		return e.To
	}
	for _, d := range l.Per {
		v := map[string]string{"recipient": e.To, "tenant": e.Tenant, "class": e.Class, "provider": e.Provider, "prefix:3": strings.TrimPrefix(e.To, "+")[:3]}[d]
		if d == "metadata.ip" {
			_, v, _ = strings.Cut(string(in.value), `"ip":"`)
			v = strings.TrimRight(v, `"}`)
		}
		parts = append(parts, d+"="+v)
	}
	return strings.Join(parts, ",")
}

func limitIn(pol *schemas.Policy, name string) *schemas.Limit {
	for i := range pol.Limits {
		if l := &pol.Limits[i]; l.Name == name && l.Mode != schemas.ModeObserve && l.Mode != schemas.ModeOff {
			return l
		}
	}
	return nil
}

// naive counts what is left in a limit's scope from the places that stand.
func (r *ring) naive(num int32, name, scope string) (out []schemas.LimitState) {
	p := r.parts[num]
	l := limitIn(p.cur.pol, name)
	if l == nil {
		return nil
	}
	now := p.cur.meta.T
	for _, w := range l.Allow {
		length := schemas.Millis(w.Length / time.Millisecond)
		s := schemas.LimitState{Limit: name, Window: w.String(), N: w.N}
		if w.Kind == schemas.WindowBucket { // what was drawn is in no place
			out = append(out, s)
			continue
		}
		var times []schemas.Millis // one for each unit of cost
		for k, n := range r.stand {
			_, rest, _ := strings.Cut(k, " ")
			head := fmt.Sprintf("%d %s [%s] ", num, name, scope)
			if !strings.HasPrefix(rest, head) {
				continue
			}
			var t, cost int64
			if _, err := fmt.Sscan(rest[len(head):], &t, &cost); err != nil {
				r.t.Fatal(err)
			}
			if schemas.Millis(t) > r.opens(num, l, w) {
				times = append(times, slices.Repeat([]schemas.Millis{schemas.Millis(t)}, n*int(cost))...)
			}
		}
		slices.Sort(times)
		s.Remaining = max(w.N-int64(len(times)), 0)
		switch {
		case len(times) == 0:
		case w.Kind == schemas.WindowCalendar:
			s.Reset = schemas.MillisOf(now.Time().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour))
		default:
			s.Reset = times[max(len(times)-int(w.N), 0)] + length
		}
		out = append(out, s)
	}
	return out
}

// told holds what was told to what was decided: everyone once, and with the
// event.
func (r *ring) told(counts map[string]int) {
	for i := range r.wait.asked {
		at := schemas.ReplyTo(0, fmt.Sprintf("c%d", i+1))
		got, events := r.wait.got[at], r.wait.events[at]
		if len(got) != 1 || len(events) != 1 {
			r.t.Fatalf("%s was told %d times, of %d decisions:\n%s", at, len(got), len(events), strings.Join(r.full(), "\n"))
		}
		e, d := events[0], events[0].Decision
		told := *got[0].Event
		if e.Decision = nil; e.Kind == schemas.KindDecision {
			if told.Decision == nil || told.Decision.Verdict != d.Verdict || told.Decision.Seq != d.Seq || len(told.Decision.Returned) > 0 {
				r.t.Fatalf("told %+v, decided %+v", told.Decision, d)
			}
			told.Decision = nil
			if told.Status != "" && (d.Verdict != schemas.VerdictDuplicate || told.Status != schemas.StatusDuplicate) {
				r.t.Fatalf("told %+v, decided %+v", told, d)
			}
			told.Status = ""
		}
		if !reflect.DeepEqual(told, e) {
			r.t.Fatalf("told\n%+v\ndecided\n%+v", told, e)
		}
		counts["told "+string(d.Verdict)]++
	}
	for k, n := range r.wait.counts {
		counts[k] += n
	}
}

// toldLimits holds what a reply says is left to what was counted when it was, in
// every limit that was asked.
func (r *ring) toldLimits(at string, got *schemas.Reply, e *schemas.Event) {
	n, d, counts := int32(len(r.parts)), e.Decision, r.wait.counts
	states := map[string][]schemas.LimitState{}
	full := map[string]bool{}
	for _, s := range got.Limits {
		if s.Violated {
			full[s.Limit+" "+s.Window] = true
		}
		s.Violated = false
		if strings.HasPrefix(s.Window, "bucket") {
			s.Remaining, s.Reset = 0, 0
		}
		states[s.Limit] = append(states[s.Limit], s)
	}
	if e.Reason == reasonQuota {
		return
	}
	if len(states) > 0 && !(d.Verdict == schemas.VerdictAdmit || d.Verdict == schemas.VerdictRefuse || d.Verdict == schemas.VerdictDefer && e.Reason == "limited") {
		r.t.Fatalf("%s %s tells limits: %+v", d.Verdict, e.Reason, got.Limits)
	}
	for name, s := range states {
		owner, home := r.wait.owners[at][name], r.wait.homes[at][name]
		counts["told of an owner"] += min(len(owner), 1)
		if len(owner) == 0 {
			counts["told of home"]++
		}
		if !reflect.DeepEqual(s, owner) && !reflect.DeepEqual(s, home) {
			r.t.Fatalf("%s is told of %s\n%+v\nat its owner %+v\nat home      %+v\n%s", at, name, s, owner, home, strings.Join(r.full(), "\n"))
		}
	}
	must := func(name, scope string) {
		owner := schemas.PartitionOf(scope, n)
		if !isWide(schemas.Charge{Scope: scope}) {
			owner = schemas.PartitionOf(e.To, n)
		}
		if len(states[name]) > 0 {
			return
		}
		if told := r.wait.owners[at][name]; owner != d.Partition && len(told) == 0 {
			return // there it only observes
		}
		if owner == d.Partition && limitIn(r.parts[owner].cur.pol, name) == nil {
			return
		}
		r.t.Fatalf("%s is not told of %s: %+v\n%s", at, name, got.Limits, strings.Join(r.full(), "\n"))
	}
	switch d.Verdict {
	case schemas.VerdictAdmit:
		for _, c := range slices.Concat(d.Charges, d.Carried) {
			must(c.Limit, c.Scope)
		}
		for name := range states {
			if !slices.ContainsFunc(slices.Concat(d.Charges, d.Carried), func(c schemas.Charge) bool { return c.Limit == name }) {
				r.t.Fatalf("%s is told of %s, in which it has no place: %+v\n%s", at, name, got.Limits, strings.Join(r.full(), "\n"))
			}
		}
		if len(full) > 0 {
			r.t.Fatalf("%s was admitted, and told that %v are full", at, full)
		}
	case schemas.VerdictRefuse, schemas.VerdictDefer:
		for _, v := range d.Evidence {
			must(v.Limit, v.Scope)
			if len(states[v.Limit]) > 0 && !full[v.Limit+" "+v.Window] {
				r.t.Fatalf("%s is not told that %s %s is full: %+v", at, v.Limit, v.Window, got.Limits)
			}
			delete(full, v.Limit+" "+v.Window)
		}
		if len(full) > 0 {
			r.t.Fatalf("%s is told that %v are full", at, full)
		}
	default:
	}
}

// TestReplyOfTwoOwners: home, and two owners on the way, tell what is left.
func TestReplyOfTwoOwners(t *testing.T) {
	const to = "+8613800000000"
	home := ownerOf(to)
	r := newRing(t, 4, `
limits:
  - {name: all, per: [], allow: [3/1h]}
  - {name: verify, per: [recipient], allow: [2/60s, 2/1h]}
  - {name: shop, match: {tenant: shop}, per: [tenant], allow: [9/1h]}
`+roundRest)
	began := r.now
	var last schemas.Reply
	for i := range 4 {
		r.offset = int64(home) + int64(i%2) // each second one is forwarded
		r.putWaiting(`{"tenant":"shop","channel":"sms","to":%q,"class":"code","body":"x"}`, []string{to, to, to, "+8613800000001"}[i])
		r.settle()
		r.now += 1000
		got := r.wait.got[schemas.ReplyTo(0, fmt.Sprintf("c%d", i+1))]
		if len(got) != 1 {
			t.Fatalf("message %d has %d replies", i, len(got))
		}
		last = got[0]
		if i == 1 {
			want := []schemas.LimitState{
				{Limit: "all", Window: "3/1h", N: 3, Remaining: 1, Reset: last.Limits[0].Reset},
				{Limit: "verify", Window: "2/60s", N: 2, Remaining: 0, Reset: last.Limits[1].Reset},
				{Limit: "verify", Window: "2/1h", N: 2, Remaining: 0, Reset: last.Limits[2].Reset},
				{Limit: "shop", Window: "9/1h", N: 9, Remaining: 7, Reset: last.Limits[3].Reset},
			}
			if !reflect.DeepEqual(last.Limits, want) || last.Event.Status != schemas.StatusQueued || last.Event.Decision != nil {
				t.Fatalf("got %+v\n%+v", last.Event, last.Limits)
			}
			for i, length := range []schemas.Millis{3_600_000, 60_000, 3_600_000, 3_600_000} {
				if reset := last.Limits[i].Reset - length - began; reset < 0 || reset >= 1000 {
					t.Errorf("%+v resets %d ms after the first place", last.Limits[i], reset)
				}
			}
		}
		if i == 2 { // refused at home, after the owner of all
			if last.Event.Status != schemas.StatusLimited || last.Limits[0].Remaining != 0 || last.Limits[0].Violated || !last.Limits[1].Violated || !last.Limits[2].Violated || len(last.Limits) != 3 {
				t.Fatalf("got %+v\n%+v", last.Event, last.Limits)
			}
		}
	}
	if last.Event.Status != schemas.StatusQueued || last.Limits[0].Remaining != 0 {
		t.Fatalf("the place at the owner of all was not given back: %+v\n%+v", last.Event, last.Limits)
	}
	r.told(map[string]int{})
}

// TestReplyFormerHere: home owned a wide limit that it had asked, and has it no more
// when the message is refused elsewhere. What was left of it on the way is of before
// the place was given back, and of a limit that nobody has: it is not told.
func TestReplyFormerHere(t *testing.T) {
	const to = "+8613800000000"
	home := ownerOf(to)
	ip := ""
	for i := 0; ip == "" || ownerOf("metadata.ip="+ip) != home; i++ {
		ip = fmt.Sprintf("192.0.2.%d", i)
	}
	const rest = `
  - {name: verify, per: [recipient], allow: [3/1h]}
  - {name: all, per: [], allow: [1/1h]}
` + roundRest
	r := newRing(t, 4, `
limits:
  - {name: ip, per: [metadata.ip], allow: [3/1h]}`+rest)
	r.put(`{"channel":"sms","to":"+8613800000001","class":"code","body":"x"}`)
	r.settle() // all has had its one
	r.from(home)
	r.putWaiting(`{"channel":"sms","to":%q,"class":"code","body":"x","metadata":{"ip":%q}}`, to, ip)
	r.deliver(home)
	r.apply(home, 2, "limits:"+rest)
	r.settle()
	var told []string
	for _, s := range r.wait.got[schemas.ReplyTo(0, "c1")][0].Limits {
		told = append(told, s.Limit)
	}
	if want := []string{"verify", "all"}; !slices.Equal(told, want) {
		t.Errorf("told of %v, want %v\n%s", told, want, r.said())
	}
}

// TestReplyRecord: who is no address is told nothing, and breaks nothing.
func TestReplyRecord(t *testing.T) {
	to := schemas.Reply{Event: &schemas.Event{Kind: schemas.KindStatus, Status: schemas.StatusQueued, At: 1}}
	if rec := (&reply{to, "3/abc"}).record("weir.replies", 4); rec == nil || rec.Partition != 3 || string(rec.Key) != "abc" || rec.Topic != "weir.replies" {
		t.Errorf("%+v", rec)
	}
	for _, at := range []string{"4/abc", "2147483647/abc", "-1/abc", "", "x"} {
		if rec := (&reply{to, at}).record("weir.replies", 4); rec != nil {
			t.Errorf("%q: %+v", at, rec)
		}
	}
	if rec := (&reply{to, "0/abc"}).record("weir.replies", 0); rec != nil {
		t.Errorf("%+v", rec)
	}
}

// TestReplyToActions: an action's reply says what the log says of it.
func TestReplyToActions(t *testing.T) {
	r := newRing(t, 1, roundRest)
	id := "00000000-0000-4000-8000-000000000001"
	for _, c := range []struct{ request, want string }{
		{`{"id":%q,"provider":"nobody","channel":"sms","to":"+8613800000000","class":"code","body":"x"}`, "status sent "},
		{`{"id":%q,"provider":"nobody","channel":"sms","to":"+8613800000000","class":"code","body":"x"}`, "decision duplicate duplicate repeated"},
		{`{"id":%q,"provider":"nobody","channel":"sms","to":"+8613800000000","class":"code","body":"y"}`, "decision rejected duplicate key_reused"},
		{`{"action":"release","id":%q,"to":"+8613800000000"}`, "decision  nothing not_held"}, // no limit: it holds nothing
		{`{"action":"cancel","id":%q,"to":"+8613800000000"}`, "decision  cancel remembered"},
		{`{"action":"cancel","id":%q,"to":"+8613800000000"}`, "decision  nothing repeated"},
		{`{"action":"suppress","id":%q,"to":"+8613800000001"}`, "decision  suppress suppress"},
		{`{"channel":"sms","from":%q,"to":"+8613800000001","class":"code","body":"x"}`, "status suppressed suppressed"},
		{`{"channel":"sms","from":%q,"to":"138","class":"code","body":"x"}`, "status rejected bad_recipient_phone"},
		{`{"channel":"sms","from":%q`, "status rejected not_json"},
	} {
		r.putWaiting(c.request, id)
		r.settle()
		got := r.wait.got[schemas.ReplyTo(0, fmt.Sprintf("c%d", r.wait.asked))]
		if len(got) != 1 {
			t.Fatalf("%s: %d replies", c.request, len(got))
		}
		e := got[0].Event
		what := fmt.Sprintf("%s %s %s", e.Kind, e.Status, e.Reason)
		if e.Kind == schemas.KindDecision {
			what = fmt.Sprintf("%s %s %s %s", e.Kind, e.Status, e.Decision.Verdict, e.Reason)
		}
		if what != c.want {
			t.Errorf("%s: told %q, want %q", c.request, what, c.want)
		}
	}
}

// TestQuota: what is left is told exactly, of what stands here and nothing else.
func TestQuota(t *testing.T) {
	const to = "+8613800000000"
	r := newRing(t, 4, `
limits:
  - {name: verify, per: [recipient], allow: [3/1h]}
  - {name: all, per: [], allow: [5/1h]}
`+roundRest)
	home, all := ownerOf(to), ownerOf("")
	for range 2 {
		r.put(`{"channel":"sms","to":%q,"class":"code","body":"x"}`, to)
	}
	r.settle()
	began := r.now
	ask := func(num int32, env schemas.Envelope, value string) (schemas.Event, *schemas.Reply) {
		t.Helper()
		env.Reason, env.Reply = schemas.ReadmitQuota, r.wait.expect()
		stood := fmt.Sprint(r.stand)
		r.queues[num] = append(r.queues[num], &input{readmit: true, value: []byte(value), env: env})
		if !r.deliver(num) {
			t.Fatal("nothing was delivered")
		}
		if fmt.Sprint(r.stand) != stood {
			t.Error("a question changed what stands")
		}
		e := r.events[len(r.events)-1]
		if e.Kind != schemas.KindDecision || e.Decision.Verdict != schemas.VerdictNothing {
			t.Errorf("%+v", e)
		}
		return e, &r.wait.got[env.Reply][0]
	}
	both := string(schemas.EncodeQuotaAsk(&schemas.QuotaAsk{To: to, Scopes: []schemas.QuotaScope{{Limit: "verify", Scope: to}, {Limit: "all"}, {Limit: "gone", Scope: to}}}))
	e, got := ask(home, schemas.Envelope{}, both)
	want := []schemas.LimitState{{Limit: "verify", Window: "3/1h", N: 3, Remaining: 1, Reset: r.naive(home, "verify", to)[0].Reset}}
	if e.Reason != "quota" || e.To != "" || e.MessageID != "" || !reflect.DeepEqual(got.Limits, want) || got.Event.Reason != "quota" || want[0].Reset > began+3_600_000 {
		t.Errorf("home: %+v\n%+v, want %+v", e, got, want)
	}
	if _, got = ask(all, schemas.Envelope{}, both); len(got.Limits) != 1 || got.Limits[0].Limit != "all" || got.Limits[0].Remaining != 3 {
		t.Errorf("the owner of all: %+v", got.Limits)
	}
	// What the recipient has opted out of is told to who asks, and of no other tenant.
	about := func(num int32, q schemas.QuotaAsk) (out string) {
		q.To = to
		_, got := ask(num, schemas.Envelope{}, string(schemas.EncodeQuotaAsk(&q)))
		for _, s := range got.Suppressed {
			out += fmt.Sprintf("%s/%s/%s ", s.Tenant, s.Channel, s.Class)
			if s.At < began {
				t.Errorf("%+v", s)
			}
		}
		return out
	}
	if got := about(home, schemas.QuotaAsk{Of: "acme"}); got != "" {
		t.Errorf("nothing was suppressed: %s", got)
	}
	for _, fields := range []string{`"class":"ads","channel":"sms"`, `"tenant":"acme"`, `"tenant":"other"`, `"channel":"voice"`} {
		r.put(`{"action":"suppress","to":%q,`+fields+`}`, to)
	}
	r.settle()
	for q, want := range map[schemas.QuotaScope]string{{Limit: "acme"}: "/voice/ acme// /sms/ads ", {Limit: "other"}: "/voice/ other// /sms/ads ", {Limit: "third"}: "/voice/ /sms/ads ", {}: ""} {
		if got := about(home, schemas.QuotaAsk{Of: q.Limit}); got != want {
			t.Errorf("of %q: %q, want %q", q.Limit, got, want)
		}
	}
	if got := about((home+1)%4, schemas.QuotaAsk{Of: "acme"}); got != "" {
		t.Errorf("one who does not own it: %s", got)
	}
	for _, c := range []struct {
		name  string
		env   schemas.Envelope
		value string
	}{
		{"no JSON", schemas.Envelope{}, "x"},
		{"a message", schemas.Envelope{ID: "00000000-0000-4000-8000-000000000001"}, both},
		{"a recipient's", schemas.Envelope{Key: to}, both},
		{"with places", schemas.Envelope{Place: []schemas.Charge{{Limit: "all"}}}, both},
	} {
		if e, got := ask(home, c.env, c.value); e.Reason != "foreign_record" || len(got.Limits) > 0 {
			t.Errorf("%s: %+v %+v", c.name, e, got)
		}
	}
}
