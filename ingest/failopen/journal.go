// Package failopen keeps on disk what was allowed while Kafka could not decide it, until Kafka
// has it. It does not talk to Kafka: who opens a Journal reads its entries, hands them on, and
// says when it is done with them.
package failopen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/weirhq/weir/schemas"
)

// FileName is the journal's file within its directory.
const FileName = "degraded.jsonl"

var (
	// ErrFull means that the journal has no room for an entry.
	ErrFull = errors.New("the journal of degraded decisions is full")
	// ErrInUse means that another process has the journal open.
	ErrInUse = errors.New("another process uses the journal of degraded decisions: give each process a directory of its own")
	// ErrUnreadable means that the journal holds a line that no version of Weir wrote.
	ErrUnreadable = errors.New("the journal of degraded decisions cannot be read: move the file away to start without what it holds")
)

// Entry is one message that was allowed. Request asks admission to record it.
type Entry struct {
	To      string          `json:"to"` // canonical: the key of the record in weir.requests
	Request json.RawMessage `json:"request"`
}

// Record is the entry of a message that was allowed at the given time: its request with the
// action record. It keeps the id and the idempotency key, so that admission, where it has
// decided the same message, takes the record for a repeat and charges nothing.
//
// A send_at, an expires_at and a callback_url mean nothing of a record, and are left out.
func Record(q *schemas.Request, to string, at schemas.Millis) Entry {
	own := *q
	own.Action, own.At = schemas.ActionRecord, at
	own.SendAt, own.ExpiresAt, own.CallbackURL = 0, 0, ""
	return Entry{To: to, Request: schemas.RequestJSON(&own)}
}

// Journal is a file of entries, one JSON object a line. An entry that Append accepted is on the
// disk. Append may be called from many goroutines; Next and Done from one.
type Journal struct {
	most int64
	dir  string

	mu    sync.Mutex
	ended sync.Cond // of mu: a write has ended
	file  *os.File
	size  int64  // bytes that are on the disk
	taken int64  // size, and what waits to be written
	done  int64  // of size, what Done has passed
	next  *write // what waits
	busy  bool   // a write is under way
}

// write is lines that go to the disk together.
type write struct {
	lines []byte
	over  bool
	err   error
}

// Open opens the journal of a directory, which it makes if need be, and holds at most the given
// number of bytes. A line that a crash cut off was accepted by no Append, and is removed.
func Open(dir string, most int64) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("failopen: %w", err)
	}
	name := filepath.Join(dir, FileName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("failopen: %w", err)
	}
	j := &Journal{most: most, dir: dir, file: f, next: new(write)}
	j.ended.L = &j.mu
	if err := j.recover(); err != nil {
		f.Close()
		return nil, fmt.Errorf("failopen: %s: %w", name, err)
	}
	return j, nil
}

// recover locks the file, and finds where its last whole line ends.
func (j *Journal) recover() error {
	if err := lock(j.file); err != nil {
		return err
	}
	if err := j.file.Chmod(0o600); err != nil { // it may have been copied here
		return err
	}
	text, err := io.ReadAll(j.file)
	if err != nil {
		return err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for at := 0; at < len(whole); {
		end := at + bytes.IndexByte(whole[at:], '\n')
		if _, err := decode(whole[at:end]); err != nil {
			return fmt.Errorf("%w: byte %d: %w", ErrUnreadable, at, err)
		}
		at = end + 1
	}
	j.size, j.taken = int64(len(whole)), int64(len(whole))
	if len(whole) < len(text) {
		if err := j.file.Truncate(j.size); err != nil {
			return err
		}
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	return syncDir(j.dir)
}

func decode(line []byte) (e Entry, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, err
	}
	if e.To == "" || len(e.Request) == 0 {
		return e, errors.New("an entry has to and request")
	}
	return e, nil
}

// Append returns nil when the entry is on the disk. Those who call it at once share a write.
func (j *Journal) Append(e Entry) error {
	var line bytes.Buffer
	to := json.NewEncoder(&line) // which ends the line
	to.SetEscapeHTML(false)      // or a request might outgrow what Kafka takes
	if err := to.Encode(e); err != nil {
		return fmt.Errorf("failopen: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.taken+int64(line.Len()) > j.most {
		return ErrFull
	}
	j.taken += int64(line.Len())
	mine := j.next
	mine.lines = append(mine.lines, line.Bytes()...)
	for !mine.over {
		if j.busy {
			j.ended.Wait()
		} else {
			j.write()
		}
	}
	return mine.err
}

// write writes what waits. It is called with mu held, and releases it while it writes.
func (j *Journal) write() {
	w, at := j.next, j.size
	j.next, j.busy = new(write), true
	j.mu.Unlock()
	_, err := j.file.WriteAt(w.lines, at)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil { // none of it counts, and none of it should come back at the next start
		err = fmt.Errorf("failopen: %w", errors.Join(err, j.file.Truncate(at)))
	}
	j.mu.Lock()
	if err == nil {
		j.size += int64(len(w.lines))
	} else {
		j.taken -= int64(len(w.lines))
	}
	w.over, w.err, j.busy = true, err, false
	j.ended.Broadcast()
}

// Bytes is how many bytes of entries the file holds.
func (j *Journal) Bytes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size
}

// Next returns the oldest entries that Done has not passed, at most n of them.
func (j *Journal) Next(n int) (entries []Entry, through int64, err error) {
	j.mu.Lock()
	from, to := j.done, j.size
	j.mu.Unlock()
	through = from
	const most = 8 << 20 // bytes at once; a line has less
	b := make([]byte, min(to-from, most))
	if _, err := j.file.ReadAt(b, from); err != nil {
		return nil, from, fmt.Errorf("failopen: %w", err)
	}
	for len(entries) < n {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		if !whole {
			break
		}
		e, err := decode(line)
		if err != nil {
			return entries, through, fmt.Errorf("failopen: %w: byte %d: %w", ErrUnreadable, through, err)
		}
		entries, through, b = append(entries, e), through+int64(len(line))+1, rest
	}
	return entries, through, nil
}

// Done says that all entries through where Next came to are in Kafka. When that is all of them,
// the file is emptied.
func (j *Journal) Done(through int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.busy {
		j.ended.Wait()
	}
	if j.done = through; j.done < j.size || j.done == 0 {
		return nil
	}
	// If it fails, the next lines follow those that are done, and the next start returns
	// these again, which changes nothing.
	if err := j.file.Truncate(0); err != nil {
		return fmt.Errorf("failopen: empty the journal: %w", err)
	}
	j.taken -= j.size
	j.size, j.done = 0, 0
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("failopen: empty the journal: %w", err)
	}
	return nil
}

// Close closes the file, when no one calls the others any more. What it holds stays for the
// next Open.
func (j *Journal) Close() error { return j.file.Close() }
