package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/callback"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

var callbacksCommand = command{
	name:    "callbacks",
	args:    "list|enable TENANT|replay ID [--to …] [--json] [flags]",
	summary: "Show the endpoints of callbacks, enable one that answered 410, tell a message's statuses again.",
	details: `list shows which endpoints are disabled (they answered 410), how the circuit breakers of the others are, and how many
callbacks wait. enable lets a tenant's disabled endpoints be called again; a change of their address or secret in the policy
does so too. replay asks for a message's callbacks again, under the same webhook-ids: an id that its producer made needs --to.`,
	example: "weir callbacks list",
	run: func(ctx context.Context, c *call) error {
		verb := c.verb("list", "enable", "replay")
		var words []string
		if verb != "list" {
			words = c.leading(1)
		}
		fs := flag.NewFlagSet("callbacks", flag.ContinueOnError)
		asJSON := fs.Bool("json", false, "print JSON")
		to := fs.String("to", "", "replay: the message's recipient")
		channel := fs.String("channel", "", "replay: the channel in which to is read")
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		words = append(words, fs.Args()...)
		switch {
		case verb == "":
			return usagef("say list, enable or replay")
		case verb == "list" && len(words) > 0:
			return usagef("list takes no arguments")
		case verb == "enable" && len(words) != 1:
			return usagef("name one tenant, such as weir callbacks enable acme")
		case verb == "replay" && len(words) != 1:
			return usagef("name one message by its id")
		}
		if verb == "replay" {
			s, err := load()
			if err != nil {
				return err
			}
			return c.replayCallbacks(ctx, client.New("http://"+s.HTTP, c.getenv(apiKeyEnv)), words[0], client.Recipient{To: *to, Channel: schemas.Channel(*channel)}, *asJSON)
		}
		return onCluster(ctx, load, func(k *cluster, s *Settings) error {
			names := topics.Names{Prefix: s.Prefix}
			read := stream.ReadConfig{Brokers: s.Brokers, ClientID: "weir"}
			now := schemas.MillisOf(time.Now())
			if verb == "enable" {
				n, err := callback.Enable(ctx, k.cl, read, names, words[0], now)
				switch {
				case err != nil:
					return err
				case *asJSON:
					return c.printJSON(map[string]int{"enabled": n})
				}
				_, err = fmt.Fprintf(c.stdout, "%d endpoints of %s are called again\n", n, words[0])
				return err
			}
			all, err := callback.List(ctx, read, names, now)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return c.printJSON(all)
			}
			return c.printEndpoints(all)
		})
	},
}

func (c *call) replayCallbacks(ctx context.Context, cl *client.Client, id string, to client.Recipient, asJSON bool) error {
	var of []client.Recipient
	if to.To != "" {
		of = append(of, to)
	}
	r, err := cl.Callbacks(ctx, id, of...)
	switch {
	case err != nil:
		return err
	case asJSON:
		return c.printJSON(r)
	}
	_, err = fmt.Fprintf(c.stdout, "%d statuses of %s are told again, those that the policy asks for\n", r.Statuses, r.ID)
	return err
}

func (c *call) printEndpoints(all *callback.Endpoints) error {
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TENANT\tENDPOINT\tSTATE\tQUEUED\tCALLING\tLAST TROUBLE")
	for _, d := range all.Disabled {
		fmt.Fprintf(w, "%s\t%s\tdisabled since %s\t\t\tit answered 410\n", d.Tenant, d.Host, d.Since.Time().Local().Format(time.DateTime))
	}
	for _, e := range all.Endpoints {
		state := map[string]string{"open": "open: not called now", "half-open": "half-open: being tried", "closed": "well"}[e.State]
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", e.Tenant, e.Host, state, e.Queued, e.Calling, e.Last)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, tenant := range slices.Sorted(maps.Keys(all.Waiting)) {
		if _, err := fmt.Fprintf(c.stdout, "%d callbacks of %s wait\n", all.Waiting[tenant], tenant); err != nil {
			return err
		}
	}
	return nil
}
