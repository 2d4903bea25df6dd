//go:build unix

package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Main(map[string]Role{
		"serve": serve,
		"fail": func(context.Context, []string, func(string)) error {
			fmt.Fprintln(os.Stderr, "reading the seeds")
			return errors.New("no seeds left")
		},
		"crash":  func(context.Context, []string, func(string)) error { panic("boom") },
		"silent": func(context.Context, []string, func(string)) error { return nil },
		"mute": func(ctx context.Context, _ []string, _ func(string)) error {
			<-ctx.Done()
			return nil
		},
		"deaf": func(_ context.Context, _ []string, ready func(string)) error {
			ready("")
			select {}
		},
		"late": func(_ context.Context, args []string, ready func(string)) error {
			ready(args[0])
			ready("again")
			return errors.New("failed later")
		},
		"parent": parent,
	})
	os.Exit(m.Run())
}

// serve answers every connection with its pid, and tells the last one why it ended:
// after writing to the log, which must not kill it.
func serve(ctx context.Context, _ []string, ready func(string)) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	conns := make(chan net.Conn, 8)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, os.Getpid(), os.Getenv("GREETING"), os.Getenv(roleVar))
			conns <- c
		}
	}()
	ready(ln.Addr().String())
	<-ctx.Done()
	for range 3 { // the parent's end of both is closed by now, if it died
		fmt.Fprintln(os.Stderr, "ending:", context.Cause(ctx))
		fmt.Fprintln(os.Stdout, "ending")
	}
	c := <-conns
	fmt.Fprintln(c, "in good order:", context.Cause(ctx))
	return c.Close()
}

// parent starts serve as its own child, reports that child's address, and hangs.
func parent(_ context.Context, _ []string, ready func(string)) error {
	p, err := Start(context.Background(), Spec{Role: "serve", Log: os.Stderr})
	if err != nil {
		return err
	}
	ready(p.Addr())
	select {}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func mustStart(t *testing.T, spec Spec) *Process {
	t.Helper()
	p, err := Start(within(t, 2*time.Minute), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		<-p.Done()
	})
	return p
}

// dial connects and returns what is read first, and a function that reads the rest.
func dial(t *testing.T, addr string) (first string, rest func() string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1024)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n]), func() string {
		all, err := io.ReadAll(c)
		if err != nil {
			t.Errorf("the child's last words: %v", err)
		}
		return string(all)
	}
}

func TestStopEndsInGoodOrder(t *testing.T) {
	var log safeBuffer
	p := mustStart(t, Spec{Role: "serve", Env: []string{"GREETING=hello"}, Log: &log})
	first, rest := dial(t, p.Addr())
	if want := fmt.Sprintf("%d hello \n", p.PID()); first != want {
		t.Errorf("got %q, want %q (pid, environment, and no trace of %s)", first, want, roleVar)
	}
	if group, err := syscall.Getpgid(p.PID()); err != nil || group != p.PID() {
		t.Errorf("process group %d (%v), want its own, %d", group, err, p.PID())
	}
	if err := p.Err(); err != nil {
		t.Errorf("Err of a running child: %v", err)
	}
	if err := p.Stop(within(t, 2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got, want := rest(), "in good order: stopped by its parent\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.Contains(log.String(), "ending: stopped by its parent") {
		t.Errorf("log %q lacks what the child wrote", log.String())
	}
	if err := p.Stop(within(t, time.Second)); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestSignalsEndInGoodOrder(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			p := mustStart(t, Spec{Role: "serve"})
			_, rest := dial(t, p.Addr())
			if err := syscall.Kill(p.PID(), s); err != nil {
				t.Fatal(err)
			}
			if got, want := rest(), "in good order: ended by a signal: "+s.String()+"\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			<-p.Done()
			if err := p.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOutlivesAKilledParent(t *testing.T) {
	p := mustStart(t, Spec{Role: "parent"})
	first, rest := dial(t, p.Addr()) // the grandchild's address
	pid, err := strconv.Atoi(strings.Fields(first)[0])
	if err != nil || pid == p.PID() {
		t.Fatalf("grandchild %q of %d: %v", first, p.PID(), err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	p.Kill()
	<-p.Done()
	if p.Err() == nil {
		t.Error("a killed child has no error")
	}
	if got, want := rest(), "in good order: its parent is gone\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStartFails(t *testing.T) {
	for name, c := range map[string]struct {
		role string
		want []string
	}{
		"its error and log":  {"fail", []string{"start fail: ended before it was ready", "exit status 1", "reading the seeds", "no seeds left"}},
		"a panic":            {"crash", []string{"exit status 2", "goroutine"}},
		"no error, no ready": {"silent", []string{"ended before it was ready, without an error"}},
		"unknown role":       {"nobody", []string{`no child role "nobody"; there are: crash, deaf, fail`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Start(within(t, 2*time.Minute), Spec{Role: c.role})
			if err == nil {
				t.Fatal("started")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
}

func TestStartIsBounded(t *testing.T) {
	_, err := Start(within(t, 300*time.Millisecond), Spec{Role: "mute"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want deadline exceeded", err)
	}
}

func TestStopKillsTheDeaf(t *testing.T) {
	p := mustStart(t, Spec{Role: "deaf"})
	if err := p.Stop(within(t, 200*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want deadline exceeded", err)
	}
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Err is %v, want that it was killed", err)
	}
}

func TestALaterFailureIsSeen(t *testing.T) {
	p := mustStart(t, Spec{Role: "late", Args: []string{"an address"}})
	if p.Addr() != "an address" {
		t.Errorf("address %q", p.Addr())
	}
	<-p.Done()
	if err := p.Stop(within(t, time.Second)); err == nil || !strings.Contains(err.Error(), "failed later") {
		t.Errorf("got %v, want the role's error", err)
	}
}

func TestTail(t *testing.T) {
	var l tail
	for i := range 10_000 {
		fmt.Fprintln(&l, "line", i)
	}
	got := strings.Split(l.lines(), "\n")
	if len(got) != tailLines || got[0] != fmt.Sprintf(": line %d", 10_000-tailLines) || got[tailLines-1] != "line 9999" {
		t.Errorf("got %q", got)
	}
	if got := (&tail{}).lines(); got != "" {
		t.Errorf("nothing written: %q", got)
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
