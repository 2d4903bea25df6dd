package e2e

import (
	"slices"
	"sort"

	"github.com/weirhq/weir/schemas"
)

// list is the standing places of one scope, in the order of time. A run of minutes
// has tens of thousands in one window, which every decision counts: running sums
// save it from adding up all of them each time. Most places come and go at the end,
// so few sums change. A nil list is empty.
type list struct {
	places []place
	sums   []int64            // sums[i] is the cost of places[:i+1]
	of     map[string][]place // of each message
}

// place is one standing place.
type place struct {
	t       schemas.Millis
	cost    int64
	message string
	scope   string // as the log calls it
}

func (s *list) add(pl place) {
	at := len(s.places)
	for at > 0 && s.places[at-1].t > pl.t {
		at--
	}
	s.places = slices.Insert(s.places, at, pl)
	s.sumFrom(at)
	if s.of == nil {
		s.of = make(map[string][]place)
	}
	s.of[pl.message] = append(s.of[pl.message], pl)
}

func (s *list) remove(at int) {
	pl := s.places[at]
	s.places = slices.Delete(s.places, at, at+1)
	s.sumFrom(at)
	left := s.of[pl.message]
	left = slices.Delete(left, slices.Index(left, pl), slices.Index(left, pl)+1)
	if s.of[pl.message] = left; len(left) == 0 {
		delete(s.of, pl.message)
	}
}

// sumFrom brings the running sums up to date after a change of places[at:].
func (s *list) sumFrom(at int) {
	s.sums = s.sums[:at]
	for _, pl := range s.places[at:] {
		s.sums = append(s.sums, s.upTo(len(s.sums))+pl.cost)
	}
}

// upTo is the cost of places[:end].
func (s *list) upTo(end int) int64 {
	if end == 0 {
		return 0
	}
	return s.sums[end-1]
}

// one is a list of one place.
func one(t schemas.Millis) *list {
	s := new(list)
	s.add(place{t: t, cost: 1})
	return s
}

// all is the places, oldest first.
func (s *list) all() []place {
	if s == nil {
		return nil
	}
	return s.places
}

// sum adds up the places that stand at from or later and at t or before, but those
// of one message.
func (s *list) sum(from, t schemas.Millis, without string) int64 {
	if s == nil || from > t {
		return 0
	}
	at := func(t schemas.Millis) int { // of the first at t or later
		return sort.Search(len(s.places), func(i int) bool { return s.places[i].t >= t })
	}
	n := s.upTo(at(t+1)) - s.upTo(at(from))
	if without != "" {
		for _, pl := range s.of[without] {
			if from <= pl.t && pl.t <= t {
				n -= pl.cost
			}
		}
	}
	return n
}
