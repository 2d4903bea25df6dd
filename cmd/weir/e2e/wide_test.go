package e2e

import (
	"maps"
	"slices"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// Of three partitions, the second is the recipient's home, the third owns acme's
// places and the first those of all.
const (
	widePartitions = 3
	wideTo         = "+8613800000001"
	ownsAll        = int32(0)
	wideHome       = int32(1)
	ownsAcme       = int32(2)
)

const widePolicy = `
limits:
  - {name: acme, per: [tenant], allow: [3/10s, 9/60s]}
  - {name: own, per: [recipient], allow: [4/10s]}
  - {name: all, per: [], allow: [2/10s]}
classes: [{name: verify}]
providers: [{name: p, type: simulated, channels: [sms]}]
`

// In revision 2 all only observes, in 3 there is none, and in 4 it is a bucket.
const wideLater = `
limits:
  - {name: acme, per: [tenant], allow: [3/10s, 9/60s]}
  - {name: own, per: [recipient], allow: [4/10s]}
  - {name: all, per: [], allow: [2/10s], mode: observe}
classes: [{name: verify}]
providers: [{name: p, type: simulated, channels: [sms]}]
`

const wideWithout = `
limits:
  - {name: acme, per: [tenant], allow: [3/10s, 9/60s]}
  - {name: own, per: [recipient], allow: [4/10s]}
classes: [{name: verify}]
providers: [{name: p, type: simulated, channels: [sms]}]
`

const wideBucket = `
limits:
  - {name: acme, per: [tenant], allow: [9/10s]}
  - {name: own, per: [recipient], allow: [4/10s]}
  - {name: all, per: [], allow: [bucket 2 refill 0.5/s]}
classes: [{name: verify}]
providers: [{name: p, type: simulated, channels: [sms]}]
`

// In revision 5 home lets one through in ten seconds, in 6 two, from a bucket of one.
const wideOne = `
limits:
  - {name: acme, per: [tenant], allow: [9/10s]}
  - {name: own, per: [recipient], allow: [1/10s]}
  - {name: all, per: [], allow: [9/10s]}
classes: [{name: verify}]
providers: [{name: p, type: simulated, channels: [sms]}]
`

const wideOwnBucket = `
limits:
  - {name: acme, per: [tenant], allow: [9/10s]}
  - {name: own, per: [recipient], allow: [2/10s, bucket 1 refill 0.1/s]}
  - {name: all, per: [], allow: [9/10s]}
classes: [{name: verify}]
providers: [{name: p, type: simulated, channels: [sms]}]
`

// rounds writes the logs of three partitions by hand.
type rounds struct {
	log      []Record
	seq, at  map[int32]int64
	read     map[int32]int64
	asked    []Offset
	extra    []Offset
	calls    map[string]map[string]int
	revision int64
}

func newRounds(revision int64) *rounds {
	w := &rounds{seq: map[int32]int64{}, at: map[int32]int64{}, read: map[int32]int64{}, calls: map[string]map[string]int{"p": {}}, revision: revision}
	for n := range int32(widePartitions) {
		w.marker(n, 0, revision)
	}
	return w
}

func (w *rounds) put(n int32, e *schemas.Event) *schemas.Event {
	w.log = append(w.log, Record{Partition: n, Offset: w.at[n], Event: e})
	w.at[n]++
	return e
}

func (w *rounds) decide(n int32, id string, v schemas.Verdict, s float64) *schemas.Event {
	w.seq[n]++
	e := &schemas.Event{Kind: schemas.KindDecision, MessageID: id, To: wideTo, Tenant: "acme", At: at(s),
		Decision: &schemas.Decision{Verdict: v, Partition: n, Seq: w.seq[n], T: at(s), Revision: w.revision}}
	if n == wideHome {
		e.Class, e.Channel, e.Provider = "verify", "sms", "p"
	}
	return w.put(n, e)
}

func (w *rounds) marker(n int32, s float64, revision int64) {
	e := w.decide(n, "", schemas.VerdictMarker, s)
	e.To, e.Tenant = "", ""
	e.Decision.Revision = revision
	e.Decision.Marker = &schemas.Marker{Revision: revision, T: at(s), Since: map[string]map[string]schemas.Millis{}}
}

func (w *rounds) readmit(n int32) *schemas.Source {
	w.extra = append(w.extra, Offset{n, w.read[n]})
	w.read[n]++
	return &schemas.Source{Topic: "readmit", Partition: n, Offset: w.read[n] - 1}
}

func (w *rounds) step(n int32, id string, v schemas.Verdict, s float64, onward int32) *schemas.Event {
	e := w.decide(n, id, v, s)
	e.Decision.Input, e.Decision.Onward = w.readmit(n), &onward
	return e
}

func placed(limit string, s float64) schemas.Charge {
	scope := map[string]string{"acme": "tenant=acme", "own": wideTo}[limit]
	return schemas.Charge{Limit: limit, Scope: scope, T: at(s), Cost: 1}
}

// way is one round: home, acme's owner, home, all's owner, home.
type way struct{ ask, acme, own, all, end *schemas.Event }

// begin goes as far as to the owner of all. from is the earlier attempt's time, or 0.
func (w *rounds) begin(id string, from, s float64) way {
	var y way
	y.ask = w.step(wideHome, id, schemas.VerdictCharge, s, ownsAcme)
	if from == 0 {
		w.extra = w.extra[:len(w.extra)-1]
		y.ask.Decision.Input = &schemas.Source{Topic: "requests", Partition: wideHome, Offset: int64(len(w.asked))}
		w.asked = append(w.asked, Offset{wideHome, int64(len(w.asked))})
		w.read[wideHome]--
	}
	y.acme = w.step(ownsAcme, id, schemas.VerdictCharge, s, wideHome)
	y.acme.Decision.Charges = []schemas.Charge{placed("acme", s)}
	y.own = w.step(wideHome, id, schemas.VerdictCharge, s, ownsAll)
	y.own.Decision.Charges = []schemas.Charge{placed("own", s)}
	if from > 0 {
		y.acme.Decision.Returned, y.own.Decision.Returned = []schemas.Charge{placed("acme", from)}, []schemas.Charge{placed("own", from)}
	}
	return y
}

func (w *rounds) admit(id string, from, s float64) way {
	y := w.begin(id, from, s)
	y.all = w.step(ownsAll, id, schemas.VerdictCharge, s, wideHome)
	y.all.Decision.Charges = []schemas.Charge{placed("all", s)}
	v := schemas.VerdictAdmit
	if from > 0 {
		v = schemas.VerdictMove
		y.all.Decision.Returned = []schemas.Charge{placed("all", from)}
	}
	y.end = w.decide(wideHome, id, v, s)
	y.end.Kind, y.end.Status, y.end.Decision.Input = schemas.KindStatus, schemas.StatusQueued, w.readmit(wideHome)
	y.end.Decision.Carried = []schemas.Charge{placed("acme", s), placed("own", s), placed("all", s)}
	return y
}

// ends admits a message at s, whose round began at from: its own place moves.
func (w *rounds) ends(id string, y way, from, s float64) way {
	y.all = w.step(ownsAll, id, schemas.VerdictCharge, s, wideHome)
	y.all.Decision.Charges = []schemas.Charge{placed("all", s)}
	y.end = w.decide(wideHome, id, schemas.VerdictAdmit, s)
	d := y.end.Decision
	y.end.Kind, y.end.Status, d.Input = schemas.KindStatus, schemas.StatusQueued, w.readmit(wideHome)
	d.Carried = []schemas.Charge{placed("acme", from), placed("all", s)}
	d.Charges, d.Returned = []schemas.Charge{placed("own", s)}, []schemas.Charge{placed("own", from)}
	w.lane(id, 1, schemas.StatusSent)
	return y
}

// refusedBack is a message that home refuses at the end of its round, whose place another
// took.
func (w *rounds) refusedBack() way {
	y, b := w.begin("a", 0, 1), w.begin("b", 0, 11.5)
	y.all = w.step(ownsAll, "a", schemas.VerdictCharge, 12, wideHome)
	y.all.Decision.Charges = []schemas.Charge{placed("all", 12)}
	y.end = w.decide(wideHome, "a", schemas.VerdictRefuse, 12)
	y.end.Kind, y.end.Status, y.end.Reason, y.end.RetryAt, y.end.Limit, y.end.Window = schemas.KindStatus, schemas.StatusLimited, "limited", at(21.5), "own", "1/10s"
	d := y.end.Decision
	d.Input, d.Evidence = w.readmit(wideHome), []schemas.Evidence{{Limit: "own", Scope: wideTo, Window: "1/10s", N: 1, Count: 1, Cost: 1, Oldest: at(11.5)}}
	d.Returned, d.Released = []schemas.Charge{placed("own", 1)}, []schemas.Charge{placed("acme", 1), placed("all", 12)}
	for n, c := range map[int32]schemas.Charge{ownsAcme: placed("acme", 1), ownsAll: placed("all", 12)} {
		back := w.decide(n, "a", schemas.VerdictGiveBack, 12)
		back.Decision.Input, back.Decision.Returned = w.readmit(n), []schemas.Charge{c}
	}
	w.ends("b", b, 11.5, 12.5)
	return y
}

// sent is an admission that a lane sends.
func (w *rounds) sent(id string, s float64) way {
	y := w.admit(id, 0, s)
	w.lane(id, 1, schemas.StatusSent)
	return y
}

func (w *rounds) lane(id string, attempt int, end schemas.Status) {
	w.calls["p"][id]++
	for _, s := range []schemas.Status{schemas.StatusSending, end} {
		w.put(wideHome, &schemas.Event{Kind: schemas.KindStatus, MessageID: id, To: wideTo, Class: "verify", Status: s, Attempt: attempt, Provider: "p"})
	}
}

// refuse is a round that the owner of all ends, and what becomes of its places.
func (w *rounds) refuse(id string, from, s, retry float64, oldest float64) (y way, back *schemas.Event) {
	y = w.begin(id, from, s)
	y.all = w.step(ownsAll, id, schemas.VerdictRefuse, s, wideHome)
	y.all.RetryAt = at(retry)
	y.all.Decision.Evidence = []schemas.Evidence{{Limit: "all", Window: "2/10s", N: 2, Count: 2, Cost: 1, Oldest: at(oldest)}}
	v, status := schemas.VerdictRefuse, schemas.StatusLimited
	if from > 0 {
		v, status = schemas.VerdictDefer, schemas.StatusDeferred
	}
	y.end = w.decide(wideHome, id, v, s)
	y.end.Kind, y.end.Status, y.end.Reason, y.end.RetryAt, y.end.Limit, y.end.Window = schemas.KindStatus, status, "limited", at(retry), "all", "2/10s"
	d := y.end.Decision
	d.Input, d.Evidence = w.readmit(wideHome), slices.Clone(y.all.Decision.Evidence)
	d.Returned, d.Released = []schemas.Charge{placed("own", s)}, []schemas.Charge{placed("acme", s)}
	back = w.decide(ownsAcme, id, schemas.VerdictGiveBack, s)
	back.Decision.Input, back.Decision.Returned = w.readmit(ownsAcme), []schemas.Charge{placed("acme", s)}
	if from > 0 {
		d.Restored, d.Reinstated = []schemas.Charge{placed("own", from)}, []schemas.Charge{placed("acme", from)}
		back.Decision.Restored = []schemas.Charge{placed("acme", from)}
	}
	return y, back
}

// cancelled is a retry that a cancel meets on its way round, when all places have moved.
func (w *rounds) cancelled(received bool) way {
	w.admit("a", 0, 1)
	w.lane("a", 1, schemas.StatusRetrying)
	y := w.begin("a", 1, 2)
	y.all = w.step(ownsAll, "a", schemas.VerdictCharge, 2, wideHome)
	y.all.Decision.Charges, y.all.Decision.Returned = []schemas.Charge{placed("all", 2)}, []schemas.Charge{placed("all", 1)}
	y.end = w.decide(wideHome, "a", schemas.VerdictCancel, 2)
	y.end.Kind, y.end.Status = schemas.KindStatus, schemas.StatusCancelled
	d := y.end.Decision
	d.Input, d.Returned, d.Released = w.readmit(wideHome), []schemas.Charge{placed("own", 2)}, []schemas.Charge{placed("acme", 2), placed("all", 2)}
	if received {
		d.Restored, d.Reinstated = []schemas.Charge{placed("own", 1)}, []schemas.Charge{placed("acme", 1), placed("all", 1)}
	}
	for _, o := range []struct {
		n     int32
		limit string
	}{{ownsAcme, "acme"}, {ownsAll, "all"}} {
		back := w.decide(o.n, "a", schemas.VerdictGiveBack, 2)
		back.Decision.Input, back.Decision.Returned = w.readmit(o.n), []schemas.Charge{placed(o.limit, 2)}
		if received {
			back.Decision.Restored = []schemas.Charge{placed(o.limit, 1)}
		}
	}
	return y
}

// drop takes a record out of the logs as if it had never been written.
func (w *rounds) drop(e *schemas.Event) {
	i := slices.IndexFunc(w.log, func(r Record) bool { return r.Event == e })
	n := w.log[i].Partition
	w.log = slices.Delete(w.log, i, i+1)
	w.seq[n]--
	for _, r := range w.log[i:] {
		if r.Partition == n && r.Event.Decision != nil {
			r.Event.Decision.Seq--
		}
	}
	w.extra = slices.DeleteFunc(w.extra, func(at Offset) bool {
		in := e.Decision.Input
		return in != nil && at == Offset{in.Partition, in.Offset}
	})
}

func TestOracleWide(t *testing.T) {
	policies := map[int64]*schemas.Policy{}
	for i, text := range []string{widePolicy, wideLater, wideWithout, wideBucket, wideOne, wideOwnBucket} {
		doc, err := schemas.ParsePolicy("wide.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		policies[int64(i+1)] = &doc.Policy
	}
	// The retry of a that the owner of all refuses, and then lets through.
	retry := func(w *rounds) (y way, back *schemas.Event) {
		w.admit("a", 0, 1)
		w.lane("a", 1, schemas.StatusRetrying)
		w.sent("b", 2)
		w.sent("c", 11.5)
		y, back = w.refuse("a", 1, 11.6, 12, 2)
		w.admit("a", 1, 12)
		w.lane("a", 2, schemas.StatusSent)
		return y, back
	}
	for name, tt := range map[string]struct {
		revision int64
		write    func(w *rounds)
		want     map[Fault]int
	}{
		"clean": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			w.refuse("c", 0, 3, 11, 1)
			w.sent("d", 11)
		}, nil},
		"clean, with a retry that is refused and waits": {1, func(w *rounds) { retry(w) }, nil},
		"clean, and an old place is gone that nobody sees": {1, func(w *rounds) {
			w.admit("a", 0, 1)
			w.lane("a", 1, schemas.StatusRetrying)
			w.sent("b", 2)
			w.sent("c", 11.5)
			y, _ := w.refuse("a", 1, 11.6, 12, 2)
			y.own.Decision.Missing, y.own.Decision.Returned = y.own.Decision.Returned, nil
			y.end.Decision.Restored = nil
			e := w.decide(wideHome, "a", schemas.VerdictExpire, 13)
			e.Kind, e.Status, e.Decision.Input = schemas.KindStatus, schemas.StatusUnknown, w.readmit(wideHome)
		}, nil},
		"an old place is not put back as if its limit were gone": {1, func(w *rounds) {
			w.admit("a", 0, 1)
			w.lane("a", 1, schemas.StatusRetrying)
			w.sent("b", 2)
			w.sent("c", 11.5)
			y, _ := w.refuse("a", 1, 11.6, 12, 2)
			c := placed("own", 1)
			y.end.Decision.Restored, y.end.Decision.Passed = nil, []schemas.Ask{{Limit: c.Limit, Scope: c.Scope, Cost: c.Cost, T: c.T}}
			e := w.decide(wideHome, "a", schemas.VerdictExpire, 13)
			e.Kind, e.Status, e.Decision.Input = schemas.KindStatus, schemas.StatusUnknown, w.readmit(wideHome)
		}, map[Fault]int{FaultStands: 1}},
		"clean, and given back": {1, func(w *rounds) {
			w.admit("a", 0, 1)
			w.lane("a", 1, schemas.StatusFailed)
			e := w.decide(wideHome, "a", schemas.VerdictGiveBack, 2)
			e.Decision.Input, e.Decision.Returned = w.readmit(wideHome), []schemas.Charge{placed("own", 1)}
			e.Decision.Released = []schemas.Charge{placed("acme", 1), placed("all", 1)}
			for n, limit := range map[int32]string{ownsAcme: "acme", ownsAll: "all"} {
				e := w.decide(n, "a", schemas.VerdictGiveBack, 2)
				e.Decision.Input, e.Decision.Returned = w.readmit(n), []schemas.Charge{placed(limit, 1)}
			}
			w.sent("b", 3)
			w.sent("c", 3)
		}, nil},
		"clean, and cancelled on its way round, with no attempt received": {1, func(w *rounds) { w.cancelled(false) }, nil},
		"clean, and cancelled on its way round, with an attempt received": {1, func(w *rounds) { w.cancelled(true) }, nil},
		"ended unknown on its way round, and gets home's place of before not back": {1, func(w *rounds) {
			y := w.cancelled(true)
			y.end.Status, y.end.Decision.Verdict, y.end.Decision.Restored = schemas.StatusUnknown, schemas.VerdictExpire, nil
		}, map[Fault]int{FaultReturned: 1}},
		"an owner lets one too many through": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			w.sent("c", 3)
		}, map[Fault]int{FaultOver: 1}},
		"an owner refuses, and has room": {1, func(w *rounds) {
			w.sent("a", 1)
			w.refuse("c", 0, 3, 11, 1)
		}, map[Fault]int{FaultWronglyHeld: 1}},
		"an owner refuses for a place that was given back": {1, func(w *rounds) {
			w.sent("a", 1)
			w.refuse("b", 0, 11, 12, 1)
		}, map[Fault]int{FaultWronglyHeld: 1}},
		"an owner miscounts": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			y, _ := w.refuse("c", 0, 3, 11, 1)
			y.all.Decision.Evidence[0].Count, y.end.Decision.Evidence[0].Count = 3, 3
		}, map[Fault]int{FaultWronglyHeld: 1}},
		"an owner's retry time is late": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			w.refuse("c", 0, 3, 11.001, 1)
		}, map[Fault]int{FaultRetryAt: 1}},
		"home tells another retry time": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			y, _ := w.refuse("c", 0, 3, 11, 1)
			y.end.RetryAt++
		}, map[Fault]int{FaultRetryAt: 1}},
		"home refuses on its own": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			y, _ := w.refuse("c", 0, 3, 11, 1)
			w.drop(y.all)
			y.own.Decision.Onward = new(int32)
			*y.own.Decision.Onward = wideHome
		}, map[Fault]int{FaultWronglyHeld: 1}},
		"home refuses by another window than the owner": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			y, _ := w.refuse("c", 0, 3, 11, 1)
			y.end.Decision.Evidence[0].Oldest++
		}, map[Fault]int{FaultWronglyHeld: 1}},
		"home admits what an owner refused": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			y, back := w.refuse("c", 0, 3, 11, 1)
			w.drop(back)
			d := y.end.Decision
			y.end.Status, d.Verdict = schemas.StatusQueued, schemas.VerdictAdmit
			d.Carried, d.Returned, d.Released, d.Evidence = []schemas.Charge{placed("acme", 3), placed("own", 3)}, nil, nil, nil
			w.lane("c", 1, schemas.StatusSent)
		}, map[Fault]int{FaultOver: 1, FaultCharges: 1}},
		"an unwinding forgets an owner": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			y, back := w.refuse("c", 0, 3, 11, 1)
			w.drop(back)
			y.end.Decision.Released = nil
		}, map[Fault]int{FaultStands: 1}},
		"an unwinding forgets home": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			y, _ := w.refuse("c", 0, 3, 11, 1)
			y.end.Decision.Returned = nil
		}, map[Fault]int{FaultStands: 1}},
		"an unwinding that gets lost": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			_, back := w.refuse("c", 0, 3, 11, 1)
			w.drop(back)
		}, map[Fault]int{FaultReleased: 1, FaultStands: 1}},
		"an unwinding that nobody asked for": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			y, _ := w.refuse("c", 0, 3, 11, 1)
			y.end.Decision.Released = nil
		}, map[Fault]int{FaultReleased: 1}},
		"an unwinding twice": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			_, back := w.refuse("c", 0, 3, 11, 1)
			e := w.decide(ownsAcme, "c", schemas.VerdictGiveBack, 4)
			e.Decision.Returned = back.Decision.Returned
		}, map[Fault]int{FaultReleased: 1, FaultReturned: 1}},
		"an unwinding that does not find what stands": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			_, back := w.refuse("c", 0, 3, 11, 1)
			back.Decision.Missing, back.Decision.Returned = back.Decision.Returned, nil
		}, map[Fault]int{FaultReturned: 1}},
		"an owner does not put an old place back": {1, func(w *rounds) {
			_, back := retry(w)
			back.Decision.Restored = nil
		}, map[Fault]int{FaultReleased: 1, FaultReturned: 1}}, // the next attempt does not find it
		"home does not put its old place back": {1, func(w *rounds) {
			y, _ := retry(w)
			y.end.Decision.Restored = nil
		}, map[Fault]int{FaultReturned: 1}},
		"an old place that nobody moved is put back": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			y, back := w.refuse("c", 0, 3, 11, 1)
			y.end.Decision.Reinstated, back.Decision.Restored = []schemas.Charge{placed("acme", 2)}, []schemas.Charge{placed("acme", 2)}
		}, map[Fault]int{FaultReturned: 1}},
		"an old place stays beside the new one": {1, func(w *rounds) {
			w.admit("a", 0, 1)
			w.lane("a", 1, schemas.StatusRetrying)
			w.admit("a", 1, 5).acme.Decision.Returned = nil
			w.lane("a", 2, schemas.StatusSent)
		}, map[Fault]int{FaultCharges: 1, FaultStands: 1}},
		"an admission drops what an owner took": {1, func(w *rounds) {
			y := w.sent("a", 1)
			y.end.Decision.Carried = y.end.Decision.Carried[:2]
		}, map[Fault]int{FaultCharges: 1, FaultStands: 1}},
		"an admission carries what no owner took": {1, func(w *rounds) {
			y := w.sent("a", 1)
			y.end.Decision.Carried[2].T++
		}, map[Fault]int{FaultCharges: 1, FaultStands: 2}},
		"an admission skips a limit": {1, func(w *rounds) {
			y := w.sent("a", 1)
			w.drop(y.all)
			y.own.Decision.Onward = new(int32)
			*y.own.Decision.Onward = wideHome
			y.end.Decision.Carried = y.end.Decision.Carried[:2]
		}, map[Fault]int{FaultCharges: 1}},
		"an admission in another tenant's scope": {1, func(w *rounds) {
			y := w.sent("a", 1)
			y.acme.Decision.Charges[0].Scope, y.end.Decision.Carried[0].Scope = "tenant=umbrella", "tenant=umbrella" // of the same owner
		}, map[Fault]int{FaultCharges: 1}},
		"a place in a scope of another limit": {1, func(w *rounds) {
			y := w.sent("a", 1)
			y.acme.Decision.Charges[0].Scope, y.end.Decision.Carried[0].Scope = "class=verify", "class=verify"
		}, map[Fault]int{FaultCharges: 2, FaultStands: 1}},
		"a place at a partition that does not own its scope": {1, func(w *rounds) {
			y := w.sent("a", 1)
			y.acme.Decision.Charges[0].Scope, y.end.Decision.Carried[0].Scope = "tenant=default", "tenant=default"
		}, map[Fault]int{FaultCharges: 1, FaultRound: 1}},
		"an owner takes two places for one message": {1, func(w *rounds) {
			y := w.sent("a", 1)
			e := w.step(ownsAll, "a", schemas.VerdictCharge, 1, wideHome)
			e.Decision.Charges = y.all.Decision.Charges
		}, map[Fault]int{FaultCharges: 1, FaultRound: 1, FaultStands: 1}},
		"an owner takes a place for a message that never was": {1, func(w *rounds) {
			w.sent("a", 1)
			w.step(ownsAll, "z", schemas.VerdictCharge, 1, wideHome).Decision.Charges = []schemas.Charge{placed("all", 1)}
		}, map[Fault]int{FaultRound: 1, FaultStands: 1}},
		"an owner refuses and takes": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			y, _ := w.refuse("c", 0, 3, 11, 1)
			y.all.Decision.Charges = []schemas.Charge{placed("all", 3)}
		}, map[Fault]int{FaultCharges: 1}},
		"all is asked before acme": {1, func(w *rounds) {
			y := w.sent("a", 1)
			*y.ask.Decision.Onward, *y.own.Decision.Onward = ownsAll, ownsAcme
		}, map[Fault]int{FaultRound: 2}},
		"refused before acme was asked": {1, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			y, back := w.refuse("c", 0, 3, 11, 1)
			y.acme.Decision.Charges, y.end.Decision.Released = nil, nil
			w.drop(back)
		}, map[Fault]int{FaultRound: 1}},
		"stuck at an owner": {1, func(w *rounds) {
			w.begin("a", 0, 1)
			w.sent("b", 2)
		}, map[Fault]int{FaultLost: 2}}, // no end, and no next step
		"stuck at home": {1, func(w *rounds) {
			y := w.begin("a", 0, 1)
			w.drop(y.own)
		}, map[Fault]int{FaultLost: 2}},
		"passed, though the owner has it": {1, func(w *rounds) {
			y := w.sent("a", 1)
			y.all.Decision.Charges = nil
			y.all.Decision.Passed, y.end.Decision.Passed = []schemas.Ask{{Limit: "all", Cost: 1}}, []schemas.Ask{{Limit: "all", Cost: 1}}
			y.end.Decision.Carried = y.end.Decision.Carried[:2]
		}, map[Fault]int{FaultCharges: 1}},
		"passed by an owner that does not have it": {1, func(w *rounds) {
			w.marker(ownsAll, 0.5, 3)
			y := w.sent("a", 1)
			y.all.Decision.Revision = 3
			y.all.Decision.Charges = nil
			y.all.Decision.Passed, y.end.Decision.Passed = []schemas.Ask{{Limit: "all", Cost: 1}}, []schemas.Ask{{Limit: "all", Cost: 1}}
			y.end.Decision.Carried = y.end.Decision.Carried[:2]
		}, nil},
		"passed, as only home says": {1, func(w *rounds) {
			w.marker(ownsAll, 0.5, 3)
			y := w.sent("a", 1)
			y.all.Decision.Revision = 3
			y.all.Decision.Charges = nil
			y.end.Decision.Passed = []schemas.Ask{{Limit: "all", Cost: 1}}
			y.end.Decision.Carried = y.end.Decision.Carried[:2]
		}, map[Fault]int{FaultRound: 1}},
		"observed, and full": {2, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 2)
			y := w.sent("c", 3)
			y.all.Decision.Charges = nil
			y.all.Decision.Evidence = []schemas.Evidence{{Limit: "all", Window: "2/10s", N: 2, Count: 2, Cost: 1, Oldest: at(1)}}
			y.all.Decision.Passed, y.end.Decision.Passed = []schemas.Ask{{Limit: "all", Cost: 1}}, []schemas.Ask{{Limit: "all", Cost: 1}}
			y.end.Decision.Evidence = y.all.Decision.Evidence
			y.end.Decision.Carried = y.end.Decision.Carried[:2]
		}, nil},
		"observed full, and has room": {2, func(w *rounds) {
			w.sent("a", 1)
			y := w.sent("c", 3)
			y.all.Decision.Charges = nil
			y.all.Decision.Evidence = []schemas.Evidence{{Limit: "all", Window: "2/10s", N: 2, Count: 2, Cost: 1, Oldest: at(1)}}
			y.all.Decision.Passed, y.end.Decision.Passed = []schemas.Ask{{Limit: "all", Cost: 1}}, []schemas.Ask{{Limit: "all", Cost: 1}}
			y.end.Decision.Carried = y.end.Decision.Carried[:2]
		}, map[Fault]int{FaultWronglyHeld: 1, FaultCharges: 1}},
		"clean, and back later": {5, func(w *rounds) {
			w.ends("a", w.begin("a", 0, 1), 1, 4)
			w.ends("b", w.begin("b", 0, 14), 14, 15)
		}, nil},
		"clean, and refused when it is back": {5, func(w *rounds) { w.refusedBack() }, nil},
		"refused when it is back, by its own place": {5, func(w *rounds) {
			y := w.refusedBack()
			y.end.Decision.Evidence[0].Count++
		}, map[Fault]int{FaultWronglyHeld: 1}},
		"dispatched with home's place of before": {5, func(w *rounds) {
			y := w.ends("a", w.begin("a", 0, 1), 1, 4)
			d := y.end.Decision
			d.Carried, d.Charges, d.Returned = append(d.Carried, d.Returned...), nil, nil
		}, map[Fault]int{FaultOver: 1}},
		"back later, and the place of before stays": {5, func(w *rounds) {
			w.ends("a", w.begin("a", 0, 1), 1, 4).end.Decision.Returned = nil
		}, map[Fault]int{FaultOver: 1, FaultStands: 1, FaultCharges: 1}},
		"back when the windows are full, and dispatched": {5, func(w *rounds) {
			y, b := w.begin("a", 0, 1), w.begin("b", 0, 11.5)
			w.ends("a", y, 1, 12)
			w.ends("b", b, 11.5, 22.5)
		}, map[Fault]int{FaultOver: 1}},
		"a bucket of home is drawn from when the way begins": {6, func(w *rounds) {
			w.ends("a", w.begin("a", 0, 1), 1, 9)
			w.ends("b", w.begin("b", 0, 11), 11, 11.5)
		}, nil},
		"a bucket": {4, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 1.5)
			w.sent("c", 3) // one token came in 2 s
			y, _ := w.refuse("d", 0, 3.1, 5, 0)
			for _, e := range []*schemas.Event{y.all, y.end} {
				e.Decision.Evidence[0].Window, e.Decision.Evidence[0].Oldest = "bucket 2 refill 0.5/s", 0
			}
		}, nil},
		"a bucket from which was drawn elsewhere, a while ago": {4, func(w *rounds) {
			e := w.step(ownsAll, "z", schemas.VerdictRecord, 5, 0)
			e.Decision.Onward = nil
			e.Decision.Charges = []schemas.Charge{placed("all", 1)} // one token of two, and there again by now
			w.sent("a", 5)
			w.sent("b", 5)
		}, map[Fault]int{FaultRound: 1}}, // which this test leaves out
		"a bucket that is overdrawn": {4, func(w *rounds) {
			w.sent("a", 1)
			w.sent("b", 1.5)
			w.sent("c", 2.999)
		}, map[Fault]int{FaultOver: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			for order, sorted := range map[string]bool{"as it happened": false, "one partition after another": true} {
				w := newRounds(tt.revision)
				tt.write(w)
				if sorted { // the logs are read in no order of time
					slices.SortStableFunc(w.log, func(a, b Record) int { return int(a.Partition - b.Partition) })
				}
				o := NewOracle(policies, "requests", "readmit", widePartitions)
				for _, r := range w.log {
					o.Take(r)
				}
				report := o.Finish(w.asked, w.extra, w.calls)
				if !maps.Equal(report.Faults, tt.want) {
					t.Errorf("%s: found %v, want %v\n%s", order, report.Faults, tt.want, report)
				}
			}
		})
	}
}

