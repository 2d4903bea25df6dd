package lane

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

type broken struct{}

func (broken) Send(context.Context, *provider.Call) provider.Outcome { panic("a bug") }
func (broken) Close() error                                          { return nil }

// TestAnAdaptersPanicIsAnUnknownOutcome: it ends its call, and not the process.
func TestAnAdaptersPanicIsAnUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCalls(t.Context(), broken{}, &stream.Waker{})
		it := &item{key: callKey{permit: schemas.MillisOf(time.Now())}}
		c.start(permitted{item: it, from: time.Now(), expires: time.Now().Add(time.Second)}, time.Second, time.Now)
		got := (<-c.landed).answer.outcome
		if got.Kind != provider.Unknown || !got.MayBeReceived || got.Code != codePanic || !strings.Contains(got.Text, "a bug") {
			t.Errorf("%+v", got)
		}
	})
}

// TestALaneThatCallsNobody: messages wait that may be called, and after a minute without a
// call the lane is reported.
func TestALaneThatCallsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stream.NewWatch(nil)
		s := &stage{cfg: &Config{Provider: "p", Stream: stream.Config{Watch: w}}, calls: newCalls(t.Context(), nil, nil), index: map[string]int{"q": normal}, now: time.Now, known: true}
		l := s.newLane(0)
		s.lanes = map[int32]*lanePart{0: l}
		look := func() int {
			s.watch(schemas.MillisOf(time.Now()))
			return len(w.Stuck())
		}
		look()
		if time.Sleep(time.Hour); look() != 0 {
			t.Fatal("nothing waits")
		}
		l.queues[normal].push(&item{key: callKey{topic: "q"}, rec: &kgo.Record{}})
		look()
		time.Sleep(stream.StuckAfter - time.Second)
		if look() != 0 {
			t.Fatal("before its time")
		}
		if time.Sleep(time.Second); look() != 1 {
			t.Fatal("it is not reported")
		}
		l.slot++ // a permit
		if look() != 0 {
			t.Fatal("it calls")
		}
		for name, wait := range map[string]func(bool){
			"for the pace":            func(on bool) { l.due = map[bool]schemas.Millis{true: 1}[on] },
			"for the provider":        func(on bool) { l.throttle.until = map[bool]schemas.Millis{true: 1 << 50}[on] },
			"for calls under way":     func(on bool) { s.calls.flying[0] = map[bool]int{true: 1}[on] },
			"for the provider's name": func(on bool) { s.known = !on },
		} {
			wait(true)
			look()
			if time.Sleep(time.Hour); look() != 0 {
				t.Errorf("it waits %s, and is reported", name)
			}
			wait(false)
		}
	})
}
