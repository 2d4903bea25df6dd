package broker

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/weirhq/weir/deploy/embedded/child"
)

// Name is the key under which a program hands Role to child.Main.
const Name = "broker"

// Options of Start.
type Options struct {
	Dir  string    // holds all state; made if it is not there
	Addr string    // host:port to listen on; "" or port 0 takes a free port of 127.0.0.1
	Log  io.Writer // the broker's errors; nil discards them
}

// Start runs the broker as a child process and returns when it serves; Addr of
// the process is what clients connect to. ctx bounds the starting only. It waits
// up to LockWait for a predecessor on the same directory that is still ending.
//
// The program must have called child.Main with Role under Name.
func Start(ctx context.Context, o Options) (*child.Process, error) {
	return child.Start(ctx, child.Spec{
		Role: Name,
		Args: []string{"-dir", o.Dir, "-addr", o.Addr},
		Log:  o.Log,
	})
}

// Role serves in a child process that Start has started.
func Role(ctx context.Context, args []string, ready func(addr string)) error {
	var cfg Config
	flags := flag.NewFlagSet(Name, flag.ContinueOnError)
	flags.StringVar(&cfg.Dir, "dir", "", "directory of all state")
	flags.StringVar(&cfg.Addr, "addr", "", "host:port to listen on")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	return Serve(ctx, cfg, ready)
}
