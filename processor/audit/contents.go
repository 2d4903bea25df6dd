package audit

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// view is which places of each limit some window counts at a moment, and so are
// compared. What no window counts may be in the ledger or not: it is dropped when its scope
// is next written, or swept.
type view struct {
	t      schemas.Millis
	after  schemas.Millis // what came until then is not known: the log begins with it
	cut    bool
	limits map[uint32]*limitView // by the hash of their names
}

// longestWindow is the longest that a policy may have.
const longestWindow = schemas.Millis(schemas.MaxWindow / time.Millisecond)

type limitView struct {
	name   string
	seen   schemas.Millis // from here on some window counts places that are kept one by one
	from   schemas.Millis // and from here on the log has them
	units  []unitView
	bucket *limit // compared where it is not full; nil: not
}

// unitView is a calendar window.
type unitView struct {
	unit int // index into schemas.CalendarUnits
	from schemas.Millis
}

// newView is what the windows in force count at t.
func newView(p *partition, t schemas.Millis) *view {
	v := &view{t: max(t, p.t), cut: p.cut, limits: make(map[uint32]*limitView)}
	if p.cut {
		v.after = p.begin
	}
	if p.rules == nil || p.revision < 0 {
		return v
	}
	for i := range p.rules.limits {
		l := &p.rules.limits[i]
		lv := &limitView{name: l.Name, seen: math.MaxInt64}
		if l.bucket && !p.cut {
			lv.bucket = l
		}
		for _, w := range everyWindow(l.Limit) {
			since := l.since[w.UnitKey()]
			from, _ := l.from(&w, v.t)
			from = max(from, since+1)
			switch w.Kind {
			case schemas.WindowRolling:
				lv.seen = min(lv.seen, from)
			case schemas.WindowCalendar:
				if listed(l.Limit, w) {
					lv.seen = min(lv.seen, max(from, l.since["times "+w.UnitKey()]+1))
				}
				unit := slices.Index(schemas.CalendarUnits, w.Unit)
				if from > v.after && !slices.ContainsFunc(lv.units, func(u unitView) bool { return u.unit == unit }) {
					lv.units = append(lv.units, unitView{unit, from})
				}
			case schemas.WindowBucket:
			}
		}
		lv.from = max(lv.seen, v.after+1)
		v.limits[limitHash(l.Name)] = lv
	}
	return v
}

// Hashes of what a scope has, which add up.
func (u *unitView) hash(count int64) uint64 {
	if count == 0 {
		return 0
	}
	return mix(sum{2, uint64(u.unit)}, uint64(count))
}

func placeHash(t schemas.Millis, cost int64) uint64 { return mix(sum{1, uint64(t)}, uint64(cost)) }

func (l *limitView) bucketHash(k tank, t schemas.Millis) uint64 {
	if l.bucket == nil || !l.bucket.refills(k, t) {
		return 0
	}
	return mix(sum{3, uint64(k.t)}, mix(sum{uint64(k.full), uint64(k.every)}, uint64(k.left)))
}

// scopeRecord is a record of what a limit has in a scope, or of a segment of its places.
type scopeRecord struct {
	limit  uint32
	places []pastPlace
	count  [4]int64
	from   [4]schemas.Millis
	bucket tank
	long   bool // its places are in segments
}

type pastPlace struct {
	t    schemas.Millis
	cost int64
}

var errTorn = errors.New("the record is damaged: its sum, length or order is wrong")

