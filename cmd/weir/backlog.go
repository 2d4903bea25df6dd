package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/ingest"
	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/backlog"
	"github.com/weirhq/weir/processor/lane"
	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// rateAfter is how long after its first look weir status looks again, for the rates of
// inputs and admission. It does not where nothing waits there: lanes' rates come from calls.
const rateAfter = 2 * time.Second

// backlogWatch is a first look at the backlog.
type backlogWatch struct {
	looker *backlog.Looker
	meter  backlog.Meter
	pol    *schemas.Policy
	queues []backlog.Queue
	at     time.Time
	rates  []backlog.Rate
}

func watchBacklog(ctx context.Context, s *Settings, names topics.Names, pol *schemas.Policy) (*backlogWatch, error) {
	looker, err := backlog.Open(s.Brokers)
	if err != nil {
		return nil, err
	}
	b := &backlogWatch{looker: looker, pol: pol, queues: queuesOf(names, pol)}
	if err := b.look(ctx); err != nil {
		looker.Close()
		return nil, err
	}
	return b, nil
}

func (b *backlogWatch) look(ctx context.Context) error {
	all, err := b.looker.Look(ctx, b.queues)
	if err != nil {
		return err
	}
	b.at = time.Now()
	b.rates = b.meter.Add(schemas.MillisOf(b.at), all)
	return nil
}

// again returns what waits as of a second look, or as of the first where that is enough.
func (b *backlogWatch) again(ctx context.Context, health route.Health) (client.Backlog, client.Delays, error) {
	if slices.ContainsFunc(b.rates, func(r backlog.Rate) bool {
		return r.Records > 0 && (r.Stage == backlog.Inputs || r.Stage == backlog.Admission)
	}) {
		select {
		case <-ctx.Done():
			return client.Backlog{}, client.Delays{}, ctx.Err()
		case <-time.After(time.Until(b.at.Add(rateAfter))):
		}
		if err := b.look(ctx); err != nil {
			return client.Backlog{}, client.Delays{}, err
		}
	}
	at := schemas.MillisOf(b.at)
	backlog.Calls(b.rates, health, at)
	return ingest.BacklogOf(at, b.rates, b.meter.Stalled(b.pol, health, b.rates, at)), ingest.DelaysOf(b.rates), nil
}

// printBacklog prints the queues in which something waits.
func printBacklog(w io.Writer, st *pipelineStatus, names topics.Names) {
	b := st.Backlog
	var delayed int64
	for _, t := range st.Delays.Tiers {
		delayed += t.Waiting
	}
	switch {
	case b.Waiting == 0 && delayed == 0:
		fmt.Fprintln(w, "Nothing waits.")
	default:
		fmt.Fprintf(w, "%s waiting, %s delayed.\n", thousands(b.Waiting), thousands(delayed))
	}
	absent := absentOf(st, names)
	for _, a := range absent {
		fmt.Fprintf(w, "ABSENT: no process runs %s, so what waits for it does not move. Start one.\n", a)
	}
	if len(b.Stalled) > 0 {
		fmt.Fprintf(w, "STALLED: no calls to %s, although messages wait.", strings.Join(b.Stalled, ", "))
		if len(absent) == 0 {
			fmt.Fprint(w, " Is a breaker open, or does the provider throttle (below)? Else the log of the process with its lane says why.")
		}
		fmt.Fprintln(w)
	}
	if b.Waiting+delayed > 0 {
		fmt.Fprintln(w, "\nWAITING FOR\tQUEUE\tMESSAGES\tOLDEST SINCE\tLEAVE PER MINUTE\tEMPTY IN")
	}
	for _, q := range b.Queues {
		if q.Waiting == 0 {
			continue
		}
		rate, empty := "–", "–"
		if q.PerMinute != nil {
			rate = thousands(int64(*q.PerMinute))
			if empty = "nothing moves"; q.Drain > 0 {
				empty = about(time.Duration(q.Drain) * time.Millisecond)
			}
		}
		of := q.Stage
		if q.Provider != "" {
			of = "provider " + q.Provider
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", of, q.Queue, atMost(q.Waiting, q.AtMost), since(q.OldestAt, b.At), rate, empty)
	}
	for _, t := range st.Delays.Tiers {
		if t.Waiting > 0 {
			fmt.Fprintf(w, "its time\t%s\t%s\t%s\t\t\n", t.Name, atMost(t.Waiting, t.AtMost), since(t.OldestAt, b.At))
		}
	}
	fmt.Fprintln(w)
}

// absentOf names the stages in whose group is no process, although something waits for them.
// Messages whose decision goes stale return to admission, so lanes may wait for it too.
func absentOf(st *pipelineStatus, names topics.Names) (out []string) {
	empty := func(group string) bool {
		return !slices.ContainsFunc(st.Groups, func(g groupStatus) bool { return g.Name == group && g.Members > 0 })
	}
	if st.Backlog.Waiting > 0 && empty(admission.Group(names)) {
		out = append(out, "admission (role admission)")
	}
	for _, p := range st.Providers {
		if slices.ContainsFunc(st.Backlog.Queues, func(q client.QueueBacklog) bool { return q.Provider == p.Name && q.Waiting > 0 }) && empty(lane.Group(names, p.Name)) {
			out = append(out, "the lanes of "+p.Name+" (role lanes)")
		}
	}
	return out
}

func atMost(n int64, atMost bool) string {
	if atMost {
		return "≤ " + thousands(n)
	}
	return thousands(n)
}

func since(at, now schemas.Millis) string {
	return at.Time().UTC().Format("2006-01-02 15:04:05Z") + " (" + about(max(now.Sub(at), 0)) + ")"
}

// about rounds a duration to what a person reads: seconds below ten minutes, else minutes.
func about(d time.Duration) string {
	if d < 10*time.Minute {
		return max(d.Round(time.Second), time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// thousands writes 410000 as 410,000.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
