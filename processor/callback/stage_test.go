package callback

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/schemas"
)

func always(code int) func(string, time.Time) (int, time.Duration, error) {
	return func(string, time.Time) (int, time.Duration, error) { return code, 10 * time.Millisecond, nil }
}

// Nobody takes it for three days: it is tried to their end, and then given up.
func TestThreeDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 1)
		began := time.Now()
		var tries []time.Duration
		s.answer = func(string, time.Time) (int, time.Duration, error) {
			tries = append(tries, time.Since(began))
			return 404, 10 * time.Millisecond, nil
		}
		s.say("acme", "00000001", schemas.StatusSent, 1, "")
		s.say("acme", "00000001", schemas.StatusDelivered, 1, "")
		s.run(70*time.Hour, 100*time.Millisecond)
		if waits := len(s.delayed); waits != 2 {
			t.Fatalf("%d wait after 70 hours", waits)
		}
		s.run(10*time.Hour, 100*time.Millisecond)
		if len(s.delayed) != 0 || s.stage.count != 0 || len(s.stage.parts[0].book.threads)+len(s.stage.parts[1].book.threads)+len(s.stage.parts[2].book.threads) != 0 {
			t.Errorf("something waits still")
		}
		if n := len(tries); n < 20 || n > 60 {
			t.Errorf("%d tries", n)
		}
		if last := tries[len(tries)-1]; last < keepTrying || last > keepTrying+7*time.Hour {
			t.Errorf("the last try was after %v", last)
		}
		if tries[1] > 6*time.Second || tries[2] > 40*time.Second {
			t.Errorf("the first tries: %v", tries[:3])
		}
		s.answer = always(200)
		s.finish(nil)
	})
}

// errPanics is of a call that panics.
var errPanics = errors.New("panics")

// TestACallThatPanics: it counts as failed, and the callback is tried again.
func TestACallThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 1)
		s.answer = func(string, time.Time) (int, time.Duration, error) {
			if s.attempts == 0 {
				return 0, time.Millisecond, errPanics
			}
			return 200, time.Millisecond, nil
		}
		e := s.say("acme", "00000001", schemas.StatusSent, 1, "")
		s.run(time.Minute, 50*time.Millisecond)
		s.finish([]*schemas.Event{e})
	})
}

// 410 disables the endpoint: what comes after it is not told, until its address or its
// secret changes, or an operator enables it.
func TestGone(t *testing.T) {
	for _, c := range []struct {
		name string
		mend func(s *sim)
	}{
		{"another address", func(s *sim) { s.policy.Tenants[0].Callback.URL = "https://acme.example/other" }},
		{"another secret", func(s *sim) { s.policy.Tenants[0].Callback.Secret = "${SECRET2}" }},
		{"enabled", func(s *sim) {
			for print := range s.stage.notes.off {
				s.stage.notes.take(&kgo.Record{Key: []byte(noteKey(print))})
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, 1)
				s.answer = func(tenant string, _ time.Time) (int, time.Duration, error) {
					if tenant == "acme" {
						return 410, time.Millisecond, nil
					}
					return 200, time.Millisecond, nil
				}
				s.say("acme", "00000001", schemas.StatusSent, 1, "")
				s.run(10*time.Second, 50*time.Millisecond)
				calls := s.attempts
				for i := range 20 {
					s.say("acme", fmt.Sprintf("1%07d", i), schemas.StatusSent, 1, "")
				}
				other := s.say("calm", "00000002", schemas.StatusSent, 1, "")
				s.run(10*time.Second, 50*time.Millisecond)
				if calls != 1 || s.attempts != 2 {
					t.Errorf("%d and %d calls", calls, s.attempts)
				}
				s.finish([]*schemas.Event{other})
				s.answer = always(204)
				p := s.policy
				p.Tenants = nil
				for _, v := range s.policy.Tenants {
					cb := *v.Callback
					v.Callback = &cb
					p.Tenants = append(p.Tenants, v)
				}
				s.policy = p
				c.mend(s)
				s.revision++
				before := s.attempts
				s.say("acme", "00000003", schemas.StatusSent, 1, "")
				s.run(2*time.Second, 50*time.Millisecond)
				if s.attempts != before+1 {
					t.Errorf("it is not called again")
				}
			})
		})
	}
}

