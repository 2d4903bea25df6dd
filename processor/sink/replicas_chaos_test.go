//go:build e2e && chaos

package sink_test

import (
	"testing"
	"time"

	"github.com/weirhq/weir/deploy/embedded/engine/replicatest"
	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
)

// Whatever a table lost on all replicas, a sink says so, and a repair puts it back on all of them, once.
func TestRepairOnReplicasAtLength(t *testing.T) {
	const n = 2000
	replicas := replicatest.StartReplicas(t, 2)
	replicas.StartAll()
	seeds := startKafka(t)
	url := replicas.Balancer(10) + "/weir"
	if err := warehouse.MigrateOn(t.Context(), url, replicatest.Cluster); err != nil {
		t.Fatal(err)
	}
	cfg := sink.Config{Brokers: seeds, URL: url, Cluster: replicatest.Cluster, HashKey: []byte("test"), Rows: 300, Every: 10 * time.Millisecond, Check: 100 * time.Millisecond, Backoff: 200 * time.Millisecond, Logger: logger(t)}
	stop := run(t, cfg)
	if err := produce(t.Context(), seeds, 0, n, 500, true); err != nil {
		t.Fatal(err)
	}
	conns := loaded(t, replicas, 2, seeds, n, time.Minute)
	stop()
	for _, lose := range []string{
		"ALTER TABLE messages_by_time DELETE WHERE cityHash64(message_id) % 5 = 0",
		"ALTER TABLE messages_by_recipient DELETE WHERE cityHash64(message_id) % 2 = 0",
		"ALTER TABLE status_by_minute_state DELETE WHERE status = 'sent'",
		"ALTER TABLE limits_by_minute_state DELETE WHERE 1",
		"ALTER TABLE status_events DELETE WHERE status_offset % 3 = 0",
		"ALTER TABLE decisions DELETE WHERE status_offset % 5 = 0",
		"INSERT INTO status_by_minute_state SELECT * FROM status_by_minute_state",
	} {
		began := time.Now()
		if err := conns[0].Exec(t.Context(), lose+" SETTINGS mutations_sync = 2, insert_deduplicate = 0"); err != nil {
			t.Fatalf("%s: %v", lose, err)
		}
		for _, conn := range conns {
			synced(t, conn)
			if len(counted(t, conn, n))+len(disagree(t, conn)) == 0 {
				t.Fatalf("%s: nothing is lost", lose)
			}
		}
		seen(t, cfg)
		mended(t, cfg, conns, n)
		t.Logf("%v: %s", time.Since(began).Round(time.Millisecond), lose)
	}
}
