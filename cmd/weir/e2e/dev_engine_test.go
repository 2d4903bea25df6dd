package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
)

// An engine that dies is started again on the same address and data, while messages go
// on.
func TestDevRestartsItsEngine(t *testing.T) {
	t.Parallel()
	enginetest.Library(t) // without one weir dev has no engine
	d := startDev(t, filepath.Join(t.TempDir(), ".weir"), anyPorts...)
	send := func(n int) {
		t.Helper()
		if out := d.weir(t, "send", "--to", fmt.Sprintf("+861380000%04d", n), "--class", "verify", "--body", "code 1", "--wait"); !strings.HasPrefix(out, "sent ") {
			t.Errorf("message %d: %s", n, out)
		}
	}
	send(0)
	killed := 0
	for n := range 2 {
		pid := d.engine(t)
		if pid == killed {
			t.Fatalf("engine %d is dead and still the one", pid)
		}
		killed = pid
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		send(n + 1)
		want := fmt.Sprint(n + 2)
		var got string
		if !poll(t, patience, func() bool {
			select {
			case <-d.Done():
				t.Fatalf("weir dev ended with its engine: %v", d.Err())
			default:
			}
			got = d.sql(t, "SELECT uniqExact(message_id) FROM weir.status_events WHERE status = 'sent'")
			return got == want
		}) {
			t.Errorf("kill %d: ClickHouse has %s messages, want %s", n+1, got, want)
		}
	}
	last := d.engine(t)
	if err := d.Stop(patience); err != nil {
		t.Error("it does not end well:", err)
	}
	if alive(last) {
		t.Error("its engine outlives it")
	}
}

// engine is the engine's process, once there is one.
func (d *devProcess) engine(t *testing.T) (pid int) {
	t.Helper()
	if !poll(t, patience, func() bool {
		for _, kid := range children(t, d.PID()) {
			if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", kid)); err == nil && strings.Contains(string(line), ":"+engine.RoleName) && alive(kid) {
				pid = kid
			}
		}
		return pid != 0
	}) {
		t.Fatal("there is no engine")
	}
	return pid
}

// weir dev starts while the ClickHouse of --clickhouse-url takes connections and never
// answers. Its tables are made, and what was sent is loaded, when it does.
func TestDevStartsWhileClickHouseHangs(t *testing.T) {
	t.Parallel()
	click := enginetest.Start(t, engine.Options{Log: os.Stderr})
	g := newGate(t, click.Addr())
	d := startDev(t, filepath.Join(t.TempDir(), ".weir"), "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--clickhouse-url", "http://"+g.addr)
	if out := d.weir(t, "send", "--to", "+8613800000000", "--class", "verify", "--body", "code 1", "--wait"); !strings.HasPrefix(out, "sent ") {
		t.Error(out)
	}
	if !strings.Contains(d.Output(), "ClickHouse is not ready; Weir starts without it") || !strings.Contains(d.Output(), g.addr) {
		t.Errorf("it does not say which ClickHouse is not ready:\n%s", d.Output())
	}
	g.open()
	var got string
	if !poll(t, 2*patience, func() bool {
		got = sql(t, "http://"+click.Addr(), "SELECT count() FROM system.tables WHERE database = 'weir' AND name = 'status_events'")
		if got == "1" {
			got = sql(t, "http://"+click.Addr(), "SELECT count() FROM weir.status_events WHERE status = 'sent'")
		}
		return got == "1"
	}) {
		t.Errorf("ClickHouse has %s", got)
	}
}

// gate takes connections, and passes them on once it is open.
type gate struct {
	addr   string
	opened chan struct{}
	open   func()
}

func newGate(t *testing.T, to string) *gate {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{addr: l.Addr().String(), opened: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go g.pass(in, to)
		}
	}()
	return g
}

// pass holds a connection that came before the gate was open until its client leaves.
func (g *gate) pass(in net.Conn, to string) {
	defer in.Close()
	select {
	case <-g.opened:
	default:
		_, _ = io.Copy(io.Discard, in)
		return
	}
	out, err := net.DialTimeout("tcp", to, 10*time.Second)
	if err != nil {
		return
	}
	defer out.Close()
	go func() {
		_, _ = io.Copy(out, in)
		_ = out.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(in, out)
}
