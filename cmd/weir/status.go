package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirhq/weir/ingest"
	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/health"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/report"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"

	"github.com/twmb/franz-go/pkg/kgo"
)

var statusCommand = command{
	name:    "status",
	args:    "[--json] [flags]",
	summary: "Show what waits where, the stages, who runs them and how far behind they are, how providers are, and which fields of requests Weir does not know.",
	example: "weir status",
	run: func(ctx context.Context, c *call) error {
		fs := flag.NewFlagSet("status", flag.ContinueOnError)
		asJSON := fs.Bool("json", false, "print JSON")
		load := clientFlags(fs, c.getenv)
		if err := c.parseOnly(fs); err != nil {
			return err
		}
		return onCluster(ctx, load, func(k *cluster, s *Settings) error {
			st, err := k.status(ctx, s)
			if err != nil {
				return err
			}
			if *asJSON {
				return c.printJSON(st)
			}
			fmt.Fprintf(c.stdout, "Kafka %s, %d partitions, policy revision %d\n\n", strings.Join(s.Brokers, ","), st.Partitions, st.Revision)
			w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
			printBacklog(w, st, topics.Names{Prefix: s.Prefix})
			fmt.Fprintln(w, "GROUP\tSTATE\tMEMBERS\tRECORDS BEHIND")
			for _, g := range st.Groups {
				fmt.Fprintf(w, "%s\t%s\t%d\t%d\n", g.Name, g.State, g.Members, g.Behind)
			}
			printProviders(w, st.Providers)
			printUnknown(w, st.Unknown)
			return w.Flush()
		})
	},
}

// pipelineStatus is what weir status shows. Behind counts records and markers
// of transactions alike, so an idle stage may show a few.
type pipelineStatus struct {
	Partitions int              `json:"partitions"`
	Revision   int64            `json:"revision"`
	Backlog    client.Backlog   `json:"backlog"`
	Delays     client.Delays    `json:"delays"`
	Groups     []groupStatus    `json:"groups"`
	Providers  []providerStatus `json:"providers"`
	// Unknown is what each process says of fields that Weir does not know, by slot.
	Unknown []schemas.Report `json:"unknown_fields"`
}

type groupStatus struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Members int    `json:"members"`
	Behind  int64  `json:"behind"`
}

func (k *cluster) status(ctx context.Context, s *Settings) (*pipelineStatus, error) {
	names := topics.Names{Prefix: s.Prefix}
	details, err := k.adm.ListTopics(ctx, names.Requests())
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	if !details.Has(names.Requests()) {
		return nil, fmt.Errorf("%s does not exist: Weir has not been set up on this cluster; see weir topics apply", names.Requests())
	}
	st := &pipelineStatus{Partitions: len(details[names.Requests()].Partitions)}
	w, err := policy.Watch(ctx, names.Config(), newLogger(discardWriter{}, "error"), kgo.SeedBrokers(s.Brokers...))
	if err != nil {
		return nil, err
	}
	defer w.Close()
	st.Revision = w.Latest().Revision
	waits, err := watchBacklog(ctx, s, names, &w.Latest().Policy)
	if err != nil {
		return nil, err
	}
	defer waits.looker.Close()
	advice, err := health.Watch(ctx, names.Health(), newLogger(discardWriter{}, "error"), kgo.SeedBrokers(s.Brokers...))
	if err != nil {
		return nil, err
	}
	defer advice.Close()
	st.Providers = providersOf(&w.Latest().Policy, advice.Now(), schemas.MillisOf(time.Now()))
	said, err := report.Watch(ctx, names.Reports(), newLogger(discardWriter{}, "error"), kgo.SeedBrokers(s.Brokers...))
	if err != nil {
		return nil, err
	}
	defer said.Close()
	st.Unknown = unknownOf(said.Now(), schemas.MillisOf(time.Now()))
	if st.Backlog, st.Delays, err = waits.again(ctx, advice.Now()); err != nil {
		return nil, err
	}
	listed, err := k.adm.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	var ours []string
	for _, g := range listed.Groups() {
		if strings.HasPrefix(g, s.Prefix) {
			ours = append(ours, g)
		}
	}
	if len(ours) == 0 {
		return st, nil
	}
	lags, err := k.adm.Lag(ctx, ours...)
	if err != nil {
		return nil, fmt.Errorf("read lags: %w", err)
	}
	for _, l := range lags.Sorted() {
		g := groupStatus{Name: l.Group, State: l.State, Members: len(l.Members), Behind: l.Lag.Total()}
		if g.Name == ingest.Group(names) { // it reads nothing
			g.Behind = 0
		}
		st.Groups = append(st.Groups, g)
	}
	slices.SortFunc(st.Groups, func(a, b groupStatus) int { return strings.Compare(a.Name, b.Name) })
	return st, nil
}
