package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestServeMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_of_this_test_total"}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveMetrics(ctx, l, reg, nil) }()
	for _, c := range []struct {
		method, path string
		status       int
		has          string
	}{
		{http.MethodGet, "/metrics", http.StatusOK, "weir_of_this_test_total 0\n"},
		{http.MethodGet, "/readyz", http.StatusOK, "ready\n"},
		{http.MethodPost, "/metrics", http.StatusMethodNotAllowed, ""},
		{http.MethodGet, "/v1/messages", http.StatusNotFound, ""},
		{http.MethodGet, "/", http.StatusNotFound, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+l.Addr().String()+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status || !strings.Contains(string(b), c.has) {
			t.Errorf("%s %s: %s %s", c.method, c.path, resp.Status, b)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended: %v", err)
	}
}
