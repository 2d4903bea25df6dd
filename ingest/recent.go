package ingest

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/google/uuid"

	"github.com/weirhq/weir/schemas"
)

// bounds of what a tail keeps. Whichever is reached first counts.
type bounds struct {
	messages int
	bytes    int           // of events, as they stand in the topic
	events   int           // of one message
	age      time.Duration // since the last thing known of a message
}

// recent holds the newest messages' events, as bytes: parsed they would take
// several times the room, and few are asked for. Its methods may be called
// from many goroutines, and hold the lock for no longer than a copy of slices.
//
// It holds fifty thousand messages, and the collector of garbage walks all of
// them each time: so an entry is few objects, and its links are in it.
type recent struct {
	bounds bounds

	mu    sync.Mutex
	byID  map[uuid.UUID]*entry
	order entry // the ends of a ring: next was touched longest ago
	bytes int

	// seen is every entry by when it was first seen, for lists. It only grows
	// at its end, so that a reader of a part of it needs no lock; what left is
	// still in it until a new one is made.
	seen []*entry
}

// entry is one message. events are never written to once they are in it.
type entry struct {
	id         uuid.UUID
	prev, next *entry
	events     [][]byte
	bytes      int
	touched    time.Time
	at         schemas.Millis // when this instance took it in; 0 where another did
	ours       int            // which of the gists it took in
	whole      bool           // nothing came before events
	cut        bool           // events lack some of the middle

	gists atomic.Pointer[gists] // nil once it has left
}

// gist is what a list asks of a message: enough to choose it by. An id that a
// producer made may name several.
type gist struct {
	tenant, to, channel, class, template string
	accepted                             schemas.Millis // 0 where only a receipt is known
	decided                              bool           // accepted is the broker's time, which it keeps; else this server's
	status                               schemas.Status // of the highest rank, the latest
	whole                                bool           // nothing else is known anywhere
}

// gists are an entry's, with room for the one that almost all have.
type gists struct {
	all []gist
	one [1]gist
}

// answered is what is known of a message when it is in Kafka.
type answered struct {
	tenant, channel, class, template, to string
	at                                   schemas.Millis
}

func newRecent(b bounds) *recent {
	t := &recent{bounds: b, byID: make(map[uuid.UUID]*entry)}
	t.order.prev, t.order.next = &t.order, &t.order
	return t
}

