package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

const oraclePolicy = `
limits:
  - name: verify
    match: {class: verify}
    per: [recipient]
    allow: [1/10s, 3/calendar-day]
    timezone: Asia/Shanghai
  - {name: all, per: [recipient, class], allow: [4/1h]}
  - {name: tries, match: {class: alarm}, per: [recipient], allow: [1/10s], count: attempt}
classes: [{name: verify}, {name: notice}, {name: alarm}]
providers: [{name: p, type: simulated, channels: [sms]}, {name: nobody, type: none, channels: [sms]}]
`

// writer writes a decision log by hand: partition 0, t in seconds from noon.
type writer struct {
	log    []Record
	seq    int64
	input  int64
	readm  int64
	asked  []Offset
	extra  []Offset // of readmit
	calls  map[string]map[string]int
	offset int64
}

const noon = schemas.Millis(1_795_233_600_000) // 2026-11-21 04:00 UTC, noon in Shanghai

func at(seconds float64) schemas.Millis { return noon + schemas.Millis(seconds*1000) }

func (w *writer) put(e schemas.Event) *schemas.Event {
	w.log = append(w.log, Record{Offset: w.offset, Event: &e})
	w.offset++
	return &e
}

func (w *writer) decide(id string, v schemas.Verdict, s float64, input *schemas.Source) *schemas.Event {
	w.seq++
	e := schemas.Event{Kind: schemas.KindStatus, MessageID: id, To: "+8613800000000", Class: "verify", Channel: "sms", Tenant: "default", At: at(s), Provider: "p",
		Decision: &schemas.Decision{Verdict: v, Seq: w.seq, T: at(s), Revision: 1, Input: input}}
	return w.put(e)
}

func (w *writer) marker() {
	e := w.decide("", schemas.VerdictMarker, 0, nil)
	e.Kind, e.Decision.Marker = schemas.KindDecision, &schemas.Marker{Revision: 1, T: at(0), Since: map[string]map[string]schemas.Millis{}}
}

func (w *writer) request() *schemas.Source {
	w.asked = append(w.asked, Offset{0, w.input})
	w.input++
	return &schemas.Source{Topic: "requests", Offset: w.input - 1}
}

func (w *writer) readmit() *schemas.Source {
	w.extra = append(w.extra, Offset{0, w.readm})
	w.readm++
	return &schemas.Source{Topic: "readmit", Offset: w.readm - 1}
}

func charges(s float64) []schemas.Charge {
	return []schemas.Charge{
		{Limit: "verify", Scope: "+8613800000000", T: at(s), Cost: 1},
		{Limit: "all", Scope: "recipient=+8613800000000,class=verify", T: at(s), Cost: 1},
	}
}

func (w *writer) admit(id string, s float64) *schemas.Event {
	e := w.decide(id, schemas.VerdictAdmit, s, w.request())
	e.Status, e.Decision.Charges = schemas.StatusQueued, charges(s)
	return e
}

func (w *writer) move(id string, from, to float64) *schemas.Event {
	e := w.decide(id, schemas.VerdictMove, to, w.readmit())
	e.Status, e.Decision.Charges, e.Decision.Returned = schemas.StatusQueued, charges(to), charges(from)
	return e
}

func (w *writer) refuse(id string, s, retry float64) *schemas.Event {
	e := w.decide(id, schemas.VerdictRefuse, s, w.request())
	e.Status, e.Limit, e.Window, e.RetryAt = schemas.StatusLimited, "verify", "1/10s", at(retry)
	return e
}

func (w *writer) giveBack(id string, s, taken float64) *schemas.Event {
	e := w.decide(id, schemas.VerdictGiveBack, s, w.readmit())
	e.Kind, e.Class, e.Decision.Returned = schemas.KindDecision, "", charges(taken)
	return e
}

func (w *writer) step(id string, s schemas.Status, attempt int) *schemas.Event {
	return w.put(schemas.Event{Kind: schemas.KindStatus, MessageID: id, To: "+8613800000000", Class: "verify", Status: s, Attempt: attempt, Provider: "p"})
}

// sent is what a lane writes when all goes well.
func (w *writer) sent(id string) {
	w.step(id, schemas.StatusSending, 1)
	w.step(id, schemas.StatusSent, 1)
	if w.calls == nil {
		w.calls = map[string]map[string]int{"p": {}}
	}
	w.calls["p"][id]++
}

// only is a decision without sending.
func (w *writer) only(id string, s float64) {
	e := w.admit(id, s)
	e.Status, e.Provider = schemas.StatusSent, "nobody"
}

