package lane

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// TestPaceAgainstBruteForce: every permit is at the earliest millisecond at
// which no window holds more than n, counted over all permits ever given.
func TestPaceAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func() []schemas.Window {
			var ws []schemas.Window
			for range rapid.IntRange(0, 3).Draw(t, "windows") {
				ws = append(ws, schemas.Window{Kind: schemas.WindowRolling, N: rapid.Int64Range(1, 6).Draw(t, "n"), Length: time.Duration(rapid.IntRange(1, 60).Draw(t, "ms")) * time.Millisecond})
			}
			return ws
		}
		windows := draw()
		var p pace
		var all []schemas.Millis
		fits := func(at schemas.Millis) bool {
			for _, w := range windows {
				n := int64(0)
				for _, past := range all {
					if at.Sub(past) < w.Length {
						n++
					}
				}
				if n >= w.N {
					return false
				}
			}
			return true
		}
		now := schemas.Millis(1000)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += schemas.Millis(rapid.IntRange(0, 20).Draw(t, "later"))
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				windows = draw() // a new policy acts on the next permit
			}
			at := p.next(windows, now)
			if !fits(at) {
				t.Fatalf("at %d after %v under %v: over the pace", at, all, windows)
			}
			earliest := now
			if len(all) > 0 {
				earliest = max(earliest, all[len(all)-1])
			}
			for ; earliest < at; earliest++ {
				if fits(earliest) {
					t.Fatalf("at %d although %d would do, after %v under %v", at, earliest, all, windows)
				}
			}
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0: // an aborted transaction
				p.add(at)
				p.undo(1)
			default:
				p.add(at)
				all = append(all, at)
				now = at
			}
			p.trim(60*time.Millisecond, now) // the longest that draw makes
		}
	})
}

func TestShareSumsToThePace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lanes := rapid.Int32Range(1, 16).Draw(t, "lanes")
		n := rapid.Int64Range(int64(lanes), 1000).Draw(t, "n")
		sum := int64(0)
		for l := range lanes {
			sum += share([]schemas.Window{{N: n}}, lanes, l)[0].N
		}
		if sum != n {
			t.Fatalf("%d lanes of %d share %d", lanes, n, sum)
		}
	})
}

func TestChoose(t *testing.T) {
	count := func(ready lines) (got [priorities][halves]int) {
		for slot := range uint64(1000) {
			p, h, ok := choose(slot, ready)
			if !ok {
				t.Fatalf("chose nothing of %v", ready)
			}
			got[p][h]++
		}
		return got
	}
	both := [halves]bool{true, true}
	back, new := [halves]bool{returned: true}, [halves]bool{first: true}
	for _, tt := range []struct {
		name  string
		ready lines
		want  [priorities][halves]int // returned, first
	}{
		{"all", lines{both, both, both}, [priorities][halves]int{{400, 300}, {100, 100}, {50, 50}}},
		{"first attempts of all", lines{new, new, new}, [priorities][halves]int{{0, 700}, {0, 200}, {0, 100}}},
		{"urgent and bulk", lines{urgently: new, inBulk: new}, [priorities][halves]int{urgently: {0, 900}, inBulk: {0, 100}}},
		{"normal, both halves", lines{normally: both}, [priorities][halves]int{normally: {550, 450}}},
		{"normal that returned, and bulk", lines{normally: back, inBulk: both}, [priorities][halves]int{normally: {900, 0}, inBulk: {50, 50}}},
		{"bulk alone", lines{inBulk: new}, [priorities][halves]int{inBulk: {0, 1000}}},
	} {
		if got := count(tt.ready); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if p, h, ok := choose(9, lines{}); ok {
		t.Errorf("chose %d, %d of nothing", p, h)
	}
}

// TestChooseShares: whatever waits, in any ten permits each priority has its
// share, and each half of one in any twenty; an urgent message is never behind
// more than one permit to another; and only what is ready is chosen.
func TestChooseShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Uint64Range(0, 1<<40).Draw(t, "slot")
		var ready lines
		for p := range ready {
			for h := range ready[p] {
				ready[p][h] = rapid.Bool().Draw(t, "ready")
			}
		}
		if ready == (lines{}) {
			return
		}
		var got, ten [priorities][halves]int
		behind := 0
		for i := range uint64(20) {
			p, h, ok := choose(start+i, ready)
			if !ok || !ready[p][h] {
				t.Fatalf("chose %d, %d, %v of %v", p, h, ok, ready)
			}
			if behind++; p == urgently {
				behind = 0
			}
			if ready[urgently] != [halves]bool{} && behind > 1 {
				t.Fatalf("urgent is behind %d permits", behind)
			}
			got[p][h]++
			if i < 10 {
				ten[p][h]++
			}
		}
		for p, least := range [priorities]int{7, 2, 1} {
			if ready[p] != [halves]bool{} && ten[p][0]+ten[p][1] < least {
				t.Fatalf("priority %d has %v of ten permits, want %d", p, ten[p], least)
			}
			for h := range ready[p] {
				if ready[p][h] && got[p][h] == 0 || ready[p][h] && p != inBulk && ten[p][h] == 0 {
					t.Fatalf("priority %d, half %d has %v of ten permits and %v of twenty", p, h, ten[p], got[p])
				}
			}
		}
	})
}

