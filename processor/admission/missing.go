package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// countsFor is how far back a place may lie that some window sees: 31 days, or a calendar
// month and what a zone's change adds.
const countsFor = 33 * 24 * time.Hour

// tailOffsets is how far back of its end a repair reads weir.status at first. Where that does
// not go back far enough, it reads further back.
const tailOffsets = 100_000

// rebuild makes records of limits of weir.status, which has every place that was taken and
// returned: of the keys that the ledger lacks, and of the suspect ones. It returns them with
// words that name them. Opt-outs, waiting messages, decisions without sending and what is in
// buckets it does not make.
func (in *inspection) rebuild(ctx context.Context, n int32, suspects map[string]bool) (write []*kgo.Record, words string, err error) {
	p := in.parts[n]
	m := &p.base.meta
	rules, err := in.rules(ctx, m)
	if err != nil {
		return nil, "", err
	}
	since := m.T - schemas.Millis(countsFor.Milliseconds())
	stands, whole, err := in.stands(ctx, n, since)
	if err != nil {
		return nil, "", err
	}
	type scope struct{ limit, scope string }
	table, names := limit.NewTable(), make(map[string]string)
	defer table.Close()
	for at, places := range group(stands, func(c schemas.Charge) scope { return scope{c.Limit, c.Scope} }) {
		key, has, segments := p.table.Has(at.limit, at.scope)
		if segments || has && !suspects[string(key)] {
			continue // of many places those in segments are there
		}
		names[string(key)] = at.limit
		table.Restore(rules, places, m.T)
	}
	var named []string
	put := func(key, value []byte, what string) {
		write = append(write, &kgo.Record{Topic: in.stage.env.names.Ledger(), Partition: n, Key: key, Value: value})
		if len(key) == len(stateKey{}) {
			named = append(named, fmt.Sprintf("%s key %s", what, keyText(key)))
		}
	}
	table.Dirty(func(key, value []byte) {
		if len(value) > 0 || suspects[string(key)] { // else no window sees anything of it, and nothing of it is there
			put(key, value, "limit "+names[string(key)])
		}
	})
	for _, key := range slices.Sorted(maps.Keys(suspects)) {
		if whole && len(key) == len(stateKey{}) && names[key] == "" {
			put([]byte(key), nil, "no place under")
		}
	}
	if len(named) == 0 {
		return nil, "", nil
	}
	slices.Sort(named)
	words = fmt.Sprintf("what %d keys of limits have is made anew of weir.status, but for buckets: %s", len(named), strings.Join(named[:min(len(named), 10)], ", "))
	if !whole {
		words += "; weir.status does not reach back as far as windows may see, so older places are not among it"
	}
	return write, words, nil
}

// rules are those under which the partition decided last.
func (in *inspection) rules(ctx context.Context, m *meta) (*limit.Rules, error) {
	rev, err := in.revision(ctx, m.Marker.Revision)
	if err != nil {
		return nil, err
	}
	return limit.Compile(&rev.Policy, limit.Retained(m.Marker.Since, m.T))
}

// revision returns a revision of the policy.
func (in *inspection) revision(ctx context.Context, number int64) (*schemas.Revision, error) {
	read := in.stage.cfg.Read
	w, err := policy.Watch(ctx, in.stage.env.names.Config(), slog.New(slog.DiscardHandler), append([]kgo.Opt{kgo.SeedBrokers(read.Brokers...)}, read.Options...)...)
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	defer w.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("waited 30 s"))
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Run(ctx) }) // Get says why it ended
	defer wg.Wait()
	defer cancel()
	return w.Get(ctx, number)
}

// group sorts places by what of returns, each list from the oldest on.
func group[K comparable](stands map[schemas.Charge]int, of func(schemas.Charge) K) map[K][]schemas.Charge {
	out := make(map[K][]schemas.Charge)
	for c, times := range stands {
		for range times {
			out[of(c)] = append(out[of(c)], c)
		}
	}
	for _, places := range out {
		slices.SortFunc(places, func(a, b schemas.Charge) int { return cmp.Compare(a.T, b.T) })
	}
	return out
}

// stands returns how often each place stands by the decisions of a partition since a moment,
// and whether weir.status reaches back to it.
func (in *inspection) stands(ctx context.Context, n int32, since schemas.Millis) (stands map[schemas.Charge]int, whole bool, err error) {
	tp := stream.Partition{Topic: in.stage.env.names.Status(), Partition: n}
	extents, err := stream.Extents(ctx, in.stage.cfg.Read, []stream.Partition{tp})
	if err != nil {
		return nil, false, err
	}
	for back := int64(tailOffsets); ; back *= 8 {
		stands, first := make(map[schemas.Charge]int), (*schemas.Decision)(nil)
		from := extents[tp].End - back
		if err := stream.Read(ctx, in.stage.cfg.Read, []stream.Range{{Partition: tp, From: from}}, func(r *kgo.Record) error {
			e, err := schemas.DecodeEvent(r.Value)
			if err != nil || e.Decision == nil {
				return nil
			}
			d := e.Decision
			if first == nil {
				first = d
			}
			for _, c := range slices.Concat(d.Charges, d.Restored) {
				stands[c]++
			}
			for _, c := range d.Returned {
				stands[c]--
			}
			return nil
		}); err != nil {
			return nil, false, fmt.Errorf("look for places: %w", err)
		}
		if whole := first != nil && (first.T < since || first.Seq == 1); whole || from <= extents[tp].Start {
			return stands, whole, nil
		}
	}
}
