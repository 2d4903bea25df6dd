//go:build e2e

package erase_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/deploy/embedded/engine/replicatest"
	"github.com/weirhq/weir/processor/erase"
	"github.com/weirhq/weir/processor/sink/warehouse"
)

// On a cluster nothing of a person is left on any replica; while one is away nothing
// is begun, and nothing of the attempt stays.
func TestEraseOnReplicas(t *testing.T) {
	replicas := replicatest.StartReplicas(t, 2)
	replicas.StartAll()
	url := replicas.Balancer(0) + "/weir"
	if err := warehouse.MigrateOn(t.Context(), url, replicatest.Cluster); err != nil {
		t.Fatal(err)
	}
	connect := func(url string) driver.Conn {
		t.Helper()
		conn, err := warehouse.OpenPatient(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	balanced, each := connect(url), []driver.Conn{connect(replicas.URL(0) + "/weir"), connect(replicas.URL(1) + "/weir")}
	world(t, each[0])

	replicas.Kill(1)
	began := time.Now()
	if s, err := erase.Open(t.Context(), each[0], replicatest.Cluster, erase.Person{Keys: []string{her}}, []byte("key")); err == nil {
		t.Errorf("with a replica away it begins: %v", counts(t, s))
	} else {
		t.Logf("with a replica away, after %v: %v", time.Since(began).Round(time.Millisecond), err)
	}
	replicas.Start(1)

	// A replica answers before its tables can be written to.
	var s *erase.Store
	var err error
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); <-time.After(200 * time.Millisecond) {
		if s, err = erase.Open(t.Context(), balanced, replicatest.Cluster, erase.Person{Keys: []string{her}}, []byte("key")); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, want := counts(t, s), []uint64{10, 3, 3, 0, 2, 9, 0}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if err := s.Erase(t.Context(), still); err != nil {
		t.Fatal(err)
	}
	if got := mentions(t, s); len(got) > 0 {
		t.Errorf("still mentioned: %v", got)
	}
	for i, conn := range each {
		if rows := ask(t, conn, "SELECT table, mutation_id FROM system.mutations WHERE database = 'weir' AND NOT is_done"); len(rows) > 0 {
			t.Errorf("replica %d is not through: %v", i+1, rows)
		}
		if left := ask(t, conn, "SELECT arrayStringConcat(arraySort(groupUniqArrayIf(to, to != '')), ',') FROM status_events"); left[0] != "('"+other+","+mail+"')" {
			t.Errorf("on replica %d are left %s", i+1, left[0])
		}
		if ids := ask(t, conn, "SELECT arrayStringConcat(arraySort(groupUniqArrayIf(message_id, message_id != '' OR recipient_hash != 0)), ',') FROM decisions"); ids[0] != "('m-3,m-4')" {
			t.Errorf("on replica %d decisions are of %s", i+1, ids[0])
		}
		if n := ask(t, conn, "SELECT count(), uniqExact(status_offset) FROM status_events"); n[0] != ask(t, each[0], "SELECT count(), uniqExact(status_offset) FROM status_events")[0] {
			t.Errorf("replica %d has %v", i+1, n)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, conn := range each {
		if lists := ask(t, conn, "SELECT name FROM system.tables WHERE database = 'weir' AND startsWith(name, 'erasing_')"); len(lists) > 0 {
			t.Errorf("replica %d has %s still", i+1, strings.Join(lists, ", "))
		}
	}
}
