package schemas

import (
	"slices"
	"strings"
)

// Tried is a provider that was called for a message, and how that ended.
type Tried struct {
	Provider string
	Outcome  RetryCause
}

// maxTried bounds how many providers a message remembers: the latest.
const maxTried = 8

// Try returns tried with one more attempt, at its end. Each provider is in it
// once, with its last outcome; but of one that may have the message (RetryUnknown)
// nothing later takes that back. It does not write to tried.
func Try(tried []Tried, provider string, outcome RetryCause) []Tried {
	out := make([]Tried, 0, len(tried)+1)
	for _, t := range tried {
		switch {
		case t.Provider != provider:
			out = append(out, t)
		case t.Outcome == RetryUnknown:
			outcome = RetryUnknown
		}
	}
	out = append(out, Tried{provider, outcome})
	return out[max(0, len(out)-maxTried):]
}

func appendTried(b []byte, tried []Tried) []byte {
	for i, t := range tried {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, t.Provider...), '='), t.Outcome...)
	}
	return b
}

// ParseTried reads the header. What is in it only advises, so what cannot be read
// is left out.
func ParseTried(text string) []Tried {
	var out []Tried
	for part := range strings.SplitSeq(text, ",") {
		name, outcome, ok := strings.Cut(part, "=")
		if ok && name != "" && slices.Contains(RetryCauses, RetryCause(outcome)) && len(out) < maxTried {
			out = append(out, Tried{name, RetryCause(outcome)})
		}
	}
	return out
}
