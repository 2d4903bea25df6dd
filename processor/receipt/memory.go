package receipt

// remembered is how many receipts of a partition are known at least; twice as many
// at most. A mark takes some 30 B: of eight partitions, 30 MB at most.
const remembered = 1 << 16

// memory knows the latest receipts of a partition. What an open transaction adds is
// known at once, and forgotten if it aborts.
type memory struct {
	now, before map[mark]struct{}
	open        []mark
	most        int
}

func newMemory(most int) *memory { return &memory{now: make(map[mark]struct{}), most: most} }

// add remembers m, and reports whether it was not known.
func (k *memory) add(m mark) bool {
	if _, known := k.now[m]; known {
		return false
	}
	if _, known := k.before[m]; known {
		return false
	}
	k.now[m] = struct{}{}
	k.open = append(k.open, m)
	return true
}

// ended keeps what the open transaction added, or takes it back.
func (k *memory) ended(committed bool) {
	if !committed {
		for _, m := range k.open {
			delete(k.now, m)
		}
	}
	k.open = k.open[:0]
	if len(k.now) >= k.most {
		k.before, k.now = k.now, make(map[mark]struct{})
	}
}
