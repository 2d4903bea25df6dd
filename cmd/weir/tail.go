package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/erase"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

var tailCommand = command{
	name:    "tail",
	args:    "[--to RECIPIENT] [--status STATUS] [--since 10m] [--json]",
	summary: "Follow what happens to messages, as weir.status has it.",
	details: `Events are in the order of their times, across partitions: those of --since are sorted, and later ones are held for
300 ms. Statuses are ` + strings.Join(statusNames(), ", ") + `.
A recipient may be spelled as in a request: a number without + is read in the tenants' default regions, or else as if it had one.`,
	example: "weir tail --status limited,failed --since 1h",
	run: func(ctx context.Context, c *call) error {
		fs := flag.NewFlagSet("tail", flag.ContinueOnError)
		to := fs.String("to", "", "only this recipient, in any spelling")
		status := fs.String("status", "", "only this status, or several with commas")
		var since time.Time
		fs.Func("since", "begin there rather than now: how long ago (90m, 7d) or a time in RFC 3339", func(v string) (err error) {
			since, err = moment(v, time.Now())
			return err
		})
		decisions := fs.Bool("decisions", false, "also decisions that are no status of a message")
		asJSON := fs.Bool("json", false, "print the records as they are")
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		if fs.NArg() > 0 {
			return usagef("takes no argument %q; --to names a recipient, in quotes where it has spaces", fs.Arg(0))
		}
		statuses, err := parseStatuses(*status)
		if err != nil {
			return err
		}
		return onCluster(ctx, load, func(k *cluster, s *Settings) error {
			var keys []string
			if *to != "" {
				pol, err := k.policy(ctx, s)
				if err != nil {
					return err
				}
				if keys, err = spellings(*to, regions(pol, "", "")); err != nil {
					return err
				}
				if keys[0] != *to {
					fmt.Fprintf(c.stderr, "--to %q is read as %s\n", *to, keys[0])
				}
			}
			wants := func(e *schemas.Event) bool {
				return (e.Kind == schemas.KindStatus || *decisions) && (len(statuses) == 0 || slices.Contains(statuses, e.Status)) &&
					(keys == nil || slices.Contains(keys, e.To) || slices.Contains(keys, recipient.Fold(e.To)))
			}
			return c.tail(ctx, k, s, since, wants, *asJSON)
		})
	},
}

func statusNames() (names []string) {
	for _, s := range schemas.Statuses {
		names = append(names, string(s))
	}
	return names
}

// parseStatuses reads statuses with commas between them; none is every status.
func parseStatuses(text string) (out []schemas.Status, err error) {
	for name := range strings.SplitSeq(text, ",") {
		switch s := schemas.Status(strings.TrimSpace(name)); {
		case text == "":
		case !slices.Contains(schemas.Statuses, s):
			all := statusNames()
			return nil, usagef("there is no status %q%s Known: %s", s, schemas.DidYouMean(string(s), all), strings.Join(all, ", "))
		default:
			out = append(out, s)
		}
	}
	return out, nil
}

// spellings returns the recipients that a text may mean.
func spellings(text string, regions []string) ([]string, error) {
	keys, err := erase.Spell(text, "", regions)
	if err != nil {
		keys, err = erase.Spell("+"+strings.TrimLeft(text, " "), "", nil)
	}
	if err != nil {
		return nil, usagef("--to %q is no recipient: write a number with + and its country, such as +8613800000000, or an address, a token or a URL", text)
	}
	return keys, nil
}

func (c *call) tail(ctx context.Context, k *cluster, s *Settings, since time.Time, wants func(*schemas.Event) bool, asJSON bool) error {
	topic := topics.Names{Prefix: s.Prefix}.Status()
	start := kgo.NewOffset().AtEnd()
	o := &ordered{moved: time.Now()}
	if !since.IsZero() {
		from := since.UnixMilli()
		start = kgo.NewOffset().AfterMilli(from)
		begins, err := k.adm.ListOffsetsAfterMilli(ctx, from, topic)
		if err != nil {
			return fmt.Errorf("find where to begin: %w", err)
		}
		ends, err := k.adm.ListCommittedOffsets(ctx, topic)
		if err != nil {
			return fmt.Errorf("find where the history ends: %w", err)
		}
		o.history(begins, ends)
	}
	// Markers of transactions show that a partition was read to its end.
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...), kgo.ConsumeTopics(topic), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(start), kgo.ConsumeResetOffset(start), stream.Bounded())
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		within, cancel := context.WithTimeout(ctx, holdTail/3)
		fetches := cl.PollFetches(within)
		cancel()
		if err := fetches.Err(); err != nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) && !stream.PassOversized(cl, err) {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Attrs.IsControl() {
				o.read(r.Partition, r.Offset, 0)
				return
			}
			e, err := schemas.DecodeEvent(r.Value)
			if err != nil {
				fmt.Fprintf(c.stderr, "weir tail: left out %s/%d/%d, which Weir did not write: %v\n", r.Topic, r.Partition, r.Offset, err)
				o.read(r.Partition, r.Offset, 0)
				return
			}
			if wants(e) {
				text := string(r.Value)
				if !asJSON {
					text = line(e)
				}
				o.held = append(o.held, heldEvent{e.At, time.Now(), text})
			}
			o.read(r.Partition, r.Offset, min(e.At, schemas.MillisOf(r.Timestamp))) // a provider's clock may be ahead
		})
		for _, text := range o.due(time.Now(), ctx.Err() != nil) {
			fmt.Fprintln(c.stdout, text)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
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
