package recipient

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// recentSlots bounds the cache: 64 k numbers of about 150 bytes.
const recentSlots = 1 << 16

// cache remembers what the library answered. A slot holds one number, and the
// latest wins: no locks, no eviction, no growth. Only answers are kept, which
// never change within a process; refusals are not, so that nonsense cannot push
// out what is real more cheaply than by being parsed.
type cache struct {
	seed  maphash.Seed
	slots [recentSlots]atomic.Pointer[entry]
}

type entry struct {
	digits, region string
	answer         Recipient
}

var recent = &cache{seed: maphash.MakeSeed()}

func (c *cache) slot(digits, region string) *atomic.Pointer[entry] {
	h := maphash.String(c.seed, digits) ^ maphash.String(c.seed, region)
	return &c.slots[h%recentSlots]
}

func (c *cache) get(digits, region string) (Recipient, bool) {
	e := c.slot(digits, region).Load()
	if e == nil || e.digits != digits || e.region != region {
		return Recipient{}, false
	}
	return e.answer, true
}

func (c *cache) put(digits, region string, r Recipient) {
	c.slot(digits, region).Store(&entry{digits: strings.Clone(digits), region: strings.Clone(region), answer: r})
}
