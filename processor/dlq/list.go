package dlq

import (
	"context"
	"errors"
	"fmt"
)

// ListOptions say how much and in which order.
type ListOptions struct {
	Oldest bool   // first; else the newest
	Limit  int    // entries; 0 is 50
	Scan   int    // records that one call looks at; 0 is no bound
	Cursor string // of the page before
}

// Page is a part of a list.
type Page struct {
	Entries []Entry `json:"entries"`
	// Cursor brings the next page; empty at the end. A page may be short, or
	// empty, and not the last: where few records match.
	Cursor string `json:"cursor,omitempty"`
}

// listChunk is how many offsets of a partition are read at a time, backwards:
// a page needs few, and who goes on gets twice as many each time, up to
// listChunks.
const (
	listChunk  = 256
	listChunks = 4096
)

// walker goes through one partition. Its entries have no bytes.
type walker struct {
	span
	buf []Entry // what was read and matches, in the order of the walk
	at  []int64 // and where it stands

	step int64 // offsets to read next; 0 is listChunk
}

// List returns entries by the broker's time, over all partitions.
func (b *Box) List(ctx context.Context, f Filter, o ListOptions) (*Page, error) {
	if o.Limit == 0 {
		o.Limit = 50
	}
	c, err := b.resume(ctx, o.Cursor, &f, o.Oldest)
	if err != nil {
		return nil, err
	}
	page := &Page{Entries: []Entry{}}
	more, err := b.walk(ctx, c, o, func(e *Entry) error {
		page.Entries = append(page.Entries, *e)
		return nil
	})
	if err == nil && more {
		page.Cursor = c.String()
	}
	return page, err
}

// Each hands entries to fn one by one, as List orders them: at most o.Limit, and
// all of them where that is 0. It tells whether there are more.
func (b *Box) Each(ctx context.Context, f Filter, o ListOptions, fn func(*Entry) error) (more bool, err error) {
	c, err := b.resume(ctx, o.Cursor, &f, o.Oldest)
	if err != nil {
		return false, err
	}
	return b.walk(ctx, c, o, fn)
}

// walk merges the partitions by time, and moves the cursor on.
func (b *Box) walk(ctx context.Context, c *cursor, o ListOptions, fn func(*Entry) error) (more bool, err error) {
	walkers := make([]walker, len(c.Spans))
	for i := range c.Spans {
		walkers[i].span = c.Spans[i]
	}
	if o.Scan > 0 { // enough to have every partition's head
		o.Scan = max(o.Scan, 2*listChunk*len(walkers))
	}
	looked := 0
	for done := 0; o.Limit == 0 || done < o.Limit; done++ {
		best := -1
		for i := range walkers {
			w := &walkers[i]
			for len(w.buf) == 0 && w.From < w.To && (o.Scan == 0 || looked < o.Scan) {
				n, err := b.load(ctx, w, &c.Filter, o.Oldest)
				if err != nil {
					return false, err
				}
				looked += n
			}
			if len(w.buf) == 0 {
				continue
			}
			if best < 0 || before(&w.buf[0], &walkers[best].buf[0], o.Oldest) {
				best = i
			}
		}
		if best < 0 || o.Scan > 0 && looked >= o.Scan && unread(walkers) {
			break
		}
		w := &walkers[best]
		if err := fn(&w.buf[0]); err != nil {
			return false, err
		}
		w.buf, w.at = w.buf[1:], w.at[1:]
	}
	for i := range walkers {
		w := &walkers[i]
		c.Spans[i] = w.left(o.Oldest)
		more = more || c.Spans[i].From < c.Spans[i].To
	}
	return more, nil
}

// before reports whether a comes before b in a list.
func before(a, b *Entry, oldest bool) bool {
	if oldest {
		return a.At < b.At
	}
	return a.At > b.At
}

// unread reports whether some partition was not looked into, so that the order
// of the others is not known.
func unread(ws []walker) bool {
	for i := range ws {
		if len(ws[i].buf) == 0 && ws[i].From < ws[i].To {
			return true
		}
	}
	return false
}

// left is the part of the partition that was not returned.
func (w *walker) left(oldest bool) span {
	s := w.span
	if len(w.at) > 0 {
		if oldest {
			s.From = w.at[0]
		} else {
			s.To = w.at[0] + 1
		}
	}
	return s
}

// load reads the next part of a partition and returns how many records it held.
func (b *Box) load(ctx context.Context, w *walker, f *Filter, oldest bool) (int, error) {
	from, to := w.From, w.To
	w.step = max(w.step, listChunk)
	if oldest {
		to = min(to, from+w.step)
	} else {
		from = max(from, to-w.step)
	}
	n := 0
	for at := from; at < to; {
		recs, next, err := b.chunk(ctx, w.Partition, at, to)
		if err != nil {
			return n, err
		}
		for _, r := range recs {
			if n++; f.matches(&r.Entry) {
				w.buf, w.at = append(w.buf, r.Entry), append(w.at, r.Kafka.Offset)
			}
		}
		at = next
	}
	w.step = min(2*w.step, listChunks)
	if oldest {
		w.From = to
		return n, nil
	}
	for i, j := 0, len(w.buf)-1; i < j; i, j = i+1, j-1 {
		w.buf[i], w.buf[j] = w.buf[j], w.buf[i]
		w.at[i], w.at[j] = w.at[j], w.at[i]
	}
	w.To = from
	return n, nil
}

// ErrNotFound means that no record is there, or no longer.
var ErrNotFound = errors.New("there is no such record in the DLQ")

// Show returns one record with its bytes: by its position PARTITION/OFFSET, or the
// newest of a message's id.
func (b *Box) Show(ctx context.Context, what string) (*Record, error) {
	if _, _, err := parsePosition(what); err != nil {
		page, err := b.List(ctx, Filter{IDs: []string{what}}, ListOptions{Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(page.Entries) == 0 {
			return nil, fmt.Errorf("%s: %w", what, ErrNotFound)
		}
		what = page.Entries[0].Position
	}
	spans, err := b.spans(ctx, &Filter{IDs: []string{what}})
	if err != nil {
		return nil, err
	}
	for _, s := range spans {
		recs, _, err := b.chunk(ctx, s.Partition, s.From, s.To)
		if err != nil {
			return nil, err
		}
		if len(recs) > 0 {
			return recs[0], nil
		}
	}
	return nil, fmt.Errorf("%s: %w", what, ErrNotFound)
}
