package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// How often a long command says how far it is: to people, and to a file.
const (
	progressSeen   = 2 * time.Second
	progressLogged = 10 * time.Second
)

// progress says on stderr how far a long command is, how much there is, and how long the rest may take.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	every time.Duration
	now   func() time.Time
	began time.Time
	said  time.Time
	last  string // what was done up to now; empty before any
}

func newProgress(out io.Writer, now func() time.Time) *progress {
	p := &progress{out: out, every: progressLogged, now: now, began: now()}
	p.said = p.began
	if f, ok := out.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.every = progressSeen
		}
	}
	return p
}

// at says that so many of a total are done; a total of 0 is not known. more follows, where it is not empty.
func (p *progress) at(done, total int64, what, more string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	p.last = fmt.Sprintf("%d %s", done, what)
	left := ""
	if done = min(done, total); total > 0 && done > 0 {
		p.last = fmt.Sprintf("%d of %d %s", done, total, what)
		rest := time.Duration(float64(now.Sub(p.began)) * float64(total-done) / float64(done))
		left = fmt.Sprintf(" (%d %%, about %s left)", 100*done/total, roughly(rest))
	}
	if now.Sub(p.said) >= p.every {
		p.said = now
		fmt.Fprintln(p.out, p.last+left+more)
	}
}

// interrupted is the error of a command that a signal ended: how much it did, and how to go on.
func (p *progress) interrupted(goOn string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := "interrupted"
	if p.last != "" {
		text += " after " + p.last
	}
	return strings.TrimSpace(text + ". " + goOn)
}

// roughly writes a duration as an estimate.
func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", (d+time.Second-1)/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", (d+time.Minute-1)/time.Minute)
	default:
		return fmt.Sprintf("%.1f h", d.Hours())
	}
}
