package e2e

import (
	"slices"

	"github.com/weirhq/weir/schemas"
)

// list is the standing places of one scope, in the order of time. A run of minutes
// has tens of thousands in one window, which every decision counts: the sums save
// it from adding up all of them each time. A nil list is empty.
type list struct {
	places []place
	cost   int64            // of all places
	of     map[string]int64 // of each message's
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
	s.cost += pl.cost
	if s.of == nil {
		s.of = make(map[string]int64)
	}
	s.of[pl.message] += pl.cost
}

func (s *list) remove(at int) {
	pl := s.places[at]
	s.places = slices.Delete(s.places, at, at+1)
	s.cost -= pl.cost
	if s.of[pl.message] -= pl.cost; s.of[pl.message] == 0 {
		delete(s.of, pl.message)
	}
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

// sum adds up the places from the first on that stand at t or before, but those of
// one message.
func (s *list) sum(first int, t schemas.Millis, without string) int64 {
	if s == nil {
		return 0
	}
	end := len(s.places)
	for end > first && s.places[end-1].t > t {
		end--
	}
	var n int64
	if end-first <= len(s.places)/2 {
		n = costs(s.places[first:end])
	} else {
		n = s.cost - costs(s.places[:first]) - costs(s.places[end:])
	}
	if without != "" && s.of[without] != 0 {
		for _, p := range s.places[first:end] {
			if p.message == without {
				n -= p.cost
			}
		}
	}
	return n
}

func costs(places []place) (n int64) {
	for _, p := range places {
		n += p.cost
	}
	return n
}
