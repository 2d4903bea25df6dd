package main

import (
	"context"
	"log/slog"
	"testing"
)

// A signal that comes while it starts is a stop like any other: nothing has
// been begun, so nothing failed.
func TestToldToEndWhileStarting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &system{settings: &Settings{Brokers: []string{"127.0.0.1:1"}}, logger: slog.New(slog.DiscardHandler)}
	if err := s.run(ctx); err != nil {
		t.Errorf("told to end while it starts: %v, want no error", err)
	}
	if err := s.run(t.Context()); err == nil {
		t.Error("no broker, and no error")
	}
}