// readScope reads a record of what limits have: 'L', a version, flags, the hash of the
// limit's name; for each calendar unit, with its flag, from when it counts and how many;
// with flag 4 a bucket (when it was last drawn from, how long until it is full, its level,
// and the parts of a token); places, each the milliseconds since the one before it and, with
// flag 7, its cost; and the CRC-32C of the key and all that. Version 3 has its places in
// segments, which are records of version 4.
func readScope(key, value []byte) (r scopeRecord, err error) {
	if len(value) < 11 || value[0] != 'L' || value[1] < 1 || value[1] > 4 {
		return r, errors.New("no record of a limit's places that this version knows")
	}
	body := value[:len(value)-4]
	if crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body) != binary.LittleEndian.Uint32(value[len(body):]) {
		return r, errTorn
	}
	version, flags, in := body[1], body[2], body[7:]
	r.limit = binary.LittleEndian.Uint32(body[3:])
	number := func() int64 {
		v, n := binary.Uvarint(in)
		if n <= 0 || v > math.MaxInt64 {
			err, in = errTorn, nil
			return 0
		}
		in = in[n:]
		return int64(v)
	}
	for u := range 4 {
		if flags&(1<<u) != 0 {
			r.from[u], r.count[u] = schemas.Millis(number()), number()
		}
	}
	if flags&(1<<4) != 0 {
		r.bucket.t = schemas.Millis(number())
		r.bucket.full = r.bucket.t + schemas.Millis(number())
		r.bucket.left, r.bucket.every = number(), number()
	}
	if r.long = version == 3; !r.long {
		last := schemas.Millis(0)
		for range number() {
			p := pastPlace{cost: 1}
			last += schemas.Millis(number())
			p.t = last
			if flags&(1<<7) != 0 {
				p.cost = number()
			}
			if err != nil {
				return r, err
			}
			r.places = append(r.places, p)
		}
	}
	if len(in) > 0 {
		err = errTorn
	}
	return r, err
}

// digest notes what a record has of what is compared.
func (v *view) digest(e *entry, k stateKey, r *kgo.Record) error {
	switch k.kind {
	case 0:
		rec, err := readScope(r.Key, r.Value)
		if err != nil {
			return err
		}
		if e.limit = rec.limit; v.limits[rec.limit] != nil {
			l := v.limits[rec.limit]
			e.digest = l.record(&rec, v.t)
			e.before = slices.ContainsFunc(rec.places, func(p pastPlace) bool { return p.t >= l.seen && p.t < l.from })
		}
	case 's':
		var rec struct {
			To     string `json:"to"`
			Scopes []struct {
				Tenant   string         `json:"tenant"`
				Channel  string         `json:"channel"`
				Class    string         `json:"class"`
				Until    schemas.Millis `json:"until"`
				Reason   string         `json:"reason"`
				Provider string         `json:"provider"`
				At       schemas.Millis `json:"at"`
			} `json:"scopes"`
		}
		if err := json.Unmarshal(r.Value, &rec); err != nil {
			return fmt.Errorf("an opt-out that cannot be read: %w", err)
		}
		if recipient.Fold(rec.To) != rec.To {
			return nil // of an earlier version's key, on its way to the key's owner
		}
		for _, s := range rec.Scopes {
			if o := (suppression{optOut{s.Tenant, s.Channel, s.Class}, terms{s.Until, s.Reason, s.Provider}}); !o.over(v.t) && s.At > v.after {
				e.digest += o.hash()
			}
		}
	case kindWaiting:
		var rec struct {
			Cancelled bool `json:"cancelled"`
		}
		if err := json.Unmarshal(r.Value, &rec); err != nil {
			return fmt.Errorf("a waiting message that cannot be read: %w", err)
		}
		if !rec.Cancelled {
			e.digest = 1
		}
	case kindHeld:
		var rec struct {
			Until schemas.Millis   `json:"until"`
			Place []schemas.Charge `json:"place"`
		}
		if err := json.Unmarshal(r.Value, &rec); err != nil {
			return fmt.Errorf("a decision without sending that cannot be read: %w", err)
		}
		d := decided{charges: rec.Place, until: rec.Until, released: len(rec.Place) == 0}
		e.digest = d.hash(v.t)
	}
	return nil
}

// record is what of a record is compared at t.
func (l *limitView) record(r *scopeRecord, t schemas.Millis) (digest uint64) {
	for _, p := range r.places {
		if p.t >= l.from {
			digest += placeHash(p.t, p.cost)
		}
	}
	for i := range l.units {
		u := &l.units[i]
		if r.from[u.unit] >= u.from { // else it is of a former period
			digest += u.hash(r.count[u.unit])
		}
	}
	return digest + l.bucketHash(r.bucket, t)
}

