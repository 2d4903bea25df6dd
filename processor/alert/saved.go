package alert

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/weirhq/weir/schemas"
)

// stateKey is the key of the one record of weir.alerts.
const stateKey = "state"

// Saved is the record: what was told, and how far everything was read. Both are
// written at once, so that what is read again after a crash is exactly what is not
// in the sums.
type Saved struct {
	Version int                 `json:"version"`
	At      schemas.Millis      `json:"at"`
	By      string              `json:"by"` // the slot of who wrote it
	Read    map[string]*TopicAt `json:"read"`
	State   State               `json:"state"`
}

// TopicAt is how far a topic was read.
type TopicAt struct {
	ID   string          `json:"id"` // of the topic: one of the same name made anew is read from its start
	Next map[int32]int64 `json:"next"`
}

const (
	savedVersion = 1
	// maxSaved is well below the largest record of the topic.
	maxSaved = 900 << 10
)

// encode returns the record's value. Where there is too much to write, the counts
// of distinct recipients are given up, then classes and tenants, and then the lines
// of single limits and reasons: never a count of messages.
func (s *Saved) encode() []byte {
	for shed := 0; ; shed++ {
		b := encode(s)
		if len(b) <= maxSaved || shed == 3 {
			return b
		}
		for _, a := range s.State.Alerts {
			for _, sum := range a.Held {
				sum.shed(shed)
			}
			if shed == 2 {
				held := a.Held
				a.Held, a.Told = nil, nil
				for _, sum := range held {
					a.held(sum.others()).merge(sum)
				}
			}
			if a.Out == nil {
				continue
			}
			less := make([]*Sum, 0, len(a.Out.Sums)) // a try may be reading the others
			for _, sum := range a.Out.Sums {
				as := *sum
				as.shed(shed)
				i := slices.IndexFunc(less, func(o *Sum) bool { return shed == 2 && o.Event == as.Event })
				switch {
				case i >= 0:
					less[i].merge(&as)
				case shed == 2:
					as.Subject = as.others()
					fallthrough
				default:
					less = append(less, &as)
				}
			}
			if a.Out.Sums = less; shed == 2 {
				a.Out.Told = nil
			}
		}
	}
}

func (s *Sum) shed(step int) {
	if step == 0 {
		s.Seen = nil
		return
	}
	s.Classes, s.Tenants, s.Examples = nil, nil, nil
}

// errNewer means that a later version of Weir wrote the state.
var errNewer = errors.New("the alerter's state is a newer Weir's")

func decodeSaved(b []byte) (*Saved, error) {
	s := new(Saved)
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("the alerter's state is torn or foreign: %w", err)
	}
	if s.Version > savedVersion {
		return nil, fmt.Errorf("version %d: %w", s.Version, errNewer)
	}
	if s.Version != savedVersion {
		return nil, fmt.Errorf("the alerter's state is torn or foreign: version %d", s.Version)
	}
	null := errors.New("the alerter's state is torn or foreign: an alert, or a part of one, is null")
	for _, a := range s.State.Alerts {
		if a == nil {
			return nil, null
		}
		for _, h := range a.Held {
			if h == nil {
				return nil, null
			}
		}
		for _, c := range a.Standing {
			if c == nil {
				return nil, null
			}
		}
		if a.Out != nil && (slices.Contains(a.Out.Sums, nil) || slices.Contains(a.Out.Standings, nil)) {
			return nil, null
		}
	}
	return s, nil
}
