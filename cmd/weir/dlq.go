package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/dlq"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

var dlqCommand = command{
	name:    "dlq",
	args:    "list|show|redrive [POSITION|ID…] [--since 24h] [--until TIME] [--class C] [--provider P] [--reason R] [--tenant T] [flags]",
	summary: "Look into the dead letter queue, and send what is in it again.",
	details: `list     the newest first; recipients are masked
show     one record by its position PARTITION/OFFSET or its message's id: headers, times and why; the body with --body
redrive  sends again what the filters or the ids name, as new messages that are decided like any other: limits
         count them, and redrive_of in their statuses names the message that they send again

A redrive needs a filter, ids or --all. It first counts what matches, by reason, and leaves out what was redriven
already (--again takes it too) and what ended for a permanent reason, unless --reason or an id names it.
A redrive asks for at most --rate messages, and goes partition by partition, the oldest first, up to the ends that
stood when it began. Progress is on stderr. One that broke off goes on with --resume: none is sent twice, none is left
out. To run it again from its beginning is as safe for a day, for so long admission recognises what it was asked.
It writes weir.readmit, which only Weir and its operators may (docs/dlq.md).`,
	example: `weir dlq list --since 24h --reason permanent
  weir dlq show 3/17 --body
  weir dlq redrive --provider aliyun --since 2h --dry-run
  weir dlq redrive --provider aliyun --since 2h --rate 50/s
  weir dlq redrive --reason permanent --provider aliyun
  weir dlq redrive --resume`,
	run: func(ctx context.Context, c *call) error {
		verb := c.verb("list", "show", "redrive")
		words := c.leading(len(c.args))
		fs := flag.NewFlagSet("dlq", flag.ContinueOnError)
		var f dlq.Filter
		for _, bound := range []struct {
			name, usage string
			into        *schemas.Millis
		}{
			{"since", "given up from here on: how long ago (90m, 7d) or a time in RFC 3339", &f.Since},
			{"until", "and before this", &f.Until},
		} {
			fs.Func(bound.name, bound.usage, func(v string) error {
				t, err := moment(v, time.Now())
				*bound.into = schemas.MillisOf(t)
				return err
			})
		}
		fs.StringVar(&f.Class, "class", "", "only this class")
		fs.StringVar(&f.Provider, "provider", "", "only what this provider had last")
		fs.StringVar(&f.Reason, "reason", "", "only what was given up on for this: permanent, attempts_exhausted, …")
		fs.StringVar(&f.Tenant, "tenant", "", "only this tenant's")
		asJSON := fs.Bool("json", false, "print JSON")
		limit := fs.Int("limit", 50, "list: how many at most; 0 is all")
		oldest := fs.Bool("oldest", false, "list: the oldest first")
		body := fs.Bool("body", false, "show: the bytes, and the recipient in full")
		dryRun := fs.Bool("dry-run", false, "redrive: count, and send nothing")
		everything := fs.Bool("all", false, "redrive: all that can be sent again, where no filter is given")
		fs.BoolVar(&f.Again, "again", false, "redrive: also what was redriven already")
		resume := fs.Bool("resume", false, "redrive: go on with the one that broke off, with its filters")
		rate := dlq.DefaultRate
		fs.Func("rate", "redrive: at most so many: 100/s, 600/m (default 100/s)", func(v string) (err error) {
			rate, err = perSecond(v)
			return err
		})
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		words = append(words, fs.Args()...)
		switch {
		case verb == "":
			return usagef("say list, show or redrive")
		case verb == "list" && len(words) > 0:
			return usagef("list takes no argument; show does")
		case verb == "show" && len(words) != 1:
			return usagef("show takes one position or id")
		case *limit < 0:
			return usagef("--limit is 0 or more")
		}
		f.IDs = words
		switch {
		case *resume && (!f.Empty() || *dryRun || *everything || f.Again):
			return usagef("--resume goes on with the filters that the redrive had: give none")
		case *everything && !f.Empty():
			return usagef("--all is for a redrive without a filter: give one of both")
		case verb == "redrive" && f.Empty() && !*everything && !*resume && !*dryRun:
			return usagef("say what to send again: a filter such as --provider P or --reason R, ids, or --all; --dry-run counts by reason and sends nothing")
		}
		s, err := load()
		if err != nil {
			return err
		}
		box, err := dlq.Open(dlq.Config{Brokers: s.Brokers, Names: topics.Names{Prefix: s.Prefix}})
		if err != nil {
			return err
		}
		defer box.Close()
		switch verb {
		case "show":
			return c.showDead(ctx, box, words[0], *body, *asJSON)
		case "redrive":
			o := dlq.RedriveOptions{Rate: rate, DryRun: *dryRun, Keep: true}
			n, err := c.redrive(ctx, box, f, o, *resume, *asJSON)
			if err != nil || n > 0 {
				return err
			}
			return c.missTenant(ctx, s, f.Tenant)
		}
		n, err := c.listDead(ctx, box, f, dlq.ListOptions{Oldest: *oldest, Limit: *limit}, *asJSON)
		if err != nil || n > 0 {
			return err
		}
		return c.missTenant(ctx, s, f.Tenant)
	},
}

