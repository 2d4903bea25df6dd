package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// What weir tail says of each kind of event, after the time.
func TestTailLines(t *testing.T) {
	const to, id = "+8613800000000", "m-1"
	status := func(s schemas.Status, more func(*schemas.Event)) *schemas.Event {
		e := &schemas.Event{Kind: schemas.KindStatus, MessageID: id, To: to, Class: "verify", Status: s}
		if more != nil {
			more(e)
		}
		return e
	}
	decision := func(class string, d *schemas.Decision) *schemas.Event {
		return &schemas.Event{Kind: schemas.KindDecision, MessageID: id, To: to, Class: class, Decision: d}
	}
	acme := []schemas.Charge{{Limit: "acme", Scope: "tenant=acme", T: 1, Cost: 1}, {Limit: "all", T: 1, Cost: 1}}
	full := []schemas.Evidence{{Limit: "acme", Scope: "tenant=acme", Window: "3/24h", N: 3, Count: 3, Cost: 1}}
	for _, tt := range []struct {
		name  string
		event *schemas.Event
		want  string
	}{
		{"admitted", status(schemas.StatusQueued, func(e *schemas.Event) {
			e.Decision = &schemas.Decision{Verdict: schemas.VerdictAdmit, Carried: acme}
		}), "queued      +8613800000000   m-1 class=verify"},
		{"limited", status(schemas.StatusLimited, func(e *schemas.Event) {
			e.Limit, e.Window, e.Reason = "acme", "3/24h", "limited"
			e.Decision = &schemas.Decision{Verdict: schemas.VerdictRefuse, Evidence: full}
		}), "limited     +8613800000000   m-1 class=verify limit=acme window=3/24h reason=limited"},
		{"home sends it on", decision("verify", &schemas.Decision{Verdict: schemas.VerdictCharge, Onward: new(int32(5))}),
			"(charge)    +8613800000000   m-1 class=verify onward=5"},
		{"an owner takes places", decision("", &schemas.Decision{Verdict: schemas.VerdictCharge, Charges: acme, Onward: new(int32(0))}),
			"(charge)    +8613800000000   m-1 took=acme,all onward=0"},
		{"an owner that observes", decision("", &schemas.Decision{Verdict: schemas.VerdictCharge, Evidence: full, Onward: new(int32(0))}),
			"(charge)    +8613800000000   m-1 onward=0"},
		{"an owner refuses", decision("", &schemas.Decision{Verdict: schemas.VerdictRefuse, Evidence: full, Onward: new(int32(0))}),
			"(refuse)    +8613800000000   m-1 limit=acme window=3/24h onward=0"},
		{"a marker", &schemas.Event{Kind: schemas.KindDecision, Decision: &schemas.Decision{Verdict: schemas.VerdictMarker}}, "(marker)"},
		{"a decision without one, which is nobody's", &schemas.Event{Kind: schemas.KindDecision, MessageID: id}, "m-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, got, _ := strings.Cut(line(tt.event), "  ")
			if got := strings.TrimSpace(got); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A limit of a day opens tomorrow: the time of day alone would say now.
func TestLocalTime(t *testing.T) {
	now := schemas.MillisOf(time.Date(2026, 11, 21, 18, 15, 24, 0, time.Local))
	for _, tt := range []struct {
		after time.Duration
		want  string
	}{
		{time.Minute, "18:16:24"}, {6 * time.Hour, "00:15:24"}, {24*time.Hour - time.Second, "2026-11-22T18:15:23"}, {31 * 24 * time.Hour, "2026-12-22T18:15:24"},
	} {
		if got := localTime(now.Add(tt.after), now); got != tt.want {
			t.Errorf("in %v: %q, want %q", tt.after, got, tt.want)
		}
	}
	if got := localTime(0, now); got != "" {
		t.Errorf("never: %q", got)
	}
	m := &client.Message{ID: "m-1", Status: schemas.StatusLimited, Limit: "acme", Window: "3/24h", RetryAt: now.Add(24 * time.Hour)}
	if got, want := outcome(m, now.Time(), 0), "limited: acme 3/24h, try again at 2026-11-22T18:15:24 (86400 s)   m-1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
