package warehouse_test

import (
	"testing"
	"time"

	"github.com/weirhq/weir/deploy/embedded/child/childtest"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/processor/sink/warehouse"
)

// TestOpenLater: what is opened while ClickHouse is away fails when it is asked, and
// answers once ClickHouse is there and a sink has made the tables.
func TestOpenLater(t *testing.T) {
	if _, err := warehouse.OpenLater("127.0.0.1:8123"); err == nil {
		t.Error("a URL that is none was opened")
	}
	addr := childtest.Addr(t)
	url := "http://" + addr
	conn, err := warehouse.OpenLater(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	h := warehouse.History{Conn: conn}
	const id = "0199b2a0-5c00-7000-8000-0123456789ab"
	ask := func() error {
		_, read := h.Message(t.Context(), id)
		_, found := h.Handed(t.Context(), []history.Handed{{MessageID: id}})
		if (read == nil) != (found == nil) || (read == nil) != (h.Ready(t.Context()) == nil) {
			t.Errorf("read %v, found %v", read, found)
		}
		return read
	}
	for range 20 { // more than the pool has connections
		if began := time.Now(); ask() == nil || time.Since(began) > 5*time.Second {
			t.Fatal("no one is there, and it answers, or does not say so")
		}
	}
	enginetest.Start(t, engine.Options{Addr: addr})
	if ask() == nil {
		t.Error("there are no tables, and it answers")
	}
	if err := warehouse.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err != nil {
		t.Errorf("ClickHouse is back: %v", err)
	}
}
