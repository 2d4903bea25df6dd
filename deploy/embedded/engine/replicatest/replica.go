package replicatest

import (
	"context"
	"encoding/xml"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
)

// Cluster is the name of the cluster that all replicas are of.
const Cluster = "ours"

// RoleName is the name of Role in child.Main's map.
const RoleName = "replica"

// Options of a replica.
type Options struct {
	Name      string // r1
	Dir       string
	Addr      string   // where it answers as ClickHouse does
	Others    []string // Addr of the other replicas, for what runs ON CLUSTER
	ZooKeeper string   // host:port
}

// Start runs a replica until the test ends, if it is not killed before. It is ready
// when it answers; its tables may be read-only for a moment longer.
func Start(t testing.TB, o Options) *child.Process {
	t.Helper()
	p, err := child.Start(t.Context(), child.Spec{Role: RoleName, Env: []string{"TZ=UTC"}, Log: t.Output(), Args: []string{
		"-lib", enginetest.Library(t), "-dir", o.Dir, "-addr", o.Addr, "-name", o.Name, "-zookeeper", o.ZooKeeper, "-others", strings.Join(o.Others, ","),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = p.Stop(ctx)
	})
	return p
}

// Role is a replica as a child process.
func Role(ctx context.Context, args []string, ready func(string)) error {
	flags := flag.NewFlagSet(RoleName, flag.ContinueOnError)
	lib := flags.String("lib", "", "the library")
	dir := flags.String("dir", "", "the data directory")
	addr := flags.String("addr", "", "the address to serve")
	name := flags.String("name", "", "the replica's name")
	keeper := flags.String("zookeeper", "", "host:port")
	others := flags.String("others", "", "addresses of the other replicas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := settings(*name, *keeper)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		return fmt.Errorf("make a replica: %w", err)
	}
	// The engine reads config.xml where it is started.
	if err := os.WriteFile(filepath.Join(*dir, "config.xml"), config, 0o644); err != nil {
		return fmt.Errorf("make a replica: %w", err)
	}
	if err := os.Chdir(*dir); err != nil {
		return fmt.Errorf("make a replica: %w", err)
	}
	parts, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("exchange parts: %w", err)
	}
	defer parts.Close()
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return fmt.Errorf("serve a replica: %w", err)
	}
	defer listener.Close()
	// The engine crashes when it is closed with tables like these; a replica ends as by
	// kill -9, in the middle of whatever it does.
	defer context.AfterFunc(ctx, func() { os.Exit(0) })()
	// Before the engine starts with the tables that it has.
	if err := giveAddress(*lib, parts.Addr().(*net.TCPAddr).Port); err != nil {
		return fmt.Errorf("let replicas find each other: %w", err)
	}
	return engine.Serve(ctx, engine.Config{LibPath: *lib, Dir: *dir, Addr: "127.0.0.1:0", Grace: 2 * time.Second}, func(at string) {
		var peers []string
		if *others != "" {
			peers = strings.Split(*others, ",")
		}
		go func() { _ = http.Serve(parts, exchange{at}) }()
		go func() { _ = http.Serve(listener, front(at, peers)) }()
		ready(listener.Addr().String())
	})
}

// settings are what a server of the cluster has in its config.xml. A session is short,
// so that a replica that was killed is soon known to be gone.
func settings(name, keeper string) ([]byte, error) {
	host, port, err := net.SplitHostPort(keeper)
	if err != nil {
		return nil, fmt.Errorf("ZooKeeper's address: %w", err)
	}
	type node struct {
		Host string `xml:"host"`
		Port string `xml:"port"`
	}
	return xml.MarshalIndent(struct {
		XMLName xml.Name `xml:"clickhouse"`
		Node    node     `xml:"zookeeper>node"`
		Session int      `xml:"zookeeper>session_timeout_ms"`
		Answer  int      `xml:"zookeeper>operation_timeout_ms"`
		Lock    string   `xml:"zookeeper>sessions_path"`
		Shard   string   `xml:"macros>shard"`
		Replica string   `xml:"macros>replica"`
		Cluster string   `xml:"macros>cluster"`
		Path    string   `xml:"default_replica_path"`
		Name    string   `xml:"default_replica_name"`
		Port    int      `xml:"tcp_port"`
		Self    node     `xml:"remote_servers>ours>shard>replica"`
	}{
		Node: node{host, port}, Session: 6000, Answer: 5000,
		// A server has one session, by its UUID, which the engine has not.
		Lock:  "/clickhouse/sessions/" + name,
		Shard: "1", Replica: name, Cluster: Cluster,
		// {uuid} is one for all replicas only where ClickHouse runs ON CLUSTER itself.
		Path: "/clickhouse/tables/{database}/{table}", Name: "{replica}",
		Port: 9000, Self: node{"127.0.0.1", "9000"}, // itself: nothing listens there
	}, "", "  ")
}
