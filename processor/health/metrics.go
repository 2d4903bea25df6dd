package health

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/schemas"
)

var shareDesc = prometheus.NewDesc("weir_routing_share",
	"How much of its weight a provider gets from this process's routing, 0 to 1: open or throttling everyone 0, probing 0.02, degraded 0.25. Who is not here is well.",
	[]string{"provider"}, nil)

// Describe makes a Watcher a prometheus.Collector.
func (w *Watcher) Describe(ch chan<- *prometheus.Desc) { ch <- shareDesc }

// Collect says each provider's share as of now.
func (w *Watcher) Collect(ch chan<- prometheus.Metric) {
	now := schemas.MillisOf(time.Now())
	for name, s := range w.Now() {
		ch <- prometheus.MustNewConstMetric(shareDesc, prometheus.GaugeValue, float64(s.Best(now))/100, name)
	}
}
