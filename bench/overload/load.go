package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/bench/rig"
)

const (
	calmConns = 8
	calmEvery = 20 * time.Millisecond
	slow      = 20 * time.Millisecond
	settle    = 4 * time.Second // in which the keys' buckets fill
)

// outcome is what came of a phase.
type outcome struct {
	told
	calm                    latencies
	slowAt                  []time.Duration // when calls were due that took longer than slow
	calmRefused             int             // or anything else that is not 202
	cores                   float64
	memoryFirst, memoryLast int64
}

func (o *outcome) offered(seconds int) string {
	return fmt.Sprintf("%.0f", float64(o.Calls+len(o.calm))/float64(seconds))
}

func (o *outcome) share() string {
	if o.May == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f %% of %d", 100*float64(o.Passed)/float64(o.May), o.May)
}

func (o *outcome) String() string {
	return fmt.Sprintf("%d calls, %d passed (%s), %d refused, %d others; calm p50 %v p99 %v; over %v in the seconds %s", o.Calls, o.Passed, o.share(), o.Refused, o.Others, o.calm.at(.5), o.calm.at(.99), slow, o.slowSeconds())
}

// slowSeconds says in which seconds how many calls were slow.
func (o *outcome) slowSeconds() string {
	counts := make(map[int]int)
	for _, at := range o.slowAt {
		counts[int(at/time.Second)]++
	}
	return fmt.Sprint(counts)
}

// latencies are sorted.
type latencies []time.Duration

func (l latencies) at(share float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[min(len(l)-1, int(share*float64(len(l))))]
}

// fill has the server take in as many messages as it keeps for reads, so that
// the phases find its memory as it is after a while.
func (w *world) fill(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for c := range w.conns {
		g.Go(func() error {
			conn, err := dial(ctx, w.addr)
			if err != nil {
				return err
			}
			defer conn.Close()
			for i := c; i < w.filling && ctx.Err() == nil; i += w.conns {
				switch status, err := conn.call(request(fillName, 2_000_000+i)); {
				case err != nil:
					return err
				case status != 202:
					return fmt.Errorf("filling: status %d", status)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// phase is how often each key asks, beside the well-behaved one.
type phase struct {
	name    string
	factor  int // calls a second
	seconds int
}

// phase runs one.
func (w *world) phase(ctx context.Context, p phase) (*outcome, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(settle):
	}
	factor, length := p.factor, time.Duration(p.seconds)*time.Second
	began := time.Now().Add(time.Second)
	until := began.Add(length)
	g, ctx := errgroup.WithContext(ctx)
	var mu sync.Mutex
	out := &outcome{}
	for c := range calmConns {
		g.Go(func() error {
			conn, err := dial(ctx, w.addr)
			if err != nil {
				return err
			}
			defer conn.Close()
			body := request(calmName, 1_000_000)
			var took, at []time.Duration
			refused := 0
			for due := began.Add(time.Duration(c) * calmEvery); due.Before(until); due = due.Add(calmConns * calmEvery) {
				time.Sleep(time.Until(due))
				status, err := conn.call(body)
				if err != nil {
					return err
				}
				if status != 202 {
					refused++
				}
				took = append(took, time.Since(due))
				if took[len(took)-1] > slow {
					at = append(at, due.Sub(began))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			out.calm = append(out.calm, took...)
			out.slowAt = append(out.slowAt, at...)
			out.calmRefused += refused
			return nil
		})
	}
	if factor > 0 {
		g.Go(func() error {
			told, err := w.ask(ctx, asking{Addr: w.addr, Keys: w.keys, Connections: w.conns, Every: time.Second / time.Duration(factor), Began: began, Rounds: int(length.Seconds()) * factor})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			out.told = *told
			return nil
		})
	}
	var memory []int64
	var used time.Duration
	g.Go(func() error {
		before, err := rig.CPU(w.server.Process.Pid)
		if err != nil {
			return err
		}
		for time.Now().Before(until) {
			n, err := rig.Memory(w.server.Process.Pid)
			if err != nil {
				return err
			}
			memory = append(memory, n)
			time.Sleep(500 * time.Millisecond)
		}
		after, err := rig.CPU(w.server.Process.Pid)
		used = after - before
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	slices.Sort(out.calm)
	out.cores = used.Seconds() / length.Seconds()
	tenth := max(1, len(memory)/10)
	out.memoryFirst, out.memoryLast = slices.Max(memory[:tenth]), slices.Max(memory[len(memory)-tenth:])
	return out, nil
}

func request(key string, recipient int) []byte {
	body := fmt.Sprintf(`{"channel":"sms","to":"+86138%08d","class":"verify","body":"Your code is 123456."}`, recipient)
	return fmt.Appendf(nil, "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", secretOf(key), len(body), body)
}

// connection is one that is kept. It is as cheap as it can be: what asks runs
// beside what is measured.
type connection struct {
	net.Conn
	r *bufio.Reader
}

func dial(ctx context.Context, addr string) (*connection, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &connection{c, bufio.NewReader(c)}, nil
}

func (c *connection) call(request []byte) (status int, err error) {
	c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Write(request); err != nil {
		return 0, err
	}
	length := 0
	for first := true; ; first = false {
		line, err := c.r.ReadSlice('\n')
		switch {
		case err != nil:
			return 0, err
		case first && len(line) > 12:
			if status, err = strconv.Atoi(string(line[9:12])); err != nil {
				return 0, err
			}
		case len(line) <= 2:
			_, err := c.r.Discard(length)
			return status, err
		}
		if n, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(n))); err != nil {
				return 0, err
			}
		}
	}
}
