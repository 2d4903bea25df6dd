package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// missing names what weir.status has places of and the ledger has nothing of: of limits with
// rolling windows, those that their longest window sees. weir.status has every place that was
// taken and returned, so what stands by it stands in the ledger, too.
func (in *inspection) missing(ctx context.Context, n int32) (string, error) {
	p := in.parts[n]
	m := &p.base.meta
	// The earliest place of each limit that a window surely sees.
	first, oldest := make(map[string]schemas.Millis), m.T
	for name, moments := range m.Marker.Since {
		for unit, since := range moments {
			w, err := schemas.ParseWindow("1/" + unit)
			if err != nil || w.Kind != schemas.WindowRolling {
				continue // of another kind, or no window's
			}
			from := max(since, m.T-schemas.Millis(w.Length.Milliseconds())) + 1
			if was, ok := first[name]; !ok || from < was {
				first[name] = from
			}
			oldest = min(oldest, from)
		}
	}
	stands, err := in.stands(ctx, n, oldest)
	if err != nil {
		return "", err
	}
	keys := make(map[string]string)
	for c, times := range stands {
		if from, ok := first[c.Limit]; !ok || c.T < from || times <= 0 {
			continue
		}
		if key, ok := p.table.Has(c.Limit, c.Scope); !ok {
			keys[keyText(key)] = c.Limit
		}
	}
	if len(keys) == 0 {
		return "", nil
	}
	var named []string
	all := slices.Sorted(maps.Keys(keys))
	for _, k := range all[:min(len(all), 10)] {
		named = append(named, fmt.Sprintf("limit %s key %s", keys[k], k))
	}
	return fmt.Sprintf("weir.status has places, and the ledger nothing, under %d keys: %s", len(all), strings.Join(named, ", ")), nil
}

// stands returns how often each place stands by the decisions of a partition since a moment.
func (in *inspection) stands(ctx context.Context, n int32, since schemas.Millis) (map[schemas.Charge]int, error) {
	tp := stream.Partition{Topic: in.stage.env.names.Status(), Partition: n}
	extents, err := stream.Extents(ctx, in.stage.cfg.Read, []stream.Partition{tp})
	if err != nil {
		return nil, err
	}
	for back := int64(tailOffsets); ; back *= 8 {
		stands, first := make(map[schemas.Charge]int), schemas.Millis(0)
		from := extents[tp].End - back
		if err := stream.Read(ctx, in.stage.cfg.Read, []stream.Range{{Partition: tp, From: from}}, func(r *kgo.Record) error {
			e, err := schemas.DecodeEvent(r.Value)
			if err != nil || e.Decision == nil {
				return nil
			}
			if first == 0 {
				first = e.Decision.T
			}
			for _, c := range slices.Concat(e.Decision.Charges, e.Decision.Restored) {
				stands[c]++
			}
			for _, c := range e.Decision.Returned {
				stands[c]--
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("look for places: %w", err)
		}
		if first != 0 && first < since || from <= extents[tp].Start {
			return stands, nil
		}
	}
}
