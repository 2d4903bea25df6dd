package admission

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// maxScopes bounds the suppressions of one recipient, so that they fit into one
// record of the ledger: a class may be any text.
const maxScopes = 1000

// scope is what a suppression covers: messages that have each field it gives.
type scope struct {
	Tenant  string `json:"tenant,omitempty"`
	Channel string `json:"channel,omitempty"`
	Class   string `json:"class,omitempty"`
}

func scopeOf(q *schemas.Request) scope {
	return scope{Tenant: q.Tenant, Channel: string(q.Channel), Class: q.Class}
}

// covers reports whether a message with exactly the fields of m is suppressed.
func (s scope) covers(m scope) bool {
	return (s.Tenant == "" || s.Tenant == m.Tenant) &&
		(s.Channel == "" || s.Channel == m.Channel) &&
		(s.Class == "" || s.Class == m.Class)
}

// suppressed is a recipient that opted out, as it stands in the ledger.
type suppressed struct {
	Version int           `json:"v"`
	To      string        `json:"to"` // canonical
	Scopes  []suppression `json:"scopes"`

	check limit.Check // of its record
}

// suppression is one scope, what was said with it, and the time of the decision
// that made it or changed it last.
type suppression struct {
	scope
	terms
	At schemas.Millis `json:"at"`
}

// terms are what a suppression says beside whom it covers. Version 1 has none of
// them: those stand until they are lifted.
type terms struct {
	Until    schemas.Millis `json:"until,omitzero"`     // from then on it covers nothing; 0: never
	Reason   string         `json:"reason,omitempty"`   // as its metadata says
	Provider string         `json:"provider,omitempty"` // by whom it came, as its metadata says
}

func termsOf(q *schemas.Request) terms {
	return terms{Until: q.ExpiresAt, Reason: q.Metadata[schemas.MetaReason], Provider: q.Metadata[schemas.MetaProvider]}
}

// over reports whether it covers nothing any more at t.
func (n terms) over(t schemas.Millis) bool { return n.Until != 0 && n.Until <= t }

const suppressedVersion = 2

// stateKey is 128 bits of SHA-256 over what a record of the ledger is about.
type stateKey [16]byte

// suppressions are the recipients of one partition that opted out. Changes are
// an overlay until commit; a recipient without scopes in it was released. What is
// over covers nothing, whether or not it was dropped yet.
type suppressions struct {
	base    map[stateKey]suppressed
	overlay map[stateKey]suppressed
	endings endings
	tally   tally
}

func newSuppressions() *suppressions {
	return &suppressions{base: make(map[stateKey]suppressed), overlay: make(map[stateKey]suppressed)}
}

func suppressionKey(to string) stateKey {
	sum := sha256.Sum256([]byte(to))
	return stateKey(sum[:16])
}

func (s *suppressions) find(k stateKey) suppressed {
	if r, changed := s.overlay[k]; changed {
		return r
	}
	return s.base[k]
}

func (s *suppressions) of(to string) []suppression {
	if len(s.base) == 0 && len(s.overlay) == 0 {
		return nil // as a rule, and then a message costs no hash
	}
	return s.find(suppressionKey(to)).Scopes
}

// covers returns what suppresses a message at t: of several the one that covers it
// longest, and of those the latest.
func (s *suppressions) covers(to string, m scope, t schemas.Millis) (by suppression, yes bool) {
	for _, c := range s.of(to) {
		if c.over(t) || !c.covers(m) {
			continue
		}
		if !yes || c.Until == 0 || by.Until != 0 && c.Until >= by.Until {
			by, yes = c, true
		}
	}
	return by, yes
}

// maxTold bounds what one answer tells of a recipient's suppressions.
const maxTold = 100

// told returns what of a recipient's suppressions covers messages of a tenant at t,
// the latest first.
func (s *suppressions) told(to, tenant string, t schemas.Millis) (out []schemas.Suppression) {
	for _, c := range slices.Backward(s.of(to)) { // they are in the order in which they were made
		if (c.Tenant == "" || c.Tenant == tenant) && !c.over(t) && len(out) < maxTold {
			out = append(out, schemas.Suppression{Tenant: c.Tenant, Channel: c.Channel, Class: c.Class, At: c.At, Until: c.Until, Reason: c.Reason, Provider: c.Provider})
		}
	}
	return out
}

// add suppresses a recipient in a scope from t, or says anew until when and why: the
// latest word is what stands. It returns false if all of that is so already.
func (s *suppressions) add(to string, sc scope, n terms, t schemas.Millis) (bool, error) {
	old := s.of(to)
	same := func(c suppression) bool { return c.scope == sc }
	if i := slices.IndexFunc(old, same); i >= 0 && old[i].terms == n && !n.over(t) {
		return false, nil
	}
	next := slices.DeleteFunc(slices.Clone(old), func(c suppression) bool { return same(c) || c.over(t) })
	if len(next) >= maxScopes {
		return false, &refusal{"too_many_suppressions", fmt.Sprintf("the recipient has %d suppressions already: suppress it in a wider scope", maxScopes)}
	}
	s.change(suppressionKey(to), to, append(next, suppression{scope: sc, terms: n, At: t}))
	return true, nil
}