// release is what becomes of a request to release one.
func (w *writer) release(id string, v schemas.Verdict, reason string, s, taken float64) *schemas.Event {
	w.input++
	e := w.decide(id, v, s, &schemas.Source{Topic: "requests", Offset: w.input - 1})
	if e.Kind, e.Class, e.Reason = schemas.KindDecision, "", reason; v == schemas.VerdictGiveBack {
		e.Decision.Returned = charges(taken)
	}
	return e
}

// again is a lane's second attempt.
func (w *writer) again(id string) {
	w.step(id, schemas.StatusSending, 2)
	w.step(id, schemas.StatusSent, 2)
	if w.calls != nil {
		w.calls["p"][id] += 2
	}
}

func TestOracle(t *testing.T) {
	doc, err := schemas.ParsePolicy("oracle.yaml", []byte(oraclePolicy))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		write func(w *writer)
		want  map[Fault]int
	}{
		"a clean log": {func(w *writer) {
			w.admit("a", 1)
			w.refuse("b", 2, 11)
			w.sent("a")
			w.refuse("c", 10.999, 11)
			w.admit("d", 11)
			w.sent("d")
			w.admit("e", 21)
			w.step("e", schemas.StatusSending, 1)
			w.step("e", schemas.StatusFailed, 1)
			w.giveBack("e", 22, 21)
			w.admit("f", 22) // the place of e is free
			w.step("f", schemas.StatusSending, 1)
			w.step("f", schemas.StatusRetrying, 1)
			w.move("f", 22, 30)
			w.refuse("g", 39, 43200) // the day is full: until midnight
			w.step("f", schemas.StatusSending, 2)
			w.step("f", schemas.StatusSent, 2)
			w.calls["p"]["f"] = 2
			w.step("f", schemas.StatusDelivered, 2)
			w.admit("h", 43200)
			w.sent("h")
		}, nil},
		"a retry that waits": {func(w *writer) {
			w.admit("a", 1)
			w.step("a", schemas.StatusSending, 1)
			w.step("a", schemas.StatusRetrying, 1)
			w.admit("b", 11)
			w.sent("b")
			e := w.decide("a", schemas.VerdictDefer, 12, w.readmit())
			e.Status, e.Reason, e.RetryAt = schemas.StatusDeferred, "limited", at(21)
			w.move("a", 1, 21)
			w.again("a")
		}, nil},
		"over": {func(w *writer) {
			w.admit("a", 1)
			w.sent("a")
			w.admit("b", 10.999)
			w.sent("b")
		}, map[Fault]int{FaultOver: 1}},
		"over a calendar day": {func(w *writer) {
			for i, id := range []string{"a", "b", "c", "d"} {
				w.admit(id, float64(1+10*i))
				w.sent(id)
			}
		}, map[Fault]int{FaultOver: 1}},
		"over by a move": {func(w *writer) {
			w.admit("a", 1)
			w.step("a", schemas.StatusSending, 1)
			w.step("a", schemas.StatusRetrying, 1)
			w.admit("b", 11)
			w.sent("b")
			w.move("a", 1, 20)
			w.again("a")
		}, map[Fault]int{FaultOver: 1}},
		"wrongly refused": {func(w *writer) {
			w.admit("a", 1)
			w.sent("a")
			w.refuse("b", 11, 12)
		}, map[Fault]int{FaultWronglyHeld: 1}},
		"wrongly refused by its own place": {func(w *writer) {
			w.admit("a", 1)
			w.step("a", schemas.StatusSending, 1)
			w.step("a", schemas.StatusRetrying, 1)
			e := w.decide("a", schemas.VerdictDefer, 5, w.readmit())
			e.Status, e.Reason = schemas.StatusDeferred, "limited"
			w.move("a", 1, 11)
			w.again("a")
		}, map[Fault]int{FaultWronglyHeld: 1}},
		"wrongly refused after a give-back": {func(w *writer) {
			w.admit("a", 1)
			w.step("a", schemas.StatusSending, 1)
			w.step("a", schemas.StatusFailed, 1)
			w.giveBack("a", 2, 1)
			w.refuse("b", 3, 11)
		}, map[Fault]int{FaultWronglyHeld: 1}},
		"a retry_at too early": {func(w *writer) {
			w.admit("a", 1)
			w.sent("a")
			w.refuse("b", 2, 10.999)
		}, map[Fault]int{FaultRetryAt: 1}},
		"a retry_at too late": {func(w *writer) {
			w.admit("a", 1)
			w.sent("a")
			w.refuse("b", 2, 11.001)
		}, map[Fault]int{FaultRetryAt: 1}},
		"no decision": {func(w *writer) {
			w.admit("a", 1)
			w.sent("a")
			w.request()
		}, map[Fault]int{FaultLost: 1}},
		"no end": {func(w *writer) {
			w.admit("a", 1)
			w.step("a", schemas.StatusSending, 1)
		}, map[Fault]int{FaultLost: 1}},
		"a record of readmit without a decision": {func(w *writer) {
			w.admit("a", 1)
			w.sent("a")
			w.readmit()
		}, map[Fault]int{FaultLost: 1}},
		"two ends": {func(w *writer) {
			w.admit("a", 1)
			w.sent("a")
			w.step("a", schemas.StatusFailed, 1)
		}, map[Fault]int{FaultTwoEnds: 1}},
		"life after the end": {func(w *writer) {
			w.admit("a", 1)
			w.sent("a")
			w.step("a", schemas.StatusSending, 2)
		}, map[Fault]int{FaultTwoEnds: 1}},
		"decided twice": {func(w *writer) {
			w.admit("a", 1)
			e := w.decide("a", schemas.VerdictDuplicate, 2, &schemas.Source{Topic: "requests"})
			e.Kind = schemas.KindDecision
			w.sent("a")
		}, map[Fault]int{FaultTwice: 1}},
		"a gap": {func(w *writer) {
			w.seq++
			w.admit("a", 1)
			w.sent("a")
		}, map[Fault]int{FaultGap: 1}},
		"another partition's decision": {func(w *writer) {
			w.admit("a", 1).Decision.Partition = 3
			w.sent("a")
		}, map[Fault]int{FaultGap: 1}},
		"back in time": {func(w *writer) {
			w.admit("a", 30)
			w.sent("a")
			w.admit("b", 11).To = "+8613800000001"
			w.sent("b")
		}, map[Fault]int{FaultBackInTime: 1}},
		"a limit left out": {func(w *writer) {
			e := w.admit("a", 1)
			e.Decision.Charges = e.Decision.Charges[:1]
			w.sent("a")
		}, map[Fault]int{FaultCharges: 1}},
		"a place in a limit that does not match": {func(w *writer) {
			w.admit("a", 1).Class = "notice"
			w.sent("a")
		}, map[Fault]int{FaultCharges: 1, FaultStands: 1}},
		"a place at another time": {func(w *writer) {
			w.admit("a", 1).Decision.Charges[0].T = at(0)
			w.sent("a")
		}, map[Fault]int{FaultCharges: 1}},
		"a refusal that takes a place": {func(w *writer) {
			w.admit("a", 1)
			w.sent("a")
			w.refuse("b", 2, 11).Decision.Charges = charges(2)
		}, map[Fault]int{FaultCharges: 1}},
		"an attempt that keeps its old place": {func(w *writer) {
			w.admit("a", 1)
			w.step("a", schemas.StatusSending, 1)
			w.step("a", schemas.StatusRetrying, 1)
			w.move("a", 1, 20).Decision.Returned = nil
			w.again("a")
		}, map[Fault]int{FaultCharges: 2, FaultStands: 2}}, // in each limit
		"another's place given back": {func(w *writer) {
			w.admit("a", 1)
			w.sent("a")
			e := w.refuse("b", 2, 11)
			e.Status, e.Kind = "", schemas.KindDecision
			w.giveBack("b", 3, 1)
			w.step("b", schemas.StatusLimited, 0)
		}, map[Fault]int{FaultReturned: 2}},
		"received and given back": {func(w *writer) {
			w.admit("a", 1)
			w.sent("a")
			w.giveBack("a", 2, 1)
		}, map[Fault]int{FaultReturned: 1}},
		"decided only, and released": {func(w *writer) {
			w.only("a", 1)
			w.release("b", schemas.VerdictNothing, "not_held", 2, 0)
			w.release("a", schemas.VerdictGiveBack, "released", 3, 1)
			w.release("a", schemas.VerdictNothing, "repeated", 4, 0)
			w.only("c", 5)
			w.refuse("d", 6, 15)
			w.release("a", schemas.VerdictNothing, "not_held", 90000, 0)
		}, nil},
		"released twice": {func(w *writer) {
			w.only("a", 1)
			w.release("a", schemas.VerdictGiveBack, "released", 3, 1)
			w.release("a", schemas.VerdictGiveBack, "released", 4, 1).Decision.Returned = nil
		}, map[Fault]int{FaultReturned: 1}},
		"released what a lane sent": {func(w *writer) {
			w.admit("a", 1)
			w.sent("a")
			w.release("a", schemas.VerdictGiveBack, "released", 3, 1)
		}, map[Fault]int{FaultReturned: 1}},
		"not released, though it holds a place": {func(w *writer) {
			w.only("a", 1)
			w.release("a", schemas.VerdictNothing, "not_held", 3, 0)
		}, map[Fault]int{FaultReturned: 1}},
		"a standing place not found": {func(w *writer) {
			w.admit("a", 1)
			w.step("a", schemas.StatusSending, 1)
			w.step("a", schemas.StatusFailed, 1)
			e := w.giveBack("a", 2, 1)
			e.Decision.Missing, e.Decision.Returned = e.Decision.Returned, nil
		}, map[Fault]int{FaultReturned: 2}},
		"no permit": {func(w *writer) {
			w.admit("a", 1)
			w.step("a", schemas.StatusSent, 1)
		}, map[Fault]int{FaultNoPermit: 1}},
		"a permit of another attempt": {func(w *writer) {
			w.admit("a", 1)
			w.step("a", schemas.StatusSending, 1)
			w.step("a", schemas.StatusSent, 2)
		}, map[Fault]int{FaultNoPermit: 1}},
		"sent and never called": {func(w *writer) {
			w.admit("a", 1)
			w.sent("a")
			delete(w.calls["p"], "a")
		}, map[Fault]int{FaultCalls: 1}},
		"called more often than permitted": {func(w *writer) {
			w.admit("a", 1)
			w.sent("a")
			w.calls["p"]["a"]++
		}, map[Fault]int{FaultCalls: 1}},
		"called without a message": {func(w *writer) {
			w.admit("a", 1)
			w.sent("a")
			w.calls["p"]["z"] = 1
		}, map[Fault]int{FaultCalls: 1}},
		"an unknown verdict": {func(w *writer) {
			w.decide("", "wave_through", 1, nil)
		}, map[Fault]int{FaultCannotBeTold: 1}},
		"an unknown revision": {func(w *writer) {
			w.admit("a", 1).Decision.Revision = 7
			w.sent("a")
		}, map[Fault]int{FaultCannotBeTold: 1, FaultCharges: 2, FaultStands: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &writer{}
			w.marker()
			tt.write(w)
			o := NewOracle(map[int64]*schemas.Policy{1: &doc.Policy}, "requests", "readmit", 1)
			for _, r := range w.log {
				o.Take(r)
			}
			report := o.Finish(w.asked, w.extra, w.calls)
			if !maps.Equal(report.Faults, tt.want) {
				t.Errorf("found %v, want %v\n%s", report.Faults, tt.want, report)
			}
			if report.OK() != (len(tt.want) == 0) {
				t.Errorf("OK %v", report.OK())
			}
		})
	}
}

