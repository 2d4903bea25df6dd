package questions_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirhq/weir/schemas"
)

// noon is when the world is asked: half past twelve on the 18th of last month, so
// that no test runs across an hour's or a day's edge, and 25 days before lies in
// another month. Nothing that Weir keeps is as old.
var noon = func() time.Time {
	now := time.Now().UTC()
	return time.Date(now.Year(), now.Month()-1, 18, 12, 30, 0, 0, time.UTC)
}()

// world is what has happened until noon: messages of two tenants over eight days,
// and some of a month before.
type world struct {
	events []*schemas.Event // in the order of the log
	lives  map[string][]*schemas.Event
	ids    []string // of lives, in order
	parts  map[*schemas.Event]int32
	poison []poison
}

// poison is a record that is no event.
type poison struct {
	partition int32
	appended  schemas.Millis
	value     string
}

// sender is a tenant's use of a channel, and who is sent to.
type sender struct {
	tenant, channel, class, template, provider, currency, price string
	to                                                          func(n int) string
}

var senders = []sender{
	{"acme", "sms", "verify", "login-code", "aliyun", "CNY", "0.045", func(n int) string { return fmt.Sprintf("+86138%08d", n%7) }},
	{"acme", "sms", "verify", "login-code", "tencent", "CNY", "0.05", func(n int) string { return fmt.Sprintf("+86138%08d", n%7) }},
	{"acme", "sms", "notice", "shipped", "tencent", "CNY", "0.05", func(n int) string { return fmt.Sprintf("+86139%08d", n%19) }},
	{"globex", "sms", "verify", "otp", "twilio", "USD", "0.0079", func(n int) string { return fmt.Sprintf("+659%07d", n%23) }},
	{"globex", "email", "marketing", "news", "ses", "", "", func(n int) string { return fmt.Sprintf("user%d@example.com", n%29) }},
}

// life is a message on its way.
type life struct {
	w        *world
	s        sender
	id, to   string
	accepted schemas.Millis
	at       schemas.Millis // of the step before
	part     int32
	rnd      *rand.Rand
}

func (w *world) begin(rnd *rand.Rand, id string, s sender, n int, accepted schemas.Millis) *life {
	to := s.to(n)
	return &life{w: w, s: s, id: id, to: to, accepted: accepted, at: accepted, part: int32(to[len(to)-1] % 2), rnd: rnd}
}

// step adds what happens after a wait, unless that is beyond noon.
func (l *life) step(wait time.Duration, status schemas.Status, more func(*schemas.Event)) bool {
	l.at = l.at.Add(wait)
	return l.put(l.at, status, more)
}

// put adds what happens at a moment.
func (l *life) put(at schemas.Millis, status schemas.Status, more func(*schemas.Event)) bool {
	if !at.Time().Before(noon) {
		return false
	}
	e := &schemas.Event{
		Kind: schemas.KindStatus, MessageID: l.id, Tenant: l.s.tenant, Channel: l.s.channel, Class: l.s.class, Template: l.s.template,
		To: l.to, Status: status, At: at, AcceptedAt: l.accepted,
	}
	if more != nil {
		more(e)
	}
	l.w.add(e, l.part)
	return true
}

func (w *world) add(e *schemas.Event, part int32) {
	if d := e.Decision; d != nil {
		d.Partition, d.T, d.Revision = part, e.At, 1
	}
	if e.Kind == schemas.KindStatus {
		if w.lives[e.MessageID] == nil {
			w.ids = append(w.ids, e.MessageID)
		}
		w.lives[e.MessageID] = append(w.lives[e.MessageID], e)
	}
	w.events = append(w.events, e)
	w.parts[e] = part
}

func (l *life) wait(least, most time.Duration) time.Duration {
	return least + time.Duration(l.rnd.Int64N(int64((most-least)/time.Millisecond)))*time.Millisecond
}

// end ends a message in admission.
func (l *life) end(status schemas.Status, v schemas.Verdict, reason string) {
	l.step(l.wait(5*time.Millisecond, 30*time.Millisecond), status, func(e *schemas.Event) {
		e.Reason, e.Decision = reason, &schemas.Decision{Verdict: v}
		if status == schemas.StatusDuplicate {
			e.DuplicateOf = "m-1"
		}
	})
}

