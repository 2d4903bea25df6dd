package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// pace holds all calls of one client back where one of them was asked to wait: no
// call goes out before its kind's time, and that of every call, is over.
type pace struct {
	mu   sync.Mutex
	held map[kind]hold
}

// hold is until when, and the refusal that asked for it.
type hold struct {
	until time.Time
	why   *Problem
}

// kind is what the server counts apart, so that a caller who sends too fast may still ask.
type kind string

const (
	anyKind    kind = ""
	kindQuery  kind = "query"
	kindWrite  kind = "write"
	kindBatch  kind = "batch"
	kindImport kind = "import"
	kindStream kind = "stream"
)

// kind is as the server has it in its table of routes; streams are bounded by their
// number, and not by the rate of queries.
func (q *call) kind() kind {
	switch {
	case q.path == "/v1/events":
		return kindStream
	case q.method == http.MethodGet:
		return kindQuery
	case q.path == batchPath, q.path == "/v1/dlq/redrive":
		return kindBatch
	case q.path == "/v1/suppressions/import":
		return kindImport
	}
	return kindWrite
}

// concerns says which calls must wait, too, where one of kind k was refused so; false
// where no other must, as of the store being away, which only some questions need.
func (p *Problem) concerns(k kind) (kind, bool) {
	switch p.Code {
	case CodeClientRate, "overloaded", "too_many_streams":
		return k, true
	case "kafka_unavailable", "not_ready", "": // without a code it is a proxy's
		return anyKind, true
	}
	return k, false
}

// refused notes that a call of kind k was asked to wait. A hold is never made shorter.
func (s *pace) refused(k kind, p *Problem, now time.Time) {
	k, others := p.concerns(k)
	if !others || p.RetryAfter <= 0 || p.chance() == final {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := now.Add(p.RetryAfter); until.After(s.held[k].until) {
		if s.held == nil {
			s.held = make(map[kind]hold)
		}
		s.held[k] = hold{until, p}
	}
}

// of is the later of what holds calls of a kind.
func (s *pace) of(k kind) hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[k]
	if all := s.held[anyKind]; all.until.After(h.until) {
		return all
	}
	return h
}

// turn returns when a call may go out: nothing holds its kind back. One that would be
// held back for longer than it has is not made; its error has the refusal of the
// other call, which says when to try again.
func (c *Client) turn(ctx context.Context, k kind, deadline time.Time) error {
	for {
		h := c.pace.of(k)
		left := time.Until(h.until)
		if left <= 0 {
			return nil
		}
		// Those who waited do not go on together; the first of them may be refused again.
		wait, inTime := c.retry.wait(0, left, time.Until(deadline), rand.Float64())
		if !inTime {
			p := *h.why
			p.Instance, p.RetryAfter = "", left
			if p.RetryAfterSeconds > 0 {
				p.RetryAfterSeconds = int64((left + time.Second - 1) / time.Second)
			}
			return fmt.Errorf("not sent, because the server asked another call of this client to wait: %w", &p)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return givenUp(ctx, h.why)
		case <-timer.C:
		}
	}
}
