package topics

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Diff is what must be done so that a cluster's topics are the catalogue's. It
// is a value: [Plan] makes it, [Apply] carries it out, and it prints as text
// and as JSON.
type Diff struct {
	Create []Spec   `json:"create"` // topics that are missing
	Grow   []Growth `json:"grow"`   // topics that get more partitions
	Alter  []Change `json:"alter"`  // settings that differ
	Notes  []string `json:"notes"`  // differences that Apply leaves alone, for people
}

// Growth is a topic that gets more partitions.
type Growth struct {
	Topic string `json:"topic"`
	Have  int32  `json:"have"`
	Want  int32  `json:"want"`
}

// Change is a setting of a topic that differs.
type Change struct {
	Topic  string `json:"topic"`
	Config string `json:"config"`
	Have   string `json:"have"`
	Want   string `json:"want"`
}

// Empty reports whether there is nothing to do.
func (d Diff) Empty() bool { return len(d.Create) == 0 && len(d.Grow) == 0 && len(d.Alter) == 0 }

// String prints the difference for people, a line a step.
func (d Diff) String() string {
	var b strings.Builder
	for _, s := range d.Create {
		fmt.Fprintf(&b, "+ %s  %d partitions, %d replicas", s.Name, s.Partitions, s.Replication)
		for _, k := range []string{"cleanup.policy", "retention.ms"} {
			if v, ok := s.Configs[k]; ok {
				fmt.Fprintf(&b, ", %s=%s", k, v)
			}
		}
		b.WriteByte('\n')
	}
	for _, g := range d.Grow {
		fmt.Fprintf(&b, "~ %s  partitions %d -> %d\n", g.Topic, g.Have, g.Want)
	}
	for _, c := range d.Alter {
		fmt.Fprintf(&b, "~ %s  %s %s -> %s\n", c.Topic, c.Config, cmp.Or(c.Have, "(unset)"), c.Want)
	}
	for _, n := range d.Notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	if d.Empty() {
		b.WriteString("topics are as they should be\n")
	} else {
		fmt.Fprintf(&b, "%d to create, %d to grow, %d settings to alter\n", len(d.Create), len(d.Grow), len(d.Alter))
	}
	return b.String()
}

// Actual is what a cluster says of one topic.
type Actual struct {
	Partitions  int32
	Replication int16
	Configs     map[string]string
}

// PartitionsChangedError says that topics exist with a partition count that the
// state in them does not allow to change. Nothing may start on them.
type PartitionsChangedError struct {
	Topics []Growth
}

func (e *PartitionsChangedError) Error() string {
	parts := make([]string, len(e.Topics))
	for i, t := range e.Topics {
		parts[i] = fmt.Sprintf("%s has %d and should have %d", t.Topic, t.Have, t.Want)
	}
	return "partition count changed: " + strings.Join(parts, ", ") +
		"; the count decides which partition owns a recipient, so it is part of the state: configure the count that the topics have (kafka.partitions, --kafka-partitions): it cannot change later"
}

// LanesShrunkError says that a provider has fewer lanes in the policy than its
// topics have partitions. Lanes only grow.
type LanesShrunkError struct {
	Topics []Growth
}

func (e *LanesShrunkError) Error() string {
	parts := make([]string, len(e.Topics))
	for i, t := range e.Topics {
		parts[i] = fmt.Sprintf("%s has %d and should have %d", t.Topic, t.Have, t.Want)
	}
	return "lanes only grow: " + strings.Join(parts, ", ") + "; set the provider's lanes to what its topics have"
}

// BoundError says that a topic cannot be an input of the policy, and why.
type BoundError struct {
	Topic string
	Why   string
}

func (e *BoundError) Error() string { return fmt.Sprintf("inputs: topic %s %s", e.Topic, e.Why) }

