package backtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Config says which traffic is decided again, and under which policy.
type Config struct {
	Brokers []string
	Names   topics.Names
	Options []kgo.Opt
	// History has what weir.status no longer holds; nil is nobody.
	History History

	// Tried is the whole policy that is tried, of which the limits and templates
	// count: what a file changes is merged into InForce before.
	Tried *schemas.Policy
	// InForce is the revision to compare with.
	InForce *schemas.Revision

	// From is when the policy is taken to come into force. What lies before it
	// fills the windows, as it happened. The zero value is the beginning of the log.
	From schemas.Millis
	// Until is from when on nothing is looked at; the zero value is now.
	Until schemas.Millis

	// Most bounds what is kept in memory: messages under way, recipients, places
	// by limit and scope, and requests where the policy asks for their content.
	// Default DefaultMost. Beyond it Run fails with an ErrTooMuch.
	Most int64
	// Stall is how long a partition may bring nothing before its end: a dead
	// owner's open transaction holds it back. Default 30 s.
	Stall time.Duration

	// Progress says how many records were read, of how many. It may be nil, and is called at most once a
	// second.
	Progress func(done, total int64)
	// Each is told of every decision that limits took part in, now or then, also
	// of the time before From. Nil is nobody. Calls may come at the same time,
	// and those of one partition in the order of its log.
	Each func(Answer)
}

// DefaultMost is Config.Most by default: about 2 GB in the worst case, where all
// are messages under way; about 1 GB as a rule.
const DefaultMost = 8_000_000

// ErrTooMuch means that a backtest would need more memory than it may take.
var ErrTooMuch = errors.New("the traffic is too much to keep in memory: take a shorter time, or a policy with shorter windows")

// History has decisions that Kafka has let go of. It knows neither metadata nor
// content nor cost.
type History interface {
	// Begins returns the time of a partition's first decision that was taken at or
	// after from, and the offset of its record of weir.status; zeros when there is
	// none. whole says that nothing is missing between from and it, or where there is
	// none at all since from: it is the first ever, or the one before is here.
	Begins(ctx context.Context, partition int32, from schemas.Millis) (t schemas.Millis, offset int64, whole bool, err error)
	// Decisions calls fn with a partition's events that have a decision, in the
	// order of their numbers: those of from or later whose record stood before
	// the given offset of weir.status. The event is fn's to keep.
	Decisions(ctx context.Context, partition int32, from schemas.Millis, before int64, fn func(*schemas.Event) error) error
	// Count returns how many events Decisions would call fn with.
	Count(ctx context.Context, partition int32, from schemas.Millis, before int64) (int64, error)
}

// Answer is what limits said to one message at one decision, then and now.
type Answer struct {
	Partition int32
	Seq       int64
	T         schemas.Millis
	MessageID string
	Then, Now Said
}

// Said is one answer. A place that is not taken because a limit only observes is
// in neither.
type Said struct {
	Refused  bool
	Observed bool   // let through, though a limit in observe mode was full
	Limit    string // that refused, or would have
	Window   string
	Places   []schemas.Charge // what the message holds if it was let through; not to be kept
}

// Run decides recorded traffic again. An error is one of reading, of ctx, of an
// unusable policy or ErrTooMuch; there is no result then.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if cfg.Tried == nil || cfg.InForce == nil {
		return nil, errors.New("backtest: name the policy to try and the one in force")
	}
	cfg.Most = cmp.Or(cfg.Most, DefaultMost)
	cfg.Until = cmp.Or(cfg.Until, schemas.MillisOf(time.Now()))
	if cfg.From >= cfg.Until {
		return nil, fmt.Errorf("backtest: it begins at %s, which is not before its end at %s", cfg.From, cfg.Until)
	}
	rules, err := limit.Compile(cfg.Tried, nil)
	if err != nil {
		return nil, fmt.Errorf("the policy to try: %w", err)
	}
	return run(ctx, cfg, rules)
}