// missTenant says, where nothing matched, that the policy does not know the tenant that
// was asked for. One that was taken out of it may have records all the same.
func (c *call) missTenant(ctx context.Context, s *Settings, tenant string) error {
	if tenant == "" {
		return nil
	}
	w, err := policy.Watch(ctx, topics.Names{Prefix: s.Prefix}.Config(), newLogger(discardWriter{}, "error"), kgo.SeedBrokers(s.Brokers...))
	if err != nil {
		return err
	}
	defer w.Close()
	if _, known := w.Latest().Policy.Tenant(tenant); !known {
		fmt.Fprintf(c.stderr, "The policy in force has no tenant %s: weir get tenants\n", tenant)
	}
	return nil
}

// perSecond reads a rate.
func perSecond(v string) (float64, error) {
	count, per, ok := strings.Cut(v, "/")
	n, err := strconv.ParseFloat(count, 64)
	unit := map[string]float64{"s": 1, "m": 60, "h": 3600}[per]
	if !ok || err != nil || unit == 0 || !(n > 0) || n/unit > dlq.MaxRate {
		return 0, fmt.Errorf("%q is no rate, such as 100/s, 600/m or 1000/h; %g/s is the most", v, dlq.MaxRate)
	}
	return n / unit, nil
}

// listDead prints entries as they come, so that all of them take no memory.
func (c *call) listDead(ctx context.Context, box *dlq.Box, f dlq.Filter, o dlq.ListOptions, asJSON bool) (listed int, err error) {
	const lines = 500 // that columns are laid out over
	table := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprintln(table, "POSITION\tAT\tREASON\tPROVIDER\tCLASS\tTO\tATTEMPTS\tBYTES\tID\t")
	}
	more, err := box.Each(ctx, f, o, func(e *dlq.Entry) error {
		if listed++; asJSON {
			return c.printLine(e)
		}
		note := ""
		switch {
		case e.Skip != "":
			note = "cannot be sent again: " + e.Skip
		case e.RedrivenAt != 0:
			note = "sent again " + e.RedrivenAt.Time().Local().Format("01-02 15:04:05")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", e.Position, e.At.Time().Local().Format("01-02 15:04:05"), e.Reason, cmp.Or(e.Provider, "-"), e.Class, e.To, e.Attempt, e.Bytes, e.MessageID, note)
		if listed%lines == 0 {
			return table.Flush()
		}
		return nil
	})
	switch {
	case err != nil || asJSON:
		return listed, err
	case listed == 0:
		fmt.Fprintln(c.stdout, "Nothing matches.")
		return 0, nil
	}
	if err := table.Flush(); err != nil {
		return listed, err
	}
	if more {
		fmt.Fprintln(c.stdout, "There are more: --limit 0 lists all.")
	}
	return listed, nil
}

// shown is a record for programs.
type shown struct {
	dlq.Entry
	NewID     string            `json:"new_id,omitempty"` // of the message that sends it again
	Headers   map[string]string `json:"headers"`
	Key       string            `json:"key"`
	ValueSize int               `json:"value_size"`
	Value     string            `json:"value,omitempty"`
	Base64    bool              `json:"base64,omitempty"` // Value is, since the bytes are no text
}

