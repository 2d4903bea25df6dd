package throttle

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/weirhq/weir/schemas"
)

// Kind is a kind of call. Each has buckets of its own.
type Kind string

const (
	None   Kind = "" // not limited
	Login  Kind = "login"
	Query  Kind = "query"
	Write  Kind = "write"
	Batch  Kind = "batch"
	Import Kind = "import"
)

// Kinds are those that are limited. All but Login can be set in a policy
// (schemas.KeyRates).
var Kinds = []Kind{Login, Query, Write, Batch, Import}

const kinds = 5

// index is k's place among Kinds, or -1.
func (k Kind) index() int {
	switch k {
	case Login:
		return 0
	case Query:
		return 1
	case Write:
		return 2
	case Batch:
		return 3
	case Import:
		return 4
	case None:
	}
	return -1
}

// Defaults are the rates of who has no others. Wrong keys and sign-ins count
// as Login, by address and in a window that rolls: a bucket would let through
// up to twice as many in its first quarter of an hour.
var Defaults = map[Kind]schemas.Window{
	Login:  {Kind: schemas.WindowRolling, N: 5, Length: 15 * time.Minute},
	Query:  {Kind: schemas.WindowBucket, N: 100, RefillTokens: 1, RefillEvery: 100},
	Write:  {Kind: schemas.WindowBucket, N: 30, RefillTokens: 1, RefillEvery: 200},
	Batch:  {Kind: schemas.WindowBucket, N: 10, RefillTokens: 1, RefillEvery: 60_000},
	Import: {Kind: schemas.WindowBucket, N: 10, RefillTokens: 1, RefillEvery: 60_000},
}

// MaxWait is the longest that a smooth rate makes a call wait for its turn.
// Whose turn would come later is refused, though the bucket had room: a caller
// is better told than kept on a line that he has long given up.
const MaxWait = 10 * time.Second

// Rate is one rate, ready to decide by. It is immutable, and two that decide
// alike are ==.
//
// Time is in whole microseconds. A bucket's level is kept in parts of a token so
// small that a microsecond refills a whole number of them, so nothing is ever
// rounded: schemas.Window bounds n times the parts so that it fits 63 bits.
type Rate struct {
	kind   Kind
	smooth bool
	limit  int64 // how many a full caller may ask at once
	policy string

	part   int64 // parts of a token; 0: it is a window that rolls
	refill int64 // parts that a microsecond brings
	room   int64 // debt up to which one more is let in
	length int64 // of a window that rolls, in microseconds
}

// NewRate makes a rate of a bucket or a rolling window that schemas.Policy
// accepts as one. A smooth one lets through as many, evenly spaced; to a window
// that rolls that is the same as its n in a bucket that refills in its length.
func NewRate(k Kind, w schemas.Window, smooth bool) *Rate {
	r := &Rate{kind: k, smooth: smooth, limit: w.N}
	var span int64 // in which limit comes back, in microseconds
	switch {
	case w.Kind == schemas.WindowRolling && !smooth:
		r.length = w.Length.Microseconds()
		span = r.length
	case w.Kind == schemas.WindowRolling:
		g := gcd(w.N, w.Length.Milliseconds())
		w.RefillTokens, w.RefillEvery = w.N/g, w.Length.Milliseconds()/g
		fallthrough
	default:
		r.part, r.refill = w.RefillEvery*1000, w.RefillTokens
		r.room = (w.N - 1) * r.part
		if most := MaxWait.Microseconds(); smooth && r.room/most >= r.refill {
			r.room = r.refill * most
			r.limit = r.room/r.part + 1
		}
		span = divUp(r.limit, r.part, r.refill)
	}
	r.policy = fmt.Sprintf(`"%s";q=%d;w=%d`, k, r.limit, (span+999_999)/1_000_000)
	return r
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// divUp is a*b/c rounded up, for a*b beyond 64 bits.
func divUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c-1), 0)
	q, _ := bits.Div64(hi+carry, lo, uint64(c))
	return int64(q)
}

// Kind is the kind of call that the rate is for.
func (r *Rate) Kind() Kind { return r.kind }

// Limit is how many calls a caller may make at once who has made none for long.
func (r *Rate) Limit() int64 { return r.limit }

// Policy is the rate as an item of RateLimit-Policy
// (draft-ietf-httpapi-ratelimit-headers-11): "write";q=30;w=6, where w is how
// many seconds it takes for q to come back.
func (r *Rate) Policy() string { return r.policy }