func TestSettle(t *testing.T) {
	resend := schemas.Class{OnUnknown: schemas.UnknownResend, Retries: []schemas.Duration{schemas.Duration(time.Second), schemas.Duration(5 * time.Second)}}
	hold := resend
	hold.OnUnknown = schemas.UnknownHold
	out := func(k provider.Kind, maybe bool) provider.Outcome {
		return provider.Outcome{Kind: k, MayBeReceived: maybe}
	}
	none, received, unknown := schemas.TaintNone, schemas.TaintReceived, schemas.TaintUnknown
	for _, tt := range []struct {
		name    string
		o       provider.Outcome
		class   schemas.Class
		attempt int
		taint   schemas.Taint
		want    settlement
	}{
		{"accepted", out(provider.Accepted, false), resend, 1, none, settlement{status: schemas.StatusSent}},
		{"accepted after unknown", out(provider.Accepted, false), resend, 2, unknown, settlement{status: schemas.StatusSent, taint: unknown}},
		{"permanent", out(provider.Permanent, false), resend, 1, none, settlement{status: schemas.StatusFailed, reason: reasonPermanent, deadLetter: true, giveBack: true}},
		{"permanent, perhaps received", out(provider.Permanent, true), resend, 1, none, settlement{status: schemas.StatusFailed, reason: reasonPermanent, deadLetter: true, taint: received}},
		{"permanent after perhaps received", out(provider.Permanent, false), resend, 2, received, settlement{status: schemas.StatusFailed, reason: reasonPermanent, deadLetter: true, taint: received}},
		{"permanent after unknown", out(provider.Permanent, false), resend, 2, unknown, settlement{status: schemas.StatusUnknown, reason: reasonPermanent, taint: unknown}},
		{"transient", out(provider.Transient, false), resend, 1, none, settlement{status: schemas.StatusRetrying, reason: "transient", wait: time.Second}},
		{"transient, perhaps received", out(provider.Transient, true), resend, 2, none, settlement{status: schemas.StatusRetrying, reason: "transient", wait: 5 * time.Second, taint: received}},
		{"transient for the last time", out(provider.Transient, false), resend, 3, none, settlement{status: schemas.StatusFailed, reason: reasonExhausted, deadLetter: true, giveBack: true}},
		{"transient for the last time after unknown", out(provider.Transient, false), resend, 3, unknown, settlement{status: schemas.StatusUnknown, reason: reasonExhausted, taint: unknown}},
		{"throttled, told less", provider.Outcome{Kind: provider.Throttled, RetryAfter: time.Millisecond}, resend, 1, none, settlement{status: schemas.StatusRetrying, reason: "throttled", wait: time.Second}},
		{"throttled, told more", provider.Outcome{Kind: provider.Throttled, RetryAfter: time.Minute}, resend, 1, none, settlement{status: schemas.StatusRetrying, reason: "throttled", wait: time.Minute}},
		{"unknown, resend", out(provider.Unknown, true), resend, 1, none, settlement{status: schemas.StatusRetrying, reason: "unknown", wait: time.Second, taint: unknown}},
		{"unknown for the last time", out(provider.Unknown, true), resend, 3, none, settlement{status: schemas.StatusUnknown, reason: reasonExhausted, taint: unknown}},
		{"unknown, hold", out(provider.Unknown, true), hold, 1, received, settlement{status: schemas.StatusUnknown, reason: reasonHeld, taint: unknown}},
		{"transient, perhaps received, hold", out(provider.Transient, true), hold, 1, none, settlement{status: schemas.StatusUnknown, reason: reasonHeld, taint: received}},
		{"transient, perhaps received, hold, for the last time", out(provider.Transient, true), hold, 99, none, settlement{status: schemas.StatusUnknown, reason: reasonHeld, taint: received}},
		{"throttled, perhaps received, hold", out(provider.Throttled, true), hold, 1, none, settlement{status: schemas.StatusUnknown, reason: reasonHeld, taint: received}},
		{"transient after perhaps received, hold", out(provider.Transient, false), hold, 2, received, settlement{status: schemas.StatusUnknown, reason: reasonHeld, taint: received}},
		{"permanent, perhaps received, hold", out(provider.Permanent, true), hold, 1, none, settlement{status: schemas.StatusFailed, reason: reasonPermanent, deadLetter: true, taint: received}},
		{"transient under hold", out(provider.Transient, false), hold, 1, none, settlement{status: schemas.StatusRetrying, reason: "transient", wait: time.Second}},
		{"transient, and never again", provider.Outcome{Kind: provider.Transient, Suppress: schemas.SuppressHardBounce}, resend, 1, none, settlement{status: schemas.StatusFailed, reason: reasonPermanent, deadLetter: true, giveBack: true}},
		{"unknown, and never again", provider.Outcome{Kind: provider.Unknown, Suppress: schemas.SuppressHardBounce}, hold, 1, none, settlement{status: schemas.StatusUnknown, reason: reasonHeld, taint: unknown}},
	} {
		if got := settle(tt.o, tt.class, tt.attempt, tt.taint); got != tt.want {
			t.Errorf("%s:\n got %+v\nwant %+v", tt.name, got, tt.want)
		}
	}
}

