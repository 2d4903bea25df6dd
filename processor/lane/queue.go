package lane

import (
	"slices"
	"sort"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// state is where a dispatch record stands in its lane:
//
//	waiting ─► permitting ─► calling ─► answered ─► ending ─► finished
//	   ▲            │ abort                │  ▲ abort  │
//	   ├────────────┘                      │  └────────┤
//	   └───────── the permit was not used ─┴───────────┘
//
// A record that ends without a call goes from waiting to ending. A foreign one is
// answered when it is read.
type state uint8

const (
	waiting    state = iota
	permitting       // its permit is in the open transaction
	calling          // its permit is committed
	answered         // its outcome is in hand
	ending           // its outcome is in the open transaction
	finished         // its outcome is committed
)

// item is one dispatch record.
type item struct {
	key     callKey // permit is set from permitting on
	rec     *kgo.Record
	env     schemas.Envelope
	state   state
	attempt int
	answer  answer
	foreign error // why it is no message of admission's; nil when it is one
	prio    int   // urgently, normally, inBulk
	half    int   // returned or first
	journal int64 // the first journal offset that may speak of it, -1 when none does

	callBy    schemas.Millis // of its envelope: see staleAt
	stales    int            // of its envelope: see goesStale
	overdue   bool           // its time was over when this lane first read it, or when its call was to begin
	inherited bool           // it was there before this owner of the lane, who cannot say how it came

	revision int64          // the policy's, of the fields below; -1 before they are read
	bad      error          // why there is no content
	pinned   bool           // its request names the provider
	staleAt  schemas.Millis // until when it may be called on its decision; 0: for ever
	call     provider.Call
	event    schemas.Event // what every status of it says
}

// answer is what came of a permit.
type answer struct {
	outcome  provider.Outcome
	uncalled bool // the permit was never used,
	overdue  bool // since the time of its decision was over before its call began
}

// mark is what the journal says of a record that has not been read again.
type mark struct {
	journal  int64 // the first offset that speaks of it
	finished bool
	inDoubt  bool // a permit without outcome
	attempt  int
	permit   schemas.Millis
}

// queue is one partition of one dispatch topic. Items are in the order of
// offsets, from the low-water mark on.
type queue struct {
	topic  string
	next   int64 // the offset expected next, -1 when not known
	items  []*item
	scan   int             // no item before it is waiting
	scans  [priorities]int // of each priority: no item of it before this is waiting
	fresh  [priorities]int // nor is one that may be called without a new decision
	back   int             // items that are not finished and came back
	done   int             // items that are finished
	seen   int             // no item from here on has ever been at the head
	marks  map[int64]mark
	gone   gone
	bytes  int
	paused bool
	stood  string // the metadata last committed, and
	at     int64  // its offset; -1 when none was

	// Of the walk in handBack: no item before kept is to be handed back, until
	// the first of them expires at keptUntil (0: none does).
	kept      int
	keptUntil schemas.Millis
	backTo    int64 // only what is before it goes back
}

// gone stands for finished items that were dropped although one before them is
// not finished.
type gone struct {
	journal int64 // the first journal offset that speaks of one of them
	last    int64 // the last of their offsets; -1 when there are none
}

func newQueue(topic string) *queue {
	return &queue{topic: topic, next: -1, at: -1, marks: make(map[int64]mark), gone: gone{last: -1}}
}

// push takes a record that was read, and reports whether it is new: after an
// abort records are read again.
func (q *queue) push(it *item) bool {
	if it.key.offset < q.next {
		return false
	}
	q.next = it.key.offset + 1
	q.items = append(q.items, it)
	if it.half == returned {
		q.back++
	}
	if it.rec != nil {
		q.bytes += len(it.rec.Value)
	}
	return true
}

// head returns the first waiting item, which has been seen at the head then; nil
// when there is none.
func (q *queue) head() *item {
	it := q.first()
	if it != nil {
		q.seen = max(q.seen, q.scan+1)
	}
	return it
}

// headOf returns the first waiting item of a priority, which has been seen at the
// head then; nil when there is none.
func (q *queue) headOf(prio int) *item {
	n := max(q.scan, q.scans[prio])
	for n < len(q.items) && (q.items[n].state != waiting || q.items[n].prio != prio) {
		n++
	}
	q.scans[prio] = n
	if n == len(q.items) {
		return nil
	}
	q.seen = max(q.seen, n+1)
	return q.items[n]
}

// freshOf returns the first waiting item of a priority that is not stale, as read
// by read. What is stale once stays so.
func (q *queue) freshOf(prio int, t schemas.Millis, read func(*item)) *item {
	n := max(q.scans[prio], q.fresh[prio])
	for ; n < len(q.items); n++ {
		if it := q.items[n]; it.state == waiting && it.prio == prio {
			if read(it); !it.stale(t) {
				break
			}
		}
	}
	q.fresh[prio] = n
	if n == len(q.items) {
		return nil
	}
	q.seen = max(q.seen, n+1)
	return q.items[n]
}

// first returns the first waiting item, for those who only look.
func (q *queue) first() *item {
	for q.scan < len(q.items) {
		if it := q.items[q.scan]; it.state == waiting {
			return it
		}
		q.scan++
	}
	return nil
}

// waits returns how many items may be waiting.
func (q *queue) waits() int { return min(len(q.items)-q.scan, len(q.items)-q.done) }

// ahead returns how far was read beyond the low-water mark.
func (q *queue) ahead() int64 {
	if len(q.items) == 0 {
		return 0
	}
	return q.next - q.items[0].key.offset
}

func (q *queue) index(offset int64) int {
	return sort.Search(len(q.items), func(i int) bool { return q.items[i].key.offset >= offset })
}

func (q *queue) find(offset int64) *item {
	if i := q.index(offset); i < len(q.items) && q.items[i].key.offset == offset {
		return q.items[i]
	}
	return nil
}

// requeue lets an item wait again, at its old place.
func (q *queue) requeue(it *item) {
	it.state, it.key.permit, it.answer = waiting, 0, answer{}
	i := q.index(it.key.offset)
	q.scan, q.kept = min(q.scan, i), min(q.kept, i)
	q.scans[it.prio], q.fresh[it.prio] = min(q.scans[it.prio], i), min(q.fresh[it.prio], i)
}

// finish marks an item finished and lets go of its bytes.
func (q *queue) finish(it *item) {
	it.state = finished
	q.done++
	if it.half == returned {
		q.back--
	}
	if it.rec != nil {
		q.bytes -= len(it.rec.Value)
	}
	it.rec, it.call, it.env, it.event = nil, provider.Call{}, schemas.Envelope{}, schemas.Event{}
}

// trim drops the finished items at the front.
func (q *queue) trim() {
	n := 0
	for n < len(q.items) && q.items[n].state == finished {
		n++
	}
	q.items = slices.Delete(q.items, 0, n)
	q.scan, q.seen, q.kept = max(0, q.scan-n), max(0, q.seen-n), max(0, q.kept-n)
	for p := range q.scans {
		q.scans[p], q.fresh[p] = max(0, q.scans[p]-n), max(0, q.fresh[p]-n)
	}
	q.done -= n
	if q.done > compactFrom && q.done > len(q.items)/2 {
		q.compact()
	}
}

// compactFrom is how many finished items behind an unfinished one are kept at
// least.
const compactFrom = 1024

// compact drops the finished items behind an unfinished one.
func (q *queue) compact() {
	var scan, seen, kept, n int
	var scans, fresh [priorities]int
	for i, it := range q.items {
		if it.state == finished {
			if it.journal >= 0 {
				if q.gone.last < 0 || it.journal < q.gone.journal {
					q.gone.journal = it.journal
				}
				q.gone.last = max(q.gone.last, it.key.offset)
			}
			continue
		}
		if i < q.scan {
			scan++
		}
		if i < q.seen {
			seen++
		}
		if i < q.kept {
			kept++
		}
		for p := range scans {
			if i < q.scans[p] {
				scans[p]++
			}
			if i < q.fresh[p] {
				fresh[p]++
			}
		}
		q.items[n] = it
		n++
	}
	clear(q.items[n:])
	q.items, q.scan, q.scans, q.fresh, q.seen, q.kept, q.done = q.items[:n], scan, scans, fresh, seen, kept, 0
}

// low returns the position to commit: everything below it is finished when the
// open transaction commits.
func (q *queue) low() int64 {
	for _, it := range q.items {
		if it.state != finished && it.state != ending || it.answer.uncalled {
			return it.key.offset
		}
	}
	return q.next
}

// journal returns the first journal offset that may speak of anything at or
// above low; end when none does.
func (q *queue) journal(low, end int64) int64 {
	for _, it := range q.items[:max(q.seen, q.scan)] {
		if it.key.offset >= low && it.journal >= 0 {
			end = min(end, it.journal)
		}
	}
	if q.gone.last >= low {
		end = min(end, q.gone.journal)
	} else {
		q.gone.last = -1
	}
	for offset, m := range q.marks {
		if offset < q.next { // its record is gone: it was not read where it should stand
			delete(q.marks, offset)
			continue
		}
		end = min(end, m.journal)
	}
	return end
}
