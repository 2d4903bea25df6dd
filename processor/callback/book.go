package callback

import (
	"slices"

	"github.com/weirhq/weir/schemas"
)

// book is what one partition knows of callbacks that are not told yet: of each message,
// in the order of its statuses.
//
//	(read) ─► waiting ─► calling ─► (told, or given up)
//	   ▲         │          │
//	   └─ away ◄─┴──────────┘
//
// A callback that is away is in the delay topics. Whatever is behind it goes away too, so
// the first of a message is told before the second is called, whatever comes back when.
type book struct {
	threads map[messageKey]*thread
	changed map[messageKey]bool // what the state's topic does not say yet
	away    map[string]int      // by tenant
}

// thread is the callbacks of one message.
type thread struct {
	tenant  string
	entries []*entry // in the order of seq
}

// entry is one callback. seq orders those of a message; hop counts how often it went
// away, so that of a record that is read twice the older is known.
type entry struct {
	seq   int64
	hop   int
	due   schemas.Millis // when it is to come back
	place place
	job   *job // nil while it is away
}

type place uint8

const (
	away    place = iota // in the delay topics
	waiting              // here: behind another, or in the queue of its endpoint
	calling
)

func newBook() *book {
	return &book{threads: make(map[messageKey]*thread), changed: make(map[messageKey]bool), away: make(map[string]int)}
}

// turn is what becomes of a callback that was read.
type turn uint8

const (
	known  turn = iota // it was told, or waits: this record says nothing new
	behind             // an earlier one of its message is away
	next               // behind one that is here
	first              // it may be told
)

// arrive takes a callback in. With behind it says until when the latest of those
// before it is away.
func (b *book) arrive(j *job) (turn, schemas.Millis) {
	t := b.threads[j.key]
	var e *entry
	at := 0
	if t != nil {
		at, _ = slices.BinarySearchFunc(t.entries, j.seq, func(e *entry, seq int64) int { return int(min(max(e.seq-seq, -1), 1)) })
		if at < len(t.entries) && t.entries[at].seq == j.seq {
			e = t.entries[at]
		}
	}
	switch {
	case e == nil && j.hop > 0: // it was told since
		return known, 0
	case e != nil && (e.place != away || e.hop != j.hop): // read again
		return known, 0
	case e == nil:
		if t == nil {
			t = &thread{tenant: j.tenant}
			b.threads[j.key] = t
		}
		e = &entry{seq: j.seq}
		t.entries = slices.Insert(t.entries, at, e)
	default:
		b.count(t.tenant, -1)
	}
	e.place, e.job, j.entry, j.thread = waiting, j, e, t
	var until schemas.Millis
	for _, before := range t.entries[:at] {
		if before.place == away {
			until = max(until, before.due)
		}
	}
	switch {
	case until > 0:
		return behind, until
	case at > 0:
		return next, 0
	}
	return first, 0
}

// expects reports whether a callback that comes back is away. One that is not was
// told since, or was never Weir's.
func (b *book) expects(j *job) bool {
	t := b.threads[j.key]
	return t != nil && slices.ContainsFunc(t.entries, func(e *entry) bool { return e.seq == j.seq && e.hop == j.hop && e.place == away })
}

// leave sends a callback away until due, and those that are here behind it with it. It
// returns all of them in their order.
func (b *book) leave(j *job, due schemas.Millis) (gone []*job) {
	found := false
	for _, e := range j.thread.entries {
		if found = found || e == j.entry; !found || e.place == away {
			continue
		}
		gone = append(gone, e.job)
		e.place, e.due = away, due
		e.hop++
		e.job.hop = e.hop
		e.job = nil
		b.count(j.thread.tenant, +1)
	}
	b.changed[j.key] = true
	return gone
}

// end takes a callback out that was told, or never will be. It returns the one that may
// be told now; nil where that is away, or there is none.
func (b *book) end(j *job) *job {
	t := j.thread
	at := slices.Index(t.entries, j.entry)
	t.entries = slices.Delete(t.entries, at, at+1)
	if j.entry.hop > 0 {
		b.changed[j.key] = true
	}
	if len(t.entries) == 0 {
		delete(b.threads, j.key)
		return nil
	}
	if at > 0 || t.entries[0].place != waiting {
		return nil
	}
	return t.entries[0].job
}

// restore puts in a callback that is away.
func (b *book) restore(k messageKey, tenant string, seq int64, hop int, due schemas.Millis) {
	t := b.threads[k]
	if t == nil {
		t = &thread{tenant: tenant}
		b.threads[k] = t
	}
	t.entries = append(t.entries, &entry{seq: seq, hop: hop, due: due})
	b.count(tenant, +1)
}

// forget takes out a message that was restored.
func (b *book) forget(k messageKey) {
	if t := b.threads[k]; t != nil {
		b.count(t.tenant, -len(t.entries))
		delete(b.threads, k)
	}
}

func (b *book) count(tenant string, by int) {
	if b.away[tenant] += by; b.away[tenant] == 0 {
		delete(b.away, tenant)
	}
}