// While secrets rotate both sign: who knows either can verify, by the official library.
func TestRotation(t *testing.T) {
	body := Body(&schemas.Event{Kind: schemas.KindStatus, MessageID: "m", To: "+8613800138000", Status: schemas.StatusDelivered, At: schemas.MillisOf(time.Now())})
	h, err := outbound.SignAll([]string{whsec, whsec2}, "msg_1", time.Now(), body)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{whsec, whsec2} {
		wh, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := wh.Verify(body, h); err != nil {
			t.Errorf("%v", err)
		}
		if err := wh.Verify(append(body, ' '), h); err == nil {
			t.Error("another body is verified")
		}
	}
	synctest.Test(t, func(t *testing.T) { // and the policy's previous_secret is one of them
		s := newSim(t, 1)
		s.policy.Tenants[0].Callback.Secret, s.policy.Tenants[0].Callback.PreviousSecret = "${SECRET2}", "${SECRET}"
		e := s.say("acme", "00000001", schemas.StatusSent, 1, "")
		s.run(time.Second, 50*time.Millisecond)
		s.finish([]*schemas.Event{e}) // Post verifies by the one before
	})
}

// A request's own address is where its statuses go, its receipt's too, which does not
// name it; also after a crash.
func TestOwnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 1)
		own := "https://mine.example/x?y=1"
		want := []*schemas.Event{s.say("acme", "00000001", schemas.StatusQueued, 0, own), s.say("acme", "00000001", schemas.StatusSent, 1, own)}
		s.run(time.Second, 50*time.Millisecond)
		s.crash()
		want = append(want, s.say("acme", "00000001", schemas.StatusDelivered, 1, ""), s.say("acme", "00000002", schemas.StatusDelivered, 1, ""))
		s.run(time.Second, 50*time.Millisecond)
		s.finish(nil)
		var got []string
		for _, g := range s.got {
			got = append(got, g.url)
		}
		slices.Sort(got) // two messages are told in any order
		if fmt.Sprint(got) != fmt.Sprint([]string{"https://acme.example/hook", own, own, own}) {
			t.Errorf("%q", got)
		}
		if len(s.got) != len(want) {
			t.Errorf("%d", len(s.got))
		}
		// A tenant without a secret is told nothing, nor what it does not ask for.
		s.policy.Tenants = []schemas.Tenant{{Name: "acme", Callback: &schemas.Callback{Secret: "${SECRET}", Events: []string{"failed"}}}}
		s.revision++
		s.say("calm", "00000003", schemas.StatusSent, 1, own)
		s.say("acme", "00000004", schemas.StatusSent, 1, own)
		s.say("acme", "00000005", schemas.StatusFailed, 1, "")
		mine := s.say("acme", "00000006", schemas.StatusFailed, 1, own)
		s.run(time.Second, 50*time.Millisecond)
		if n := len(s.got); n != 5 || s.got[4].id != ID(mine) {
			t.Errorf("%d", n)
		}
		s.run(4*24*time.Hour, time.Minute)
		for _, p := range s.stage.parts {
			if len(p.own) != 0 {
				t.Errorf("the address is still kept")
			}
		}
	})
}

// An address that is private for a while, as a name in a rebinding is, is not called, and
// nothing is lost.
func TestRefusedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 1)
		began := time.Now()
		s.answer = func(string, time.Time) (int, time.Duration, error) {
			if time.Since(began) < 20*time.Minute {
				return 0, time.Millisecond, fmt.Errorf("post: %w", outbound.ErrRefused)
			}
			return 200, time.Millisecond, nil
		}
		want := []*schemas.Event{s.say("acme", "00000001", schemas.StatusSent, 1, ""), s.say("acme", "00000001", schemas.StatusDelivered, 1, "")}
		s.run(time.Hour, 100*time.Millisecond)
		s.finish(want)
	})
}

// A receiver that asks to wait is not called before.
func TestRetryAfter(t *testing.T) {
	for _, code := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, 1)
			began := time.Now()
			var at []time.Duration
			s.after = 2 * time.Minute
			s.answer = func(string, time.Time) (int, time.Duration, error) {
				if at = append(at, time.Since(began)); len(at) == 1 {
					return code, time.Millisecond, nil
				}
				return 200, time.Millisecond, nil
			}
			want := []*schemas.Event{s.say("acme", "00000001", schemas.StatusSent, 1, "")}
			s.run(time.Second, 50*time.Millisecond)
			want = append(want, s.say("acme", "00000002", schemas.StatusSent, 1, "")) // another's message waits too
			s.run(time.Hour, 100*time.Millisecond)
			s.finish(want)
			if at[1] < 2*time.Minute {
				t.Errorf("%d: called after %v", code, at[1])
			}
		})
	}
}