// bound judges an input's topic as it is. It is its producers': what differs from
// what Weir would make is told, and only what would lose or double records is an
// error.
func (s *Spec) bound(a Actual, exists bool) (notes []string, err error) {
	switch {
	case strings.HasPrefix(s.Name, s.reserved):
		return nil, &BoundError{s.Name, "is one of Weir's own, which begin with " + s.reserved + ": name one of your producers'"}
	case !exists:
		return nil, nil
	case strings.Contains(a.Configs["cleanup.policy"], "compact"):
		return nil, &BoundError{s.Name, "is compacted (cleanup.policy=" + a.Configs["cleanup.policy"] + "): of two requests under one key Kafka would delete the first, perhaps before it was read; set cleanup.policy=delete, or name another topic"}
	}
	if a.Configs["message.timestamp.type"] != "LogAppendTime" {
		notes = append(notes, fmt.Sprintf("%s has the times of its producers (message.timestamp.type=%s): what waits in it, while Weir is down, expires that much later", s.Name, a.Configs["message.timestamp.type"]))
	}
	if !suffices("retention.ms", a.Configs["retention.ms"], millis(Outage)) {
		notes = append(notes, fmt.Sprintf("%s keeps records for retention.ms=%s: what Weir has not read by then is lost", s.Name, a.Configs["retention.ms"]))
	}
	return notes, nil
}

// Compare returns what must be done so that have becomes want, and a
// [*PartitionsChangedError], [*LanesShrunkError] or [*BoundError] if it must not
// be. have maps the topics that exist; those that want does not name are not
// looked at.
func Compare(want []Spec, have map[string]Actual) (Diff, error) {
	d := Diff{Create: []Spec{}, Grow: []Growth{}, Alter: []Change{}, Notes: []string{}}
	var changed, shrunk []Growth
	var unbound error
	for _, s := range want {
		a, ok := have[s.Name]
		if s.Bound {
			notes, err := s.bound(a, ok)
			unbound = cmp.Or(unbound, err)
			d.Notes = append(d.Notes, notes...)
			if err != nil || ok {
				continue
			}
		}
		if !ok {
			d.Create = append(d.Create, s)
			continue
		}
		if a.Partitions != s.Partitions {
			g := Growth{Topic: s.Name, Have: a.Partitions, Want: s.Partitions}
			switch s.Partitioning {
			case PartitionsLanes:
				if a.Partitions > s.Partitions {
					shrunk = append(shrunk, g)
				} else {
					d.Grow = append(d.Grow, g)
				}
			case PartitionsFloor:
				if a.Partitions < s.Partitions {
					d.Grow = append(d.Grow, g)
				}
			case PartitionsFixed:
				changed = append(changed, g)
			case PartitionsAny:
			default: // a spec that does not say is treated with care
				changed = append(changed, g)
			}
		}
		if a.Replication < s.Replication {
			d.Notes = append(d.Notes, fmt.Sprintf("%s has %d replicas and should have %d: move it with kafka-reassign-partitions", s.Name, a.Replication, s.Replication))
		}
		for _, k := range slices.Sorted(maps.Keys(s.Configs)) {
			if !suffices(k, a.Configs[k], s.Configs[k]) {
				d.Alter = append(d.Alter, Change{Topic: s.Name, Config: k, Have: a.Configs[k], Want: s.Configs[k]})
			}
		}
	}
	switch {
	case len(changed) > 0:
		return d, &PartitionsChangedError{Topics: changed}
	case len(shrunk) > 0:
		return d, &LanesShrunkError{Topics: shrunk}
	case unbound != nil:
		return d, unbound
	}
	return d, nil
}

// suffices reports whether a setting does what the catalogue asks. Retention
// and sizes are floors: an operator may keep more, and a policy whose longest
// window became shorter must not delete the history that the audit still reads.
func suffices(config, have, want string) bool {
	if have == want {
		return true
	}
	switch config {
	case "retention.ms", "delete.retention.ms", "max.message.bytes", "min.insync.replicas":
		h, err := strconv.ParseInt(have, 10, 64)
		if err != nil {
			return false
		}
		w, err := strconv.ParseInt(want, 10, 64)
		if err != nil {
			return false
		}
		if config == "retention.ms" && (h == -1 || w == -1) {
			return h == -1
		}
		return h >= w
	}
	return false
}
