package ingest

import (
	"cmp"
	"container/list"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unique"

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
type recent struct {
	bounds bounds

	mu    sync.Mutex
	byID  map[string]*entry
	order list.List // of *entry, that touched longest ago first
	bytes int

	// seen is every entry by when it was first seen, for lists. It only grows
	// at its end, so that a reader of a part of it needs no lock; what left is
	// still in it until a new one is made.
	seen []*entry
}

// entry is one message. events are never written to once they are in it.
type entry struct {
	id       string
	answered *answered // what this instance took in; nil when another did
	whole    bool      // nothing came before events
	cut      bool      // events lack some of the middle
	events   [][]byte
	bytes    int
	touched  time.Time
	place    *list.Element

	gists atomic.Pointer[[]gist] // nil once it has left
}

// gist is what a list asks of a message: enough to choose it by. An id that a
// producer made may name several.
type gist struct {
	tenant, to, channel, class string
	accepted                   schemas.Millis // 0 where only a receipt is known
	decided                    bool           // accepted is the broker's time, which it keeps; else this server's
	status                     schemas.Status // of the highest rank, the latest
	whole                      bool           // nothing else is known anywhere
}

// answered is what is known of a message when it is in Kafka.
type answered struct {
	tenant, channel, class, template, to string
	at                                   schemas.Millis
}

// event is what is told of the message until its first status is there.
func (a *answered) event(id string) *schemas.Event {
	return &schemas.Event{
		Kind: schemas.KindStatus, MessageID: id, Tenant: a.tenant, Channel: a.channel, Class: a.class, Template: a.template, To: a.to,
		Status: schemas.StatusAccepted, At: a.at, AcceptedAt: a.at,
	}
}

func newRecent(b bounds) *recent {
	return &recent{bounds: b, byID: make(map[string]*entry)}
}

// accept notes that this instance has answered accepted. fresh says that the
// id was made for this request, so that nothing can have come before it.
func (t *recent) accept(id string, a *answered, fresh bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	en := t.touch(id, now)
	if en.answered == nil {
		en.answered = a
	}
	en.whole = en.whole || fresh
	if en.gists.Load() == nil { // as with almost every message
		en.gists.Store(&[]gist{{
			tenant: shared(a.tenant), to: a.to, channel: shared(a.channel), class: shared(a.class),
			accepted: a.at, status: schemas.StatusAccepted, whole: en.whole && !en.cut,
		}})
	} else {
		en.note(a.event(id))
	}
	t.evict(now)
}

// add notes an event, of which value is what the topic has. It keeps value.
func (t *recent) add(e *schemas.Event, value []byte, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	en := t.touch(e.MessageID, now)
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

// note brings an entry's gists up to an event. Readers may hold the old ones.
func (en *entry) note(e *schemas.Event) {
	var gists []gist
	if held := en.gists.Load(); held != nil {
		gists = slices.Clone(*held)
	}
	tenant, accepting := cmp.Or(e.Tenant, schemas.DefaultTenant), e.Status == schemas.StatusAccepted
	i := slices.IndexFunc(gists, func(l gist) bool {
		return l.tenant == tenant && (l.to == e.To || l.status == schemas.StatusAccepted && !accepting)
	})
	if i < 0 {
		i = len(gists)
		gists = append(gists, gist{tenant: shared(tenant), accepted: e.AcceptedAt, status: e.Status})
	}
	l := &gists[i]
	if l.to != e.To {
		l.to = e.To
	}
	l.channel, l.class = shared(cmp.Or(e.Channel, l.channel)), shared(cmp.Or(e.Class, l.class))
	if !accepting {
		if e.AcceptedAt != 0 {
			l.accepted, l.decided = e.AcceptedAt, true
		}
		if e.Status.Rank() >= l.status.Rank() {
			l.status = e.Status
		}
	}
	l.whole = en.whole && !en.cut
	en.gists.Store(&gists)
}

// shared returns one text for all that are equal: a few names stand in many
// gists.
func shared(s string) string { return unique.Make(s).Value() }

func (t *recent) touch(id string, now time.Time) *entry {
	en := t.byID[id]
	if en == nil {
		en = &entry{id: id}
		en.place = t.order.PushBack(en)
		t.byID[id] = en
		if len(t.seen) > 2*len(t.byID)+1024 {
			t.seen = slices.DeleteFunc(slices.Clone(t.seen), func(en *entry) bool { return en.gists.Load() == nil })
		}
		t.seen = append(t.seen, en)
	} else {
		t.order.MoveToBack(en.place)
	}
	en.touched = now
	return en
}

func (t *recent) evict(now time.Time) {
	for front := t.order.Front(); front != nil; front = t.order.Front() {
		en := front.Value.(*entry)
		if t.order.Len() <= t.bounds.messages && t.bytes <= t.bounds.bytes && now.Sub(en.touched) < t.bounds.age {
			return
		}
		t.order.Remove(front)
		delete(t.byID, en.id)
		en.gists.Store(nil)
		t.bytes -= en.bytes
		en.answered, en.events, en.place = nil, nil, nil // seen has it for a while yet
	}
}

// find returns what is known of a message. whole says that there is no more
// to know.
func (t *recent) find(id string, now time.Time) (accepted *schemas.Event, events [][]byte, whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.evict(now)
	en := t.byID[id]
	if en == nil {
		return nil, nil, false
	}
	if en.answered != nil {
		accepted = en.answered.event(id)
	}
	return accepted, en.events[:len(en.events):len(en.events)], en.whole && !en.cut
}

// each calls fn with every gist of every message, in no order that means
// anything. The lock is not held meanwhile.
func (t *recent) each(now time.Time, fn func(id string, l *gist)) {
	t.mu.Lock()
	t.evict(now)
	seen := t.seen[:len(t.seen):len(t.seen)]
	t.mu.Unlock()
	for _, en := range seen {
		if gists := en.gists.Load(); gists != nil {
			for i := range *gists {
				fn(en.id, &(*gists)[i])
			}
		}
	}
}
