package warehouse_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/sink/warehouse"
)

// suspended is a context whose timer has not fired although its time is over: that of a machine that
// was suspended.
type suspended struct {
	context.Context
	until time.Time
}

func (s suspended) Deadline() (time.Time, bool) { return s.until, true }

// TestNothingIsSentLate: an insert whose time was over while the machine was suspended sends no
// block when it goes on.
func TestNothingIsSentLate(t *testing.T) {
	whole := make(chan int, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if got, err := io.ReadAll(r.Body); err == nil {
			whole <- len(got)
		}
	}))
	defer server.Close()
	to, err := warehouse.NewInserter(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	data := bytes.Repeat([]byte("rows"), 1<<18)
	// The first makes the connection: a dial has the context's time too.
	if err := to.Insert(t.Context(), "INSERT INTO t", nil, data); err != nil {
		t.Fatal(err)
	}
	if err := to.Insert(suspended{t.Context(), time.Now().Add(-time.Second)}, "INSERT INTO t", nil, data); err == nil {
		t.Error("a late insert succeeds")
	}
	server.CloseClientConnections()
	server.Close()
	if n := len(whole); n != 1 {
		t.Errorf("%d blocks came whole, want 1", n)
	}
}
