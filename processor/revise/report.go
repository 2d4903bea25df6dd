package revise

import (
	"time"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Report says what an edit changed, or in a dry run would change.
type Report struct {
	Revision  int64            `json:"revision"` // in force at the end
	DryRun    bool             `json:"dry_run,omitempty"`
	Changes   []schemas.Change `json:"changes"`
	Unchanged int              `json:"unchanged"` // resources
	// Kept are those of the unchanged that a file does not have, as "limit verify".
	Kept    []string        `json:"kept,omitempty"`
	Warming []limit.Warming `json:"warming,omitempty"`
	Topics  *topics.Diff    `json:"topics,omitempty"` // what a dry run would create
}

// Report compares both ends of the edit. A dry run, which has no end, is as if
// it came into force at now.
func (r *Result) Report(dryRun bool, now time.Time) *Report {
	out := &Report{
		Revision: r.Now.Revision,
		DryRun:   dryRun,
		Changes:  schemas.DiffPolicy(&r.From.Policy, r.Next),
	}
	if out.Changes == nil {
		out.Changes = []schemas.Change{}
	}
	touched := 0
	for _, c := range out.Changes {
		if c.Op != schemas.ChangeRemove {
			touched++
		}
	}
	for _, kind := range schemas.ResourceKinds {
		out.Unchanged += len(r.Next.Names(kind))
	}
	out.Unchanged -= touched
	at := schemas.MillisOf(now)
	if !dryRun {
		at = r.Now.At
	}
	if len(out.Changes) > 0 {
		out.Warming = limit.NewWindows(&r.From.Policy, r.Next, at)
	}
	if dryRun && !r.Topics.Empty() {
		out.Topics = &r.Topics
	}
	return out
}
