package lane

import (
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// The queues by index: the order of topics.Queues.
const (
	urgent = iota
	again
	normal
	bulk
	queues
)

// The priorities, and what there is of each: messages that came back (decided
// again because they went stale, or for another attempt), and first attempts.
const (
	urgently = iota
	normally
	inBulk
	priorities
)

const (
	returned = iota
	first
	halves
)

// lines is something about the messages of each priority, by half.
type lines [priorities][halves]bool

// slots says what each of ten permits is offered to. Every priority has its
// share, and so have both halves of it; no two permits in a row are offered to
// less than urgent first.
var slots = [10]struct{ prio, half int }{
	{urgently, returned},
	{urgently, first},
	{urgently, returned},
	{normally, first},
	{urgently, first},
	{urgently, returned},
	{normally, returned},
	{urgently, first},
	{urgently, returned},
	{inBulk, returned}, // and first, by turns
}

// choose returns whose the next permit is: of the priority to which the permit is
// offered if that is ready, and else of the highest that is; in it, of the half
// to which it is offered, or else of the other. It returns false when none is
// ready.
func choose(slot uint64, ready lines) (prio, half int, ok bool) {
	s := slots[slot%10]
	if s.prio == inBulk && slot/10%2 == 1 {
		s.half = first
	}
	for _, p := range [...]int{s.prio, urgently, normally, inBulk} {
		switch {
		case ready[p][s.half]:
			return p, s.half, true
		case ready[p][1-s.half]:
			return p, 1 - s.half, true
		}
	}
	return 0, 0, false
}

// lineOf returns the priority of a message of a queue, and whether it came back.
// What came back is on again, or on the queue of another priority (see carrier);
// its own priority then tells.
func lineOf(queue int, p schemas.Priority) (prio, half int) {
	own := [queues]int{urgent: urgently, again: normally, normal: normally, bulk: inBulk}[queue]
	switch p {
	case schemas.PriorityUrgent:
		prio = urgently
	case schemas.PriorityNormal:
		prio = normally
	case schemas.PriorityBulk:
		prio = inBulk
	default:
		prio = own
	}
	if queue != again && prio == own {
		return prio, first
	}
	return prio, returned
}

var _ = [1]struct{}{}[len(queueNames)-queues]

var queueNames = [...]topics.Queue{topics.QueueUrgent, topics.QueueAgain, topics.QueueNormal, topics.QueueBulk}
