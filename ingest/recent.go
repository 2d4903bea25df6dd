package ingest

import (
	"bytes"
	"container/list"
	"slices"
	"sync"
	"time"

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
}

// entry is one message. events are never written to once they are in it.
type entry struct {
	id       string
	accepted *schemas.Event // what this instance answered; nil when it did not take the message in
	whole    bool           // nothing came before events
	cut      bool           // events lack some of the middle
	events   [][]byte
	bytes    int
	touched  time.Time
	place    *list.Element
}

func newRecent(b bounds) *recent {
	return &recent{bounds: b, byID: make(map[string]*entry)}
}

// accept notes that this instance has answered accepted. fresh says that the
// id was made for this request, so that nothing can have come before it.
func (t *recent) accept(e *schemas.Event, fresh bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	en := t.touch(e.MessageID, now)
	if en.accepted == nil {
		en.accepted = e
	}
	en.whole = en.whole || fresh
	t.evict(now)
}

// add notes an event. value is copied: it is a part of a whole batch.
func (t *recent) add(id string, value []byte, now time.Time) {
	value = bytes.Clone(value)
	t.mu.Lock()
	defer t.mu.Unlock()
	en := t.touch(id, now)
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
	t.evict(now)
}

func (t *recent) touch(id string, now time.Time) *entry {
	en := t.byID[id]
	if en == nil {
		en = &entry{id: id}
		en.place = t.order.PushBack(en)
		t.byID[id] = en
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
		t.bytes -= en.bytes
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
	return en.accepted, en.events[:len(en.events):len(en.events)], en.whole && !en.cut
}
