package local

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stopGrace is what a broker on a kept directory gets to end in good order; a
// broker on a temporary one is killed.
const stopGrace = 10 * time.Second

// fencedWithin is when a controller has surely noticed that a broker is gone.
const fencedWithin = 2 * brokerSession

// Options of StartKafka.
type Options struct {
	Dir     string                    // keeps data, ids and ports between starts; "" is a temporary one, removed at the end
	LibDir  string                    // what Ensure returned
	Brokers int                       // 1 or 3; 0 is 1
	Apart   bool                      // the controller is a process of its own, which Kill leaves alone: see the package comment
	Port    int                       // of the first broker, the others' follow; 0 takes free ones, or those of an earlier start on Dir
	Hosts   []string                  // the brokers' addresses; nil is 127.0.0.1 for all
	Before  func(broker int) []string // begins the command of a broker: in another namespace, with another clock; may be nil
	Log     io.Writer                 // receives the brokers' errors too, which are in kafka.log of each broker's directory; may be nil
}

// Kafka is a running cluster. Its methods may be called from any goroutine, but
// only one at a time for the same broker.
type Kafka struct {
	java string
	opts Options
	dir  string
	plan plan

	mu     sync.Mutex
	nodes  []*leash // the brokers', then the controller's if it is apart
	killed []time.Time
}

// StartKafka formats what is new, starts the brokers and returns when all of them
// answer and know of each other. ctx bounds the starting only: the brokers run
// until Stop, or until this process ends in any way.
func StartKafka(ctx context.Context, o Options) (*Kafka, error) {
	k, err := newKafka(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start Kafka: %w", err)
	}
	if err := k.start(ctx); err != nil {
		k.Stop()
		return nil, fmt.Errorf("start Kafka: %w", err)
	}
	return k, nil
}

func newKafka(ctx context.Context, o Options) (*Kafka, error) {
	switch o.Brokers {
	case 0:
		o.Brokers = 1
	case 1, 3:
	default:
		return nil, fmt.Errorf("%d brokers: 1 or 3", o.Brokers)
	}
	path, err := Java(ctx)
	if err != nil {
		return nil, err
	}
	nodes := o.Brokers
	if o.Apart {
		nodes++
	}
	k := &Kafka{java: path, opts: o, nodes: make([]*leash, nodes), killed: make([]time.Time, nodes)}
	if o.Dir == "" {
		if k.dir, err = os.MkdirTemp("", "weir-kafka-*"); err != nil {
			return nil, err
		}
	} else if k.dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		return nil, err
	}
	if k.plan, err = readPlan(filepath.Join(k.dir, "cluster.json"), o); err != nil {
		return nil, err
	}
	return k, nil
}

// readPlan returns the plan of an earlier start, or makes one. It chooses ports
// that are free now; the brokers take them a moment later.
func readPlan(path string, o Options) (plan, error) {
	var p plan
	b, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := json.Unmarshal(b, &p); err != nil {
			return p, fmt.Errorf("%s: %w", path, err)
		}
		if len(p.Nodes) != o.Brokers {
			return p, fmt.Errorf("%s has %d brokers, not %d", filepath.Dir(path), len(p.Nodes), o.Brokers)
		}
		if (p.Apart != nil) != o.Apart {
			return p, fmt.Errorf("%s has a controller apart: %v, not %v", filepath.Dir(path), p.Apart != nil, o.Apart)
		}
	case errors.Is(err, os.ErrNotExist):
		ports, err := freePorts(2*o.Brokers + 1)
		if err != nil {
			return p, err
		}
		p.Cluster = newID()
		for i := range o.Brokers {
			n := node{ID: i + 1, Port: ports[2*i], Controller: ports[2*i+1], Directory: newID()}
			if o.Hosts != nil {
				n.Host = o.Hosts[i]
			}
			p.Nodes = append(p.Nodes, n)
		}
		if o.Apart {
			p.Apart = &node{ID: apartID, Controller: ports[2*o.Brokers], Directory: newID()}
		}
	default:
		return p, err
	}
	if o.Port != 0 {
		for i := range p.Nodes {
			p.Nodes[i].Port = o.Port + i
		}
	}
	if o.Dir == "" {
		return p, nil // nobody will read it
	}
	b, err = json.MarshalIndent(p, "", "  ")
	if err != nil {
		return p, err
	}
	return p, os.WriteFile(path, b, 0o644)
}

func (k *Kafka) start(ctx context.Context) error {
	errs := make([]error, len(k.nodes))
	var formats sync.WaitGroup
	for i := range k.nodes {
		formats.Go(func() { errs[i] = k.format(ctx, i) })
	}
	formats.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i := range k.nodes {
		if err := k.launch(i); err != nil {
			return err
		}
	}
	for i := range k.plan.Nodes {
		if err := k.await(ctx, i, len(k.plan.Nodes)); err != nil {
			return err
		}
	}
	return nil
}

// format writes a node's properties, and its storage if it has none yet.
func (k *Kafka) format(ctx context.Context, i int) error {
	dir := k.nodeDir(i)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	properties := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(properties, []byte(k.plan.properties(i, dir)), 0o644); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "meta.properties")); err == nil {
		return nil
	}
	quorum := []string{"--standalone"}
	switch {
	case i < len(k.plan.Nodes) && k.plan.Apart != nil:
		quorum = []string{"--no-initial-controllers"}
	case len(k.plan.Nodes) > 1 && k.plan.Apart == nil:
		quorum = []string{"--initial-controllers", k.plan.initialControllers()}
	}
	cmd := exec.CommandContext(ctx, k.java, append([]string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", k.classpath(),
		"kafka.tools.StorageTool", "format", "-t", k.plan.Cluster, "-c", properties}, quorum...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format broker %d: %w: %s", i, err, lastOf(out))
	}
	return nil
}

