package alert

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// sketchSize is how many hashes a sketch keeps: fewer distinct ones than that are
// counted exactly, more to about one part in eight.
const sketchSize = 64

// Sketch counts distinct recipients by their smallest hashes (KMV: Bar-Yossef and
// others, Counting Distinct Elements in a Data Stream, 2002). It holds hashes and
// no recipient.
type Sketch []uint64 // ascending, no two alike

// Add counts one.
func (s *Sketch) Add(hash uint64) {
	all := *s
	if len(all) == sketchSize && hash >= all[len(all)-1] {
		return
	}
	i, found := slices.BinarySearch(all, hash)
	if found {
		return
	}
	all = slices.Insert(all, i, hash)
	*s = all[:min(len(all), sketchSize)]
}

// Merge counts what another has seen.
func (s *Sketch) Merge(o Sketch) {
	for _, h := range o {
		s.Add(h)
	}
}

// Count returns how many were seen, and whether that is exact.
func (s Sketch) Count() (n int64, exact bool) {
	if len(s) < sketchSize {
		return int64(len(s)), true
	}
	return int64(float64(sketchSize-1) / (float64(s[len(s)-1]) / math.MaxUint64)), false
}

// MarshalJSON writes the hashes as one text.
func (s Sketch) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 8*len(s))
	for _, h := range s {
		b = binary.BigEndian.AppendUint64(b, h)
	}
	return json.Marshal(base64.RawStdEncoding.EncodeToString(b))
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Sketch) UnmarshalJSON(text []byte) error {
	var packed string
	if err := json.Unmarshal(text, &packed); err != nil {
		return err
	}
	b, err := base64.RawStdEncoding.DecodeString(packed)
	if err != nil || len(b)%8 != 0 || len(b) > 8*sketchSize {
		return fmt.Errorf("a sketch is %d hashes at most", sketchSize)
	}
	*s = nil
	for ; len(b) > 0; b = b[8:] {
		s.Add(binary.BigEndian.Uint64(b))
	}
	return nil
}

// hashOf is FNV-1a with its bits mixed well enough to order by.
func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
