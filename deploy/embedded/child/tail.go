package child

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// Limits of what a failed child's last words may take in an error.
const (
	tailBytes = 4 << 10
	tailLines = 12
)

// tail keeps the last lines that pass through it.
type tail struct {
	next io.Writer // may be nil

	mu   sync.Mutex
	last []byte
}

// Write never fails: a log that cannot be written must not end the child's pipe.
func (t *tail) Write(b []byte) (int, error) {
	if t.next != nil {
		_, _ = t.next.Write(b)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if over := len(t.last) - tailBytes; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return len(b), nil
}

// lines are the last lines, led by ": ", or "" if there are none: made to be
// put behind an error's text.
func (t *tail) lines() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimSpace(t.last)
	if len(text) == 0 {
		return ""
	}
	all := strings.Split(string(text), "\n")
	if len(all) > tailLines {
		all = all[len(all)-tailLines:]
	}
	return ": " + strings.Join(all, "\n")
}