// A window counts only what came after its since, and the oracle knows when a
// day begins in a zone.
func TestOracleWindows(t *testing.T) {
	shanghai := &schemas.Limit{Name: "l", Timezone: "Asia/Shanghai"}
	stand := func(seconds ...float64) *list {
		out := new(list)
		for _, s := range seconds {
			out.add(place{t: at(s), cost: 1, message: "m"})
		}
		return out
	}
	for name, tt := range map[string]struct {
		window string
		since  float64
		places *list
		t      float64
		want   int64
	}{
		"a place counts for its length": {"9/10s", -1e7, stand(0), 9.999, 1},
		"and is out then":               {"9/10s", -1e7, stand(0), 10, 0},
		"all of one millisecond":        {"9/10s", -1e7, stand(1, 1, 1), 1, 3},
		"not before since":              {"9/10s", 1, stand(0, 1, 2), 3, 1},
		"the last moment of a day":      {"9/calendar-day", -1e7, stand(0, 43199.999), 43199.999, 2},
		"the next day":                  {"9/calendar-day", -1e7, stand(0, 43199.999, 43200), 43200, 1},
		"an hour":                       {"9/calendar-hour", -1e7, stand(0, 3599.999, 3600), 3600, 1},
		"a minute":                      {"9/calendar-minute", -1e7, stand(0, 59.999, 60), 60, 1},
		"a month":                       {"9/calendar-month", -1e7, stand(-86400*20.6, -86400*20.4, 0), 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var w schemas.Window
			if err := w.UnmarshalText([]byte(tt.window)); err != nil {
				t.Fatal(err)
			}
			since := map[string]map[string]schemas.Millis{"l": {w.UnitKey(): at(tt.since)}}
			if got := count(w, shanghai, since, tt.places, at(tt.t), ""); got != tt.want {
				t.Errorf("counts %d, want %d", got, tt.want)
			}
		})
	}
}

func TestReport(t *testing.T) {
	o := NewOracle(nil, "requests", "readmit", 1)
	for range 7 {
		o.fault(FaultOver, Record{Event: &schemas.Event{MessageID: "m"}}, "text")
	}
	r := o.Finish(nil, nil, nil)
	if r.OK() || r.Faults[FaultOver] != 7 || len(r.Violations) != maxKeptPerFault {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(r.String(), "ORACLE over=7 wrongly_refused=0 lost=0 two_ends=0 other=0") {
		t.Error(r)
	}
	if !slices.ContainsFunc(r.Violations, func(v Violation) bool { return strings.HasPrefix(v.String(), "over: status/0/0 message m") }) {
		t.Error(r.Violations)
	}
}