func (c *call) showDead(ctx context.Context, box *dlq.Box, what string, body, asJSON bool) error {
	r, err := box.Show(ctx, what)
	if err != nil {
		return err
	}
	// Without --body the recipient is masked wherever it stands.
	plain := func(v string) string {
		if key := r.Envelope.Key; !body && key != "" {
			v = recipient.MaskScopes(strings.ReplaceAll(v, key, recipient.Mask(key)))
		}
		if !utf8.ValidString(v) {
			return strconv.Quote(v)
		}
		return v
	}
	out := shown{Entry: r.Entry, Headers: make(map[string]string), ValueSize: len(r.Kafka.Value)}
	if r.Skip == "" {
		out.NewID = r.NewID()
	}
	var names []string
	for _, h := range r.Kafka.Headers {
		v := plain(string(h.Value))
		if h.Key == schemas.HeaderRequestKey && !body {
			v = fmt.Sprintf("(%d bytes)", len(h.Value))
		}
		if have, twice := out.Headers[h.Key]; twice {
			v = have + ", " + v
		} else {
			names = append(names, h.Key)
		}
		out.Headers[h.Key] = v
	}
	if out.Key = plain(string(r.Kafka.Key)); r.Envelope.Key == "" && !body {
		out.Key = fmt.Sprintf("(%d bytes)", len(r.Kafka.Key))
	}
	if body {
		if out.Value = string(r.Kafka.Value); !utf8.ValidString(out.Value) {
			out.Value, out.Base64 = base64.StdEncoding.EncodeToString(r.Kafka.Value), true
		}
		if r.Envelope.Key != "" {
			out.To = r.Envelope.Key
		}
	}
	if asJSON {
		return c.printJSON(out)
	}
	table := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	at := func(m schemas.Millis) string {
		if m == 0 {
			return ""
		}
		return m.String()
	}
	for _, row := range [][2]string{
		{"message", out.MessageID}, {"position", out.Position}, {"to", out.To}, {"tenant", out.Tenant}, {"channel", out.Channel}, {"class", out.Class},
		{"template", out.Template}, {"provider", out.Provider}, {"reason", out.Reason}, {"error", plain(r.Envelope.Error)}, {"error code", out.ErrorCode},
		{"attempts", strconv.Itoa(out.Attempt)}, {"made by its producer", at(out.Timestamp)}, {"accepted", at(out.AcceptedAt)}, {"given up", at(out.At)},
		{"request", out.Origin}, {"sends again", out.RedriveOf}, {"sent again", at(out.RedrivenAt)}, {"redriven it is", out.NewID}, {"cannot be sent again", out.Skip},
		{"key", out.Key}, {"bytes", strconv.Itoa(out.ValueSize)},
	} {
		if row[1] != "" {
			fmt.Fprintf(table, "%s\t%s\n", row[0], row[1])
		}
	}
	fmt.Fprintln(table, "headers\t")
	for _, name := range names {
		fmt.Fprintf(table, "  %s\t%s\n", name, out.Headers[name])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if body {
		fmt.Fprintf(c.stdout, "\n%s\n", out.Value)
	} else {
		fmt.Fprintln(c.stdout, "\nThe body is not shown: --body shows it.")
	}
	return nil
}

func (c *call) redrive(ctx context.Context, box *dlq.Box, f dlq.Filter, o dlq.RedriveOptions, resume, asJSON bool) (matched int64, err error) {
	began, total := time.Now(), int64(0)
	o.Progress = func(s dlq.Summary) {
		c.progress.at(s.Matched, total, "matching records", fmt.Sprintf(": %d redriven, %d skipped", s.Redriven, s.Matched-s.Redriven))
	}
	drive := func() (dlq.Summary, error) {
		if resume {
			return box.Resume(ctx, o)
		}
		if !o.DryRun { // what will be sent is said first, and nothing else is sent
			dry, err := box.Redrive(ctx, f, dlq.RedriveOptions{DryRun: true})
			if err != nil {
				return dlq.Summary{}, err
			}
			fmt.Fprintf(c.stderr, "%d of %d will be sent again:\n", dry.Redriven, dry.Matched)
			printReasons(c.stderr, "send", dry)
			warnReceived(c.stderr, dry)
			o.Cursor, total = dry.Start, dry.Matched
			c.progress = newProgress(c.stderr, time.Now) // the rest is at --rate
		}
		return box.Redrive(ctx, f, o)
	}
	s, err := drive()
	if s.Skipped == nil { // it did not begin
		return 0, err
	}
	if asJSON {
		if err := c.printJSON(s); err != nil {
			return 0, err
		}
	} else {
		did := "were asked for again"
		if s.DryRun {
			did = "would be sent again (dry run: nothing was written)"
		}
		fmt.Fprintf(c.stdout, "%d of %d %s, in %s.\n", s.Redriven, s.Matched, did, time.Since(began).Round(time.Millisecond))
		printReasons(c.stdout, "redriven", s)
		if s.DryRun {
			warnReceived(c.stdout, s)
		}
	}
	const goOn = "To go on: weir dlq redrive --resume"
	switch {
	case err == nil || s.DryRun:
	case ctx.Err() != nil:
		err = errors.New(c.progress.interrupted(goOn))
	default:
		err = fmt.Errorf("%w\nIt broke off. %s", err, goOn)
	}
	return s.Matched, err
}

// warnReceived says how many may reach their recipients a second time.
func warnReceived(w io.Writer, s dlq.Summary) {
	if s.MayBeReceived > 0 {
		fmt.Fprintf(w, "Warning: %d of them may have been received: an attempt was neither accepted nor surely refused. Their recipients may get them twice.\n", s.MayBeReceived)
	}
}

// printReasons prints how many are sent and how many are left out, by reason.
func printReasons(w io.Writer, did string, s dlq.Summary) {
	for _, part := range []struct {
		what   string
		counts map[string]int64
	}{{did, s.ByReason}, {"skipped", s.Skipped}} {
		for _, reason := range slices.Sorted(maps.Keys(part.counts)) {
			fmt.Fprintf(w, "  %-8s  %8d  %s\n", part.what, part.counts[reason], reason)
		}
	}
}
