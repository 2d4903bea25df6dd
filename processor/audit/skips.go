package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// Skip is a record of Weir's own state that an operator let it go on without: see
// weir skip. What it would have shown cannot be proven.
type Skip struct {
	Record string         `json:"record"` // TOPIC/PARTITION/OFFSET
	At     schemas.Millis `json:"at"`
	By     string         `json:"by"`
	Reason string         `json:"reason"`
	SHA256 string         `json:"sha256"`
}

// skips are those of weir.skips, by record.
type skips map[string]Skip

func readSkips(next source) (skips, error) {
	all := make(skips)
	for {
		r, err := next()
		if err != nil || r == nil {
			return all, err
		}
		var s Skip
		if json.Unmarshal(r.Value, &s) == nil && s.Record != "" && s.Record == string(r.Key) {
			all[s.Record] = s
		}
	}
}

// covers reports whether a record is skipped. The sum is of the length of its key, its
// key and its value, so a later record in its place is not.
func (s skips) covers(r *kgo.Record) bool {
	is, ok := s[(schemas.Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}).String()]
	if !ok {
		return false
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(len(r.Key)))
	sum := sha256.Sum256(append(append(b, r.Key...), r.Value...))
	return is.SHA256 == hex.EncodeToString(sum[:])
}

// skippedPermit reports whether the permit of a sending may be a record that was
// skipped. Each such record is one permit at most.
func (f *findings) skippedPermit(holes map[string]int64, i item) bool {
	for provider, left := range holes {
		if attempt, ok := f.codeIn(provider, i.rest-sumOf(provider)[0]); left > 0 && ok && attempt >= 1 && attempt <= schemas.MaxRetries+1 {
			holes[provider]--
			return true
		}
	}
	return false
}