func (l *life) refuse(status schemas.Status, v schemas.Verdict) bool {
	return l.step(l.wait(5*time.Millisecond, 30*time.Millisecond), status, func(e *schemas.Event) {
		e.Limit, e.Window, e.Reason, e.RetryAt = l.s.class, "1/60s", "limited", e.At.Add(time.Minute)
		e.Decision = &schemas.Decision{Verdict: v, Evidence: []schemas.Evidence{
			{Limit: l.s.class, Scope: l.to, Window: "1/60s", N: 1, Count: 1, Cost: 1, Oldest: e.At.Add(-time.Second)}}}
	})
}

func (l *life) queue(attempt int, observed bool) bool {
	return l.step(l.wait(5*time.Millisecond, 30*time.Millisecond), schemas.StatusQueued, func(e *schemas.Event) {
		e.Provider, e.Attempt = l.s.provider, attempt
		e.Decision = &schemas.Decision{Verdict: schemas.VerdictAdmit, Charges: []schemas.Charge{{Limit: l.s.class, Scope: l.to, T: e.At, Cost: 1}}}
		if attempt > 0 {
			e.Decision.Verdict = schemas.VerdictMove
		}
		if observed {
			e.Observed, e.Limit, e.Window, e.Decision.Charges = true, "seven", "7/3600s", nil
		}
	})
}

func (l *life) call(attempt int) bool {
	return l.step(l.wait(time.Millisecond, 4*time.Second), schemas.StatusSending, func(e *schemas.Event) { e.Provider, e.Attempt = l.s.provider, attempt })
}

// answer is what the provider says to the attempt.
func (l *life) answer(attempt int, status schemas.Status, code string) bool {
	return l.step(l.wait(20*time.Millisecond, 800*time.Millisecond), status, func(e *schemas.Event) {
		e.Provider, e.Attempt, e.ErrorCode = l.s.provider, attempt, code
		if code != "" {
			e.Error = "the provider says " + code
		}
		if status == schemas.StatusSent {
			e.ProviderMessageID, e.Segments, e.Price, e.Currency = "p-"+l.id[2:], 1, l.s.price, l.s.currency
		}
		if status == schemas.StatusRetrying {
			e.RetryAt = e.At.Add(retryAfter(attempt))
		}
	})
}

func retryAfter(attempt int) time.Duration {
	return []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute}[attempt-1]
}

// send carries a message to sent after so many retries; false if it is not there by noon.
func (l *life) send(retries int, end schemas.Status) bool {
	for n := 1; n <= retries; n++ {
		if !l.call(n) || !l.answer(n, schemas.StatusRetrying, []string{"busy", "timeout"}[l.rnd.IntN(2)]) {
			return false
		}
		l.at = l.at.Add(retryAfter(n))
		if !l.queue(n, false) {
			return false
		}
	}
	code := ""
	if end == schemas.StatusFailed {
		code = []string{"blocked", "no_such_number", "busy"}[l.rnd.IntN(3)]
	}
	return l.call(retries+1) && l.answer(retries+1, end, code)
}

// receipt comes so long after the latest step; it does not know when its message was accepted.
func (l *life) receipt(after time.Duration, status schemas.Status) {
	l.put(l.at.Add(after), status, func(e *schemas.Event) {
		e.AcceptedAt, e.Reason, e.Provider, e.Attempt, e.ProviderMessageID = 0, "receipt", l.s.provider, 1, "p-"+l.id[2:]
		if status == schemas.StatusUndelivered {
			e.ErrorCode, e.Error = "absent", "the phone was off"
		}
	})
}

