package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Config says which partitions a worker reads and who it is.
type Config struct {
	Brokers []string
	Group   string
	// Topics are read together and must have equal partition counts: the range
	// assignor then gives a member the same partition numbers of each.
	Topics []string
	// TransactionalID must be stable over restarts of one slot and unique
	// among running processes. A second process with the same one fences the
	// first (ErrFenced).
	TransactionalID string
	ClientID        string
	// SessionTimeout is how long the group waits for a silent member; brokers
	// refuse less than 6 s. Default 10 s.
	SessionTimeout time.Duration
	// TransactionTimeout is when the broker aborts a dead worker's
	// transaction. Default 10 s.
	TransactionTimeout time.Duration
	// MaxPoll bounds the records of one poll. Default 10,000.
	MaxPoll int
	// FetchMaxPartitionBytes bounds what one fetch buffers of a partition.
	// Default 1 MiB.
	FetchMaxPartitionBytes int32
	// FetchMaxWait is how long a fetch stays with the broker when there is
	// nothing. New records end it at once; a partition that is resumed does
	// not, it joins the next fetch. Default 250 ms.
	FetchMaxWait time.Duration
	// BatchBytes is how large a batch each topic takes (max.message.bytes);
	// nil is the client's default for all.
	BatchBytes func(topic string) int32
	// Linger is how long the producer waits to fill a batch. Default 10 ms: under
	// load batches are fewer and fuller, and a commit flushes anyway, so a
	// message alone waits for nothing.
	Linger time.Duration
	Logger *slog.Logger
	// Stage is what Watch calls it. Default: the group.
	Stage string
	// Watch is told of the stage's progress. Nil: nobody is.
	Watch *Watch
	// Options are added to the client's, last: TLS, SASL, a dialer, hooks.
	Options []kgo.Opt
}

// Validate reports what is missing.
func (c Config) Validate() error {
	var errs []error
	if len(c.Brokers) == 0 {
		errs = append(errs, errors.New("no brokers"))
	}
	if c.Group == "" || c.TransactionalID == "" {
		errs = append(errs, errors.New("group and transactional id are required"))
	}
	if len(c.Topics) == 0 {
		errs = append(errs, errors.New("no topics"))
	}
	if c.SessionTimeout != 0 && c.SessionTimeout < 6*time.Second {
		errs = append(errs, fmt.Errorf("session timeout %v: brokers refuse less than 6s", c.SessionTimeout))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 10*time.Second)
	c.TransactionTimeout = cmp.Or(c.TransactionTimeout, 10*time.Second)
	c.MaxPoll = cmp.Or(c.MaxPoll, 10_000)
	c.FetchMaxPartitionBytes = cmp.Or(c.FetchMaxPartitionBytes, 1<<20)
	c.Linger = cmp.Or(c.Linger, 10*time.Millisecond)
	c.FetchMaxWait = cmp.Or(c.FetchMaxWait, 250*time.Millisecond)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Partition names one partition of one topic.
type Partition struct {
	Topic     string
	Partition int32
}

// Position is an offset to commit, or the one found committed, with its
// metadata. Offset -1 is none. Epoch is the leader's that was committed with it,
// or -1; which one is committed the worker knows. Metadata must be text of at most 4,096 bytes
// (offset.metadata.max.bytes): raw bytes come back mangled.
type Position struct {
	Offset   int64
	Epoch    int32
	Metadata string
}

// maxMetadata is the broker's default offset.metadata.max.bytes. One byte more
// fails the commit for ever.
const maxMetadata = 4096

// Stage is the work of one consumer group. All methods are called from the
// goroutine of Run.
type Stage interface {
	// Assign is called when partitions are assigned, before any record of
	// them. It restores their state and returns where to start reading each;
	// a partition that it leaves out starts where the group stands, or at the
	// start of its log. What is not in committed is no longer owned. An error
	// ends the worker.
	Assign(ctx context.Context, committed map[Partition]Position) (map[Partition]int64, error)
	// Revoke is called when the group has taken all partitions away. Some may
	// come back with the next Assign, at the same position: state can stay.
	Revoke()
	// Step does the work of one transaction. It may be called with no records,
	// when Wait has passed or Wake was called.
	Step(ctx context.Context, tx *Tx, polled []*kgo.Record) error
	// Ended tells what became of the transaction of the last Step, when it
	// produced anything or set a position. After false, records since the last
	// commit are read again.
	Ended(committed bool)
	// Wait says how long the worker may wait for records until the next Step.
	Wait() time.Duration
}

// Settler is a Stage with work under way between its transactions, such as
// calls, whose outcomes should be committed before its partitions go to another
// member.
type Settler interface {
	Stage
	// Busy reports whether there is such work. While there is, a rebalance of
	// the group waits, for settleWithin at most.
	Busy() bool
	// Leaving tells that a rebalance waits: nothing new is to be started. False
	// takes it back; Revoke does, too.
	Leaving(bool)
}

// settleWithin bounds how long a rebalance waits for a Settler. The client sends
// heartbeats meanwhile, so the session does not end; the group's other members
// wait as long, up to the rebalance timeout (60 s, the client's default).
const settleWithin = 5 * time.Second

var (
	// ErrFenced means that another process runs with this transactional id:
	// two processes in one slot. It is fatal.
	ErrFenced = errors.New("another process runs in this slot (same transactional id): give each process its own WEIR_SLOT")
	// ErrOffsetOutOfRange means that the log does not hold what the group is to
	// read next. Nothing is skipped by guess, so it is fatal.
	ErrOffsetOutOfRange = errors.New("the group's offset is out of range: records were deleted before they were read, the brokers lost the end of the log (unclean leader election, a disk), or the topic was made anew; keep the topic longer than the longest outage (retention.ms), set unclean.leader.election.enable=false, and run weir audit for what is missing")
	// ErrDataLoss means that the log was cut back behind what was read of it: an
	// unclean leader election, or a disk. It is fatal, also at the next start, and also if the log
	// is longer again by then: other records are at the offsets that were read.
	ErrDataLoss = errors.New("the brokers lost records that were already read, and what is written since would be taken for them: set unclean.leader.election.enable=false, and run weir audit for what is missing; docs/errors.md says how to go on")
	// ErrUnknownOutcome means that a commit may or may not have happened. Run
	// drops the stage and its client, and restores.
	ErrUnknownOutcome = errors.New("the outcome of a transaction is unknown")
)
