package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// load is what clients do to a server: each connection has one request under way
// at a time. They speak HTTP/1.1 by themselves, since net/http's client would
// take more of the machine than the server.
type load struct {
	addr  string
	key   string
	path  string
	conns int
	every time.Duration // between the requests of all connections; 0 is as fast as answers come
	until time.Duration
	body  func(r *rand.Rand, dst []byte) []byte
	keep  bool // the ids that were answered
}

// taken is what came of it.
type taken struct {
	took    []time.Duration // of answers with the status that is wanted, sorted
	codes   map[int]int
	broken  int // requests without an answer
	ids     []string
	elapsed time.Duration
}

func (t *taken) at(q float64) time.Duration {
	if len(t.took) == 0 {
		return 0
	}
	return t.took[min(int(q*float64(len(t.took))), len(t.took)-1)]
}

func (t *taken) rate() float64 { return float64(len(t.took)) / t.elapsed.Seconds() }

// message is a request for one of 100,000 recipients.
func message(r *rand.Rand, dst []byte) []byte {
	dst = append(dst, `{"channel":"sms","to":"+86138`...)
	n := r.IntN(100_000)
	dst = append(dst, fmt.Sprintf("%08d", n*997%100_000_000)...)
	return append(dst, `","class":"verify","body":"Your code is 123456. It is good for five minutes."}`...)
}

func (l *load) run(ctx context.Context) (*taken, error) {
	ctx, cancel := context.WithTimeout(ctx, l.until)
	defer cancel()
	all := &taken{codes: make(map[int]int)}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var turn atomic.Int64
	var first error
	began := time.Now()
	for i := range l.conns {
		wg.Go(func() {
			one, err := l.client(ctx, uint64(i), began, &turn)
			mu.Lock()
			defer mu.Unlock()
			all.took = append(all.took, one.took...)
			all.ids = append(all.ids, one.ids...)
			all.broken += one.broken
			for c, n := range one.codes {
				all.codes[c] += n
			}
			first = errors.Join(first, err)
		})
	}
	wg.Wait()
	all.elapsed = time.Since(began)
	slices.Sort(all.took)
	return all, first
}

// client is one connection's requests. A connection that breaks is dialled
// again, unless the server is gone.
func (l *load) client(ctx context.Context, seed uint64, began time.Time, turn *atomic.Int64) (*taken, error) {
	t := &taken{codes: make(map[int]int)}
	random := rand.New(rand.NewPCG(seed, 1))
	var conn net.Conn
	var in *bufio.Reader
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	head := "POST " + l.path + " HTTP/1.1\r\nHost: " + l.addr + "\r\nAuthorization: Bearer " + l.key + "\r\nContent-Type: application/json\r\nContent-Length: "
	var body, req []byte
	for ctx.Err() == nil {
		due := time.Now()
		if l.every > 0 {
			due = began.Add(time.Duration(turn.Add(1)) * l.every)
			if wait := time.Until(due); wait > 0 {
				select {
				case <-time.After(wait):
				case <-ctx.Done():
					return t, nil
				}
			}
		}
		if conn == nil {
			var err error
			if conn, err = net.Dial("tcp", l.addr); err != nil {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			in = bufio.NewReaderSize(conn, 4096)
		}
		body = l.body(random, body[:0])
		req = append(req[:0], head...)
		req = strconv.AppendInt(req, int64(len(body)), 10)
		req = append(append(req, "\r\n\r\n"...), body...)
		_, err := conn.Write(req)
		var code int
		var answer []byte
		if err == nil {
			code, answer, err = readAnswer(in)
		}
		if err != nil {
			t.broken++
			conn.Close()
			conn = nil
			continue
		}
		t.codes[code]++
		if code/100 == 2 {
			t.took = append(t.took, time.Since(due))
			if l.keep {
				if _, id, ok := strings.Cut(string(answer), `"id":"`); ok && len(id) > 36 {
					t.ids = append(t.ids, id[:36])
				}
			}
		}
	}
	return t, nil
}

// readAnswer reads an answer that has a Content-Length.
func readAnswer(in *bufio.Reader) (code int, body []byte, err error) {
	length := -1
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0, nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case first:
			if len(line) < 12 {
				return 0, nil, fmt.Errorf("%q is no status line", line)
			}
			if code, err = strconv.Atoi(string(line[9:12])); err != nil {
				return 0, nil, err
			}
		case len(line) == 0:
			if length < 0 {
				return 0, nil, errors.New("no Content-Length")
			}
			body = make([]byte, length)
			for n := 0; n < length; {
				m, err := in.Read(body[n:])
				if err != nil {
					return 0, nil, err
				}
				n += m
			}
			return code, body, nil
		case len(line) > 16 && bytes.EqualFold(line[:15], []byte("content-length:")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[15:]))); err != nil {
				return 0, nil, err
			}
		}
	}
}