// kinds are the ways that a message may go, and how often.
var kinds = []struct {
	weight int
	live   func(l *life)
}{
	{30, func(l *life) { // delivered
		if l.queue(0, false) && l.send(0, schemas.StatusSent) {
			l.receipt(l.wait(200*time.Millisecond, 30*time.Second), schemas.StatusDelivered)
		}
	}},
	{4, func(l *life) { // its receipt is hours late
		if l.queue(0, false) && l.send(0, schemas.StatusSent) {
			l.receipt(l.wait(2*time.Hour, 3*time.Hour), schemas.StatusDelivered)
		}
	}},
	{4, func(l *life) { // its receipt comes before the lane says sent
		if l.queue(0, false) && l.call(1) {
			l.receipt(5*time.Millisecond, schemas.StatusDelivered)
			l.answer(1, schemas.StatusSent, "")
		}
	}},
	{10, func(l *life) { // nobody says whether it came
		_ = l.queue(0, false) && l.send(0, schemas.StatusSent)
	}},
	{4, func(l *life) {
		if l.queue(0, false) && l.send(0, schemas.StatusSent) {
			l.receipt(time.Second, schemas.StatusUndelivered)
		}
	}},
	{2, func(l *life) { // the phone is on again
		if l.queue(0, false) && l.send(0, schemas.StatusSent) {
			l.receipt(time.Second, schemas.StatusUndelivered)
			l.receipt(20*time.Minute, schemas.StatusDelivered)
		}
	}},
	{6, func(l *life) { _ = l.queue(0, false) && l.send(1, schemas.StatusSent) }},
	{4, func(l *life) { _ = l.queue(0, false) && l.send(2, schemas.StatusSent) }},
	{4, func(l *life) { _ = l.queue(0, false) && l.send(3, schemas.StatusSent) }},
	{4, func(l *life) { _ = l.queue(0, false) && l.send(3, schemas.StatusFailed) }},
	{4, func(l *life) { _ = l.queue(0, false) && l.send(0, schemas.StatusFailed) }},
	{3, func(l *life) { _ = l.queue(0, false) && l.send(0, schemas.StatusUnknown) }},
	{2, func(l *life) { // unknown, and then it came
		if l.queue(0, false) && l.send(0, schemas.StatusUnknown) {
			l.receipt(3*time.Second, schemas.StatusDelivered)
		}
	}},
	{10, func(l *life) { l.refuse(schemas.StatusLimited, schemas.VerdictRefuse) }},
	{4, func(l *life) { // waits for its limit
		if l.refuse(schemas.StatusDeferred, schemas.VerdictDefer) {
			l.at = l.at.Add(time.Minute)
			_ = l.queue(0, false) && l.send(0, schemas.StatusSent)
		}
	}},
	{8, func(l *life) { _ = l.queue(0, true) && l.send(0, schemas.StatusSent) }}, // observed
	{2, func(l *life) { // goes stale in the queue
		if l.queue(0, false) && l.call(1) {
			l.at = l.at.Add(time.Minute)
			_ = l.queue(0, false) && l.send(0, schemas.StatusSent)
		}
	}},
	{3, func(l *life) { // Weir calls no provider
		l.step(10*time.Millisecond, schemas.StatusSent, func(e *schemas.Event) {
			e.Provider, e.Decision = "house", &schemas.Decision{Verdict: schemas.VerdictAdmit}
		})
	}},
	{2, func(l *life) { l.end(schemas.StatusSuppressed, schemas.VerdictSuppress, "suppressed") }},
	{2, func(l *life) { l.end(schemas.StatusExpired, schemas.VerdictExpire, "expired") }},
	{2, func(l *life) { l.end(schemas.StatusCancelled, schemas.VerdictCancel, "cancelled") }},
	{2, func(l *life) { l.end(schemas.StatusRejected, schemas.VerdictReject, "bad_to") }},
	{6, func(l *life) { l.end(schemas.StatusDuplicate, schemas.VerdictDuplicate, "duplicate") }},
	{2, func(l *life) { // an id comes twice: the second is a decision only
		if l.queue(0, false) && l.send(0, schemas.StatusSent) {
			l.w.add(&schemas.Event{Kind: schemas.KindDecision, MessageID: l.id, Tenant: l.s.tenant, Channel: l.s.channel, Class: l.s.class, To: l.to,
				At: l.at, Reason: "repeated", Decision: &schemas.Decision{Verdict: schemas.VerdictDuplicate}}, l.part)
		}
	}},
	// On their way.
	{2, func(l *life) {
		l.step(10*time.Millisecond, schemas.StatusScheduled, func(e *schemas.Event) { e.RetryAt = e.At.Add(48 * time.Hour) })
	}},
	{1, func(l *life) { l.queue(0, false) }},
	{1, func(l *life) { _ = l.queue(0, false) && l.call(1) }},
	{1, func(l *life) { // RetryCount 3, and attempts 3: the fourth is still to come
		if l.queue(0, false) {
			for n := 1; n <= 3; n++ {
				if !l.call(n) || !l.answer(n, schemas.StatusRetrying, "busy") || n == 3 {
					return
				}
				l.at = l.at.Add(retryAfter(n))
				if !l.queue(n, false) {
					return
				}
			}
		}
	}},
}

