package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// history is weir.config: every revision that came into force.
type history struct {
	policies []*schemas.Policy // by revision; 0 is the empty one
	at       []schemas.Millis  // when each came into force, by its author's clock
	skipped  int64             // records of a newer format that an operator skipped
	void     int               // revisions whose parent was not in force
}

func newHistory() *history { return &history{policies: []*schemas.Policy{{}}, at: []schemas.Millis{0}} }

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
	h.policies, h.at = append(h.policies, &r.Policy), append(h.at, r.At)
	return nil
}

// unenforced says in which revisions of a time a limit refused nothing, and why: "observe in revisions
// 3 to 5, removed in revision 6". Empty is that there is none.
func (h *history) unenforced(limit string, from, until schemas.Millis) string {
	var out []string
	first, last := "", 0
	there := false
	for n := 1; n < len(h.at); n++ {
		word := ""
		limits := h.policies[n].Limits
		i := slices.IndexFunc(limits, func(l schemas.Limit) bool { return l.Name == limit })
		switch {
		case i < 0 && there:
			word = "removed"
		case i >= 0 && limits[i].Mode != schemas.ModeEnforce:
			word = string(limits[i].Mode) // empty is to enforce
		}
		there = there || i >= 0
		if h.at[n] > until || n+1 < len(h.at) && h.at[n+1] <= from {
			word = ""
		}
		switch {
		case word == "":
		case word == first:
			out[len(out)-1] = fmt.Sprintf("%s in revisions %d to %d", word, last, n)
		default:
			out, last = append(out, fmt.Sprintf("%s in revision %d", word, n)), n
		}
		first = word
	}
	return strings.Join(out, ", ")
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