// What a limit counts by that weir.status does not have, the request tells.
func TestOracleMetadata(t *testing.T) {
	doc, err := schemas.ParsePolicy("ip.yaml", []byte("limits: [{name: ip, per: [metadata.ip], allow: [9/10s]}]\nclasses: [{name: verify}]\nproviders: [{name: p, type: simulated, channels: [sms]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		scope string // of the place; empty for none
		ip    string // of the request; empty for none
		want  int
	}{
		"as the request has it": {"metadata.ip=10.0.0.1", "10.0.0.1", 0},
		"another's":             {"metadata.ip=10.0.0.1", "10.0.0.2", 1},
		"left out":              {"", "10.0.0.1", 1},
		"there is none":         {"", "", 0},
		"made up":               {"metadata.ip=10.0.0.1", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewOracle(map[int64]*schemas.Policy{1: &doc.Policy}, "requests", "readmit", 1)
			e := &schemas.Event{Kind: schemas.KindStatus, Status: schemas.StatusQueued, MessageID: "a", To: wideTo, Class: "verify", Channel: "sms", Provider: "p",
				Source: &schemas.Source{Topic: "requests", Offset: 4}, Decision: &schemas.Decision{Verdict: schemas.VerdictAdmit, Seq: 1, T: at(1), Revision: 1}}
			if tt.scope != "" {
				e.Decision.Charges = []schemas.Charge{{Limit: "ip", Scope: tt.scope, T: at(1), Cost: 1}}
			}
			o.Take(Record{Event: e})
			o.Requested(Offset{0, 4}, map[string]string{"ip": tt.ip})
			if report := o.Finish(nil, nil, nil); report.Faults[FaultCharges] != tt.want || len(report.Faults) != tt.want {
				t.Errorf("found %s", report)
			}
		})
	}
}

