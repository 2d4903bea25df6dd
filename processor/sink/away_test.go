package sink_test

import (
	"context"
	"net"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/schemas"
)

// TestSeenWithoutClickHouse: a sink that never reached ClickHouse is to be seen
// where Prometheus looks, with nothing loaded.
func TestSeenWithoutClickHouse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close() // nobody answers there
	ctx, cancel := context.WithCancel(t.Context())
	reg := prometheus.NewRegistry()
	failing := make(chan struct{}, 100)
	ended := make(chan error)
	go func() {
		ended <- sink.Run(ctx, sink.Config{
			Brokers: []string{addr}, URL: "http://" + addr + "/weir", Metrics: reg,
			Report: func(r schemas.SinkReport) { failing <- struct{}{} },
		})
	}()
	<-failing
	shown := map[string]bool{}
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		shown[f.GetName()] = true
	}
	for _, name := range []string{"weir_status_rows_total", "weir_status_lag_seconds"} {
		if !shown[name] {
			t.Errorf("%s is not shown: rules.yaml does not know of the sink", name)
		}
	}
	if v, ok := metric(t, reg, "weir_sink_ready"); !ok || v != 0 {
		t.Errorf("ready: %v, %v", v, ok)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
