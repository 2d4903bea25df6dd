package engine

import (
	"context"
	"flag"
	"io"

	"github.com/weirhq/weir/deploy/embedded/child"
)

// RoleName is the name under which Start expects Role in child.Main's map.
const RoleName = "engine"

// Role is Serve as a child process: child.Main(map[string]child.Role{
// engine.RoleName: engine.Role}).
func Role(ctx context.Context, args []string, ready func(addr string)) error {
	var cfg Config
	flags := flag.NewFlagSet(RoleName, flag.ContinueOnError)
	flags.StringVar(&cfg.LibPath, "lib", "", "the library")
	flags.StringVar(&cfg.Dir, "dir", "", "the data directory")
	flags.StringVar(&cfg.Addr, "addr", "", "the address to serve")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return Serve(ctx, cfg, ready)
}

// Options says what Start starts.
type Options struct {
	Dir     string    // the data directory
	Addr    string    // a loopback host:port; "" and port 0 pick a free port
	LibPath string    // from Ensure
	Log     io.Writer // the child's stderr; nil discards it
}

// Start runs the engine in a child process and waits until it answers. Its
// Addr is where ClickHouse's HTTP interface is served. ctx bounds the starting
// only.
func Start(ctx context.Context, o Options) (*child.Process, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	return child.Start(ctx, child.Spec{
		Role: RoleName,
		Args: []string{"-lib", o.LibPath, "-dir", o.Dir, "-addr", o.Addr},
		Env:  []string{"TZ=UTC"},
		Log:  o.Log,
	})
}
