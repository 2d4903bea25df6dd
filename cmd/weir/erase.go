package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/erase"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

var eraseCommand = command{
	name:    "erase",
	args:    "--to RECIPIENT [--channel CHANNEL] [--tenant TENANT] [--region CN] [--dry-run | --yes] [--json] [flags]",
	summary: "Remove a person from ClickHouse, and say what Kafka still holds of them and until when.",
	details: `Finds the person as requests may spell them: a number with or without its +86, spaces or dashes (in the tenants'
default regions, and --region), an address in any case of its domain; on every channel unless --channel says one.
Deletes their rows of status_events, messages and the tables of lists, and takes message, recipient and scopes out of
their decisions, which stay in the log. Waits until ClickHouse has rewritten its parts, then searches every column of
every table for their name.

It cannot be undone: without --yes it only says what there is, as --dry-run does.
Kafka cannot forget one record: what it holds ends by its retention, and the list says when. Nobody is kept from
sending to them again, and their opt-out stays (docs/erase.md).`,
	exits: []string{
		"0 nothing is left, or --dry-run was given",
		"1 something is left, and the text says what",
		"2 wrong usage, or neither --yes nor --dry-run was given: nothing was erased",
		"3 could not tell: Kafka or ClickHouse did not answer to the end",
	},
	resume: "What was erased stays erased. Run it again: it goes on with the rest.",
	example: `weir erase --to "+86 138 0013 8000" --dry-run
  weir erase --to ann@example.com --channel email --tenant acme --yes`,
	run: func(ctx context.Context, c *call) error {
		fs := flag.NewFlagSet("erase", flag.ContinueOnError)
		to := fs.String("to", "", "who: a number, an address, a token or a URL, as requests spell it")
		channel := fs.String("channel", "", "read it as on this channel only: sms, voice, email, push or webhook")
		tenant := fs.String("tenant", "", "only this tenant's; all tenants' by default")
		region := fs.String("region", "", "read a number without + in this region too, such as CN")
		dryRun := fs.Bool("dry-run", false, "say what there is, and erase nothing")
		yes := fs.Bool("yes", false, "erase it")
		asJSON := fs.Bool("json", false, "print JSON")
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		switch {
		case fs.NArg() > 0:
			return usagef("takes no argument %q; --to names the recipient, in quotes where it has spaces", fs.Arg(0))
		case *to == "":
			return usagef("say whom: --to RECIPIENT")
		case *dryRun && *yes:
			return usagef("--dry-run and --yes are one too many")
		case *channel != "" && !slices.Contains([]string{"sms", "voice", "email", "push", "webhook"}, *channel):
			return usagef("--channel %s: sms, voice, email, push or webhook", *channel)
		case *region != "" && !recipient.Numbers(*region):
			return usagef("--region %s: no region that has numbers; two letters of ISO 3166-1, such as CN or GB", *region)
		}
		return untold(onCluster(ctx, load, func(k *cluster, s *Settings) error {
			if s.ClickHouse == "" {
				return errors.New("no ClickHouse is set (clickhouse.url): there is nothing to erase from")
			}
			w, err := policy.Watch(ctx, topics.Names{Prefix: s.Prefix}.Config(), newLogger(discardWriter{}, "error"), kgo.SeedBrokers(s.Brokers...))
			if err != nil {
				return err
			}
			defer w.Close()
			pol := w.Latest().Policy
			conn, err := warehouse.OpenPatient(ctx, s.ClickHouse) // parts are rewritten before it answers
			if err != nil {
				return err
			}
			defer conn.Close()
			if _, known := pol.Tenant(*tenant); *tenant != "" && !known {
				if err := hasRows(ctx, conn, *tenant); err != nil {
					return err
				}
				fmt.Fprintf(c.stderr, "The policy in force has no tenant %s; ClickHouse has rows of it, which are looked at all the same.\n", *tenant)
			}
			in := regions(&pol, *tenant, *region)
			keys, err := erase.Spell(*to, schemas.Channel(*channel), in)
			if err != nil {
				return usagef("--to: %v", err)
			}
			hashKey, err := s.hashKey() // without it, rows that only the hash names are not found
			if err != nil {
				return err
			}
			r := &erasure{DryRun: !*yes, Tenant: *tenant}
			for _, key := range keys {
				if key != *to || len(keys) == 1 { // as it was given it may be no canonical form, and cannot be masked as one
					r.Recipients = append(r.Recipients, recipient.Mask(key))
				}
			}
			var boxes []string
			for _, key := range keys {
				if box := recipient.MailboxesOf(&pol).Of(schemas.ChannelEmail, key); !slices.Contains(keys, box) && !slices.Contains(boxes, box) {
					boxes = append(boxes, box)
				}
			}
			store, err := erase.Open(ctx, conn, s.Cluster, erase.Person{Keys: keys, Mailboxes: boxes, Tenant: *tenant, Channel: schemas.Channel(*channel), Regions: in}, hashKey)
			if err != nil {
				return err
			}
			err = r.work(ctx, store, func(what string) func(done, total int64) {
				c.progress = newProgress(c.stderr, time.Now)
				return func(done, total int64) { c.progress.at(done, total, what, "") }
			})
			if err = errors.Join(err, store.Close(context.WithoutCancel(ctx))); err != nil {
				return err
			}
			if err := r.ask(ctx, k, s, &pol, keys); err != nil {
				return err
			}
			if *asJSON {
				err = c.printJSON(r)
			} else {
				err = r.print(c.stdout)
			}
			switch {
			case err != nil:
				return err
			case len(r.Left) > 0:
				return &exitStatus{exitError, errors.New("not everything is gone: is the person being sent to? Run it again")}
			case !*yes && !*dryRun:
				return usagef("nothing was erased: say --yes to erase it, or --dry-run to look")
			}
			return nil
		}))
	},
}

