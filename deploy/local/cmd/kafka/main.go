// Command kafka runs Apache Kafka from jars in the foreground, for trying things
// out and for benchmarks:
//
//	go run ./deploy/local/cmd/kafka [-dir D] [-port P] [-brokers N] [-log FILE] [-- COMMAND …]
//
// It prints the addresses on stdout once they answer, as KAFKA_BROKERS=…. With
// a command it sets that variable for it instead, runs it, and ends with it
// and its exit code.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/weirhq/weir/deploy/local"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := local.Options{Log: stderr}
	flags := flag.NewFlagSet("kafka", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.Dir, "dir", "", "keep data here between starts (default: a temporary directory, removed at the end)")
	flags.IntVar(&o.Port, "port", 0, "port of the first broker (default: free ports)")
	flags.IntVar(&o.Brokers, "brokers", 1, "1 or 3")
	logFile := flags.String("log", "", "write the brokers' log to this file (default: stderr)")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if *logFile != "" {
		f, err := os.Create(*logFile)
		if err != nil {
			fmt.Fprintf(stderr, "kafka: %v\n", err)
			return 1
		}
		defer f.Close()
		o.Log = f
	}
	err := serve(ctx, o, flags.Args(), stdout, stderr)
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return failed.ExitCode()
	}
	if err != nil {
		fmt.Fprintf(stderr, "kafka: %v\n", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, o local.Options, command []string, stdout, stderr io.Writer) error {
	var err error
	if o.LibDir, err = local.Ensure(ctx, "", stderr); err != nil {
		return err
	}
	began := time.Now()
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	k, err := local.StartKafka(starting, o)
	if err != nil {
		return err
	}
	defer k.Stop()
	fmt.Fprintf(stderr, "Apache Kafka %s ready in %v, data in %s\n", local.Version, time.Since(began).Round(10*time.Millisecond), k.Dir())
	brokers := "KAFKA_BROKERS=" + strings.Join(k.Addrs(), ",")
	if len(command) > 0 {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Env = append(os.Environ(), brokers)
		cmd.Stdout, cmd.Stderr = stdout, stderr
		return cmd.Run()
	}
	fmt.Fprintln(stdout, brokers)
	ended := make(chan int, len(k.Addrs()))
	for i := range k.Addrs() {
		go func() {
			<-k.Done(i)
			ended <- i
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case i := <-ended:
		return fmt.Errorf("broker %d ended: see %s", i, k.Dir())
	}
}