// launch starts a node's process.
func (k *Kafka) launch(i int) error {
	out, err := os.OpenFile(k.logFile(i), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	grace, remove := stopGrace, ""
	if k.opts.Dir == "" {
		grace, remove = 0, k.nodeDir(i)
	}
	// Several share this machine: what they do at once is start.
	flags := []string{"-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	switch {
	case i == len(k.plan.Nodes):
		flags[0] = "-Xmx256m" // the controller
	case len(k.plan.Nodes) == 1:
		flags = []string{"-Xmx1g"}
	}
	var program []string
	if k.opts.Before != nil && i < len(k.plan.Nodes) {
		program = k.opts.Before(i)
	}
	program = append(append(program, k.java), flags...)
	program = append(program, "-cp", k.classpath(), "kafka.Kafka", filepath.Join(k.nodeDir(i), "server.properties"))
	l, err := start(grace, remove, out, k.opts.Log, program...)
	if err != nil {
		out.Close()
		return fmt.Errorf("broker %d: %w", i, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.nodes[i] = l
	return nil
}

// await returns when node i knows of that many brokers and of a controller.
func (k *Kafka) await(ctx context.Context, i, brokers int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(k.plan.addrs()[i]), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer client.Close()
	l := k.node(i)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	var last error
	for {
		var seen int
		if seen, last = look(ctx, client); last == nil && seen >= brokers {
			return nil
		}
		select {
		case <-l.done:
			return fmt.Errorf("broker %d ended (%v): %s", i, l.err, k.lastLog(i))
		case <-ctx.Done():
			return fmt.Errorf("broker %d is not ready, it knows of %d brokers (%v): %w: %s", i, seen, last, context.Cause(ctx), k.lastLog(i))
		case <-again.C:
		}
	}
}

// look asks for the versions (which the client does on connecting) and the
// metadata, and counts the brokers.
func look(ctx context.Context, client *kgo.Client) (brokers int, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
	if err != nil {
		return 0, err
	}
	return len(resp.Brokers), nil
}

// Addrs are the brokers' addresses, host:port, of those killed too.
func (k *Kafka) Addrs() []string { return k.plan.addrs() }

// Dir is where the brokers keep data and logs.
func (k *Kafka) Dir() string { return k.dir }

// Done is closed when broker i, counted from 0, has ended; Restart makes another.
func (k *Kafka) Done(i int) <-chan struct{} { return k.node(i).done }

// Kill ends broker i with kill -9, and returns when it has ended. A controller
// that is apart, and the other brokers, go on.
func (k *Kafka) Kill(i int) {
	k.node(i).kill()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.killed[i] = time.Now()
}

// Restart starts broker i again after Kill, at its address and on its data, and
// returns when it answers and knows of all brokers. A broker that runs is killed
// first. The only broker of a controller that is apart starts once the controller
// knows of its end: see the package comment.
func (k *Kafka) Restart(ctx context.Context, i int) error {
	select {
	case <-k.Done(i):
	default:
		k.Kill(i)
	}
	if k.opts.Apart && len(k.plan.Nodes) == 1 {
		k.mu.Lock()
		fenced := time.NewTimer(time.Until(k.killed[i].Add(fencedWithin)))
		k.mu.Unlock()
		defer fenced.Stop()
		select {
		case <-fenced.C:
		case <-ctx.Done():
			return fmt.Errorf("restart Kafka: %w", context.Cause(ctx))
		}
	}
	if err := k.launch(i); err != nil {
		return fmt.Errorf("restart Kafka: %w", err)
	}
	if err := k.await(ctx, i, k.alive()); err != nil {
		return fmt.Errorf("restart Kafka: %w", err)
	}
	return nil
}

// Stop ends all brokers and waits: in good order within ten seconds if Dir was
// given, else at once, and their temporary directory is removed.
func (k *Kafka) Stop() {
	var stops sync.WaitGroup
	for i := range k.nodes {
		if l := k.node(i); l != nil {
			stops.Go(l.release)
		}
	}
	stops.Wait()
	if k.opts.Dir == "" {
		_ = os.RemoveAll(k.dir)
	}
}

func (k *Kafka) node(i int) *leash {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.nodes[i]
}

// alive counts the brokers that run.
func (k *Kafka) alive() int {
	n := 0
	for i := range k.plan.Nodes {
		select {
		case <-k.Done(i):
		default:
			n++
		}
	}
	return n
}

func (k *Kafka) nodeDir(i int) string {
	if i == len(k.plan.Nodes) {
		return filepath.Join(k.dir, "controller")
	}
	return filepath.Join(k.dir, fmt.Sprintf("broker-%d", i))
}

func (k *Kafka) logFile(i int) string { return filepath.Join(k.nodeDir(i), "kafka.log") }

func (k *Kafka) classpath() string { return filepath.Join(k.opts.LibDir, "*") }

func (k *Kafka) lastLog(i int) string {
	b, err := os.ReadFile(k.logFile(i))
	if err != nil {
		return err.Error()
	}
	return lastOf(b)
}

// newID is an id as Kafka writes them: 128 random bits in URL-safe base64. Kafka
// refuses to read one that begins with a dash.
func newID() string {
	b := make([]byte, 16)
	for {
		_, _ = rand.Read(b) // never fails
		if id := base64.RawURLEncoding.EncodeToString(b); id[0] != '-' {
			return id
		}
	}
}

// freePorts returns ports of 127.0.0.1 that nothing listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("free port: %w", err)
		}
		defer ln.Close() // all at the end, so that none comes twice
		ports = append(ports, ln.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
