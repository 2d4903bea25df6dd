package main

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// store is samples in memory, as the engine reads them.
type store struct {
	of map[string]*entry
}

type entry struct {
	labels  labels.Labels
	samples []chunks.Sample // by time, ascending
}

func newStore() *store { return &store{of: make(map[string]*entry)} }

// add takes samples in order of time.
func (st *store) add(l labels.Labels, at int64, v float64) {
	key := l.String()
	e := st.of[key]
	if e == nil {
		e = &entry{labels: l}
		st.of[key] = e
	}
	e.samples = append(e.samples, sample{at, v})
}

// Querier is storage.Queryable.
func (st *store) Querier(from, until int64) (storage.Querier, error) {
	return querier{st, from, until}, nil
}

type querier struct {
	st          *store
	from, until int64
}

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, e := range q.st.of {
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(e.labels.Get(m.Name)) }) {
			continue
		}
		in := slices.DeleteFunc(slices.Clone(e.samples), func(s chunks.Sample) bool { return s.T() < q.from || s.T() > q.until })
		found = append(found, storage.NewListSeries(e.labels, in))
	}
	slices.SortFunc(found, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return &set{series: found, at: -1}
}

func (q querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil // the engine does not ask
}

func (q querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (q querier) Close() error { return nil }

type set struct {
	series []storage.Series
	at     int
}

func (s *set) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *set) At() storage.Series                { return s.series[s.at] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

type sample struct {
	at int64
	v  float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