// remove takes back exactly this scope. It returns false if none stands at t.
func (s *suppressions) remove(to string, sc scope, t schemas.Millis) bool {
	old := s.of(to)
	i := slices.IndexFunc(old, func(c suppression) bool { return c.scope == sc && !c.over(t) })
	if i < 0 {
		return false
	}
	s.change(suppressionKey(to), to, slices.DeleteFunc(slices.Clone(old), func(c suppression) bool { return c.scope == sc || c.over(t) }))
	return true
}

// change takes down what a recipient's suppressions are from here on.
func (s *suppressions) change(k stateKey, to string, next []suppression) {
	s.overlay[k] = suppressed{Version: suppressedVersion, To: to, Scopes: next}
}

// sweep drops what ended in an hour that is over at t. It looks at so many
// recipients at most; what is left, the next call goes on with.
func (s *suppressions) sweep(t schemas.Millis, most int) {
	if !s.endings.known {
		s.endings = endings{known: true}
		for k, r := range s.base {
			s.endings.note(k, r.Scopes)
		}
	}
	s.endings.due(t, most, func(k stateKey) {
		r := s.find(k)
		if next := slices.DeleteFunc(slices.Clone(r.Scopes), func(c suppression) bool { return c.over(t) }); len(next) < len(r.Scopes) {
			s.change(k, r.To, next)
		}
	})
}

func (s *suppressions) commit() {
	for k, r := range s.overlay {
		s.put(k, r)
		if s.endings.known {
			s.endings.note(k, r.Scopes)
		}
	}
	clear(s.overlay)
	s.tally.commit()
	s.endings.taken = s.endings.taken[:0]
}

func (s *suppressions) rollback() {
	clear(s.overlay)
	s.tally.rollback()
	for _, k := range s.endings.taken {
		s.endings.note(k, s.base[k].Scopes)
	}
	s.endings.taken = s.endings.taken[:0]
}

func (s *suppressions) put(k stateKey, r suppressed) {
	if len(r.Scopes) == 0 {
		delete(s.base, k)
		return
	}
	s.base[k] = r
}

// endings tells which recipients have a suppression that ends in which hour; some
// in vain, since it may have been lifted or prolonged since. Who only follows the
// ledger never sweeps, so it keeps none.
type endings struct {
	known bool // it has what base has
	hours map[int64][]stateKey
	first int64      // no hour before has any
	taken []stateKey // out of hours, by the open transaction
}

const endingHour = 60 * 60 * 1000 // ms

// note puts a recipient down for the first of its ends.
func (e *endings) note(k stateKey, scopes []suppression) {
	first := schemas.Millis(0)
	for _, c := range scopes {
		if c.Until != 0 && (first == 0 || c.Until < first) {
			first = c.Until
		}
	}
	if first == 0 {
		return
	}
	hour := int64(first) / endingHour
	if e.hours == nil {
		e.hours = make(map[int64][]stateKey)
	}
	if len(e.hours) == 0 || hour < e.first {
		e.first = hour
	}
	e.hours[hour] = append(e.hours[hour], k)
}

// due takes out at most so many recipients of hours that are over at t. Hours may
// be years apart, so it goes from one that has some to the next.
func (e *endings) due(t schemas.Millis, most int, fn func(stateKey)) {
	for most > 0 && len(e.hours) > 0 && e.first < int64(t)/endingHour {
		keys := e.hours[e.first]
		n := max(len(keys)-most, 0)
		for _, k := range keys[n:] {
			fn(k)
		}
		e.taken, most = append(e.taken, keys[n:]...), most-len(keys[n:])
		if e.hours[e.first] = keys[:n]; n > 0 {
			return
		}
		delete(e.hours, e.first)
		if len(e.hours) > 0 {
			e.first = slices.Min(slices.Collect(maps.Keys(e.hours)))
		}
	}
}

// dirty calls fn with every record that the open transaction changed; a nil
// value is a tombstone.
func (s *suppressions) dirty(fn func(key stateKey, value []byte)) error {
	s.tally.begin()
	for k, r := range s.overlay {
		var b []byte
		if len(r.Scopes) > 0 {
			var err error
			if b, err = json.Marshal(r); err != nil {
				return fmt.Errorf("encode suppression: %w", err)
			}
		}
		fn(k, b)
		r.check = s.tally.write(k, s.base[k].check, b)
		s.overlay[k] = r
	}
	return nil
}

// load takes one record of the ledger; an empty value is a tombstone.
func (s *suppressions) load(k stateKey, value []byte) error {
	s.endings = endings{}
	if len(value) == 0 {
		s.tally.load(k, s.base[k].check, nil)
		delete(s.base, k)
		return nil
	}
	var r suppressed
	if err := json.Unmarshal(value, &r); err != nil {
		return fmt.Errorf("suppression is torn or foreign: %w", err)
	}
	switch {
	case r.Version < 1 || r.Version > suppressedVersion:
		return fmt.Errorf("suppression has version %d, this weir knows up to %d: run the version that wrote it", r.Version, suppressedVersion)
	case suppressionKey(r.To) != k || len(r.Scopes) == 0:
		return fmt.Errorf("suppression is torn or foreign: it stands under another key than its recipient's, or has no scope")
	}
	r.check = s.tally.load(k, s.base[k].check, value)
	s.put(k, r)
	return nil
}
