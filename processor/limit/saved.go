package limit

// savedSegment is a segment as it was before the open transaction, or before
// the decision that may still be refused. A segment's block has one owner: the
// long that it is part of, or a savedSegment.
type savedSegment struct {
	key     [2]uint64
	segment segment // its number alone if it did not exist
	check   Check   // of the record that Dirty reported
	existed bool
	// at is how long Table.undo was then. A slot is saved before its segments
	// are, so those of a decision that began at mark have an at above it.
	at int
}

// save notes a segment as it is, unless that was done before in the
// transaction and, while a decision may still be refused, in the decision.
func (t *Table) save(l *long, sg *segment) bool {
	if sg.dirty {
		if t.mark < 0 {
			return false
		}
		for i := len(t.saved) - 1; i >= 0 && t.saved[i].at > t.mark; i-- {
			if b := &t.saved[i]; b.segment.number == sg.number && b.key == l.key {
				return false
			}
		}
	}
	t.saved = append(t.saved, savedSegment{key: l.key, segment: *sg, existed: true, at: len(t.undo)})
	return true
}

// change returns a segment that may be changed: as it was it is saved.
func (t *Table) change(l *long, i int) *segment {
	sg := &l.segs[i]
	if t.save(l, sg) {
		was := t.wordsOf(sg)
		sg.block = t.blocks.take(sg.class)
		copy(t.wordsOf(sg), was)
		sg.dirty = true
	}
	return sg
}

// drop removes the segments from i to before to.
func (t *Table) drop(l *long, i, to int) {
	for k := i; k < to; k++ {
		if sg := &l.segs[k]; !t.save(l, sg) {
			t.blocks.release(sg.class, sg.block)
		}
	}
	l.detach(i, to)
}

// added makes a segment that is not in the ledger yet the one of index i.
func (t *Table) added(l *long, i int, sg *segment) {
	sg.number, sg.dirty = l.next, true
	l.next++
	t.saved = append(t.saved, savedSegment{key: l.key, segment: segment{number: sg.number}, at: len(t.undo)})
	l.insert(i, sg)
}

// undoSegments takes back the changes of a decision that began at mark, or of
// the transaction with mark 0.
func (t *Table) undoSegments(mark int) {
	from := len(t.saved)
	for ; from > 0 && t.saved[from-1].at > mark; from-- {
		b := &t.saved[from-1]
		l := t.longFor(b.key)
		if i := l.index(b.segment.number); i >= 0 {
			t.blocks.release(l.segs[i].class, l.segs[i].block)
			l.detach(i, i+1)
		}
		if b.existed {
			l.attach(&b.segment)
		}
	}
	for _, b := range t.saved[from:] {
		if from == 0 {
			t.letGo(b.key)
		}
	}
	t.saved = t.saved[:from]
}

// keepSegments joins what a decision saved to what the transaction did: see
// keepFrom, which has left as many in Table.undo as there are.
func (t *Table) keepSegments(mark int) {
	from := len(t.saved)
	for from > 0 && t.saved[from-1].at > mark {
		from--
	}
	kept := t.saved[:from]
	for _, b := range t.saved[from:] {
		if b.existed && b.segment.dirty {
			t.blocks.release(b.segment.class, b.segment.block)
			continue
		}
		b.at = len(t.undo)
		kept = append(kept, b)
	}
	t.saved = kept
}

// commitSegments keeps what the transaction did.
func (t *Table) commitSegments() {
	for i := range t.saved {
		b := &t.saved[i]
		l := t.longOf(b.key)
		if k := l.index(b.segment.number); k >= 0 {
			l.segs[k].dirty = false
			if t.told {
				l.segs[k].check = b.check
			}
		}
		if b.existed {
			t.blocks.release(b.segment.class, b.segment.block)
		}
	}
	for i := range t.saved {
		t.letGo(t.saved[i].key)
	}
}

// mend makes good what was given up in the ledger, once it has been loaded: it
// goes by what every ledger has that Weir alone wrote, that segments have a
// slot. Of one that was forgotten the places stand all the same, and segments
// that a slot does not know of were never seen.
func (t *Table) mend() {
	for key, l := range t.longs {
		s, at := t.locate(key)
		switch {
		case len(l.segs) == 0:
		case s == nil:
			s = t.touchNew(key)
			t.build(s, &standing{limit: l.limit, long: true}, t.last)
		case !s.long():
			t.touch(s, at)
			t.drop(l, 0, len(l.segs))
		}
	}
	t.loaded, t.mended = false, true
}
