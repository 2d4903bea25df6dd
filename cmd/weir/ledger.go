package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/topics"
)

var ledgerCommand = command{
	name:    "ledger",
	args:    "check|repair [--skip-deleted] [--forget] [flags]",
	summary: "Look whether admission's state is whole, and repair what can be. Stop admission first.",
	details: `check changes nothing and says what repair would do.
repair does what gives nothing up; the two flags agree to what does.
With weir dev, which is one process, neither works: weir audit compares the state while it runs.`,
	exits: []string{
		"0 all is whole, or was repaired",
		"1 something is damaged, or left after the repair",
		"2 wrong usage",
		"3 could not tell: Kafka did not answer, topics are missing, or admission runs",
	},
	resume:  "Run it again: what was repaired stays so, and repair goes on with the rest.",
	example: "weir ledger check",
	run: func(ctx context.Context, c *call) error {
		verb := c.verb("check", "repair")
		fs := flag.NewFlagSet("ledger", flag.ContinueOnError)
		agreed := map[admission.Consent]*bool{
			admission.ConsentSkip:   fs.Bool("skip-deleted", false, "go on without requests that were deleted before they were decided"),
			admission.ConsentForget: fs.Bool("forget", false, "give up what no log has any more; check says what that is"),
		}
		load := clientFlags(fs, c.getenv)
		if err := c.parse(fs); err != nil {
			return err
		}
		if verb == "" {
			return usagef("say check or repair")
		}
		if fs.NArg() > 0 {
			return usagef("takes no argument %q", fs.Arg(0))
		}
		return untold(onCluster(ctx, load, func(k *cluster, s *Settings) error {
			if s.Dev {
				return errors.New("weir dev runs admission and Kafka in one process, so its state can be neither checked nor repaired with this command: weir audit compares the state while it runs; to begin again without what it has: stop it, and weir dev --fresh")
			}
			left, err := c.ledger(ctx, k, s, verb == "repair", func(a admission.Consent) bool { return a == admission.ConsentNone || *agreed[a] })
			switch {
			case left > 0:
				return &exitStatus{exitError, err}
			default:
				return err
			}
		}))
	},
}

// errRunning: a running admission would write over a repair, or be misled by it.
var errRunning = errors.New("admission is running: stop every weir run with the role admission first")

// ledger prints every problem and repairs what it may; left is how many stay.
func (c *call) ledger(ctx context.Context, k *cluster, s *Settings, repair bool, agreed func(admission.Consent) bool) (left int, err error) {
	cfg, err := k.topicConfig(ctx, s)
	if err != nil {
		return 0, err
	}
	names := cfg.Names()
	if err := topics.Check(ctx, k.adm, topics.Catalogue(cfg, nil)); err != nil {
		return 0, err
	}
	group := admission.Group(names)
	described, err := k.adm.DescribeGroups(ctx, group)
	if err != nil {
		return 0, fmt.Errorf("describe the group %s: %w", group, err)
	}
	if n := len(described[group].Members); n > 0 {
		return 0, fmt.Errorf("group %s has %d members: %w", group, n, errRunning)
	}
	offsets, err := k.adm.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return 0, fmt.Errorf("fetch the group's offsets: %w", err)
	}
	at := make(map[stream.Partition]int64)
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.At >= 0 {
			at[stream.Partition{Topic: o.Topic, Partition: o.Partition}] = o.At
		}
	})
	cuts, err := k.cuts(ctx, offsets)
	if err != nil {
		return 0, err
	}
	read := stream.ReadConfig{Brokers: s.Brokers, ClientID: "weir-ledger", Progress: func(done, total int64) { c.progress.at(done, total, "records of the state", "") }}
	problems, err := admission.Inspect(ctx, read, names, cfg.Partitions, at, cuts)
	if err != nil {
		return 0, err
	}
	for i := range problems {
		p := &problems[i]
		fmt.Fprintf(c.stdout, "partition %d: %v\n  %s\n", p.Partition, p.Err, p.Gives)
		switch {
		case !p.Repairable():
			left++
		case !repair || !agreed(p.Consent):
			left++
			if p.Consent != admission.ConsentNone {
				fmt.Fprintf(c.stdout, "  To agree: weir ledger repair --%s\n", p.Consent)
			} else {
				fmt.Fprintln(c.stdout, "  To repair: weir ledger repair")
			}
		default:
			if err := k.put(ctx, group, p); err != nil {
				return left + 1, err
			}
			fmt.Fprintln(c.stdout, "  Repaired.")
		}
	}
	switch {
	case len(problems) == 0:
		fmt.Fprintln(c.stdout, "The state is whole: ledger, input and group agree in every partition.")
	case left == 0:
		fmt.Fprintln(c.stdout, "All is repaired. Start admission, and let weir audit judge.")
	}
	return left, nil
}

// cuts are the offsets at which brokers lost what a group had read behind them. The offset that it committed has
// the epoch of the leader that had these records.
func (k *cluster) cuts(ctx context.Context, offsets kadm.OffsetResponses) (map[stream.Partition]int64, error) {
	var ask kadm.OffsetForLeaderEpochRequest
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.At >= 0 && o.LeaderEpoch >= 0 {
			ask.Add(o.Topic, o.Partition, o.LeaderEpoch)
		}
	})
	if len(ask) == 0 {
		return nil, nil
	}
	ends, err := k.adm.OffsetForLeaderEpoch(ctx, ask)
	if err != nil {
		return nil, fmt.Errorf("ask where the epochs of the group's offsets end: %w", err)
	}
	cuts := make(map[stream.Partition]int64)
	for topic, parts := range ends {
		for p, end := range parts {
			if end.Err != nil {
				return nil, fmt.Errorf("ask where an epoch of %s/%d ends: %w", topic, p, end.Err)
			}
			// A broker that knows no such epoch answers -1.
			if o, ok := offsets.Lookup(topic, p); ok && end.EndOffset >= 0 && end.EndOffset < o.At {
				cuts[stream.Partition{Topic: topic, Partition: p}] = end.EndOffset
			}
		}
	}
	return cuts, nil
}

// put carries a repair out. The ledger goes first: a group that stands
// elsewhere is found again, and set, when the command is repeated.
func (k *cluster) put(ctx context.Context, group string, p *admission.Problem) error {
	for _, r := range p.Write {
		r := *r
		if err := k.cl.ProduceSync(ctx, &r).FirstErr(); err != nil {
			return fmt.Errorf("write to %s/%d: %w", r.Topic, r.Partition, err)
		}
	}
	stand := make(kadm.Offsets)
	for tp, at := range p.Stand {
		stand.AddOffset(tp.Topic, tp.Partition, at, -1)
	}
	if len(stand) == 0 {
		return nil
	}
	set, err := k.adm.CommitOffsets(ctx, group, stand)
	if err == nil {
		err = set.Error()
	}
	if err != nil {
		return fmt.Errorf("set the group %s: %w", group, err)
	}
	return nil
}
