package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Bounds of starting and ending.
const (
	// LockWait is how long a broker waits for a predecessor to leave its
	// directory: longer than an ending takes, with a disk that stalls.
	LockWait = 25 * time.Second

	// linger is how long an ending broker waits for its clients to be gone.
	linger = 2 * time.Second

	// settle is how long after the last connection's end its last requests
	// count as done.
	settle = 50 * time.Millisecond

	// farewell bounds the removal of dead group members. It takes a moment; whoever
	// stays in a group holds its partitions back at the next start.
	farewell = 5 * time.Second
)

const defaultCleanEvery = time.Minute

// never is when kfake compacts by itself. Its compaction loses what was
// committed: a record of an open transaction replaces a committed one of its key,
// and both are gone when it is aborted; and an aborted transaction's marker is
// taken away but not its entry in what fetches answer, so that a reader drops all
// that its producer commits later. What is compacted elsewhere grows here.
const never = 100 * 365 * 24 * time.Hour

// ErrLocked means that another process has the directory.
var ErrLocked = errors.New("another broker runs on this directory")

// Config of Serve.
type Config struct {
	Dir  string // holds all state; made if it is not there
	Addr string // host:port to listen on; "" or port 0 takes a free port of 127.0.0.1

	// CleanEvery is the period of retention; 0 means a minute. Nothing is compacted.
	CleanEvery time.Duration
}

// Validate says what is missing or malformed.
func (c Config) Validate() error {
	if c.Dir == "" {
		return errors.New("broker: no directory")
	}
	if c.CleanEvery < 0 {
		return fmt.Errorf("broker: a cleaning period of %v", c.CleanEvery)
	}
	if c.Addr != "" {
		if _, _, err := net.SplitHostPort(c.Addr); err != nil {
			return fmt.Errorf("broker: address %q: %w", c.Addr, err)
		}
	}
	return nil
}

// Serve runs the broker in this process until ctx ends. It calls ready with the
// address once it serves.
//
// The ending has an order: no new connections; up to two seconds for clients to
// be gone and their last requests to be done; dead members leave their groups, so
// that the next start need not wait for their sessions; then all is written and
// the directory is released.
func Serve(ctx context.Context, cfg Config, ready func(addr string)) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("broker directory: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(cfg.Dir, "lock"), LockWait)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()

	door, err := open(cfg.Addr)
	if err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	defer door.Close()
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.ClusterID("weir-dev"),
		kfake.DataDir(filepath.Join(cfg.Dir, "data")),
		kfake.SyncWrites(),
		kfake.BrokerConfigs(map[string]string{
			// What StampAppendTime does.
			"log.message.timestamp.type": "LogAppendTime",
			"log.cleaner.backoff.ms":     strconv.FormatInt(never.Milliseconds(), 10),
		}),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return door, nil }),
		kfake.WithLogger(kfake.BasicLogger(os.Stderr, kfake.LogLevelError)),
	)
	if err != nil {
		return fmt.Errorf("broker on %s: %w", cfg.Dir, err)
	}
	AnswerWholePartitions(cluster)
	WantNoMetrics(cluster)
	if err := StampAppendTime(cluster); err != nil {
		cluster.Close()
		return fmt.Errorf("broker: %w", err)
	}
	ready(door.Addr().String())

	clean := time.NewTicker(cmp.Or(cfg.CleanEvery, defaultCleanEvery))
	defer clean.Stop()
	for running := true; running; {
		select {
		case <-clean.C:
			cluster.ApplyRetention()
		case <-ctx.Done():
			running = false
		}
	}
	// The caller's context has ended: what remains has bounds of its own.
	door.shut()
	door.awaitQuiet(linger, settle)
	if err := dismiss(door, farewell); err != nil {
		fmt.Fprintf(os.Stderr, "broker: dead members stay in their groups until their sessions end: %v\n", err)
	}
	cluster.Close()
	return nil
}