func TestNoWaitBeyondTheExpiry(t *testing.T) {
	const now = schemas.Millis(1_000_000)
	for _, tt := range []struct {
		name    string
		wait    time.Duration
		expires schemas.Millis
		want    time.Duration
	}{
		{"no expiry", time.Hour, 0, time.Hour},
		{"an expiry far away", time.Minute, now.Add(time.Hour), time.Minute},
		{"an expiry before it would come back", time.Hour, now.Add(4 * time.Minute), 4 * time.Minute},
		{"expired meanwhile", time.Hour, now.Add(-time.Second), 0},
	} {
		if got := within(tt.wait, tt.expires, now); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestWhatWeirDoesNext holds the second table of docs/outcomes.md to the code.
func TestWhatWeirDoesNext(t *testing.T) {
	b, err := os.ReadFile("../../docs/outcomes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "## What Weir does next")
	text, _, _ = strings.Cut(text, "\n##")
	var got [][]string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "|---") {
			cells := strings.Split(line, "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			got = append(got, cells[1:len(cells)-1])
		}
	}
	want := [][]string{{"outcome", "received?", "now", "breaker", "after the last retry", "in the DLQ", "its place then"}}
	for _, k := range provider.Kinds {
		for _, maybe := range []bool{false, true} {
			holds := []schemas.OnUnknown{schemas.UnknownResend}
			switch {
			case k == provider.Accepted && maybe, k == provider.Unknown && !maybe:
				continue
			case maybe && k != provider.Permanent:
				holds = append(holds, schemas.UnknownHold)
			}
			for _, h := range holds {
				o := provider.Outcome{Kind: k, MayBeReceived: maybe}
				class := schemas.Class{OnUnknown: h}
				now, last := settle(o, class, 1, schemas.TaintNone), settle(o, class, 99, schemas.TaintNone)
				r := []string{string(k), "no", string(now.status), "success", "", "no", "stands"}
				if maybe {
					r[1] = "perhaps"
				}
				if k == provider.Accepted {
					r[1] = ""
				}
				if len(holds) > 1 {
					r[0] += ", `on_unknown: " + string(h) + "`"
				}
				if fails(&o) {
					r[3] = "failure"
				}
				if last.status != now.status {
					r[4] = string(last.status)
				}
				if last.deadLetter {
					r[5] = "yes"
				}
				if last.giveBack {
					r[6] = "given back"
				}
				want = append(want, r)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/outcomes.md is not what the lane does (-code +page):\n%s", diff)
	}
}

func TestStanding(t *testing.T) {
	for _, want := range []standing{
		{journal: 12, by: "0af3", n: 7},
		{journal: 12, by: "0af3", n: 7, lanes: 3, grew: 4, seq: math.MaxInt64, back: [priorities]int{2, 3, 4}},
	} {
		if got, err := parseStanding(want.String()); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, bad := range []string{"", "v2 j=1", "v1 j=x by=a n=1", "something"} {
		if _, err := parseStanding(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
