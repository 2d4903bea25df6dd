package topics

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/weirhq/weir/schemas"
)

// How long things are kept beyond what a single window needs.
const (
	DefaultAuditSpan = 7 * 24 * time.Hour  // how far back weir audit can prove
	Outage           = 7 * 24 * time.Hour  // the longest outage that loses nothing
	SeenRetention    = 25 * time.Hour      // idempotency keys hold for 24 h; an hour for the segment that is being written
	DLQRetention     = 30 * 24 * time.Hour // the time people have to redrive
	ReplyRetention   = time.Hour           // far longer than any HTTP request waits
	ReceiptRetention = 7*24*time.Hour + Outage
	journalMargin    = 24 * time.Hour // so that a journal outlives what it guards
)

// Sizes that are part of the catalogue. A batch is bounded by the first, which
// is Kafka's own default and well over MaxRequestBytes; a whole policy is one
// record, bounded by the last.
const (
	MaxMessageBytes       = 1<<20 + 12
	MaxDLQMessageBytes    = 2 << 20 // the largest record of any other topic, and why it is here
	MaxConfigMessageBytes = 8 << 20
)

// defaultReplies is how many ingest instances can wait for replies unless the
// configuration says otherwise; each takes one partition.
const defaultReplies = 8

// Config is what an operator decides about the topics.
type Config struct {
	Prefix      string        // DefaultPrefix when empty
	Partitions  int32         // N of requests, readmit, ledger, seen and status: part of the state. Required.
	Replication int16         // required: 3, or the number of brokers if fewer; see Replication
	MinISR      int16         // 2 when 0, and 1 where there are fewer than three replicas
	AuditSpan   time.Duration // DefaultAuditSpan when 0
	Replies     int32         // partitions of replies: at least the number of ingest instances; 8 when 0
}

var prefixPattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.-]{0,99}$`)

// Validate reports every value that no cluster could be built from.
func (c Config) Validate() error {
	var errs []error
	// No underscore: Kafka's metrics cannot tell it from a dot, and brokers
	// refuse names that differ in nothing else.
	if c.Prefix != "" && !prefixPattern.MatchString(c.Prefix) {
		errs = append(errs, fmt.Errorf("topic prefix %q: letters, digits, dots and hyphens, at most 100, beginning with a letter or digit", c.Prefix))
	}
	if c.Partitions < 1 || c.Partitions > 10_000 {
		errs = append(errs, fmt.Errorf("partitions %d: must be 1 to 10000", c.Partitions))
	}
	if c.Replication < 1 {
		errs = append(errs, fmt.Errorf("replication %d: must be at least 1", c.Replication))
	}
	if c.MinISR < 0 || c.MinISR > c.Replication {
		errs = append(errs, fmt.Errorf("min.insync.replicas %d: must be 1 to the replication %d", c.MinISR, c.Replication))
	}
	if c.AuditSpan < 0 {
		errs = append(errs, fmt.Errorf("audit span %s: must not be negative", c.AuditSpan))
	}
	if c.Replies < 0 {
		errs = append(errs, fmt.Errorf("reply partitions %d: must not be negative", c.Replies))
	}
	return errors.Join(errs...)
}

// Names returns the names under the configuration's prefix.
func (c Config) Names() Names { return Names{Prefix: c.Prefix} }

// Replication returns how many replicas a topic gets on so many brokers: three,
// or all brokers if there are fewer.
func Replication(brokers int) int16 { return int16(max(1, min(3, brokers))) }

// Partitioning says what it means that a topic's partition count differs from
// the catalogue's.
type Partitioning string

const (
	PartitionsFixed Partitioning = "fixed"    // the count is part of the state: any other is refused
	PartitionsLanes Partitioning = "lanes"    // may grow, and more than wanted is refused: lanes only grow
	PartitionsFloor Partitioning = "at least" // may grow; more than wanted is fine
	PartitionsAny   Partitioning = "any"      // a producer's topic: as many as its owner has
)

// Spec is what one topic must be.
type Spec struct {
	Name         string            `json:"name"`
	Partitions   int32             `json:"partitions"`
	Partitioning Partitioning      `json:"partitioning"`
	Replication  int16             `json:"replication"`
	Configs      map[string]string `json:"configs"`
	Holds        string            `json:"holds"`
	// Bound says that the topic is its producers': one of the policy's inputs. It is
	// created where it is missing, and else left as it is.
	Bound bool `json:"bound,omitempty"`

	reserved string // of a bound one: how its name must not begin
}

// BatchBytes returns how large a batch a topic takes, for producers.
func (n Names) BatchBytes(topic string) int32 {
	switch topic {
	case n.DLQ():
		return MaxDLQMessageBytes
	case n.Config():
		return MaxConfigMessageBytes
	}
	return MaxMessageBytes
}

// Catalogue returns every topic that Weir needs under a policy, in a fixed
// order. p may be nil: no providers and no limits. The policy decides which
// providers have topics, how many lanes they have, and how long the decision
// log is kept.
func Catalogue(cfg Config, p *schemas.Policy) []Spec {
	if p == nil {
		p = &schemas.Policy{}
	}
	var (
		n       = cfg.Names()
		history = longestWindow(p) + cmp.Or(cfg.AuditSpan, DefaultAuditSpan)
		waiting = longestExpiry(p) + Outage
		spread  = min(cfg.Partitions, 8) // stages without state of their own: enough to spread the work
		specs   []Spec
	)
	add := func(name string, parts int32, how Partitioning, holds string, configs ...map[string]string) {
		all := map[string]string{
			"message.timestamp.type": "LogAppendTime",
			// The bytes stay as their producer compressed them.
			"compression.type":    "producer",
			"min.insync.replicas": strconv.Itoa(int(minISR(cfg))),
			"max.message.bytes":   strconv.Itoa(MaxMessageBytes),
		}
		for _, m := range configs {
			for k, v := range m {
				all[k] = v
			}
		}
		specs = append(specs, Spec{Name: name, Partitions: parts, Partitioning: how, Replication: cfg.Replication, Configs: all, Holds: holds})
	}

	requests := len(specs)
	add(n.Requests(), cfg.Partitions, PartitionsFixed, "send requests, cancel, suppress, unsuppress, record, release", keep(history))
	add(n.Readmit(), cfg.Partitions, PartitionsFixed, "what admission judges again: misrouted, due, retried, stale, given back", keep(history))
	add(n.Ledger(), cfg.Partitions, PartitionsFixed, "admission's state, and one meta record a partition", compact())
	add(n.Seen(), cfg.Partitions, PartitionsFixed, "idempotency keys and ids given by clients", keep(SeenRetention))
	add(n.Status(), cfg.Partitions, PartitionsFixed, "status events and decisions: the decision log", keep(history))
	for _, t := range Tiers {
		add(n.Delay(t.Name), spread, PartitionsFloor, "messages and callbacks that wait "+t.Name, keep(t.Wait+Outage))
	}
	add(n.DLQ(), spread, PartitionsFloor, "messages given up on, with why", keep(DLQRetention), map[string]string{"max.message.bytes": strconv.Itoa(MaxDLQMessageBytes)})
	// A mark is younger than the record that it is of, so it stays at least as long.
	add(n.Redriven(), 1, PartitionsFixed, "which messages given up on were sent again", keep(DLQRetention))
	add(n.Receipts(), spread, PartitionsFloor, "what providers tell later about messages that they took", keep(ReceiptRetention))
	add(n.Config(), 1, PartitionsFixed, "the policy's revisions, whole", forever(), map[string]string{"max.message.bytes": strconv.Itoa(MaxConfigMessageBytes)})
	add(n.Health(), 1, PartitionsFloor, "breakers and success rates of providers", compact())
	add(n.Replies(), cmp.Or(cfg.Replies, defaultReplies), PartitionsFloor, "decisions that waiting HTTP requests asked for", keep(ReplyRetention))
	add(n.Reports(), 1, PartitionsFloor, "what sinks and audits say of their own work", compact())
	add(n.Skips(), 1, PartitionsFixed, "records of Weir's state that an operator let it go on without", compact())
	add(n.Alerts(), 1, PartitionsFixed, "what the alerter has told, and how far it has read", compact())
	add(n.Callbacks(), cfg.Partitions, PartitionsFixed, "callbacks that waited or are to be made again", keep(Outage))
	add(n.CallbackState(), cfg.Partitions, PartitionsFixed, "which callbacks wait", compact())
	add(n.Endpoints(), 1, PartitionsFixed, "endpoints of callbacks: which are disabled, and how the others are", compact())
	for _, pr := range p.Providers {
		if pr.Type == schemas.ProviderNone {
			continue // nothing is dispatched
		}
		lanes := max(1, pr.Lanes)
		for _, q := range Queues {
			add(n.Dispatch(pr.Name, q), lanes, PartitionsLanes, fmt.Sprintf("messages admitted for %s, %s", pr.Name, q), keep(waiting))
		}
		if !pr.HasLane() {
			continue // nobody has a permit
		}
		// A journal says what was called. It must outlive the messages it
		// speaks of, not only the pace: after an outage longer than its
		// retention, messages still in dispatch would be called again.
		add(n.Journal(pr.Name), lanes, PartitionsLanes, "permits and outcomes of "+pr.Name, keep(max(longestPace(pr), waiting)+journalMargin))
	}
	for _, in := range p.Inputs {
		s := specs[requests]
		s.Name, s.Partitioning, s.Holds = in.Topic, PartitionsAny, "what "+in.Tenant+"'s producers write"
		s.Bound, s.reserved = true, n.of("")
		specs = append(specs, s)
	}
	return specs
}

// Inputs returns those of a policy's topics that are its producers', and Own the
// others.
func Inputs(cfg Config, p *schemas.Policy) []Spec { return bound(Catalogue(cfg, p), true) }

// Own returns the topics that are Weir's own.
func Own(cfg Config, p *schemas.Policy) []Spec { return bound(Catalogue(cfg, p), false) }

func bound(specs []Spec, is bool) []Spec {
	return slices.DeleteFunc(specs, func(s Spec) bool { return s.Bound != is })
}

// keep is the settings of a topic whose records may go after d. Kafka drops
// whole closed segments only, so a segment closes after a tenth of d, at most a
// day: what is kept too long is bounded, and never less than d is kept.
func keep(d time.Duration) map[string]string {
	roll := min(max(d/10, 10*time.Minute), 24*time.Hour)
	return map[string]string{
		"cleanup.policy":  "delete",
		"retention.ms":    millis(d),
		"retention.bytes": "-1", // by age only: a full disk must not open a window
		"segment.ms":      millis(roll),
	}
}

// compact is the settings of a topic that keeps the latest record of each key.
// The segment being written is never compacted, so it is kept small: a restore
// reads all of it.
func compact() map[string]string {
	return map[string]string{
		"cleanup.policy":      "compact",
		"segment.bytes":       strconv.Itoa(64 << 20),
		"segment.ms":          millis(time.Hour),
		"delete.retention.ms": millis(24 * time.Hour),
	}
}

// forever is the settings of a topic that is history.
func forever() map[string]string {
	return map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func minISR(cfg Config) int16 {
	if cfg.MinISR > 0 {
		return cfg.MinISR
	}
	if cfg.Replication >= 3 {
		return 2
	}
	return 1
}

// longestWindow returns how far back any limit of the policy can look.
func longestWindow(p *schemas.Policy) time.Duration {
	var longest time.Duration
	look := func(ws []schemas.Window) {
		for _, w := range ws {
			longest = max(longest, reach(w))
		}
	}
	for _, l := range p.Limits {
		look(l.Allow)
		for _, o := range l.Overrides {
			look(o.Allow)
		}
	}
	return longest
}

// reach returns how far back a window can look: never more than MaxWindow.
func reach(w schemas.Window) time.Duration {
	switch w.Kind {
	case schemas.WindowRolling:
		return min(w.Length, schemas.MaxWindow)
	case schemas.WindowCalendar:
		switch w.Unit {
		case "minute":
			return time.Minute
		case "hour":
			return 2 * time.Hour // an hour that a zone repeats
		case "day":
			return 25 * time.Hour // a day on which clocks go back
		}
		return schemas.MaxWindow
	case schemas.WindowBucket:
		// Full again after capacity / refill, when the past no longer matters.
		// N*RefillEvery stays below 2^53 (schemas.Window).
		if w.RefillTokens <= 0 || w.N*w.RefillEvery/w.RefillTokens >= schemas.MaxWindow.Milliseconds() {
			return schemas.MaxWindow
		}
		return time.Duration(w.N*w.RefillEvery/w.RefillTokens+1) * time.Millisecond
	}
	return schemas.MaxWindow
}

func longestPace(p schemas.Provider) time.Duration {
	var longest time.Duration
	for _, w := range p.Pace {
		longest = max(longest, reach(w))
	}
	return longest
}

func longestExpiry(p *schemas.Policy) time.Duration {
	longest := schemas.DefaultExpiresAfter
	for _, c := range p.Classes {
		longest = max(longest, time.Duration(c.ExpiresAfter))
	}
	return longest
}
