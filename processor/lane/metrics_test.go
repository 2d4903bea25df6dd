package lane_test

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// TestLag: while a message waits for its call, it is seen for how long; when none
// does, nothing is; and when the lane ends, it leaves no series behind.
func TestLag(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneProvider(func(p *schemas.Provider) { p.Concurrency = 1 }))
	release := make(chan struct{})
	r.fake.respond = func(context.Context, provider.Call) provider.Outcome {
		<-release
		return provider.Outcome{Kind: provider.Accepted}
	}
	cfg, reg := r.config("a"), prometheus.NewRegistry()
	cfg.Metrics = reg
	stop := r.run(cfg)
	r.dispatch(message{id: "called"})
	r.eventually("a call", func() bool { return len(r.fake.made()) == 1 })
	r.dispatch(message{id: "waits", pinned: true, change: func(e *schemas.Envelope) { e.DecidedAt -= 4_000 }}, message{id: "younger"})
	for _, name := range []string{"weir_lane_lag_seconds", "weir_topic_lag_seconds"} {
		r.eventually(name+" tells", func() bool { v := figure(t, reg, name); return v >= 4 && v < 4+15 })
	}
	close(release)
	for _, name := range []string{"weir_lane_lag_seconds", "weir_topic_lag_seconds"} {
		r.eventually(name+" is 0 again", func() bool { return figure(t, reg, name) == 0 })
	}
	stop()
	got, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got {
		if f.GetName() == "weir_lane_lag_seconds" {
			t.Errorf("left behind: %v", f)
		}
	}
}
