package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

var tailCommand = command{
	name:    "tail",
	args:    "[--to RECIPIENT] [--status STATUS] [--since 10m] [--json]",
	summary: "Follow what happens to messages, as weir.status has it.",
	example: "weir tail --status limited",
	run: func(ctx context.Context, c *call) error {
		fs := flag.NewFlagSet("tail", flag.ContinueOnError)
		to := fs.String("to", "", "only this recipient, as Weir writes it: +8613800000000")
		status := fs.String("status", "", "only this status")
		since := fs.Duration("since", 0, "begin so long ago rather than now")
		decisions := fs.Bool("decisions", false, "also decisions that are no status of a message")
		asJSON := fs.Bool("json", false, "print the records as they are")
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		s, err := load()
		if err != nil {
			return err
		}
		start := kgo.NewOffset().AtEnd()
		if *since > 0 {
			start = kgo.NewOffset().AfterMilli(time.Now().Add(-*since).UnixMilli())
		}
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...), kgo.ConsumeTopics(topics.Names{Prefix: s.Prefix}.Status()),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(start), kgo.ConsumeResetOffset(start), stream.Bounded())
		if err != nil {
			return err
		}
		defer cl.Close()
		for {
			fetches := cl.PollFetches(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err := fetches.Err(); err != nil && !stream.PassOversized(cl, err) {
				return err
			}
			fetches.EachRecord(func(r *kgo.Record) {
				e, err := schemas.DecodeEvent(r.Value)
				if err != nil {
					fmt.Fprintf(c.stderr, "weir tail: left out %s/%d/%d, which Weir did not write: %v\n", r.Topic, r.Partition, r.Offset, err)
					return
				}
				switch {
				case e.Kind != schemas.KindStatus && !*decisions:
				case *to != "" && e.To != *to:
				case *status != "" && string(e.Status) != *status:
				case *asJSON:
					fmt.Fprintf(c.stdout, "%s\n", r.Value)
				default:
					fmt.Fprintln(c.stdout, line(e))
				}
			})
		}
	},
}

// line shows an event to people.
func line(e *schemas.Event) string {
	what, limit, window := string(e.Status), e.Limit, e.Window
	var took, onward string
	if e.Kind == schemas.KindDecision && e.Decision != nil {
		d := e.Decision
		what = "(" + string(d.Verdict) + ")"
		took = limitsOf(d.Charges)
		if limit == "" && len(d.Evidence) > 0 && d.Verdict == schemas.VerdictRefuse { // an owner's: the message's own status follows
			limit, window = d.Evidence[0].Limit, d.Evidence[0].Window
		}
		if d.Onward != nil {
			onward = strconv.Itoa(int(*d.Onward))
		}
	}
	text := fmt.Sprintf("%s  %-11s %-16s %s", e.At.Time().Local().Format("15:04:05.000"), what, e.To, e.MessageID)
	for _, part := range []struct{ name, value string }{
		{"class", e.Class}, {"provider", e.Provider}, {"took", took}, {"limit", limit}, {"window", window}, {"reason", e.Reason}, {"error", e.ErrorCode}, {"retry", localTime(e.RetryAt, e.At)},
		{"onward", onward},
	} {
		if part.value != "" {
			text += " " + part.name + "=" + part.value
		}
	}
	return text
}

// limitsOf names the limits in which places were taken.
func limitsOf(charges []schemas.Charge) string {
	var names []string
	for _, c := range charges {
		names = append(names, c.Limit)
	}
	return strings.Join(names, ",")
}

// localTime shows a moment to people who know what time it was at now: with its
// date where that would not go without saying. 0 is none.
func localTime(m, now schemas.Millis) string {
	switch at := m.Time().Local(); {
	case m == 0:
		return ""
	case m.Sub(now) < 12*time.Hour:
		return at.Format("15:04:05")
	default:
		return at.Format("2006-01-02T15:04:05")
	}
}
