package replicatest

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/child/childtest"
	"github.com/weirhq/weir/deploy/local"
)

// Replicas are the replicas of one cluster and their ZooKeeper, until the test ends.
// Its methods belong to the test's goroutine.
type Replicas struct {
	Keeper *local.ZooKeeper

	t       testing.TB
	dir     string
	addrs   []string
	running []*child.Process
}

// StartReplicas starts n. Where Java, Maven or npm is missing, or there is no engine
// for this system, the test is skipped; with CI set it fails.
func StartReplicas(t testing.TB, n int) *Replicas {
	t.Helper()
	lib, err := local.EnsureZooKeeper(t.Context(), "", os.Stderr)
	if local.IsMissingTool(err) && os.Getenv("CI") == "" {
		t.Skipf("NOT TESTED on replicas: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &Replicas{t: t, dir: t.TempDir(), addrs: make([]string, n), running: make([]*child.Process, n)}
	if r.Keeper, err = local.StartZooKeeper(t.Context(), lib, filepath.Join(r.dir, "zookeeper")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Keeper.Kill)
	for i := range r.addrs {
		r.addrs[i] = childtest.Addr(t)
	}
	return r
}

// Start starts replica i, counted from 0, on what it had.
func (r *Replicas) Start(i int) {
	r.t.Helper()
	r.running[i] = Start(r.t, Options{
		Name: fmt.Sprintf("r%d", i+1), Dir: filepath.Join(r.dir, fmt.Sprintf("r%d", i+1)), Addr: r.addrs[i],
		Others: slices.Delete(slices.Clone(r.addrs), i, i+1), ZooKeeper: r.Keeper.Addr(),
	})
}

// StartAll starts all.
func (r *Replicas) StartAll() {
	r.t.Helper()
	for i := range r.addrs {
		r.Start(i)
	}
}

// Kill is kill -9 of replica i.
func (r *Replicas) Kill(i int) {
	r.running[i].Kill()
	<-r.running[i].Done()
}

// URL is of replica i.
func (r *Replicas) URL(i int) string { return "http://" + r.addrs[i] }

// Balancer is a load balancer's address: each request goes to a replica at random, or
// to the next where nobody listens. Of one in lose inserts the answer is cut off when
// they are done; 0 loses none.
func (r *Replicas) Balancer(lose int) string {
	var lost atomic.Int64
	r.t.Cleanup(func() {
		if lose > 0 {
			r.t.Logf("%d answers were lost", lost.Load())
		}
	})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		at := rand.N(len(r.addrs))
		insert := strings.HasPrefix(req.URL.Query().Get("query"), "INSERT INTO status_log")
		to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "replica"})
		to.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
		to.Transport = next{r.addrs, at}
		if insert && lose > 0 && rand.N(lose) == 0 {
			to.ServeHTTP(httptest.NewRecorder(), req)
			lost.Add(1)
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				c.Close()
			}
			return
		}
		to.ServeHTTP(w, req)
	}))
	r.t.Cleanup(srv.Close)
	return srv.URL
}

// next sends to the first replica that listens.
type next struct {
	addrs []string
	from  int
}

func (n next) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	for i := range n.addrs {
		req.URL.Host = n.addrs[(n.from+i)%len(n.addrs)]
		resp, err = http.DefaultTransport.RoundTrip(req)
		// Only then nothing of the request's body was read.
		if dial, ok := errors.AsType[*net.OpError](err); !ok || dial.Op != "dial" {
			return resp, err
		}
	}
	return resp, err
}