// accept notes that this instance has answered accepted. fresh says that the
// id was made for this request, so that nothing can have come before it.
func (t *recent) accept(id string, a answered, fresh bool, now time.Time) {
	key, err := uuid.Parse(id)
	if err != nil {
		return // it has just been made
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	en := t.touch(key, now)
	en.whole = en.whole || fresh
	if en.gists.Load() == nil { // as with almost every message
		g := &gists{one: [1]gist{{
			tenant: shared(a.tenant), to: a.to, channel: shared(a.channel), class: shared(a.class), template: shared(a.template),
			accepted: a.at, status: schemas.StatusAccepted, whole: en.whole && !en.cut,
		}}}
		g.all = g.one[:]
		en.gists.Store(g)
		en.at, en.ours = a.at, 0
	} else {
		i := en.note(&schemas.Event{
			Tenant: a.tenant, Channel: a.channel, Class: a.class, Template: a.template, To: a.to,
			Status: schemas.StatusAccepted, At: a.at, AcceptedAt: a.at,
		})
		if en.at == 0 {
			en.at, en.ours = a.at, i
		}
	}
	t.evict(now)
}

// add notes an event, of which value is what the topic has. It keeps value. What
// is about no id that anyone could ask for is left out.
func (t *recent) add(e *schemas.Event, value []byte, now time.Time) {
	key, err := uuid.Parse(e.MessageID)
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	en := t.touch(key, now)
	grown := len(value)
	if n := len(en.events); n >= t.bounds.events {
		// The middle gives way: the beginning says what the message is, the
		// end what became of it. A reader may hold the old slice.
		grown -= len(en.events[n/2])
		en.events = slices.Concat(en.events[:n/2], en.events[n/2+1:])
		en.cut = true
	}
	en.events = append(en.events, value)
	en.bytes += grown
	t.bytes += grown
	en.note(e)
	t.evict(now)
}

// note brings an entry's gists up to an event, and returns which of them it is
// about. Readers may hold the old ones.
func (en *entry) note(e *schemas.Event) int {
	g := &gists{}
	g.all = g.one[:0]
	if held := en.gists.Load(); held != nil {
		g.all = append(g.all, held.all...)
	}
	tenant, accepting := cmp.Or(e.Tenant, schemas.DefaultTenant), e.Status == schemas.StatusAccepted
	i := slices.IndexFunc(g.all, func(l gist) bool {
		return l.tenant == tenant && (l.to == e.To || l.status == schemas.StatusAccepted && !accepting)
	})
	if i < 0 {
		i = len(g.all)
		g.all = append(g.all, gist{tenant: shared(tenant), accepted: e.AcceptedAt, status: e.Status})
	}
	l := &g.all[i]
	if l.to != e.To {
		l.to = e.To
	}
	l.channel, l.class, l.template = shared(cmp.Or(e.Channel, l.channel)), shared(cmp.Or(e.Class, l.class)), shared(cmp.Or(e.Template, l.template))
	if !accepting {
		if e.AcceptedAt != 0 {
			l.accepted, l.decided = e.AcceptedAt, true
		}
		if e.Status.Rank() >= l.status.Rank() {
			l.status = e.Status
		}
	}
	l.whole = en.whole && !en.cut
	en.gists.Store(g)
	return i
}

// shared returns one text for all that are equal: a few names stand in many
// gists.
func shared(s string) string {
	if s == "" {
		return ""
	}
	return unique.Make(s).Value()
}

func (t *recent) touch(id uuid.UUID, now time.Time) *entry {
	en := t.byID[id]
	if en == nil {
		en = &entry{id: id}
		t.byID[id] = en
		if len(t.seen) > 2*len(t.byID)+1024 {
			t.seen = slices.DeleteFunc(slices.Clone(t.seen), func(en *entry) bool { return en.gists.Load() == nil })
		}
		t.seen = append(t.seen, en)
	} else {
		en.leave()
	}
	en.prev, en.next = t.order.prev, &t.order
	en.prev.next, en.next.prev = en, en
	en.touched = now
	return en
}

// leave takes the entry out of the order.
func (en *entry) leave() {
	en.prev.next, en.next.prev = en.next, en.prev
	en.prev, en.next = nil, nil
}

func (t *recent) evict(now time.Time) {
	for en := t.order.next; en != &t.order; en = t.order.next {
		if len(t.byID) <= t.bounds.messages && t.bytes <= t.bounds.bytes && now.Sub(en.touched) < t.bounds.age {
			return
		}
		en.leave()
		delete(t.byID, en.id)
		en.gists.Store(nil)
		t.bytes -= en.bytes
		en.events = nil // seen has the entry for a while yet
	}
}

// find returns what is known of a message. whole says that there is no more
// to know.
func (t *recent) find(id string, now time.Time) (accepted *schemas.Event, events [][]byte, whole bool) {
	key, err := uuid.Parse(id)
	if err != nil {
		return nil, nil, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.evict(now)
	en := t.byID[key]
	if en == nil {
		return nil, nil, false
	}
	if en.at != 0 {
		g := &en.gists.Load().all[en.ours]
		accepted = &schemas.Event{
			Kind: schemas.KindStatus, MessageID: id, Tenant: g.tenant, Channel: g.channel, Class: g.class, Template: g.template, To: g.to,
			Status: schemas.StatusAccepted, At: en.at, AcceptedAt: en.at,
		}
	}
	return accepted, en.events[:len(en.events):len(en.events)], en.whole && !en.cut
}

// each calls fn with every gist of every message, in no order that means
// anything. The lock is not held meanwhile.
func (t *recent) each(now time.Time, fn func(id uuid.UUID, l *gist)) {
	t.mu.Lock()
	t.evict(now)
	seen := t.seen[:len(t.seen):len(t.seen)]
	t.mu.Unlock()
	for _, en := range seen {
		if g := en.gists.Load(); g != nil {
			for i := range g.all {
				fn(en.id, &g.all[i])
			}
		}
	}
}
