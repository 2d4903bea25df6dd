package redisserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// Server is a redis-server on a directory and port of its own. Its methods are for
// one goroutine.
type Server struct {
	program string
	dir     string
	port    int
	args    []string
	cmd     *exec.Cmd
	done    chan struct{}
}

// Start runs a server on dir with arguments beside its address, and returns when it
// answers. Without arguments it has Redis's defaults: a snapshot after 60 s with
// 10,000 writes, 300 s with 100, 3,600 s with one. On Linux it ends with this
// process.
func Start(ctx context.Context, program, dir string, args ...string) (*Server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start Redis: %w", err)
	}
	s := &Server{program: program, dir: dir, port: ln.Addr().(*net.TCPAddr).Port, args: args}
	ln.Close()
	return s, s.Restart(ctx)
}

// Addr is host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Kill is kill -9, and waits for the end.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.done
	s.cmd = nil
}

// Restart starts the server, again after Kill, at its address and on its data, and
// returns when it has loaded them and answers.
func (s *Server) Restart(ctx context.Context) error {
	s.Kill()
	log, err := os.OpenFile(filepath.Join(s.dir, "redis.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("start Redis: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(s.program, append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir}, s.args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s.dir, log, log, tied()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start Redis: %w", err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log has why
		close(done)
	}()
	s.cmd, s.done = cmd, done
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !s.answers() {
		select {
		case <-again.C:
		case <-done:
			s.cmd = nil
			return fmt.Errorf("start Redis: it ended at once: see %s", log.Name())
		case <-ctx.Done():
			s.Kill()
			return fmt.Errorf("start Redis: %w", context.Cause(ctx))
		}
	}
	return nil
}

// answers tells whether it says PONG, and not that it loads.
func (s *Server) answers() bool {
	c, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second)) // a connection that is open takes one
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	var b [5]byte
	n, err := c.Read(b[:])
	return err == nil && string(b[:n]) == "+PONG"
}
