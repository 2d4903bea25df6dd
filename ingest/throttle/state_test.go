package throttle

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/schemas"
)

func window(t interface{ Fatal(...any) }, text string) schemas.Window {
	w, err := schemas.ParseWindow(text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// step is a call at a time, and what it should be told.
type step struct {
	at        time.Duration
	allowed   bool
	remaining int64
	reset     time.Duration
	wait      time.Duration
}

func TestTake(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, tt := range []struct {
		name, rate string
		smooth     bool
		policy     string
		steps      []step
	}{
		{"a bucket", "bucket 2 refill 5/s", false, `"write";q=2;w=1`, []step{
			{0, true, 1, 200 * ms, 0},
			{0, true, 0, 200 * ms, 0},
			{0, false, 0, 200 * ms, 0},
			{150 * ms, false, 0, 50 * ms, 0},
			{200*ms - 1*time.Microsecond, false, 0, time.Microsecond, 0},
			{200 * ms, true, 0, 200 * ms, 0}, // what was refused has cost nothing
			{time.Hour, true, 1, 200 * ms, 0},
			{time.Hour + 100*ms, true, 0, 100 * ms, 0},
		}},
		{"a time before the last counts as that", "bucket 1 refill 1/s", false, `"write";q=1;w=1`, []step{
			{10 * s, true, 0, s, 0},
			{9 * s, false, 0, s, 0},
			{11*s - ms, false, 0, ms, 0},
			{11 * s, true, 0, s, 0},
		}},
		{"thirds of a second are not rounded away", "bucket 1 refill 3/s", false, `"write";q=1;w=1`, []step{
			{0, true, 0, 333334 * time.Microsecond, 0},
			{333333 * time.Microsecond, false, 0, time.Microsecond, 0},
			{333334 * time.Microsecond, true, 0, 333334 * time.Microsecond, 0},
		}},
		{"a window that rolls", "3/60s", false, `"write";q=3;w=60`, []step{
			{0, true, 2, 60 * s, 0},
			{10 * s, true, 1, 50 * s, 0},
			{10 * s, true, 0, 50 * s, 0},
			{59 * s, false, 0, s, 0},
			{60*s - time.Microsecond, false, 0, time.Microsecond, 0},
			{60 * s, true, 0, 10 * s, 0},
			{69 * s, false, 0, s, 0},
			{70 * s, true, 1, 50 * s, 0},
			{time.Hour, true, 2, 60 * s, 0},
		}},
		{"smooth: as many as the bucket holds, in turn", "bucket 3 refill 5/s", true, `"write";q=3;w=1`, []step{
			{0, true, 2, 200 * ms, 0},
			{0, true, 1, 200 * ms, 200 * ms},
			{0, true, 0, 200 * ms, 400 * ms},
			{0, false, 0, 200 * ms, 0},
			{100 * ms, false, 0, 100 * ms, 0},
			{200 * ms, true, 0, 200 * ms, 400 * ms},
			{10 * s, true, 2, 200 * ms, 0},
		}},
		{"smooth: nobody waits for longer than MaxWait", "bucket 10 refill 1/4s", true, `"write";q=3;w=12`, []step{
			{0, true, 2, 2 * s, 0},
			{0, true, 1, 2 * s, 4 * s},
			{0, true, 0, 2 * s, 8 * s},
			{0, false, 0, 2 * s, 0},
			{s, false, 0, s, 0},
			{2 * s, true, 0, 4 * s, 10 * s},
		}},
		{"smooth: a window that rolls is its pace", "2/1s", true, `"write";q=2;w=1`, []step{
			{0, true, 1, 500 * ms, 0},
			{0, true, 0, 500 * ms, 500 * ms},
			{0, false, 0, 500 * ms, 0},
			{500 * ms, true, 0, 500 * ms, 500 * ms},
		}},
		{"as large as there are", "bucket 1000000000 refill 900/s", false, `"write";q=1000000000;w=1111112`, []step{
			{0, true, 999_999_999, 1112 * time.Microsecond, 0},
			{292 * 365 * 24 * time.Hour, true, 999_999_999, 1112 * time.Microsecond, 0},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRate(Write, window(t, tt.rate), tt.smooth)
			if r.Policy() != tt.policy {
				t.Errorf("%s, want %s", r.Policy(), tt.policy)
			}
			var state state
			for i, want := range tt.steps {
				v := state.take(r, want.at.Microseconds())
				if got := (step{want.at, v.Allowed, v.Remaining, v.Reset, v.Wait}); got != want {
					t.Errorf("step %d: %+v, want %+v", i, got, want)
				}
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	for kind, want := range map[Kind]string{Login: "5/15m", Query: "bucket 100 refill 10/s", Write: "bucket 30 refill 5/s", Batch: "bucket 10 refill 1/m", Import: "bucket 10 refill 1/m"} {
		if got := Defaults[kind]; got != window(t, want) {
			t.Errorf("%s: %v, want %s", kind, got, want)
		}
	}
	if len(Kinds) != kinds || len(Defaults) != kinds {
		t.Fatal("a kind is missing")
	}
	for i, k := range Kinds {
		if k.index() != i {
			t.Errorf("%s has index %d, want %d", k, k.index(), i)
		}
		if k != Login && !slices.Contains(schemas.KeyRates, string(k)) {
			t.Errorf("a policy cannot set %s", k)
		}
	}
}

// genRate is a rate of a policy, and its window.
func genRate(t *rapid.T, smooth bool) (schemas.Window, *Rate) {
	w := rapid.Custom(func(t *rapid.T) schemas.Window {
		n := rapid.Int64Range(1, 40).Draw(t, "n")
		if rapid.Bool().Draw(t, "rolls") {
			return schemas.Window{Kind: schemas.WindowRolling, N: n, Length: time.Duration(rapid.Int64Range(1, 5000).Draw(t, "ms")) * time.Millisecond}
		}
		tokens, every := rapid.Int64Range(1, 50).Draw(t, "tokens"), rapid.Int64Range(1, 3000).Draw(t, "every")
		g := gcd(tokens, every)
		return schemas.Window{Kind: schemas.WindowBucket, N: n, RefillTokens: tokens / g, RefillEvery: every / g}
	}).Draw(t, "window")
	return w, NewRate(Write, w, smooth)
}

// bucketModel is a token bucket in fractions.
type bucketModel struct {
	level *big.Rat
	at    int64
}

func (m *bucketModel) take(w schemas.Window, now int64) (allowed bool, remaining int64) {
	full := new(big.Rat).SetInt64(w.N)
	if m.level == nil {
		m.level = full
	}
	gained := big.NewRat((now-m.at)*w.RefillTokens, w.RefillEvery*1000)
	m.at = now
	m.level = new(big.Rat).Add(m.level, gained)
	if m.level.Cmp(full) > 0 {
		m.level = full
	}
	one := big.NewRat(1, 1)
	if allowed = m.level.Cmp(one) >= 0; allowed {
		m.level = new(big.Rat).Sub(m.level, one)
	}
	return allowed, new(big.Int).Quo(m.level.Num(), m.level.Denom()).Int64()
}

// windowModel keeps every call that it has let through.
type windowModel []int64

func (m *windowModel) take(w schemas.Window, now int64) (allowed bool, remaining int64) {
	n := int64(0)
	for _, at := range *m {
		if now-at < w.Length.Microseconds() {
			n++
		}
	}
	if allowed = n < w.N; allowed {
		*m = append(*m, now)
		n++
	}
	return allowed, w.N - n
}

// A rate decides as the plainest model does. What it says of the future is so:
// before Reset no more are allowed than now, at Reset one more is.
func TestRateIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, r := genRate(t, false)
		var s state
		var bucket bucketModel
		var rolling windowModel
		now := int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 2_000), rapid.Int64Range(0, 3_000_000)).Draw(t, "later")
			v := s.take(r, now)
			allowed, remaining := false, int64(0)
			if w.Kind == schemas.WindowBucket {
				allowed, remaining = bucket.take(w, now)
			} else {
				allowed, remaining = rolling.take(w, now)
			}
			if v.Allowed != allowed || v.Remaining != remaining {
				t.Fatalf("at %d us: allowed %t remaining %d, want %t %d", now, v.Allowed, v.Remaining, allowed, remaining)
			}
			if v.Wait != 0 {
				t.Fatalf("waits %v", v.Wait)
			}
			if (v.Reset == 0) != (v.Remaining == r.limit) {
				t.Fatalf("reset %v with %d of %d remaining", v.Reset, v.Remaining, r.limit)
			}
			if grows := now + v.Reset.Microseconds(); v.Reset > 0 {
				if early := allowedAt(s, r, grows-1); early != v.Remaining {
					t.Fatalf("%d are allowed before the reset, want %d", early, v.Remaining)
				}
				if then := allowedAt(s, r, grows); then <= v.Remaining {
					t.Fatalf("%d are allowed at the reset, want more than %d", then, v.Remaining)
				}
			}
			if full := s.full(r); full > now && allowedAt(s, r, full-1) == r.limit || allowedAt(s, r, full) != r.limit {
				t.Fatalf("full at %d is not when it is", full)
			}
		}
	})
}

