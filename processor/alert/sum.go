package alert

import (
	"slices"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// Bounds of what is kept of one alert.
const (
	maxExamples = 3
	maxNames    = 8  // classes and tenants of a sum; the rest is "others"
	maxSubjects = 32 // sums that are held back; the rest is one sum of its event
	maxText     = 100
)

// Sum is happenings of one subject, summed up.
type Sum struct {
	Subject
	Count    int64            `json:"count"`
	First    schemas.Millis   `json:"first"`
	Last     schemas.Millis   `json:"last"`
	Classes  map[string]int64 `json:"classes,omitempty"`
	Tenants  map[string]int64 `json:"tenants,omitempty"`
	Seen     Sketch           `json:"seen,omitempty"`
	Examples []string         `json:"examples,omitempty"` // masked
}

func (s *Sum) add(h *Happening) {
	if s.Count == 0 || h.At < s.First {
		s.First = h.At
	}
	s.Last = max(s.Last, h.At)
	s.Count++
	s.Classes = tally(s.Classes, h.Class, 1)
	s.Tenants = tally(s.Tenants, h.Tenant, 1)
	if h.To == "" {
		return
	}
	s.Seen.Add(hashOf(h.To))
	if len(s.Examples) < maxExamples {
		s.example(clip(recipient.Mask(h.To)))
	}
}

func (s *Sum) example(masked string) {
	if len(s.Examples) < maxExamples && !slices.Contains(s.Examples, masked) {
		s.Examples = append(s.Examples, masked)
	}
}

// merge adds what another has of the same subject.
func (s *Sum) merge(o *Sum) {
	if s.Count == 0 || o.First < s.First {
		s.First = o.First
	}
	s.Last = max(s.Last, o.Last)
	s.Count += o.Count
	for name, n := range o.Classes {
		s.Classes = tally(s.Classes, name, n)
	}
	for name, n := range o.Tenants {
		s.Tenants = tally(s.Tenants, name, n)
	}
	s.Seen.Merge(o.Seen)
	for _, e := range o.Examples {
		s.example(e)
	}
}

func tally(m map[string]int64, name string, n int64) map[string]int64 {
	if name == "" {
		return m
	}
	if m == nil {
		m = make(map[string]int64)
	}
	name = clip(name)
	if _, known := m[name]; !known && len(m) >= maxNames {
		name = othersReason
	}
	m[name] += n
	return m
}

// clip bounds a text that somebody else wrote.
func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for cut > 0 && s[cut]&0xc0 == 0x80 { // not within a character
		cut--
	}
	return s[:cut] + "…"
}
