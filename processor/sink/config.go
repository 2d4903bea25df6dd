package sink

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/schemas/clickhouse"
	"github.com/weirhq/weir/topics"
)

// Config says what is loaded, and where.
type Config struct {
	Brokers []string
	Names   topics.Names
	// URL of ClickHouse's HTTP interface: http://user:password@host:8123/database.
	URL string
	// Cluster is the name of the ClickHouse cluster whose replicas keep the tables;
	// empty is a single server.
	Cluster string
	// HashKey keys the column recipient_hash. Changing it breaks joins with
	// older rows, nothing else.
	HashKey []byte
	// KeepSchema leaves the tables as they are, for those who migrate by
	// themselves; they are checked all the same.
	KeepSchema bool
	// Rows ends a range. Default 50,000.
	Rows int
	// Bytes ends a range: what its records take in memory. Default 32 MiB.
	Bytes int
	// Memory bounds the records held, over all partitions; it is exceeded by
	// at most one range that a former owner planned and one poll of 2,000
	// records. Default 256 MiB.
	Memory int
	// Every is the least time between two inserts of a partition, unless a
	// range is full. Default 1 s. Where that could be more blocks in a PlanLife than
	// ClickHouse is sure to remember, it is longer: 34 ms for each of the topic's
	// partitions, with the PlanLife that is the default.
	Every time.Duration
	// Inserts is how many run at once, 1 to 16. Default 3.
	Inserts int
	// PlanLife is how long a plan's token may be used: ClickHouse must not
	// forget it before. Default 2 min, at least 10 s.
	PlanLife time.Duration
	// Try bounds one try of an insert. Default 1 min.
	Try time.Duration
	// Backoff is the longest wait between two tries of an insert, and between
	// two tries to connect. Default 30 s.
	Backoff time.Duration
	// Check is how often what was loaded is compared with what is there, and the
	// tables are looked at as at the start. Default 1 min.
	Check time.Duration
	// SessionTimeout is how long the group waits for a silent member; brokers
	// refuse less than 6 s. Default 10 s.
	SessionTimeout time.Duration
	// InstanceID makes a restarted process the same member of the group
	// (KIP-345), which gets its partitions back at once instead of after the
	// session timeout. It must be unique among running processes. Empty is none.
	InstanceID string
	// Report is told about once a minute how the sink is, when it begins to fail
	// and is well again, and at the end: without partitions. It is called from one
	// goroutine and may take its time. Nil is nobody.
	Report func(schemas.SinkReport)
	// Grace is how long inserts that are under way may take when the sink is told
	// to stop. What is cut off is done by the next owner. Default 10 s.
	Grace   time.Duration
	Logger  *slog.Logger
	Metrics prometheus.Registerer
	// Watch is given the sink's progress: whether its commits to Kafka succeed. That
	// ClickHouse is away is none of its business: /readyz answers ready then.
	Watch *stream.Watch
	// Options are added to the Kafka client's, last: TLS, SASL, a dialer.
	Options []kgo.Opt
}

// stage is what Watch calls the sink.
const stage = "sink"

// Group is the name of the sink's consumer group.
func Group(names topics.Names) string { return names.Status() + ".sink" }

// Validate reports what is missing or impossible.
func (c Config) Validate() error {
	var errs []error
	if len(c.Brokers) == 0 {
		errs = append(errs, errors.New("no brokers"))
	}
	if _, err := warehouse.Parse(c.URL); err != nil {
		errs = append(errs, err)
	}
	if c.Cluster != "" {
		if err := clickhouse.ValidCluster(c.Cluster); err != nil {
			errs = append(errs, err)
		}
	}
	if c.Rows < 0 || c.Rows > 500_000 {
		errs = append(errs, fmt.Errorf("rows %d: must be 1 to 500000", c.Rows))
	}
	if c.Inserts < 0 || c.Inserts > 16 {
		errs = append(errs, fmt.Errorf("inserts %d: must be 1 to 16", c.Inserts))
	}
	if c.PlanLife != 0 && c.PlanLife < 10*time.Second {
		errs = append(errs, fmt.Errorf("plan life %v: must be at least 10s", c.PlanLife))
	}
	if c.SessionTimeout != 0 && c.SessionTimeout < 6*time.Second {
		errs = append(errs, fmt.Errorf("session timeout %v: brokers refuse less than 6s", c.SessionTimeout))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.Rows = cmp.Or(c.Rows, 50_000)
	c.Bytes = cmp.Or(c.Bytes, 32<<20)
	c.Memory = cmp.Or(c.Memory, 256<<20)
	c.Every = cmp.Or(c.Every, time.Second)
	c.Inserts = cmp.Or(c.Inserts, 3)
	c.PlanLife = cmp.Or(c.PlanLife, 2*time.Minute)
	c.Try = cmp.Or(c.Try, time.Minute)
	c.Backoff = cmp.Or(c.Backoff, 30*time.Second)
	c.Check = cmp.Or(c.Check, time.Minute)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 10*time.Second)
	c.Grace = cmp.Or(c.Grace, 10*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// linger is how long a range waits for more records when its partition has been
// quiet: a lone message is in ClickHouse well within a second.
const linger = 50 * time.Millisecond

// grace is how long after a plan's end an insert of it may still be under way:
// the server was told to stop at the plan's end, clocks differ.
const grace = 15 * time.Second

// blocksInALife is how many blocks all sinks together insert while a plan may be sent
// again: as many tables must remember after those of renewBlocks. It is half of that,
// since at midnight a block counts twice: once for each day.
const blocksInALife = (warehouse.Window - renewBlocks) / 2

// limits are those of a partition, of so many.
func (c Config) limits(of int) limits {
	every := max(c.Every, time.Duration(of)*(c.PlanLife+grace)/blocksInALife)
	day := time.Duration(of) * (c.PlanLife + grace) / (warehouse.Window - renewBlocks)
	return limits{rows: c.Rows, bytes: c.Bytes, linger: linger, every: every, day: day, life: c.PlanLife, grace: grace}
}