// The text of a scope as the contract has it.
func TestOracleScopes(t *testing.T) {
	e := &schemas.Event{To: "+8613800000001", Tenant: "a,b=c%\n", Class: "verify", Channel: "sms", Provider: "p"}
	for name, tt := range map[string]struct {
		per   []string
		scope string
		want  bool
	}{
		"all":                       {nil, "", true},
		"all has no name":           {nil, "tenant=", false},
		"escaped":                   {[]string{"tenant"}, "tenant=a%2Cb%3Dc%25%0A", true},
		"another's":                 {[]string{"tenant"}, "tenant=b", false},
		"in the contract's order":   {[]string{"prefix:11", "prefix:3", "class", "channel"}, "channel=sms,class=verify,prefix:3=861,prefix:11=86138000000", true},
		"in the policy's order":     {[]string{"class", "channel"}, "class=verify,channel=sms", false},
		"one is missing":            {[]string{"class", "channel"}, "class=verify", false},
		"one too many":              {[]string{"class"}, "class=verify,channel=sms", false},
		"what the log lacks":        {[]string{"metadata.ip", "country"}, "country=CN,metadata.ip=10.0.0.1", true},
		"what the log lacks, named": {[]string{"metadata.ip"}, "metadata.port=1", false},
	} {
		if got := fits(&schemas.Limit{Per: tt.per}, tt.scope, e); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for scope, want := range map[string]bool{"": true, "tenant=a": true, "+8613800000000": false, "recipient=+8613800000000,class=verify": false, "x%3D@example.com": false} {
		if wide(scope) != want {
			t.Errorf("%q is wide: %v", scope, !want)
		}
	}
}