// newWorld makes the same world every time.
func newWorld() *world {
	w := &world{lives: make(map[string][]*schemas.Event), parts: make(map[*schemas.Event]int32)}
	rnd := rand.New(rand.NewPCG(8, 2))
	now := schemas.MillisOf(noon)
	var total int
	for _, k := range kinds {
		total += k.weight
	}
	n := 2
	some := func(count int, from, until time.Duration) {
		for range count {
			n++
			accepted := now.Add(-from + time.Duration(rnd.Int64N(int64((from-until)/time.Millisecond)))*time.Millisecond)
			l := w.begin(rnd, fmt.Sprintf("m-%d", n), senders[rnd.IntN(len(senders))], rnd.IntN(1000), accepted)
			at := rnd.IntN(total)
			i := slices.IndexFunc(kinds, func(k struct {
				weight int
				live   func(l *life)
			}) bool {
				at -= k.weight
				return at < 0
			})
			kinds[i].live(l)
		}
	}
	const day = 24 * time.Hour
	some(40, 31*day, 24*day)
	some(300, 8*day, day)
	some(400, day, 0)
	some(120, time.Hour, 0)
	for d := range 7 {
		some(20+5*d, time.Duration(d+1)*day+time.Hour, time.Duration(d+1)*day)
	}

	// Two messages that the page names: one that a retry saved, and one refused after it.
	l := w.begin(rnd, "m-1", senders[0], 1, now.Add(-2*time.Hour))
	_ = l.queue(0, false) && l.send(1, schemas.StatusSent)
	l.receipt(4*time.Second, schemas.StatusDelivered)
	l = w.begin(rnd, "m-2", senders[0], 1, now.Add(-2*time.Hour+20*time.Second))
	l.refuse(schemas.StatusLimited, schemas.VerdictRefuse)

	// The slowest minute has a message of each of two classes.
	for i, s := range senders[1:3] {
		l = w.begin(rnd, fmt.Sprintf("m-300%d", 2+i), s, 3, now.Add(-4*time.Hour+time.Duration(i)*time.Millisecond))
		l.at = l.at.Add(8*time.Minute + time.Second)
		_ = l.queue(0, false) && l.send(0, schemas.StatusSent)
	}

	w.wide(now.Add(-90 * time.Minute))
	l = w.begin(rnd, "m-3000", senders[0], 1, now.Add(-30*time.Minute))
	l.part = 1
	l.end(schemas.StatusExpired, schemas.VerdictExpire, "expired") // the decision before it is not there

	// What never happens: a message that ends twice.
	l = w.begin(rnd, "m-3001", senders[0], 1, now.Add(-20*time.Minute))
	l.end(schemas.StatusCancelled, schemas.VerdictCancel, "cancelled")
	l.end(schemas.StatusExpired, schemas.VerdictExpire, "expired")

	w.suppress(now)
	w.poison = []poison{
		{0, now.Add(-3 * time.Hour), "poison"},
		{1, now.Add(-2 * time.Hour), `{"kind":"status","status":"shouted","at":"2026-01-01T00:00:00.000Z"}`},
	}
	w.number()
	return w
}

// number gives decisions their places in the logs of their partitions, which are in the
// order of time. One is left out.
func (w *world) number() {
	var decided []*schemas.Event
	for _, e := range w.events {
		if e.Decision != nil {
			decided = append(decided, e)
		}
	}
	slices.SortStableFunc(decided, func(a, b *schemas.Event) int { return cmp.Compare(a.At, b.At) })
	var seq [3]int64
	for _, e := range decided {
		if e.MessageID == "m-3000" {
			seq[e.Decision.Partition]++
		}
		seq[e.Decision.Partition]++
		e.Decision.Seq = seq[e.Decision.Partition]
	}
}

// suppress is who was suppressed until noon: some still are, some no more.
func (w *world) suppress(now schemas.Millis) {
	say := func(ago time.Duration, action, tenant, to, channel, class string, until time.Duration, why, by string) {
		e := &schemas.Event{
			Kind: schemas.KindDecision, Tenant: tenant, To: to, Channel: channel, Class: class, At: now.Add(-ago), Reason: action, ErrorCode: why, Provider: by,
			Decision: &schemas.Decision{Verdict: schemas.VerdictSuppress},
		}
		if until != 0 {
			e.RetryAt = now.Add(until)
		}
		w.add(e, 0)
	}
	const hour = time.Hour
	say(80*hour, "suppress", "acme", "+8613800000001", "sms", "", 0, "hard_bounce", "aliyun")
	say(70*hour, "unsuppress", "acme", "+8613800000001", "sms", "", 0, "", "api:ops")
	say(60*hour, "suppress", "acme", "+8613800000001", "sms", "", 24*hour, "asked by phone", "api:ops")
	say(60*hour, "suppress", "acme", "+8613800000001", "", "ads", -hour, "stop", "aliyun")        // over
	say(50*hour, "suppress", "", "user7@example.com", "email", "", 0, "complaint", "ses")         // every tenant's
	say(40*hour, "suppress", "globex", "user8@example.com", "email", "", 0, "hard_bounce", "ses") // lifted
	say(30*hour, "unsuppress", "globex", "user8@example.com", "email", "", 0, "", "")
	say(20*hour, "suppress", "acme", "+8613800000002", "", "", 0, "", "")
	say(20*hour, "suppress", "acme", "+8613800000002", "", "", 72*hour, "stop", "tencent") // at the same time: the later counts
}