// counted is what the audit has in a scope of what is compared.
func (p *partition) counted(l *limitView, scope sum, t schemas.Millis) (digest uint64) {
	var counts [4]int64
	p.places.each(scope, func(t schemas.Millis, cost int64) {
		if t >= l.from {
			digest += placeHash(t, cost)
		}
		for i := range l.units {
			if t >= l.units[i].from {
				counts[i] += cost
			}
		}
	})
	for i := range l.units {
		digest += l.units[i].hash(counts[i])
	}
	return digest + l.bucketHash(p.tanks.most[scope], t)
}

// inScope says how a scope's record differs from what the audit has there.
func (p *partition) inScope(l *limitView, scope sum, t schemas.Millis, r scopeRecord) string {
	var more, less []pastPlace // of the record
	for _, at := range r.places {
		if at.t >= l.from {
			more = append(more, at)
		}
	}
	p.places.each(scope, func(t schemas.Millis, cost int64) {
		at := pastPlace{t, cost}
		if i := slices.Index(more, at); i >= 0 {
			more = slices.Delete(more, i, i+1)
		} else if t >= l.from {
			less = append(less, at)
		}
	})
	switch {
	case r.long:
		return "the charges, or their number, are others than the decisions leave"
	case len(more) > 0:
		return fmt.Sprintf("it has a charge of %s that costs %d, and the decisions leave none (%d such, and %d are missing)", more[0].t, more[0].cost, len(more), len(less))
	case len(less) > 0:
		return fmt.Sprintf("the charge of %s that costs %d is missing (and %d more)", less[0].t, less[0].cost, len(less)-1)
	case l.bucketHash(r.bucket, t) != l.bucketHash(p.tanks.most[scope], t):
		return "its bucket has another level than the decisions leave"
	}
	return "it counts another number of charges in a calendar period than the decisions leave"
}

// each calls fn with every place of a scope.
func (p *places) each(scope sum, fn func(t schemas.Millis, cost int64)) {
	if s := p.of(scope); s != nil {
		for i := range s.at {
			if s.at[i].cost > 0 {
				fn(s.at[i].t, s.at[i].cost)
			}
		}
		return
	}
	for i := p.heads[scope]; i != 0; i = p.arena[i].next {
		fn(p.arena[i].t, p.arena[i].cost)
	}
}

func (o *suppression) hash() uint64 {
	return sumOf(o.tenant, o.channel, o.class, o.until.String(), o.why, o.by)[0]
}

// hash is that of a decision without sending, as far as some window sees it at t.
func (d *decided) hash(t schemas.Millis) uint64 {
	switch {
	case d.until <= t:
		return 0
	case d.released:
		return mix(sum{4, uint64(d.until)}, 0)
	}
	return mix(sum{4, uint64(d.until)}, 1+chargesHash(d.charges))
}

// contents compares what the records of a state say with what the partition has counted. record
// reads what limits have from the ledger again.
func (p *partition) contents(s *state, ids *known, m *ledgerMeta, reached bool, record func(offset int64) scopeRecord) {
	switch {
	case !reached && !p.started && p.cut: // retention took all of the log
		if max(p.clocks.brokers, m.T)-m.T < longestWindow {
			p.found.cannotTell("partitions whose whole log was deleted by age: whether their ledger is what the decisions leave", 1)
		}
		return
	case !reached, p.metas.others(p.num, p.first), p.revision < 0: // said elsewhere
		return
	}
	later := make(map[stateKey]struct{})
	for k := range s.later {
		later[k.whole()] = struct{}{}
	}
	found := 0
	at := func(k stateKey) int64 {
		if e, there := s.entries[k]; there {
			return e.offset
		}
		return m.offset
	}
	compare := func(k stateKey, is, should uint64, text func() string) {
		if _, again := later[k]; again || is == should || s.torn[k] != nil {
			return
		}
		v := Violation{Kind: KindState, Topic: p.ledger, Partition: p.num, Offset: at(k), Seq: m.Seq, T: m.T}
		if found++; found <= kept { // of no more it is shown
			v.Text = text()
		}
		p.found.violation(v)
	}

	// What limits have: a scope's own record, and those of its segments.
	segments := make(map[stateKey]entry)
	for k, e := range s.entries {
		if _, again := later[k.whole()]; e.before && !again {
			p.found.cannotTell("scopes whose charges in the ledger were taken before the log, and are still counted by a window", 1)
		}
		if k.number > 0 {
			of := segments[k.whole()]
			segments[k.whole()] = entry{digest: of.digest + e.digest}
		}
	}
	scope := func(of sum, e, more entry) {
		l := s.limits[uint32(of[1])]
		if l == nil {
			return // no window counts it
		}
		should := p.counted(l, of, s.t)
		compare(stateKey{hi: of[0], mid: uint32(of[1] >> 32)}, e.digest+more.digest, should, func() string {
			var r scopeRecord
			if e.check != 0 {
				r = record(e.offset)
			}
			return fmt.Sprintf("in a scope of %s, ", l.name) + p.inScope(l, of, s.t, r)
		})
	}
	for k, e := range s.entries {
		if k.kind == 0 && k.number == 0 {
			scope(scopeOf(k.hi, k.mid, e.limit), e, segments[k])
		}
	}
	rest := func(of sum) {
		k := stateKey{hi: of[0], mid: uint32(of[1] >> 32)}
		if e, there := s.entries[k]; !there || e.limit != uint32(of[1]) {
			scope(of, entry{}, segments[k])
		}
	}
	for of := range p.places.heads {
		rest(of)
	}
	for of := range p.tanks.most {
		if _, listed := p.places.heads[of]; !listed {
			rest(of)
		}
	}
	p.otherContents(s, m, compare)
	p.knownContents(ids, m)
}

