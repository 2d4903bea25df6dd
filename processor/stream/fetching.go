package stream

import (
	"github.com/twmb/franz-go/pkg/kgo"
)

// Fetching pauses and resumes partitions; a paused one keeps its assignment.
type Fetching interface {
	Pause(...Partition)
	Resume(...Partition)
	// Rewind sets where to read the partitions next; for a stage that dropped
	// what it had polled.
	Rewind(map[Partition]int64)
}

type fetching struct{ cl *kgo.Client }

func (f fetching) Pause(ps ...Partition) { f.cl.PauseFetchPartitions(byTopic(ps)) }

func (f fetching) Resume(ps ...Partition) { f.cl.ResumeFetchPartitions(byTopic(ps)) }

func (f fetching) Rewind(to map[Partition]int64) {
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	for p, at := range to {
		if offsets[p.Topic] == nil {
			offsets[p.Topic] = make(map[int32]kgo.EpochOffset)
		}
		offsets[p.Topic][p.Partition] = kgo.EpochOffset{Epoch: -1, Offset: at}
	}
	f.cl.SetOffsets(offsets)
}

func byTopic(ps []Partition) map[string][]int32 {
	m := make(map[string][]int32)
	for _, p := range ps {
		m[p.Topic] = append(m[p.Topic], p.Partition)
	}
	return m
}