// hasRows refuses a tenant of whom there is nothing. One that was taken out of the
// policy may have rows all the same.
func hasRows(ctx context.Context, conn driver.Conn, tenant string) error {
	have, err := erase.Tenants(ctx, conn)
	switch {
	case err != nil:
		return err
	case slices.Contains(have, tenant):
		return nil
	case len(have) == 0:
		return usagef("--tenant %s: the policy in force has no such tenant, and ClickHouse has no rows at all", tenant)
	}
	more := ""
	if n := len(have); n > mostTenants {
		have, more = have[:mostTenants], fmt.Sprintf(" and %d more", n-mostTenants)
	}
	return usagef("--tenant %s: the policy in force has no such tenant, and ClickHouse has no rows of it. It has rows of %s%s", tenant, strings.Join(have, ", "), more)
}

// mostTenants is how many are named: requests that are rejected may name any.
const mostTenants = 20

// regions are those in which a number without + may have been meant.
func regions(p *schemas.Policy, tenant, more string) []string {
	var out []string
	if more != "" {
		out = append(out, strings.ToUpper(more))
	}
	for _, t := range p.Tenants {
		if (tenant == "" || t.Name == tenant) && t.DefaultRegion != "" && !slices.Contains(out, t.DefaultRegion) {
			out = append(out, t.DefaultRegion)
		}
	}
	return out
}

// erasure is what weir erase prints.
type erasure struct {
	Recipients []string        `json:"recipients"` // masked
	Tenant     string          `json:"tenant,omitempty"`
	DryRun     bool            `json:"dry_run,omitempty"`
	Tables     []erase.Found   `json:"tables"`           // as found
	Left       []erase.Mention `json:"left,omitempty"`   // after the work
	Behind     int64           `json:"sink_behind"`      // records that the sink has still to load
	Policy     bool            `json:"policy,omitempty"` // the policy in force names them
	Kafka      []erase.Holding `json:"kafka"`
}

// passes bounds how often rows that arrive meanwhile are gone after.
const passes = 3

