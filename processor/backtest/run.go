package backtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// extent is what is there of each partition, and from when on all of it is.
type extent struct {
	kafka   map[int32]stretch
	history map[int32]bool // ClickHouse has what Kafka let go of
	whole   schemas.Millis // from here on nothing is missing; 0: nothing ever was
	idle    int            // partitions that had something, of which nobody knows when
}

func run(ctx context.Context, cfg Config, rules *limit.Rules) (*Result, error) {
	src, err := openSource(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer src.close()
	need := needsOf(cfg.Tried)
	warm := max(cfg.From-longest(cfg.Tried), 0)
	there, err := src.extent(ctx, warm, need.stored())
	if err != nil {
		return nil, err
	}
	var notes []string
	from := cfg.From
	if there.whole > from {
		if from > 0 {
			notes = append(notes, fmt.Sprintf("The logs go back to %s; what was asked for before that is not judged.", there.whole))
		}
		from = there.whole
	}
	if from >= cfg.Until {
		from = cfg.Until - 1
	}
	if there.whole > warm && from-there.whole < longest(cfg.Tried) {
		notes = append(notes, fmt.Sprintf("Windows that look back beyond %s begin empty there, so until they have passed once they refuse too little.", there.whole))
	}
	if there.idle > 0 {
		notes = append(notes, fmt.Sprintf("Of %d of the %d partitions nothing is left in Kafka, and ClickHouse does not say when they were last used: they count as idle all the time.", there.idle, src.partitions))
	}
	if since := max(warm, there.whole); since > 0 && there.cut() && buckets(cfg.Tried) {
		notes = append(notes, fmt.Sprintf("Buckets are taken to be full at %s: the log does not say what was in them, so one that was not may let through at most its size too much, once.", since))
	}
	x := newEngine(src.partitions, rules, cfg.Tried, cfg.InForce, from, cfg.Until, cfg.Most)
	defer x.close()
	x.each = cfg.Each
	if need.requests() {
		// A message may have waited: a request is older than its decision.
		if x.joined, err = readRequests(ctx, src, need, max(warm-7*day, 0)); err != nil {
			return nil, err
		}
	}
	if err := x.run(ctx, src.feeds(there, warm)); err != nil {
		return nil, err
	}
	r := x.result(cfg.Tried)
	r.Revision = cfg.InForce.Revision
	r.Source = there.source()
	x.bounds(r, warm)
	if n := src.missing.Load(); n > 0 {
		notes = append(notes, fmt.Sprintf("%d decisions between those that are on record are missing: ClickHouse did not have them when Kafka let go of them. What follows them may be a little off.", n))
	}
	r.Notes = append(notes, x.notes(cfg.Tried)...)
	return r, nil
}

// feed hands a partition's steps to fn, in order. fn may not keep the step.
type feed func(ctx context.Context, fn func(*step) error) error

// feeds are the partitions' steps, first from ClickHouse, then from Kafka. The
// seam is the first offset that Kafka still has.
func (s *source) feeds(there *extent, warm schemas.Millis) []feed {
	out := make([]feed, s.partitions)
	for n := range s.partitions {
		out[n] = func(ctx context.Context, fn func(*step) error) error {
			st := there.kafka[n]
			line := &sequence{missing: &s.missing}
			if there.history[n] {
				var at step
				err := s.cfg.History.Decisions(ctx, n, warm, st.start, func(e *schemas.Event) error {
					s.tick(1)
					if at.read(e, s.partitions); line.repeats(&at) || at.kind == stepNothing {
						return nil
					}
					return fn(&at)
				})
				if err != nil {
					return fmt.Errorf("read decisions of partition %d from ClickHouse: %w", n, err)
				}
			}
			return s.events(ctx, n, st, line, fn)
		}
	}
	return out
}

// extent finds what is there.
func (s *source) extent(ctx context.Context, warm schemas.Millis, history bool) (*extent, error) {
	kafka, err := s.begins(ctx, s.cfg.Names.Status(), warm)
	if err != nil {
		return nil, err
	}
	there := &extent{kafka: kafka, history: map[int32]bool{}}
	some := false
	for n, st := range kafka {
		some = some || st.from < st.end
		if st.first == 0 {
			continue // all since warm is in Kafka
		}
		whole, known := st.first, false
		if s.cfg.History != nil {
			t, offset, all, err := s.cfg.History.Begins(ctx, n, warm)
			if err != nil {
				return nil, fmt.Errorf("ask ClickHouse where partition %d begins: %w", n, err)
			}
			switch gone := t > 0 && offset < st.start; { // decisions that Kafka has let go of
			case gone && history:
				there.history[n], known = true, true
				if whole = min(whole, t); all {
					whole = 0
				}
				count, err := s.cfg.History.Count(ctx, n, warm, st.start)
				if err != nil {
					return nil, fmt.Errorf("ask ClickHouse how many decisions of partition %d there are: %w", n, err)
				}
				s.total.Add(count)
			case !gone && all:
				whole, known = 0, true
			}
		}
		if st.from >= st.end && !known {
			there.idle++
			continue
		}
		if whole <= warm {
			whole = 0
		}
		there.whole = max(there.whole, whole)
	}
	if !some && there.idle > 0 {
		there.whole = schemas.MillisOf(time.Now())
	}
	return there, nil
}

// cut reports whether something was before what is read.
func (e *extent) cut() bool {
	for _, st := range e.kafka {
		if st.from > 0 {
			return true
		}
	}
	return false
}

func (e *extent) source() string {
	kafka := false
	for _, st := range e.kafka {
		kafka = kafka || st.from < st.end
	}
	switch {
	case len(e.history) == 0:
		return "kafka"
	case kafka:
		return "both"
	}
	return "clickhouse"
}

// run replays the feeds: by themselves where no limit is wide, else together.
func (x *engine) run(ctx context.Context, feeds []feed) error {
	if x.wide {
		return x.together(ctx, feeds)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for n, f := range feeds {
		g.Go(func() error {
			r := x.parts[n]
			chunk := make([]step, 0, foreseen)
			hand := func() error {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				r.foresee(chunk)
				for i := range chunk {
					if err := r.take(&chunk[i]); err != nil {
						return err
					}
				}
				chunk = chunk[:0]
				return nil
			}
			err := f(ctx, func(s *step) error {
				if chunk = append(chunk, *s); len(chunk) == foreseen {
					return hand()
				}
				return nil
			})
			if err != nil {
				return err
			}
			return hand()
		})
	}
	return g.Wait()
}

// bounds says which time was judged.
func (x *engine) bounds(r *Result, warm schemas.Millis) {
	first := schemas.Millis(0)
	for _, p := range x.parts {
		if t := p.tally.first; t > 0 && (first == 0 || t < first) {
			first = t
		}
	}
	r.From = max(x.from, min(first, x.until))
	r.Until, r.Warmed = x.until, r.From
	if first > 0 && first < r.From {
		r.Warmed = max(first, warm)
	}
}

// notes says what could not be told, or was assumed.
func (x *engine) notes(tried *schemas.Policy) (out []string) {
	var unjoined, markers, admitted, undated int64
	for _, p := range x.parts {
		unjoined += p.tally.unjoined
		undated += p.tally.undated
		markers = max(markers, p.tally.markers)
		admitted += p.tally.newlyAdmitted
	}
	if markers > 0 {
		out = append(out, fmt.Sprintf("The policy changed %s in this time: \"then\" is what the policy of the moment decided.", times(markers)))
	}
	if admitted > 0 {
		out = append(out, fmt.Sprintf("%d messages that were refused then would have been let through. What would have become of them nobody knows: they are taken to be sent at once.", admitted))
	}
	if unjoined > 0 {
		out = append(out, fmt.Sprintf("For %d decisions the request is no longer in Kafka: limits that look at metadata or content did not see it.", unjoined))
	}
	if undated > 0 {
		out = append(out, fmt.Sprintf("%d messages that were sent elsewhere took no place in their recipient's limits then, so when they were sent is not on record: they count from when Weir learnt of them.", undated))
	}
	if i := slices.IndexFunc(tried.Limits, func(l schemas.Limit) bool { return !l.Off() && l.OnRefusal == schemas.RefusalDefer }); i >= 0 {
		out = append(out, "A message that the other policy would let wait is counted as refused, and does not come back in the replay, unless it waited then as well.")
	}
	return out
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
