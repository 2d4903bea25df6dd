package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/bench/rig"
)

// asking is what the process that asks too often is to do.
type asking struct {
	Addr        string
	Keys        int
	Connections int
	Every       time.Duration // between two calls of a key
	Began       time.Time
	Rounds      int
}

// told is what it tells.
type told struct {
	Calls, Passed, Refused, Others int
	May                            int // that the keys' rates let through
	Least, Most                    int // that passed, of one key
}

const (
	askEnv  = "WEIR_BENCH_OVERLOAD_ASK"
	niceEnv = "WEIR_BENCH_OVERLOAD_NICE"

	loadCapacity = 2 // of a key's bucket, which refills 1/s
)

// ask starts the process and waits for what it tells.
func (w *world) ask(ctx context.Context, a asking) (*told, error) {
	spec, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	answer := make(chan *told, 1)
	cmd, read, err := rig.Worker(ctx, w.Brokers, askEnv, string(spec), func(line string) {
		var t told
		if text, ok := strings.CutPrefix(line, "told "); ok && json.Unmarshal([]byte(text), &t) == nil {
			answer <- &t
			return
		}
		fmt.Fprintln(w.log, "asking:", line)
	})
	if err != nil {
		return nil, err
	}
	<-read
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("asking: %w", err)
	}
	select {
	case t := <-answer:
		return t, nil
	default:
		return nil, errors.New("asking: nothing was told")
	}
}

// askAway is that process. It gives way to what is measured (nice), as clients
// on other machines would.
func askAway(ctx context.Context, spec string, stderr io.Writer) error {
	if nice, err := exec.LookPath("nice"); err == nil && os.Getenv(niceEnv) == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return syscall.Exec(nice, []string{"nice", "-n", "10", self}, append(os.Environ(), niceEnv+"=10"))
	}
	var a asking
	if err := json.Unmarshal([]byte(spec), &a); err != nil {
		return err
	}
	began := time.Now().Add(time.Until(a.Began)) // by the clock that does not go back
	g, ctx := errgroup.WithContext(ctx)
	var mu sync.Mutex
	var all told
	passed := make([]int, a.Keys)
	for c := range a.Connections {
		g.Go(func() error {
			conn, err := dial(ctx, a.Addr)
			if err != nil {
				return err
			}
			defer conn.Close()
			var own told
			var mine []int // the keys whose calls go over this connection
			var bodies [][]byte
			for k := c; k < a.Keys; k += a.Connections {
				mine, bodies = append(mine, k), append(bodies, request(keyName(k), k))
			}
			models := make([]bucket, len(mine))
			for round := range a.Rounds {
				for i, k := range mine {
					due := a.Every*time.Duration(round) + a.Every*time.Duration(k)/time.Duration(a.Keys)
					time.Sleep(time.Until(began.Add(due)))
					if models[i].take(time.Since(began)) {
						own.May++
					}
					status, err := conn.call(bodies[i])
					if err != nil {
						return err
					}
					own.Calls++
					switch status {
					case 202:
						passed[k]++ // nobody else's
					case 429:
						own.Refused++
					default:
						own.Others++
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.Calls, all.Refused, all.Others, all.May = all.Calls+own.Calls, all.Refused+own.Refused, all.Others+own.Others, all.May+own.May
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, n := range passed {
		all.Passed += n
	}
	all.Least, all.Most = slices.Min(passed), slices.Max(passed)
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stderr, "told %s\n", text)
	return err
}

// bucket is the plainest token bucket, which refills a token a second: it says
// what a key may have of its calls at the times at which they were made.
type bucket struct {
	used bool
	at   time.Duration
	left time.Duration // a token is a second
}

func (b *bucket) take(now time.Duration) bool {
	if !b.used {
		b.used, b.at, b.left = true, now, loadCapacity*time.Second
	}
	b.left = min(loadCapacity*time.Second, b.left+now-b.at)
	b.at = now
	if b.left < time.Second {
		return false
	}
	b.left -= time.Second
	return true
}
