package lane

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// TestBreaker tells stories of calls: a accepted, p permanent, t throttled,
// x transient, u unknown, r and R the same but the recipient's own, - a permit that was never used; a digit waits so many
// seconds before the next.
func TestBreaker(t *testing.T) {
	kinds := map[rune]provider.Kind{'a': provider.Accepted, 'p': provider.Permanent, 't': provider.Throttled, 'x': provider.Transient, 'u': provider.Unknown, 'r': provider.Transient, 'R': provider.Unknown}
	repeat := func(s string, n int) (out string) {
		for range n {
			out += s
		}
		return out
	}
	const closed, half, open = schemas.BreakerClosed, schemas.BreakerHalfOpen, schemas.BreakerOpen
	for _, tt := range []struct {
		name, story string
		want        schemas.Breaker
	}{
		{"new", "", closed},
		{"four failures in a row", "xuxu", closed},
		{"five in a row", "xuxux", open},
		{"an answer between them", "xxxxaxxxx", closed},
		{"a refusal is an answer", "xxxxpxxxx", closed},
		{"throttling is an answer", "xxxxtxxxx", closed},
		{"throttled for ever", repeat("t", 100), closed},
		{"recipients that fail", repeat("rR", 50), closed},
		{"a recipient's failure between a provider's", "xxxxrxxxx", closed},
		{"never called", "xxxx" + repeat("-", 10), closed},
		{"never called between failures", "xxxx-x", open},
		{"half of nineteen", repeat("ax", 9) + "a", closed},
		{"half of twenty", repeat("ax", 10), open},
		{"less than half of twenty", repeat("aax", 12), closed},
		{"half of twenty, but over more than a minute", repeat("ax", 5) + "9999999" + repeat("ax", 5), closed},
		{"just before it is half-open", "xxxxx9", open},
		{"half-open", "xxxxx91", half},
		{"a probe fails", "xxxxx91x", open},
		{"two probes succeed", "xxxxx91aa", half},
		{"three probes succeed", "xxxxx91aaa", closed},
		{"a probe that was never made", "xxxxx91---aa", half},
		{"three probes, one refused", "xxxxx91apa", closed},
		{"closed again it counts anew", "xxxxx91aaaxxxx", closed},
		{"open again, half-open again", "xxxxx91x91", half},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := func() schemas.Millis { return schemas.MillisOf(time.Now()) }
				b := newBreaker(now)
				for _, r := range tt.story {
					if r >= '0' && r <= '9' {
						time.Sleep(time.Duration(r-'0')*time.Second + breakerMoved)
						b.look()
						continue
					}
					done := b.allow()
					if done == nil {
						t.Fatalf("no call %c is allowed in state %s", r, b.look())
					}
					if r == '-' {
						done(verdict(answer{uncalled: true}))
						continue
					}
					done(verdict(answer{outcome: provider.Outcome{Kind: kinds[r], OfRecipient: r == 'r' || r == 'R'}}))
				}
				got := b.look()
				if got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
				if (b.probeAt != 0) != (got == open) || got == open && (b.probeAt < now() || b.probeAt.Sub(now()) > openFor+breakerMoved) {
					t.Errorf("probes at %v in state %s", b.probeAt, got)
				}
			})
		})
	}
}

// TestBreakerProbes: open lets nothing through, half-open three calls at a
// time, and what was permitted before it opened tells nothing any more.
func TestBreakerProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(func() schemas.Millis { return schemas.MillisOf(time.Now()) })
		late := b.allow()
		for range tripInARow {
			b.allow()(errFailed)
		}
		if b.allow() != nil {
			t.Error("a call is allowed while open")
		}
		time.Sleep(time.Until(b.probeAt.Time()))
		if got := b.look(); got != schemas.BreakerHalfOpen {
			t.Fatalf("%s at the time it told", got)
		}
		late(errFailed)
		if got := b.look(); got != schemas.BreakerHalfOpen {
			t.Errorf("%s: the outcome of a call of before counted", got)
		}
		var done []func(error)
		for range probes {
			done = append(done, b.allow())
		}
		if b.allow() != nil {
			t.Errorf("more than %d probes at once", probes)
		}
		done[0](errNotMade)
		if done[0] = b.allow(); done[0] == nil {
			t.Error("a probe that was not made keeps its turn")
		}
		for _, d := range done {
			d(nil)
		}
		if got := b.look(); got != schemas.BreakerClosed {
			t.Errorf("%s after %d good probes", got, probes)
		}
	})
}

func TestTally(t *testing.T) {
	at := schemas.Millis(1_780_000_000_000)
	var y tally
	accepted, failed := &provider.Outcome{Kind: provider.Accepted}, &provider.Outcome{Kind: provider.Unknown}
	refused := []*provider.Outcome{{Kind: provider.Permanent}, {Kind: provider.Throttled}, {Kind: provider.Transient, OfRecipient: true}}
	for i := range 90 { // one a second, each third fails, and each third is refused
		t := at.Add(time.Duration(i) * time.Second)
		y.add(t, t, []*provider.Outcome{failed, refused[i/3%3], accepted}[i%3])
	}
	last := at.Add(89 * time.Second)
	for _, tt := range []struct {
		later                    time.Duration
		calls, failures, refused int64
	}{{0, 60, 20, 20}, {time.Second, 59, 19, 20}, {2 * time.Second, 58, 19, 19}, {30 * time.Second, 30, 10, 10}, {time.Hour, 0, 0, 0}} {
		if got, want := y.sums(last.Add(tt.later)), (outcomes{tt.calls, tt.failures, tt.refused}); got != want {
			t.Errorf("%v later: %+v, want %+v", tt.later, got, want)
		}
	}

	// From when the breaker closes nothing of before counts, however late it ends.
	y.add(last, last, failed)
	y.anew(last.Add(time.Second))
	y.anew(last) // it does not go back
	late := last.Add(2 * time.Second)
	y.add(late, last, failed)
	y.add(late, last.Add(time.Second), accepted)
	if got := y.sums(late); got != (outcomes{calls: 1}) {
		t.Errorf("after the breaker closed: %+v, want one call", got)
	}
	later := late.Add(time.Hour)
	y.add(later, last, failed)
	if got := y.sums(later); got != (outcomes{}) {
		t.Errorf("an hour after the breaker closed: %+v of before", got)
	}
}
