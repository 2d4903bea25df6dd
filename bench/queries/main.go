// Command queries measures what questions cost: it fills ClickHouse with a day of
// events, through the sink's encoder and views, says how many bytes each table
// takes, and asks every query of docs/sql.md, of the HTTP API and of the
// dashboards again and again.
//
//	go run ./bench/queries -dir DIR -fill            10 million events, as a day has them; again: go on
//	go run ./bench/queries -dir DIR -out FILE.md     sizes, and how long each query takes
//	go run ./bench/queries -dir DIR -only "history"  the queries whose names contain this
//
// The engine is the embedded one (deploy/embedded/engine), on this machine. DIR
// keeps the data between the two.
//
// What it does not measure: a cluster, disks that are colder than this one's cache,
// or how fast the sink loads (bench/sink does).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/engine"
)

func main() {
	child.Main(map[string]child.Role{engine.RoleName: engine.Role})
	rig.Main("queries", run)
}

func run(ctx context.Context, args []string, _ func(string) string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("queries", flag.ContinueOnError)
	fs.SetOutput(stderr)
	dir := fs.String("dir", "", "where the data is kept")
	filling := fs.Bool("fill", false, "fill it, and end")
	events := fs.Int("events", 10_000_000, "fill: how many events")
	runs := fs.Int("runs", 20, "how often each query is asked")
	only := fs.String("only", "", "ask only the queries whose names contain this")
	skip := fs.Int("skip", 0, "leave out so many queries from the first on")
	page := fs.String("page", "docs/sql.md", "the page of queries")
	out := fs.String("out", "", "also write the tables to this file, as Markdown")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *dir == "" || fs.NArg() > 0 || *runs < 1 || *events < 1 {
		return errors.New("-dir DIR is needed")
	}
	lib, err := engine.Ensure(ctx, "", stderr)
	if err != nil {
		return err
	}
	p, err := engine.Start(ctx, engine.Options{Dir: filepath.Join(*dir, "clickhouse"), LibPath: lib, Log: stderr})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_ = p.Stop(ctx)
	}()
	url, stamp := "http://"+p.Addr(), filepath.Join(*dir, "end")
	if _, err := os.Stat(stamp); *filling && errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(stamp, []byte(time.Now().UTC().Truncate(time.Minute).Format(time.RFC3339)), 0o644); err != nil {
			return err
		}
	}
	raw, err := os.ReadFile(stamp)
	if err != nil {
		return fmt.Errorf("fill it first: %w", err)
	}
	end, err := time.Parse(time.RFC3339, string(raw))
	if err != nil {
		return err
	}
	if *filling {
		return fill(ctx, url, end, *events, stderr)
	}
	text, err := os.ReadFile(*page)
	if err != nil {
		return err
	}
	b := &bench{url: url, end: end, runs: *runs, only: *only, skip: *skip, pid: p.PID(), log: stderr}
	report, err := b.measure(ctx, string(text))
	if err != nil {
		return err
	}
	return rig.Print(stdout, *out, report)
}
