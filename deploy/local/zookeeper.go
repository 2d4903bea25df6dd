package local

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// ZooKeeperVersion is that of zookeeper/pom.xml and its jars.sha256.
const ZooKeeperVersion = "3.9.4"

//go:embed zookeeper/pom.xml
var zooKeeperPom []byte

//go:embed zookeeper/jars.sha256
var zooKeeperSums string

var zooKeeper = jars{"Apache ZooKeeper " + ZooKeeperVersion, "zookeeper-" + ZooKeeperVersion, "5 MB", zooKeeperPom, zooKeeperSums}

// EnsureZooKeeper is Ensure for ZooKeeper's jars. ClickHouse's replicated tables
// take it in Keeper's place.
func EnsureZooKeeper(ctx context.Context, cacheDir string, progress io.Writer) (libDir string, err error) {
	return zooKeeper.ensure(ctx, cacheDir, progress)
}

// ZooKeeper is one server on 127.0.0.1. Its methods belong to one goroutine.
type ZooKeeper struct {
	java, lib, dir string
	addr           string
	server         *leash
}

// StartZooKeeper starts a server on dir, which keeps its data, and returns when it
// answers. libDir is what EnsureZooKeeper returned. ctx bounds the starting only:
// the server runs until Kill, or until this process ends in any way.
func StartZooKeeper(ctx context.Context, libDir, dir string) (*ZooKeeper, error) {
	path, err := Java(ctx)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, fmt.Errorf("start ZooKeeper: %w", err)
	}
	z := &ZooKeeper{java: path, lib: libDir, dir: dir, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))}
	config := fmt.Sprintf("tickTime=500\nminSessionTimeout=1000\ndataDir=%s\nclientPortAddress=127.0.0.1\nclientPort=%d\nadmin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=srvr\n",
		filepath.Join(dir, "data"), ports[0])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("start ZooKeeper: %w", err)
	}
	if err := os.WriteFile(z.config(), []byte(config), 0o644); err != nil {
		return nil, fmt.Errorf("start ZooKeeper: %w", err)
	}
	return z, z.Start(ctx)
}

func (z *ZooKeeper) config() string { return filepath.Join(z.dir, "zoo.cfg") }

// Addr is host:port, which stays.
func (z *ZooKeeper) Addr() string { return z.addr }

// Start starts the server again after Kill, on what it had.
func (z *ZooKeeper) Start(ctx context.Context) error {
	log := filepath.Join(z.dir, "zookeeper.log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("start ZooKeeper: %w", err)
	}
	z.server, err = start(0, "", out, nil, z.java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dzookeeper.forceSync=no", // what it wrote outlives its process, and nothing here ends the machine
		"-cp", filepath.Join(z.lib, "*"), "org.apache.zookeeper.server.ZooKeeperServerMain", z.config())
	if err != nil {
		out.Close()
		return fmt.Errorf("start ZooKeeper: %w", err)
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for !z.answers() {
		select {
		case <-z.server.done:
			said, _ := os.ReadFile(log)
			return fmt.Errorf("start ZooKeeper: it ended (%v): %s", z.server.err, lastOf(said))
		case <-ctx.Done():
			z.Kill()
			return fmt.Errorf("start ZooKeeper: %w", context.Cause(ctx))
		case <-again.C:
		}
	}
	return nil
}

// answers asks for its state, which it says only while it serves.
func (z *ZooKeeper) answers() bool {
	conn, err := net.DialTimeout("tcp", z.addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return false
	}
	answer, err := io.ReadAll(conn)
	return err == nil && bytes.Contains(answer, []byte("Mode:"))
}

// Kill ends the server with kill -9. What it acknowledged it has.
func (z *ZooKeeper) Kill() { z.server.kill() }
