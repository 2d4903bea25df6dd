package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/cmd/weir/e2e"
	"github.com/weirhq/weir/schemas"
)

const partitions = 8

// site is one weir run, on topics of its own.
type site struct {
	bench  *bench
	weir   *rig.Program
	dir    string
	addr   string
	key    string
	worker *e2e.Process
}

// open makes the topics and the policy, and starts a worker with these roles.
func (b *bench) open(ctx context.Context, roles string) (*site, error) {
	s := &site{bench: b}
	var err error
	if s.dir, err = os.MkdirTemp(b.dir, "site-"); err != nil {
		return nil, err
	}
	if s.key, err = schemas.NewSecret(false); err != nil {
		return nil, err
	}
	policy := fmt.Sprintf(`
limits:
  - {name: verify, match: {class: verify}, per: [recipient], allow: [5/60s, 20/1h]}
providers:
  - {name: gate, type: none, channels: [sms]}
tenants:
  - {name: acme, default_region: CN}
keys:
  - {name: bench, tenant: acme, scopes: [send, read], hash: %q, rates: {write: bucket 1000000 refill 1000000/s, batch: bucket 1000000 refill 1000000/s, query: bucket 1000000 refill 1000000/s}}
`, schemas.HashSecret(s.key))
	if s.weir, err = b.cluster.Program(ctx, b.program, s.dir, "ingest", partitions, policy); err != nil {
		return nil, err
	}
	return s, s.start(ctx, roles)
}

// start starts a worker, at the address that the one before had.
func (s *site) start(ctx context.Context, roles string) (err error) {
	s.worker, s.addr, err = s.weir.Serve(ctx, s.addr, "--roles", roles)
	return err
}

func (s *site) close() {
	if s.worker != nil {
		s.worker.Kill()
	}
}

// histogram returns one of the worker's, its children added up by bucket.
func (s *site) histogram(name string) (map[float64]uint64, uint64, error) {
	resp, err := http.Get("http://" + s.addr + "/metrics")
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, 0, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, 0, err
	}
	all, n := make(map[float64]uint64), uint64(0)
	for _, m := range families[name].GetMetric() {
		n += m.GetHistogram().GetSampleCount()
		for _, b := range m.GetHistogram().GetBucket() {
			all[b.GetUpperBound()] += b.GetCumulativeCount()
		}
	}
	return all, n, nil
}
