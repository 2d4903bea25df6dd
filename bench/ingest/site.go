package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weirhq/weir/cmd/weir/e2e"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const partitions = 8

// site is one weir run, on topics of its own.
type site struct {
	bench  *bench
	names  topics.Names
	dir    string
	addr   string
	key    string
	worker *e2e.Process
}

// open makes the topics and the policy, and starts a worker with these roles.
func (b *bench) open(ctx context.Context, roles string) (*site, error) {
	s := &site{bench: b, names: topics.Names{Prefix: fmt.Sprintf("ingest-%d.", time.Now().UnixNano())}}
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
	file := filepath.Join(s.dir, "policy.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"topics", "apply"}, {"apply", "-f", file, "--prune"}} {
		out, err := exec.CommandContext(ctx, b.program, append(args, s.flags()...)...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("weir %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return s, s.start(ctx, roles)
}

func (s *site) flags() []string {
	return []string{"--kafka-brokers", strings.Join(s.bench.brokers, ","), "--kafka-prefix", s.names.Prefix, "--kafka-partitions", fmt.Sprint(partitions)}
}

func (s *site) start(ctx context.Context, roles string) error {
	if s.addr == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s.addr = l.Addr().String()
		l.Close()
	}
	var err error
	s.worker, err = e2e.Start(s.dir, "worker", s.bench.program, append([]string{"run", "--roles", roles, "--slot", "0", "--http-listen", s.addr, "--log-level", "warn"}, s.flags()...)...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("the worker was not ready in 30 s"))
	defer cancel()
	for {
		resp, err := http.Get("http://" + s.addr + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w\n%s", context.Cause(ctx), s.worker.Tail(10))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *site) close() {
	if s.worker != nil {
		s.worker.Kill()
	}
}

// metrics returns a histogram of the worker's, its children added up by bucket.
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