// wide is what happens to messages of which each takes a place of a limit for all
// of a tenant, 3/24h, or finds none. Partition 2 owns it.
func (w *world) wide(at schemas.Millis) {
	const to, owner = "+6590000000", 2
	home := new(int32(0))
	place := func(after time.Duration) []schemas.Charge {
		return []schemas.Charge{{Limit: "acme", Scope: "tenant=acme", T: at.Add(after), Cost: 1}}
	}
	step := func(id string, after time.Duration, v schemas.Verdict, d schemas.Decision) {
		d.Verdict = v
		w.add(&schemas.Event{Kind: schemas.KindDecision, MessageID: id, Tenant: "acme", To: to, At: at.Add(after), Decision: &d}, owner)
	}
	ends := func(id string, after time.Duration, status schemas.Status, d schemas.Decision) {
		e := &schemas.Event{Kind: schemas.KindStatus, MessageID: id, Tenant: "acme", Channel: "sms", Class: "code", To: to, Status: status,
			At: at.Add(after), AcceptedAt: at, Decision: &d}
		if status == schemas.StatusLimited {
			e.Limit, e.Window, e.Reason, e.RetryAt = "acme", "3/24h", "limited", at.Add(24*time.Hour)
		}
		w.add(e, 0)
	}
	full := []schemas.Evidence{{Limit: "acme", Scope: "tenant=acme", Window: "3/24h", N: 3, Count: 3, Cost: 1, Oldest: at}}
	ends("m-1999", -30*time.Hour, schemas.StatusLimited, schemas.Decision{Verdict: schemas.VerdictRefuse, Evidence: full})
	step("m-2000", -25*time.Hour, schemas.VerdictCharge, schemas.Decision{Charges: place(-25 * time.Hour), Onward: home}) // has left
	step("m-2001", 10*time.Second, schemas.VerdictCharge, schemas.Decision{Charges: place(10 * time.Second), Onward: home})
	step("m-2002", 11*time.Second, schemas.VerdictCharge, schemas.Decision{Charges: place(11 * time.Second), Onward: home})
	both := append(place(12*time.Second), schemas.Charge{Limit: "acme-month", Scope: "tenant=acme", T: at.Add(12 * time.Second), Cost: 1}) // of another limit there
	step("m-2003", 12*time.Second, schemas.VerdictCharge, schemas.Decision{Charges: both, Onward: home})
	step("m-2004", 13*time.Second, schemas.VerdictRefuse, schemas.Decision{Evidence: full, Onward: home})
	// m-2002 does not go on, and gives its place back. m-2001 is tried again, and its
	// place moved; then a later owner refuses it, and its old place is put back.
	step("m-2002", 14*time.Second, schemas.VerdictGiveBack, schemas.Decision{Returned: place(11 * time.Second)})
	step("m-2001", 15*time.Second, schemas.VerdictCharge, schemas.Decision{Returned: place(10 * time.Second), Charges: place(15 * time.Second), Onward: home})
	step("m-2001", 16*time.Second, schemas.VerdictGiveBack, schemas.Decision{Returned: place(15 * time.Second), Restored: place(10 * time.Second)})
	ends("m-2001", 17*time.Second, schemas.StatusQueued, schemas.Decision{Verdict: schemas.VerdictAdmit, Carried: place(10 * time.Second)})
	ends("m-2003", 18*time.Second, schemas.StatusQueued, schemas.Decision{Verdict: schemas.VerdictAdmit, Carried: place(12 * time.Second)})
	ends("m-2004", 19*time.Second, schemas.StatusLimited, schemas.Decision{Verdict: schemas.VerdictRefuse, Evidence: full})
}
