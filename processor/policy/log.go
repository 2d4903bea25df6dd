package policy

import (
	"fmt"

	"github.com/weirhq/weir/schemas"
)

// Log is the pure half: revisions as they come from weir.config, judged.
type Log struct {
	revisions []*schemas.Revision // valid ones; revisions[i].Revision == i
	offsets   []int64             // where each stands in weir.config; -1 for revision 0
}

// NewLog returns a log that holds revision 0, the empty policy.
func NewLog() *Log { return &Log{revisions: []*schemas.Revision{{}}, offsets: []int64{-1}} }

// Append judges one record, as schemas.NextRevision does. It returns the
// revision when it comes into force. A record that does not count
// (schemas.ErrNoRevision, schemas.ErrWrongParent) changes nothing. After
// schemas.ErrNewerRevision the policy cannot be known.
func (l *Log) Append(value []byte, offset int64) (*schemas.Revision, error) {
	r, err := schemas.NextRevision(value, l.Latest().Revision)
	if err != nil {
		return nil, fmt.Errorf("offset %d: %w", offset, err)
	}
	l.revisions = append(l.revisions, r)
	l.offsets = append(l.offsets, offset)
	return r, nil
}

// Latest returns the revision in force at the end of what was read.
func (l *Log) Latest() *schemas.Revision { return l.revisions[len(l.revisions)-1] }

// Get returns a revision by number; nil when it is not in the log.
func (l *Log) Get(revision int64) *schemas.Revision {
	if revision < 0 || revision >= int64(len(l.revisions)) {
		return nil
	}
	return l.revisions[revision]
}

// Offset returns where a revision stands in weir.config; -1 when it does not.
func (l *Log) Offset(revision int64) int64 {
	if l.Get(revision) == nil {
		return -1
	}
	return l.offsets[revision]
}
