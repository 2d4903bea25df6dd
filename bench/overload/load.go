package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	calmConns = 8
	calmEvery = 20 * time.Millisecond
	settle    = 6 * time.Second // in which a bucket of 5 at 1/s fills
)

// outcome is what came of a phase.
type outcome struct {
	calls, passed, refused, others int
	may                            int // that the keys' rates let through
	least, most                    int // that passed, of one key
	calm                           latencies
	calmRefused                    int // or anything else that is not 202
	cores                          float64
	memoryFirst, memoryLast        int64
}

func (o *outcome) offered(seconds int) string {
	return fmt.Sprintf("%.0f", float64(o.calls+len(o.calm))/float64(seconds))
}

func (o *outcome) share() string {
	if o.may == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f %% of %d", 100*float64(o.passed)/float64(o.may), o.may)
}

func (o *outcome) String() string {
	return fmt.Sprintf("%d calls, %d passed (%s), %d refused, %d others; calm p50 %v p99 %v", o.calls, o.passed, o.share(), o.refused, o.others, o.calm.at(.5), o.calm.at(.99))
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

// phase has each key ask so many times a second, beside the well-behaved one.
func (w *world) phase(ctx context.Context, factor int) (*outcome, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(settle):
	}
	length := time.Duration(w.seconds) * time.Second
	began := time.Now().Add(100 * time.Millisecond)
	until := began.Add(length)
	g, ctx := errgroup.WithContext(ctx)
	var mu sync.Mutex
	out := &outcome{}
	passed := make([]int, w.keys)
	for c := range calmConns {
		g.Go(func() error {
			conn, err := dial(ctx, w.addr)
			if err != nil {
				return err
			}
			defer conn.Close()
			body := request(calmName, 1_000_000)
			var took []time.Duration
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
			}
			mu.Lock()
			defer mu.Unlock()
			out.calm = append(out.calm, took...)
			out.calmRefused += refused
			return nil
		})
	}
	if factor > 0 {
		every := time.Second / time.Duration(factor)
		for c := range w.conns {
			g.Go(func() error {
				conn, err := dial(ctx, w.addr)
				if err != nil {
					return err
				}
				defer conn.Close()
				var mine []int // the keys whose calls go over this connection
				var bodies [][]byte
				for k := c; k < w.keys; k += w.conns {
					mine, bodies = append(mine, k), append(bodies, request(keyName(k), k))
				}
				calls, refused, others := 0, 0, 0
				for round := began; round.Before(until); round = round.Add(every) {
					for i, k := range mine {
						time.Sleep(time.Until(round.Add(every * time.Duration(k) / time.Duration(w.keys))))
						status, err := conn.call(bodies[i])
						if err != nil {
							return err
						}
						calls++
						switch status {
						case 202:
							passed[k]++ // nobody else's
						case 429:
							refused++
						default:
							others++
						}
					}
				}
				mu.Lock()
				defer mu.Unlock()
				out.calls, out.refused, out.others = out.calls+calls, out.refused+refused, out.others+others
				return nil
			})
		}
		out.may = w.keys * may(5, 1, every, length)
	}
	var memory []int64
	var used time.Duration
	g.Go(func() error {
		before, err := w.cpu()
		if err != nil {
			return err
		}
		for time.Now().Before(until) {
			n, err := w.resident()
			if err != nil {
				return err
			}
			memory = append(memory, n)
			time.Sleep(500 * time.Millisecond)
		}
		after, err := w.cpu()
		used = after - before
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, n := range passed {
		out.passed += n
	}
	out.least, out.most = slices.Min(passed), slices.Max(passed)
	slices.Sort(out.calm)
	out.cores = used.Seconds() / length.Seconds()
	tenth := max(1, len(memory)/10)
	out.memoryFirst, out.memoryLast = slices.Max(memory[:tenth]), slices.Max(memory[len(memory)-tenth:])
	return out, nil
}

// may is how many calls at even times a bucket lets through.
func may(capacity, perSecond int64, every, length time.Duration) (n int) {
	level, full := big.NewRat(capacity, 1), big.NewRat(capacity, 1)
	one, gain := big.NewRat(1, 1), big.NewRat(int64(every)*perSecond, int64(time.Second))
	for at := time.Duration(0); at < length; at += every {
		if at > 0 {
			if level.Add(level, gain); level.Cmp(full) > 0 {
				level.Set(full)
			}
		}
		if level.Cmp(one) >= 0 {
			level.Sub(level, one)
			n++
		}
	}
	return n
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
