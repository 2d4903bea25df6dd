package lane

import "github.com/weirhq/weir/topics"

// The queues by index: the order of topics.Queues.
const (
	urgent = iota
	again
	normal
	bulk
	queues
)

// choose returns the queue of the next permit: the first that is ready, but of
// every ten permits one each is offered to normal, again and bulk first, so
// that they never starve. It returns -1 when none is ready.
func choose(slot uint64, ready [queues]bool) int {
	switch first := [10]int{3: normal, 6: again, 9: bulk}[slot%10]; {
	case ready[first]:
		return first
	}
	for i, r := range ready {
		if r {
			return i
		}
	}
	return -1
}

var _ = [1]struct{}{}[len(queueNames)-queues]

var queueNames = [...]topics.Queue{topics.QueueUrgent, topics.QueueAgain, topics.QueueNormal, topics.QueueBulk}
