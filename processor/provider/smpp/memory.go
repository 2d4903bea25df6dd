package smpp

import (
	"sync"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// remembered is how many ids of accepted parts are kept. SMPP gives nothing back
// with a receipt but the centre's id. What is kept makes a receipt name its message
// at once, and lets the receipts of one message's parts end in one. It lives as
// long as the process; a receipt that finds nothing here carries the centre's id
// alone, and is looked up.
const remembered = 1 << 16

// memory keeps what was accepted and may have a receipt.
type memory struct {
	mu    sync.Mutex
	parts map[string]*part
	order []string // a ring: the oldest is forgotten first
	next  int
}

type part struct {
	of   *message
	over bool // its last receipt came
}

// message is one call's.
type message struct {
	reference provider.Reference
	first     string // the centre's id of the first part: the message's
	parts     int
	delivered int
	sealed    bool // all parts were accepted; until then, and where one was not, its receipts say nothing
	over      bool // the message's receipt was given
	held      *provider.Receipt
}

func newMemory() *memory {
	return &memory{parts: make(map[string]*part), order: make([]string, remembered)}
}

// accepted notes the centre's id of one of m's parts.
func (me *memory) accepted(m *message, id string) {
	if id == "" {
		return
	}
	me.mu.Lock()
	defer me.mu.Unlock()
	if m.first == "" {
		m.first = id
	}
	if old := me.order[me.next]; old != "" {
		delete(me.parts, old)
	}
	me.order[me.next] = id
	me.next = (me.next + 1) % len(me.order)
	me.parts[id] = &part{of: m}
}

// sealed notes that all parts were accepted, and returns a receipt that came
// before that was known.
func (me *memory) sealed(m *message) (provider.Receipt, bool) {
	me.mu.Lock()
	defer me.mu.Unlock()
	m.sealed = true
	return m.settle()
}

// receipt takes a final receipt of a part and returns the message's, if that is
// now known: delivered when all parts are, undelivered with the first that is not.
// r has status, code, text and time.
func (me *memory) receipt(id string, r provider.Receipt) (provider.Receipt, bool) {
	me.mu.Lock()
	defer me.mu.Unlock()
	p, ok := me.parts[id]
	if !ok {
		r.ProviderMessageID = id
		return r, true
	}
	m := p.of
	if m.parts == 1 { // every one counts, also one that takes back another
		return m.name(r), true
	}
	if p.over || m.over {
		return provider.Receipt{}, false
	}
	p.over = true
	if r.Status == schemas.StatusDelivered {
		m.delivered++
	}
	if m.held == nil || m.held.Status == schemas.StatusDelivered { // the latest; what failed stays
		m.held = &r
	}
	return m.settle()
}

// settle returns the message's receipt when it is known.
func (m *message) settle() (provider.Receipt, bool) {
	if m.held == nil || !m.sealed || m.over {
		return provider.Receipt{}, false
	}
	if m.held.Status == schemas.StatusDelivered && m.delivered < m.parts {
		return provider.Receipt{}, false
	}
	m.over = true
	return m.name(*m.held), true
}

func (m *message) name(r provider.Receipt) provider.Receipt {
	out := m.reference.Receipt(r.Provider)
	out.ProviderMessageID, out.Status, out.At, out.Code, out.Text = m.first, r.Status, r.At, r.Code, r.Text
	return out
}
