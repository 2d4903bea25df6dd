package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/schemas"
)

// heat is one limit for all messages.
type heat struct {
	name    string
	allow   string
	refuses bool
}

var heats = []heat{
	{"all admitted, n of 100,000", "100000/500ms", false},
	{"all admitted, counted by day", "1000000000/calendar-day", false},
	{"nearly all refused", "1000/60s", true},
}

// hotness is what one run of a variant came to, a second.
type hotness struct {
	together float64 // messages that ended, one worker doing everything
	busiest  float64 // decisions of the owner, the busiest second of that
	homes    float64 // home's first step, alone
	owner    float64 // the owner's step, alone
	peak     float64 // its busiest second
	ends     float64 // home's last step, alone
}

// hots measures the owner of a scope that every message counts in.
func (b *bench) hots(ctx context.Context) (string, error) {
	var t strings.Builder
	fmt.Fprintf(&t, "# Everything through one owner\n%d requests a run over %d recipients, none of them at home in the owner's partition or in one of its half, values of\n", b.records, b.recipients)
	fmt.Fprintf(&t, "%d B, %d partitions, commits every 100 ms. The only limit is one for all messages (`per: []`), so each takes three decisions: home's, the owner's, home's.\n\n", b.valueBytes, b.partitions)
	t.WriteString("Together: one worker owns all partitions and takes all three; messages ended a second. Alone: a worker that owns only one half of the partitions, while\nnobody works the other half, so that each step is measured by itself, on a backlog of all messages. The owner's decisions are those with verdict charge or\nrefuse in its partition of weir.status, by the broker's append time, from the first to the last; the busiest second in brackets. Medians, least and most of the runs.\n\n")
	t.WriteString("| limit | together | owner, together, busiest second | home's first step alone | **owner alone** | home's last step alone |\n|---|---|---|---|---|---|\n")
	for i, h := range heats {
		if b.variant > 0 && i != b.variant-1 {
			continue
		}
		var runs []hotness
		for r := range b.runs {
			profile := ""
			if r == b.runs-1 && i == max(b.variant-1, 0) {
				profile = b.profile
			}
			x, err := b.hot(ctx, h, profile)
			if err != nil {
				return "", fmt.Errorf("%s, run %d: %w", h.name, r+1, err)
			}
			fmt.Fprintf(b.log, "%s, run %d of %d: %+.0f\n", h.name, r+1, b.runs, x)
			runs = append(runs, x)
		}
		spread := func(f func(hotness) float64) string {
			return fmt.Sprintf("%.0f (%.0f to %.0f) k/s", rig.Of(rig.Stats[1], runs, f)/1000, rig.Of(rig.Stats[0], runs, f)/1000, rig.Of(rig.Stats[2], runs, f)/1000)
		}
		fmt.Fprintf(&t, "| %s (`%s`) | %s | %s | %s | **%s** [%.0f k/s] | %s |\n", h.name, h.allow,
			spread(func(x hotness) float64 { return x.together }), spread(func(x hotness) float64 { return x.busiest }),
			spread(func(x hotness) float64 { return x.homes }), spread(func(x hotness) float64 { return x.owner }),
			rig.Of(rig.Stats[1], runs, func(x hotness) float64 { return x.peak })/1000, spread(func(x hotness) float64 { return x.ends }))
	}
	return t.String(), nil
}

func (b *bench) hot(ctx context.Context, h heat, profile string) (x hotness, err error) {
	policy := fmt.Sprintf("  - {name: everyone, per: [], allow: [%s]}\n", h.allow)
	n := int32(b.partitions)
	owner := schemas.PartitionOf("", n)
	low := owner < n/2
	otherHalf := func(to string) bool { return (schemas.PartitionOf(to, n) < n/2) != low }

	w, err := b.newWorld(ctx, policy)
	if err != nil {
		return x, err
	}
	defer w.Drop()
	if err := w.produce(ctx, 1, otherHalf); err != nil {
		return x, err
	}
	if x.together, err = w.step(ctx, "together", false, false, b.records, func(by map[string]int) int {
		return by["admit"] + by["refuse"]/2 // the owner's refusals have the same verdict as home's
	}); err != nil {
		return x, err
	}
	if _, x.busiest, err = w.ownersLog(ctx, owner); err != nil {
		return x, err
	}

	alone, err := b.newWorld(ctx, policy)
	if err != nil {
		return x, err
	}
	defer alone.Drop()
	if err := alone.produce(ctx, 1, otherHalf); err != nil {
		return x, err
	}
	if x.homes, err = alone.step(ctx, "homes", true, !low, b.records, of("charge")); err != nil {
		return x, err
	}
	stop, err := profiled(profile)
	if err != nil {
		return x, err
	}
	defer stop()
	if _, err = alone.step(ctx, "owner", true, low, b.records, of("charge", "refuse")); err != nil {
		return x, err
	}
	stop()
	if x.owner, x.peak, err = alone.ownersLog(ctx, owner); err != nil {
		return x, err
	}
	last := of("admit")
	if h.refuses {
		last = of("admit", "refuse")
	}
	x.ends, err = alone.step(ctx, "ends", true, !low, b.records, last)
	return x, err
}

