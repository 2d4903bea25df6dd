package lane

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// TestWhatAProcessKnowsOfAPermit: a permit without outcome in the journal is
// in doubt only if this process does not know better.
func TestWhatAProcessKnowsOfAPermit(t *testing.T) {
	names := topics.Names{}
	topic := names.Dispatch("p", topics.QueueNormal)
	at := schemas.Millis(1_780_000_000_000)
	key := callKey{topic: topic, offset: 7, permit: at}
	for _, tt := range []struct {
		name     string
		know     func(*calls)
		state    state
		outcome  provider.Kind
		uncalled bool
		quiet    bool
	}{
		{"nothing: another process made it", func(*calls) {}, answered, provider.Unknown, false, true},
		{"its call is under way here", func(c *calls) { c.flights[key] = &flight{} }, calling, "", false, false},
		{"its outcome is in hand here", func(c *calls) {
			c.flights[key] = &flight{answered: true, answer: answer{outcome: provider.Outcome{Kind: provider.Accepted}}}
		}, answered, provider.Accepted, false, false},
		{"its commit was unknown here, so it was not called", func(c *calls) {
			c.open = append(c.open, key)
			c.abandon()
		}, answered, "", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCalls(t.Context(), nil, nil)
			tt.know(c)
			s := &stage{cfg: &Config{Names: names, Provider: "p", PermitLife: time.Second}, calls: c, index: map[string]int{topic: normal}, now: func() time.Time { return at.Time().Add(100 * time.Millisecond) }}
			l := s.newLane(0)
			s.lanes = map[int32]*lanePart{0: l}
			s.replay(l, 5, entry{Kind: kindPermit, ID: "m", Attempt: 2, T: at, Topic: topic, Offset: 7})
			s.wait(l)
			if err := s.take(&kgo.Record{Topic: topic, Offset: 7, Value: []byte("{}"), Headers: headersOf(&schemas.Envelope{ID: "m", Key: "+1", Origin: schemas.Source{Topic: "r"}, DecidedAt: at, Attempt: 1})}, nil); err != nil {
				t.Fatal(err)
			}
			it := l.queues[normal].items[0]
			if it.state != tt.state || it.answer.outcome.Kind != tt.outcome || it.answer.uncalled != tt.uncalled || it.attempt != 2 || it.journal != 5 || it.key != key {
				t.Errorf("%+v", it)
			}
			if (l.quiet == at.Add(time.Second)) != tt.quiet || !tt.quiet && l.quiet != 0 {
				t.Errorf("quiet until %d", l.quiet)
			}
			if l.journal != 6 || len(l.pace.times) != 1 {
				t.Errorf("journal %d, %d permits", l.journal, len(l.pace.times))
			}
		})
	}
}

// TestLowWater: the position stays below what is unfinished, and the journal is
// read from before anything that speaks of it.
func TestLowWater(t *testing.T) {
	q := newQueue("t")
	for i := range int64(5) {
		q.push(&item{key: callKey{offset: 10 + i}, journal: -1})
	}
	if q.push(&item{key: callKey{offset: 12}}) {
		t.Error("a record was taken twice")
	}
	check := func(low, journal int64) {
		t.Helper()
		if got := q.low(); got != low {
			t.Errorf("low %d, want %d", got, low)
		}
		if got := q.journal(q.low(), 100); got != journal {
			t.Errorf("journal from %d, want %d", got, journal)
		}
	}
	take := func(journal int64) *item {
		it := q.head()
		it.state, it.journal = calling, journal
		return it
	}
	check(10, 100)
	a, b, c := take(50), take(60), take(70)
	check(10, 50)
	q.finish(b)
	q.trim()
	check(10, 50)
	a.state = ending
	check(12, 70)
	q.finish(a)
	q.trim()
	check(12, 70)
	q.requeue(c)
	check(12, 70)
	if q.head() != c {
		t.Error("what was requeued is not at the head")
	}
	c.state, c.answer.uncalled = ending, true // its permit expired: not finished
	check(12, 70)
	c.answer.uncalled = false
	check(13, 100)
}

func headersOf(env *schemas.Envelope) (out []kgo.RecordHeader) {
	env.Each(func(k string, v []byte) { out = append(out, kgo.RecordHeader{Key: k, Value: v}) })
	return out
}

// TestAForeignRecordIsNeverCalled: not even after the transaction that put it aside
// was aborted.
func TestAForeignRecordIsNeverCalled(t *testing.T) {
	topic := topics.Names{}.Dispatch("p", topics.QueueNormal)
	s := &stage{cfg: &Config{Provider: "p"}, calls: newCalls(t.Context(), nil, nil), index: map[string]int{topic: normal}, now: time.Now}
	l := s.newLane(0)
	s.lanes = map[int32]*lanePart{0: l}
	if err := s.take(&kgo.Record{Topic: topic, Offset: 7, Value: []byte("{}")}, nil); err != nil {
		t.Fatal(err)
	}
	q := l.queues[normal]
	it := q.items[0]
	for range 2 {
		if it.state != answered || len(l.answered) != 1 || q.head() != nil || q.low() != 7 {
			t.Fatalf("state %d, %d answered, low %d: want it in hand, and nothing to call", it.state, len(l.answered), q.low())
		}
		l.answered, it.state = nil, ending
		s.undo(transaction{ended: []ended{{lane: l, item: it}}})
	}
}
