package faultsim

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Trace is what happened in a cycle, in order of simulated time. Recipients and
// bodies are not in it.
type Trace struct {
	mu    sync.Mutex
	began time.Time
	lines []string
}

func (tr *Trace) start() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.began = time.Now()
}

// Say adds a line.
func (tr *Trace) Say(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lines = append(tr.lines, fmt.Sprintf("%9.3f  ", time.Since(tr.began).Seconds())+fmt.Sprintf(format, args...))
}

// String is the whole trace, a line each.
func (tr *Trace) String() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return strings.Join(tr.lines, "\n")
}

// last is the trace's last n lines.
func (tr *Trace) last(n int) string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return strings.Join(tr.lines[max(0, len(tr.lines)-n):], "\n")
}

// logTo is a slog.Handler that writes a worker's log into the trace.
type logTo struct {
	tr    *Trace
	who   string
	attrs []slog.Attr
	saw   func(slog.Record)
}

func (h *logTo) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h *logTo) Handle(_ context.Context, r slog.Record) error {
	h.saw(r)
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s", h.who, r.Level, r.Message)
	for _, a := range h.attrs {
		fmt.Fprintf(&b, " %s", a)
	}
	r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&b, " %s", a); return true })
	h.tr.Say("%s", strings.ReplaceAll(b.String(), "\n", "; "))
	return nil
}

func (h *logTo) WithAttrs(as []slog.Attr) slog.Handler {
	c := *h
	c.attrs = append(append([]slog.Attr{}, h.attrs...), as...)
	return &c
}

func (h *logTo) WithGroup(string) slog.Handler { return h }
