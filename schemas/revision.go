package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Revision is a record of weir.config: a whole policy. It counts only if Parent
// is the revision in force where it stands in the log and Revision is Parent+1;
// so of two concurrent edits the first in log order wins and the other is void.
// Revision 0 is the empty policy.
type Revision struct {
	Format   int    `json:"format,omitempty"` // RevisionFormat where it is above 1: raise it with whatever an older Weir would misread
	Revision int64  `json:"revision"`
	Parent   int64  `json:"parent"`
	At       Millis `json:"at"`
	By       string `json:"by,omitempty"`
	Zones    string `json:"zones,omitempty"`  // release of the IANA time zone database of the weir that wrote it
	Phones   string `json:"phones,omitempty"` // version of its phone library's metadata
	Policy   Policy `json:"policy"`
}

// RevisionFormat is the form of revisions that this version writes and reads.
const RevisionFormat = 1

// Why a record of weir.config is not the next revision. All readers judge alike,
// so a record that does not count for one does not count for any.
var (
	ErrNoRevision    = errors.New("not a revision of the policy, so it does not count: change the policy with weir apply only, and let nobody else write to this topic")
	ErrWrongParent   = errors.New("a revision that was made from another than the one in force, so it does not count: read the policy again and repeat the change")
	ErrNewerRevision = errors.New("a revision in a newer form than this weir reads: run the version that wrote it, or a newer one")
)

// NextRevision judges one record of weir.config where revision current is in
// force. It returns the revision that comes into force, or why none does: one of
// the errors above. Only after ErrNewerRevision the policy is unknown.
func NextRevision(value []byte, current int64) (*Revision, error) {
	var head struct {
		Format           int
		Revision, Parent *int64
		Policy           json.RawMessage
	}
	switch err := json.Unmarshal(value, &head); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNoRevision, err)
	case head.Revision == nil || head.Parent == nil || len(head.Policy) == 0 || head.Policy[0] != '{':
		// Without a policy it would lift every limit.
		return nil, fmt.Errorf("%w: it lacks revision, parent or policy", ErrNoRevision)
	case *head.Parent != current || *head.Revision != current+1:
		return nil, fmt.Errorf("revision %d from %d, where %d is in force: %w", *head.Revision, *head.Parent, current, ErrWrongParent)
	case head.Format > RevisionFormat:
		return nil, fmt.Errorf("revision %d has format %d: %w", *head.Revision, head.Format, ErrNewerRevision)
	}
	r := new(Revision)
	if err := json.Unmarshal(value, r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoRevision, err)
	}
	return r, nil
}
