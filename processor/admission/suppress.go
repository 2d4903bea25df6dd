package admission

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

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
}

// suppression is one scope, and the time of the decision that made it.
type suppression struct {
	scope
	At schemas.Millis `json:"at"`
}

const suppressedVersion = 1

// stateKey is 128 bits of SHA-256 over what a record of the ledger is about.
type stateKey [16]byte

// suppressions are the recipients of one partition that opted out. Changes are
// an overlay until commit; a recipient without scopes in it was released.
type suppressions struct {
	base    map[stateKey]suppressed
	overlay map[stateKey]suppressed
}

func newSuppressions() *suppressions {
	return &suppressions{base: make(map[stateKey]suppressed), overlay: make(map[stateKey]suppressed)}
}

func suppressionKey(to string) stateKey {
	sum := sha256.Sum256([]byte(to))
	return stateKey(sum[:16])
}

func (s *suppressions) of(to string) []suppression {
	if len(s.base) == 0 && len(s.overlay) == 0 {
		return nil // as a rule, and then a message costs no hash
	}
	k := suppressionKey(to)
	if r, changed := s.overlay[k]; changed {
		return r.Scopes
	}
	return s.base[k].Scopes
}

// covers reports whether a suppression of the recipient covers a message.
func (s *suppressions) covers(to string, m scope) bool {
	return slices.ContainsFunc(s.of(to), func(c suppression) bool { return c.covers(m) })
}

// maxTold bounds what one answer tells of a recipient's suppressions.
const maxTold = 100

// told returns what of a recipient's suppressions covers messages of a tenant, the
// latest first.
func (s *suppressions) told(to, tenant string) (out []schemas.Suppression) {
	for _, c := range slices.Backward(s.of(to)) { // they are in the order in which they were made
		if (c.Tenant == "" || c.Tenant == tenant) && len(out) < maxTold {
			out = append(out, schemas.Suppression{Tenant: c.Tenant, Channel: c.Channel, Class: c.Class, At: c.At})
		}
	}
	return out
}

// add suppresses a recipient in one scope more. It returns false if it was so
// already.
func (s *suppressions) add(to string, sc scope, at schemas.Millis) (bool, error) {
	old := s.of(to)
	if slices.ContainsFunc(old, func(c suppression) bool { return c.scope == sc }) {
		return false, nil
	}
	if len(old) >= maxScopes {
		return false, &refusal{"too_many_suppressions", fmt.Sprintf("the recipient has %d suppressions already: suppress it in a wider scope", maxScopes)}
	}
	next := append(slices.Clip(slices.Clone(old)), suppression{scope: sc, At: at})
	s.overlay[suppressionKey(to)] = suppressed{Version: suppressedVersion, To: to, Scopes: next}
	return true, nil
}

// remove takes back exactly this scope. It returns false if there is none.
func (s *suppressions) remove(to string, sc scope) bool {
	old := s.of(to)
	i := slices.IndexFunc(old, func(c suppression) bool { return c.scope == sc })
	if i < 0 {
		return false
	}
	next := slices.Delete(slices.Clone(old), i, i+1)
	s.overlay[suppressionKey(to)] = suppressed{Version: suppressedVersion, To: to, Scopes: next}
	return true
}

func (s *suppressions) commit() {
	for k, r := range s.overlay {
		s.put(k, r)
	}
	clear(s.overlay)
}

func (s *suppressions) rollback() { clear(s.overlay) }

func (s *suppressions) put(k stateKey, r suppressed) {
	if len(r.Scopes) == 0 {
		delete(s.base, k)
		return
	}
	s.base[k] = r
}

// dirty calls fn with every record that the open transaction changed; a nil
// value is a tombstone.
func (s *suppressions) dirty(fn func(key stateKey, value []byte)) error {
	for k, r := range s.overlay {
		if len(r.Scopes) == 0 {
			fn(k, nil)
			continue
		}
		b, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encode suppression: %w", err)
		}
		fn(k, b)
	}
	return nil
}

// load takes one record of the ledger; an empty value is a tombstone.
func (s *suppressions) load(k stateKey, value []byte) error {
	if len(value) == 0 {
		delete(s.base, k)
		return nil
	}
	var r suppressed
	if err := json.Unmarshal(value, &r); err != nil {
		return fmt.Errorf("suppression is torn or foreign: %w", err)
	}
	switch {
	case r.Version != suppressedVersion:
		return fmt.Errorf("suppression has version %d, this weir knows %d: run the version that wrote it", r.Version, suppressedVersion)
	case suppressionKey(r.To) != k || len(r.Scopes) == 0:
		return fmt.Errorf("suppression is torn or foreign: it stands under another key than its recipient's, or has no scope")
	}
	s.put(k, r)
	return nil
}
