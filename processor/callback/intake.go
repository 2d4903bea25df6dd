package callback

import (
	"fmt"
	"slices"

	"github.com/weirhq/weir/schemas"
)

// intake is one partition of one topic that is read: what came of it is told, or waits,
// up to low.
type intake struct {
	next int64
	open []int64 // read and neither told nor away, in order
	done map[int64]bool
}

func newIntake(at int64) *intake { return &intake{next: at, done: make(map[int64]bool)} }

func (i *intake) begin(offset int64) { i.open = append(i.open, offset) }

func (i *intake) end(offset int64) {
	i.done[offset] = true
	n := 0
	for n < len(i.open) && i.done[i.open[n]] {
		delete(i.done, i.open[n])
		n++
	}
	i.open = slices.Delete(i.open, 0, n)
}

// low is the first offset that is not finished.
func (i *intake) low() int64 {
	if len(i.open) > 0 {
		return i.open[0]
	}
	return i.next
}

// part is one partition number.
type part struct {
	num       int32
	salt      string // a key whose partition is this one
	status    *intake
	callbacks *intake
	book      *book
	own       map[messageKey]own
	early     []*job // came back before the statuses were read again up to them
	stood     meta   // as last committed
	noted     meta   // as the state's topic has it
	known     bool   // it has one: where nothing was ever written, that is the zero one, too
}

func (p *part) meta() meta { return meta{p.status.low(), p.callbacks.low()} }

// saltOf returns a key whose partition of n is num: what waits comes back to where its
// state is, whatever its recipient's partition is.
func saltOf(num, n int32) string {
	for i := 0; ; i++ {
		if k := fmt.Sprintf("callbacks-%d", i); schemas.PartitionOf(k, n) == num {
			return k
		}
	}
}