// A replay tells a message's statuses again: in order, under the same ids.
func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 1)
		var want []*schemas.Event
		for i, st := range []schemas.Status{schemas.StatusQueued, schemas.StatusSending, schemas.StatusSent} {
			want = append(want, s.say("acme", "00000001", st, i, ""))
		}
		s.run(2*time.Second, 50*time.Millisecond)
		fails := 0
		s.answer = func(string, time.Time) (int, time.Duration, error) {
			if fails++; fails == 2 {
				return 500, time.Millisecond, nil
			}
			return 200, time.Millisecond, nil
		}
		var asked []*schemas.Event
		for _, e := range want { // as the store has them
			stored := *e
			stored.Decision, stored.Source = nil, nil
			asked = append(asked, &stored)
		}
		for _, r := range Replay(s.names, simParts, asked) {
			r.Offset = int64(len(s.callbacks[r.Partition]))
			r.Timestamp = time.Now()
			s.callbacks[r.Partition] = append(s.callbacks[r.Partition], r)
		}
		s.run(time.Second, 50*time.Millisecond)
		s.crash()
		s.run(time.Minute, 50*time.Millisecond)
		s.finish(want)
		var ids []string
		for _, g := range s.got {
			ids = append(ids, g.id)
		}
		var order []string
		for _, e := range append(want, want...) {
			order = append(order, ID(e))
		}
		if fmt.Sprint(ids) != fmt.Sprint(order) || s.got[0].body != s.got[3].body {
			t.Errorf("%q\n%q", ids, order)
		}
	})
}

// What a policy asks for no more is not told, though it waits.
func TestWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 1)
		s.answer = always(500)
		s.say("acme", "00000001", schemas.StatusSent, 1, "")
		s.say("acme", "00000001", schemas.StatusDelivered, 1, "")
		s.run(time.Second, 50*time.Millisecond)
		s.policy.Tenants, s.answer = s.policy.Tenants[1:], always(200)
		s.revision++
		s.run(time.Hour, 50*time.Millisecond)
		s.finish(nil)
		if len(s.got) != 0 || len(s.delayed) != 0 {
			t.Errorf("%d told, %d wait", len(s.got), len(s.delayed))
		}
	})
}

// A burst that an endpoint cannot take in time waits, and is told; the endpoint is called
// by no more than its share at once.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 1)
		s.answer = func(string, time.Time) (int, time.Duration, error) { return 200, 100 * time.Millisecond, nil }
		var want []*schemas.Event
		for i := range 4000 {
			want = append(want, s.say("acme", fmt.Sprintf("%08d", i), schemas.StatusSent, 1, ""))
		}
		s.run(5*time.Minute, 20*time.Millisecond)
		s.finish(want)
		if s.most["acme"] != maxCalls || len(s.got) != len(want) {
			t.Errorf("%d at once, %d told", s.most["acme"], len(s.got))
		}
	})
}

func TestIDs(t *testing.T) {
	e := schemas.Event{MessageID: "m", To: "t", Tenant: "a", Status: schemas.StatusSent, At: 1, Attempt: 1, Reason: "r"}
	is := ID(&e)
	if len(is) != 4+32 || !strings.HasPrefix(is, "msg_") || strings.Contains(is, ".") {
		t.Error(is)
	}
	for name, change := range map[string]func(e *schemas.Event){
		"message": func(e *schemas.Event) { e.MessageID = "n" }, "recipient": func(e *schemas.Event) { e.To = "u" },
		"tenant": func(e *schemas.Event) { e.Tenant = "b" }, "status": func(e *schemas.Event) { e.Status = schemas.StatusFailed },
		"time": func(e *schemas.Event) { e.At++ }, "attempt": func(e *schemas.Event) { e.Attempt++ }, "reason": func(e *schemas.Event) { e.Reason = "" },
	} {
		other := e
		if change(&other); ID(&other) == is {
			t.Errorf("%s: the same id", name)
		}
	}
	other := e
	other.Provider, other.Decision, other.Source, other.CallbackURL = "p", &schemas.Decision{}, &schemas.Source{}, "u"
	if ID(&other) != is {
		t.Error("what the store does not tell apart changes the id")
	}
}

func TestJudge(t *testing.T) {
	for code, want := range map[int]verdict{200: taken, 204: taken, 299: taken, 301: failed, 308: failed, 400: failed, 404: failed, 410: gone, 429: failed, 500: failed, 503: failed} {
		if got, _ := judge(&outbound.Answer{Code: code}); got != want {
			t.Errorf("%d: %s", code, got)
		}
	}
}

// Before anything was ever written, how far the stage is is noted once, and then no
// more: nothing happens.
func TestNothingYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, 1)
		for range 100 {
			s.run(50*time.Millisecond, 50*time.Millisecond) // a step
		}
		for n, records := range s.state {
			if len(records) != 1 {
				t.Errorf("partition %d of the state has %d records, want 1", n, len(records))
			}
		}
	})
}
