package sink

import (
	"math"
)

// pause stops the fetching of partitions that hold a full range beside the one
// that is being inserted, and of all but one when memory is short. That one is a
// former owner's range: until it is whole nothing of it can be let go.
func (s *sink) pause() {
	want := make(map[int32]bool)
	short := s.held() >= s.cfg.Memory
	spared := int32(math.MaxInt32)
	for id, p := range s.parts {
		if p.phase == rereading {
			spared = min(spared, id)
		}
	}
	for id, p := range s.parts {
		if p.full() || short && id != spared {
			want[id] = true
		}
	}
	s.setPaused(want)
}

func (s *sink) setPaused(want map[int32]bool) {
	var stop, resume []int32
	for id := range want {
		if !s.paused[id] {
			stop = append(stop, id)
		}
	}
	for id := range s.paused {
		if !want[id] {
			resume = append(resume, id)
		}
	}
	if len(stop) > 0 {
		s.cl.PauseFetchPartitions(map[string][]int32{s.name: stop})
	}
	if len(resume) > 0 {
		s.cl.ResumeFetchPartitions(map[string][]int32{s.name: resume})
	}
	if want == nil {
		want = make(map[int32]bool)
	}
	s.paused = want
}

func (s *sink) held() int {
	n := 0
	for _, p := range s.parts {
		n += p.held()
	}
	return n
}
