package ingest

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/weirhq/weir/schemas"
)

// feed is the newest statuses in the order in which the tail read them, for
// those who follow them live. A follower has a place in it and holds nothing up:
// one that is slower than the feed forgets is cut off. Its methods may be called
// from many goroutines.
type feed struct {
	most, mostBytes int

	mu      sync.Mutex
	items   []item
	first   int64 // number of items[0]
	bytes   int
	at      []int64 // by partition: the offset that comes next
	from    []int64 // by partition: all statuses from this offset on are in items
	changed chan struct{}
	closed  bool
	last    int64 // the item at which a closed feed ends
}

// item is a status, and where it stands.
type item struct {
	partition                  int32
	offset                     int64
	tenant, to, channel, class string
	provider                   string
	status                     schemas.Status
	value                      []byte
	shown                      *showing
}

// showing is a status as streams show it, without its decision: made when the first of
// them comes to it, since to read and write it again is most of what a stream costs.
type showing struct {
	once sync.Once
	text []byte // nil: it cannot be shown
}

func (i *item) show() []byte {
	i.shown.once.Do(func() {
		e, err := schemas.DecodeEvent(i.value)
		if err != nil {
			return // it was decoded before it was kept
		}
		e.Decision = nil
		i.shown.text = schemas.AppendEvent(nil, e)
	})
	return i.shown.text
}

func newFeed(partitions int32, most, mostBytes int) *feed {
	return &feed{most: most, mostBytes: mostBytes, at: make([]int64, partitions), from: make([]int64, partitions), changed: make(chan struct{})}
}

// begin says at which offset the tail begins a partition.
func (f *feed) begin(partition int32, offset int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if int(partition) < len(f.at) {
		f.at[partition], f.from[partition] = offset, offset
	}
}

// add notes what stands at an offset; e is nil where that is no status. It
// keeps value.
func (f *feed) add(partition int32, offset int64, e *schemas.Event, value []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if int(partition) >= len(f.at) {
		return // topics never grow under a server
	}
	f.at[partition] = offset + 1
	if e == nil {
		return
	}
	tenant := e.Tenant
	if tenant == "" {
		tenant = schemas.DefaultTenant
	}
	f.items = append(f.items, item{partition, offset, shared(tenant), e.To, shared(e.Channel), shared(e.Class), shared(e.Provider), e.Status, value, new(showing)})
	f.bytes += len(value)
	for len(f.items) > f.most || f.bytes > f.mostBytes {
		gone := &f.items[0]
		f.from[gone.partition] = gone.offset + 1
		f.bytes -= len(gone.value)
		*gone = item{}
		f.items = f.items[1:]
		f.first++
	}
}

// wake tells the followers that wait.
func (f *feed) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// close ends all followers.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed, f.last = true, f.first+int64(len(f.items))
		close(f.changed)
	}
}

// follower reads a feed. Its methods are for one goroutine.
type follower struct {
	feed *feed
	next int64   // number of the item that it reads next
	at   []int64 // by partition: the offset before which it has read all
}

// tooFarAhead is by how many offsets a position may be ahead of this server's
// tail and still be one of the same topic: another server's may be a little ahead.
const tooFarAhead = 10_000

// follow returns a follower that begins at a position, or now where that is
// empty. gap says that something between has been forgotten, or that the position
// is none; it then begins with the oldest that there is, or now.
func (f *feed) follow(position string) (r *follower, gap bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r = &follower{feed: f, next: f.first + int64(len(f.items)), at: slices.Clone(f.at)}
	if position == "" {
		return r, false
	}
	at, ok := readPosition(position, len(f.at))
	for p := range at {
		if at[p] > f.at[p]+tooFarAhead {
			ok = false
		}
	}
	if !ok {
		return r, true
	}
	for p := range at {
		gap = gap || at[p] < f.from[p]
	}
	r.at, r.next = at, f.first
	return r, gap
}

// Ways in which a reading ends.
type reading int

const (
	readSome reading = iota
	readNone         // nothing new: wait for changed
	readCut          // what comes next has been forgotten
	readEnd          // the feed is closed
)

// read returns up to most of the next items.
func (r *follower) read(most int) (items []item, how reading, changed <-chan struct{}) {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed && r.next >= f.last:
		return nil, readEnd, nil
	case r.next < f.first:
		return nil, readCut, nil
	}
	rest := f.items[r.next-f.first:]
	if len(rest) == 0 {
		for p := range r.at { // what stands there and is no status was passed too
			r.at[p] = max(r.at[p], f.at[p])
		}
		return nil, readNone, f.changed
	}
	items = slices.Clone(rest[:min(len(rest), most)])
	r.next += int64(len(items))
	return items, readSome, f.changed
}

// take moves over an item, and reports whether it is new to the follower.
func (r *follower) take(i *item) bool {
	if i.offset < r.at[i.partition] {
		return false
	}
	r.at[i.partition] = i.offset + 1
	return true
}

// position names where the follower is, for any server of the cluster.
func (r *follower) position() string {
	b := make([]byte, 0, 4*len(r.at))
	for _, at := range r.at {
		b = binary.AppendUvarint(b, uint64(at))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func readPosition(text string, partitions int) ([]int64, bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, false
	}
	at := make([]int64, partitions)
	for p := range at {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > 1<<62 {
			return nil, false
		}
		at[p], b = int64(v), b[n:]
	}
	return at, len(b) == 0
}