// profiled writes a CPU profile to a file, if it has a name, until stop.
func profiled(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile() // again does nothing
		f.Close()
	}, pprof.StartCPUProfile(f)
}

// step runs a worker until n are done. With half, it gets the lower or the upper
// half of the partitions, and another member of the group holds the rest and leaves
// it alone: Range gives the lower half to the member whose id comes first, and
// brokers make ids of the client's.
func (w *world) step(ctx context.Context, name string, half, lower bool, n int, done func(by map[string]int) int) (float64, error) {
	if half {
		idle := "a-idle"
		if lower {
			idle = "z-idle"
		}
		cl, err := kgo.NewClient(kgo.SeedBrokers(w.Brokers...), kgo.ClientID(idle), kgo.ConsumerGroup(admission.Group(w.Names)), kgo.Balancers(kgo.RangeBalancer()),
			kgo.ConsumeTopics(w.Names.Requests(), w.Names.Readmit()), kgo.DisableAutoCommit(), kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(200*time.Millisecond))
		if err != nil {
			return 0, err
		}
		cl.PauseFetchTopics(w.Names.Requests(), w.Names.Readmit())
		defer cl.Close()
		if err := w.members(ctx, 1); err != nil {
			return 0, err
		}
	}
	k, err := w.start(ctx, "m-"+name)
	if err != nil {
		return 0, err
	}
	defer k.stop()
	return k.until(ctx, n, done)
}

// members waits until the group has so many.
func (w *world) members(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("the group did not come together in 30 s"))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		groups, err := w.Admin.DescribeGroups(ctx, admission.Group(w.Names))
		if err == nil {
			if g := groups[admission.Group(w.Names)]; g.State == "Stable" && len(g.Members) == n {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// ownersLog counts the owner's decisions on messages in its partition of
// weir.status: how many a second from the first to the last, and in the busiest
// second.
func (w *world) ownersLog(ctx context.Context, owner int32) (perSecond, busiest float64, err error) {
	ends, err := w.Admin.ListCommittedOffsets(ctx, w.Names.Status())
	if err != nil {
		return 0, 0, err
	}
	end, ok := ends.Lookup(w.Names.Status(), owner)
	if !ok {
		return 0, 0, errors.New("weir.status lacks the owner's partition")
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{w.Names.Status(): {owner: kgo.NewOffset().At(0)}}))
	if err != nil {
		return 0, 0, err
	}
	defer cl.Close()
	var at []time.Time
	for next := int64(0); next < end.Offset; {
		fetches := cl.PollFetches(ctx)
		if err := errors.Join(context.Cause(ctx), fetches.Err()); err != nil {
			return 0, 0, err
		}
		for _, r := range fetches.Records() {
			if next = r.Offset + 1; r.Attrs.IsControl() || next > end.Offset {
				continue
			}
			if v := string(r.Value); strings.Contains(v, `"verdict":"charge"`) || strings.Contains(v, `"verdict":"refuse"`) {
				at = append(at, r.Timestamp)
			}
		}
	}
	if len(at) < w.records {
		return 0, 0, fmt.Errorf("the owner decided on %d of %d messages", len(at), w.records)
	}
	from := 0
	for i := range at {
		for at[i].Sub(at[from]) >= time.Second {
			from++
		}
		busiest = max(busiest, float64(i-from+1))
	}
	return float64(len(at)) / at[len(at)-1].Sub(at[0]).Seconds(), busiest, nil
}
