package audit

import (
	"errors"
	"fmt"

	"github.com/weirhq/weir/schemas"
)

// history is weir.config: every revision that came into force.
type history struct {
	policies []*schemas.Policy // by revision; 0 is the empty one
	skipped  int64             // records of a newer format that an operator skipped
	void     int               // revisions whose parent was not in force
}

func newHistory() *history { return &history{policies: []*schemas.Policy{{}}} }

// take judges the next record: it counts only if its parent is in force where
// it stands.
func (h *history) take(value []byte) error {
	r, err := schemas.NextRevision(value, int64(len(h.policies))-1)
	switch {
	case errors.Is(err, schemas.ErrNewerRevision):
		return err
	case err != nil:
		h.void++
		return nil
	}
	h.policies = append(h.policies, &r.Policy)
	return nil
}

func (h *history) policy(revision int64) *schemas.Policy {
	if revision < 0 || revision >= int64(len(h.policies)) {
		return nil
	}
	return h.policies[revision]
}

// providers returns every provider that any revision names.
func (h *history) providers() map[string]roles {
	out := make(map[string]roles)
	for _, p := range h.policies {
		for i := range p.Providers {
			pr := &p.Providers[i]
			r := out[pr.Name]
			r.queues = r.queues || pr.Type != schemas.ProviderNone
			r.journal = r.journal || pr.HasLane()
			out[pr.Name] = r
		}
	}
	return out
}

// paces returns, for a provider's windows by length, the most that any revision
// allows. A window that some revision with the provider lacks has no bound.
func (h *history) paces(provider string) []pace {
	var out []pace
	revisions := 0
	for _, p := range h.policies {
		for i := range p.Providers {
			pr := &p.Providers[i]
			if pr.Name != provider {
				continue
			}
			revisions++
			for _, w := range pr.Pace {
				if w.Kind != schemas.WindowRolling {
					continue
				}
				k := -1
				for j := range out {
					if out[j].window.Length == w.Length {
						k = j
					}
				}
				if k < 0 {
					out, k = append(out, pace{window: w}), len(out)
				}
				out[k].window = w
				out[k].most = max(out[k].most, w.N)
				out[k].revisions++
			}
		}
	}
	for i := range out {
		out[i].bound = out[i].revisions == revisions
	}
	return out
}

type pace struct {
	window    schemas.Window // of the latest revision that has it
	most      int64
	revisions int
	bound     bool
}

func readHistory(next source, skipped skips) (*history, error) {
	h := newHistory()
	for {
		r, err := next()
		if err != nil {
			return nil, err
		}
		if r == nil {
			return h, nil
		}
		if err := h.take(r.Value); err != nil {
			if skipped.covers(r) {
				h.void++
				h.skipped++
				continue
			}
			return nil, fmt.Errorf("%s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
		}
	}
}
