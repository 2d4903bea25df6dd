package route

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// many is a policy of so many providers, with a route to them or none.
func many(targets, failover int, routed bool) *schemas.Policy {
	p := new(schemas.Policy)
	var r schemas.Route
	for i := range targets + failover {
		name := fmt.Sprintf("p%d", i)
		p.Providers = append(p.Providers, provider(name, "sms"))
		if i < targets {
			r.To = append(r.To, schemas.Target{Provider: name, Weight: 1 + i%100})
		} else {
			r.Failover = append(r.Failover, name)
		}
	}
	if routed {
		p.Routes = []schemas.Route{r}
	}
	return p
}

// FuzzChoose: with any number of targets, in any health, a usable provider is chosen, or
// none is usable.
func FuzzChoose(f *testing.F) {
	for _, n := range []uint16{0, 1, 8, 9, 64, 300} {
		f.Add(n, uint16(0), true, uint64(n), []byte{3})
		f.Add(n, uint16(3), false, uint64(7), []byte{0, 1, 2})
		f.Add(n, n, true, uint64(1)<<63, []byte{1, 0})
	}
	levels := []Share{ShareNone, ShareProbing, ShareDegraded, ShareFull}
	f.Fuzz(func(t *testing.T, targets, failover uint16, routed bool, pick uint64, health []byte) {
		p := many(int(targets%500), int(failover%500), routed)
		share := func(name string) Share {
			var i int
			fmt.Sscanf(name, "p%d", &i)
			if len(health) == 0 {
				return ShareFull
			}
			return levels[health[i%len(health)]%4]
		}
		got, err := Choose(p, Message{Channel: "sms"}, pick, share)
		if err == nil {
			if share(got) == ShareNone {
				t.Fatalf("chose %s, which takes nothing", got)
			}
			return
		}
		no, ok := errors.AsType[*Error](err)
		if !ok {
			t.Fatalf("%T: %v", err, err)
		}
		usable := slices.ContainsFunc(p.Providers, func(pr schemas.Provider) bool { return share(pr.Name) != ShareNone })
		if usable && no.Reason == ReasonNoUsableProvider || len(p.Providers) > 0 && no.Reason == ReasonNoRoute {
			t.Fatalf("%v, with %d providers", err, len(p.Providers))
		}
	})
}
