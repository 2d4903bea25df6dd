//go:build e2e

package replicatest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/child/childtest"
	"github.com/weirhq/weir/deploy/embedded/engine/replicatest"
	"github.com/weirhq/weir/deploy/local"
	"github.com/weirhq/weir/processor/sink/warehouse"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{replicatest.RoleName: replicatest.Role})
	os.Exit(m.Run())
}

// Two replicas are replicas: what one takes in the other fetches.
func TestReplicas(t *testing.T) {
	lib, err := local.EnsureZooKeeper(t.Context(), "", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	keeper, err := local.StartZooKeeper(t.Context(), lib, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer keeper.Kill()
	addrs := []string{childtest.Addr(t), childtest.Addr(t)}
	var conns []driver.Conn
	for i, name := range []string{"r1", "r2"} {
		replicatest.Start(t, replicatest.Options{Name: name, Dir: filepath.Join(t.TempDir(), name), Addr: addrs[i], Others: []string{addrs[1-i]}, ZooKeeper: keeper.Addr()})
		conn, err := warehouse.Open(t.Context(), "http://"+addrs[i]+"/default")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	for _, q := range []string{
		"CREATE DATABASE IF NOT EXISTS weir ON CLUSTER 'ours'",
		"CREATE TABLE IF NOT EXISTS weir.t ON CLUSTER 'ours' (a UInt64, b String) ENGINE = ReplicatedMergeTree ORDER BY a",
		"INSERT INTO weir.t SELECT number, toString(number) FROM numbers(100000) SETTINGS insert_quorum = 2, insert_quorum_timeout = 10000",
	} {
		if err := conns[0].Exec(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	var n uint64
	if err := conns[1].QueryRow(t.Context(), "SELECT sum(a) FROM weir.t").Scan(&n); err != nil || n != 4999950000 {
		t.Errorf("%d, %v", n, err)
	}
}