// work erases. progress begins to show how much is done of something.
func (r *erasure) work(ctx context.Context, store *erase.Store, progress func(what string) func(done, total int64)) (err error) {
	if r.Tables, err = store.Find(ctx); err != nil || r.DryRun {
		return err
	}
	for range passes {
		if err := store.Erase(ctx, progress("rows erased")); err != nil {
			return err
		}
		if r.Left, err = store.Mentions(ctx, progress("tables searched for what is left")); err != nil || len(r.Left) == 0 {
			return err
		}
	}
	return nil
}

// ask learns what is not in ClickHouse.
func (r *erasure) ask(ctx context.Context, k *cluster, s *Settings, pol *schemas.Policy, keys []string) error {
	cfg, err := k.topicConfig(ctx, s)
	if err != nil {
		return err
	}
	if r.Kafka, err = erase.Holdings(ctx, k.adm, cfg, pol, schemas.MillisOf(time.Now())); err != nil {
		return err
	}
	group := sink.Group(cfg.Names())
	lags, err := k.adm.Lag(ctx, group)
	if err != nil {
		return fmt.Errorf("read how far the sink is behind: %w", err)
	}
	lags.Each(func(l kadm.DescribedGroupLag) { r.Behind += max(l.Lag.Total(), 0) })
	raw, err := json.Marshal(pol)
	if err != nil {
		return fmt.Errorf("search the policy: %w", err)
	}
	for _, key := range keys {
		name, err := json.Marshal(key)
		if err != nil {
			return fmt.Errorf("search the policy: %w", err)
		}
		r.Policy = r.Policy || strings.Contains(string(raw), string(name))
	}
	return nil
}

func (r *erasure) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	of := "of every tenant"
	if r.Tenant != "" {
		of = "of tenant " + r.Tenant
	}
	verb := "erased"
	if r.DryRun {
		verb = "found, not erased"
	}
	fmt.Fprintf(w, "%s, %s, %s:\n\nTABLE\tROWS\tBECOME\n", strings.Join(slices.Compact(slices.Sorted(slices.Values(r.Recipients))), " or "), of, verb)
	for _, t := range r.Tables {
		fmt.Fprintf(w, "%s\t%d\t%s\n", t.Table, t.Rows, t.Fate)
	}
	fmt.Fprintln(w, "\nstatus_by_minute and limits_by_minute hold counts and no recipients.")
	if !slices.ContainsFunc(r.Tables, func(t erase.Found) bool { return t.Rows > 0 }) {
		fmt.Fprintln(w, "Nothing of them was found: are the recipient, and the tenant if you named one, spelled right?")
	}
	switch {
	case r.DryRun:
	case len(r.Left) == 0:
		fmt.Fprintln(w, "Every column of every table was searched: nothing is left in ClickHouse.")
	default:
		for _, m := range r.Left {
			fmt.Fprintf(w, "LEFT: %d rows of %s mention them in %s\n", m.Rows, m.Table, m.Column)
		}
	}
	if r.Behind > 0 {
		fmt.Fprintf(w, "The sink has up to %d records still to load (markers of transactions count), and may bring rows back: run this again when it is through (weir status).\n", r.Behind)
	}
	if r.Policy {
		fmt.Fprintln(w, "The policy names them (exempt or overrides): weir get limits. Its former revisions stay in weir.config.")
	}
	fmt.Fprint(w, "\nKafka holds, and weir erase does not touch:\n\nTOPIC\tUNTIL, AT THE LATEST\tWHAT\n")
	for _, h := range r.Kafka {
		until := h.Until.String()
		if h.Until == 0 {
			until = "-"
		}
		what := h.Holds
		if h.Note != "" {
			what += "; " + h.Note
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", h.Topic, until, what)
	}
	fmt.Fprintln(w, "\nA record is deleted with its segment: these times hold if nobody sends to the person from now on.\nThe memory of each process that ingests (the latest statuses, for HTTP's answers) ends with its newer records or the process.")
	return w.Flush()
}