// otherContents compares opt-outs, waiting messages and decisions without sending.
func (p *partition) otherContents(s *state, m *ledgerMeta, compare func(k stateKey, is, should uint64, text func() string)) {
	key := func(kind byte, name sum) stateKey {
		return stateKey{kind: kind, hi: name[0], mid: uint32(name[1] >> 32), low: uint32(name[1])}
	}
	should := make(map[stateKey]uint64)
	for to, all := range p.causes.optOuts {
		if recipient.Fold(to) != to {
			continue
		}
		digest := uint64(0)
		for i := range all {
			if !all[i].over(s.t) {
				digest += all[i].hash()
			}
		}
		should[key('s', optOutKey(to))] = digest
	}
	for k, msg := range p.messages {
		if st := msg.state(); msg.flags&flagRound == 0 && (st == schemas.StatusScheduled || st == schemas.StatusDeferred) {
			should[key(kindWaiting, k)] = 1
		}
	}
	for _, d := range p.decided {
		should[key(kindHeld, d.key)] = d.hash(s.t)
	}
	what := map[byte]string{'s': "of a recipient's opt-outs", kindWaiting: "of whether a message waits", kindHeld: "of a decision without sending"}
	for k, digest := range should {
		compare(k, s.entries[k].digest, digest, func() string {
			return fmt.Sprintf("it does not have %s what the decisions up to seq %d leave", what[k.kind], m.Seq)
		})
	}
	for k, e := range s.entries {
		if _, there := should[k]; k.kind == 0 || there || p.cut && k.kind != 's' {
			continue // in a log that was cut, what was before it is not known
		}
		compare(k, e.digest, 0, func() string {
			return fmt.Sprintf("it has %s what no decision up to seq %d leaves", what[k.kind], m.Seq)
		})
	}
}

// knownContents judges that the idempotency keys of the last day are known under the messages that
// came with them.
func (p *partition) knownContents(ids *known, m *ledgerMeta) {
	now := max(p.clocks.brokers, m.T)
	for k, v := range p.repeats.keys {
		if !v.taken || v.t < now-unique || v.t > m.T {
			continue
		}
		switch e, there := ids.all[knownKey{k, int64(v.t / anHour)}]; {
		case there && e.t == v.t && e.id == v.id:
		case there:
			p.found.violation(Violation{Kind: KindState, Topic: p.seenTopic, Partition: p.num, Offset: ids.last, T: v.t, Text: "an idempotency key names another message there than the decision says, or at another time"})
		default:
			p.found.violation(Violation{Kind: KindState, Topic: p.seenTopic, Partition: p.num, Offset: ids.last, T: v.t, Text: "an idempotency key of a message that was decided is missing"})
		}
	}
}