// allowedAt is how many would be allowed at once at a time.
func allowedAt(s state, r *Rate, now int64) (n int64) {
	s.ring = slices.Clone(s.ring)
	for s.take(r, now).Allowed {
		n++
	}
	return n
}

// A smooth rate lets through whom a bucket would, if nobody waits for longer than
// MaxWait. Turns are the refill's interval apart at least, so a window that rolls
// holds at every time.
func TestSmoothIsEvenlySpaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, r := genRate(t, true)
		var s, plain state
		bucket := w
		if w.Kind == schemas.WindowRolling {
			g := gcd(w.N, w.Length.Milliseconds())
			bucket = schemas.Window{Kind: schemas.WindowBucket, N: w.N, RefillTokens: w.N / g, RefillEvery: w.Length.Milliseconds() / g}
		}
		unsmoothed := NewRate(Write, bucket, false)
		var turns []int64
		now := int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 2_000), rapid.Int64Range(0, 3_000_000)).Draw(t, "later")
			v := s.take(r, now)
			if p := plain.take(unsmoothed, now); r.limit == w.N && (v.Allowed != p.Allowed || v.Remaining != p.Remaining) {
				t.Fatalf("at %d us: %+v, a bucket says %+v", now, v, p)
			}
			if v.Wait > MaxWait {
				t.Fatalf("waits %v", v.Wait)
			}
			if v.Allowed {
				turns = append(turns, now+v.Wait.Microseconds())
			}
		}
		for i := range turns {
			// The k-th turn from here comes k intervals later at least, but for the
			// microsecond to which turns are rounded up.
			for j := i + 1; j < len(turns); j++ {
				if least := int64(j-i) * bucket.RefillEvery * 1000 / bucket.RefillTokens; turns[j]-turns[i] < least-1 {
					t.Fatalf("turns %d and %d are %d us apart, want %d", i, j, turns[j]-turns[i], least)
				}
			}
			if w.Kind == schemas.WindowRolling && i >= int(w.N) && turns[i]-turns[i-int(w.N)] < w.Length.Microseconds() {
				t.Fatalf("%d turns within %v", w.N+1, w.Length)
			}
		}
	})
}
