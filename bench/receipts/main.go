// Command receipts measures receipts over HTTP: weir run with the roles ingest and
// receipts, this process as a provider that tells in batches, and Apache Kafka, all
// on one machine. Beside it, in the same run, a bare loop: this process produces the
// same receipts to a topic of its own, acknowledged by all in-sync replicas, and that is all.
//
//	go run ./bench/receipts                 as many as it takes, in batches of 500
//	go run ./bench/receipts -batch 1        one a call
//
// A run is over when every receipt is an amendment in weir.status; its rate is until
// then. It starts Apache Kafka (deploy/local) unless KAFKA_BROKERS names a cluster.
// The table goes to stdout and, with -out, to a file.
//
// What it does not measure: receipts that have to be looked up (go test
// ./processor/sink/warehouse -bench Handed), the sink, more than one machine, TLS.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/bench/rig"
	"github.com/weirhq/weir/cmd/weir/e2e"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/receipt"
	"github.com/weirhq/weir/schemas"
)

func main() { rig.Main("receipts", run) }

const (
	partitions = 8
	secret     = "0123456789abcdef0123456789abcdef"
	policy     = `
providers:
  - {name: p, type: external, channels: [sms], settings: {receipt_secret: "${RECEIPTS}"}}
`
)

type bench struct {
	receipts, batch, conns int
	program, dir           string
	cluster                *rig.Cluster
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	b := &bench{}
	fs := flag.NewFlagSet("receipts", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&b.receipts, "receipts", 200_000, "receipts of a run")
	fs.IntVar(&b.batch, "batch", 500, "receipts of a call")
	fs.IntVar(&b.conns, "conns", 8, "connections, each with one call at a time")
	runs := fs.Int("runs", 3, "runs of each")
	out := fs.String("out", "", "also write the table to this file, as Markdown")
	if err := fs.Parse(args); err != nil {
		return err
	}
	kafka, err := rig.Kafka(ctx, getenv, stderr)
	if err != nil {
		return err
	}
	defer kafka.Close()
	b.cluster = kafka
	if b.dir, err = os.MkdirTemp("", "weir-receipts-*"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.program, err = e2e.Build(ctx, b.dir, ""); err != nil {
		return err
	}
	if err := os.Setenv("RECEIPTS", secret); err != nil {
		return err
	}
	var weir, bare []figures
	for i := range *runs {
		f, err := b.weir(ctx)
		if err != nil {
			return err
		}
		weir = append(weir, f)
		if f, err = b.bare(ctx); err != nil {
			return err
		}
		bare = append(bare, f)
		fmt.Fprintf(stderr, "run %d: weir %.0f answered, %.0f amended; bare %.0f a second\n", i+1, weir[i].answered, weir[i].amended, f.answered)
	}
	var t strings.Builder
	fmt.Fprintf(&t, "# Receipts over HTTP\n\n%s\n\n    %s\n\n%s. %d receipts a run, each of another message and with its reference, %d a call, over %d connections. Receipts a second:\n\n",
		rig.Machine(), rig.Command("receipts", args), kafka.What, b.receipts, b.batch, b.conns)
	t.WriteString("| run | weir: answered | weir: amended, all in `weir.status` | bare loop: acknowledged |\n|---|---|---|---|\n")
	for i := range weir {
		fmt.Fprintf(&t, "| %d | %.0f | %.0f | %.0f |\n", i+1, weir[i].answered, weir[i].amended, bare[i].answered)
	}
	for _, s := range rig.Stats {
		fmt.Fprintf(&t, "| %s | %.0f | %.0f | %.0f |\n", s.Name, rig.Of(s, weir, func(f figures) float64 { return f.answered }),
			rig.Of(s, weir, func(f figures) float64 { return f.amended }), rig.Of(s, bare, func(f figures) float64 { return f.answered }))
	}
	t.WriteString("\nThe bare loop reads no HTTP, verifies nobody, decodes nothing and amends nothing. Weir's program, the broker and the caller share the machine.\n")
	return rig.Print(stdout, *out, t.String())
}

// figures are receipts a second.
type figures struct{ answered, amended float64 }

// of is the i-th receipt of a run.
func of(i int) (id, to string) {
	return uuid.NewSHA1(uuid.NameSpaceOID, strconv.AppendInt(nil, int64(i), 10)).String(), fmt.Sprintf("+86138%08d", i)
}

// weir has a new Weir take the receipts.
func (b *bench) weir(ctx context.Context) (f figures, err error) {
	program, err := b.cluster.Program(ctx, b.program, b.dir, "receipts", partitions, policy)
	if err != nil {
		return f, err
	}
	key := filepath.Join(b.dir, "reference.key")
	if err := os.WriteFile(key, []byte(secret), 0o600); err != nil {
		return f, err
	}
	worker, addr, err := program.Serve(ctx, "", "--roles", "ingest,receipts", "--insecure-no-auth", "--receipts-reference-key-file", key)
	if err != nil {
		return f, err
	}
	defer worker.Kill()
	bodies := b.bodies()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: b.conns}}
	defer client.CloseIdleConnections()
	var (
		wg    sync.WaitGroup
		next  atomic.Int64
		mu    sync.Mutex
		first error
		began = time.Now()
	)
	for range b.conns {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(bodies); i = int(next.Add(1)) - 1 {
				resp, err := client.Post("http://"+addr+"/v1/receipts/p?token="+secret, "application/json", bytes.NewReader(bodies[i]))
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if resp.StatusCode != http.StatusNoContent {
						err = fmt.Errorf("receipts: %s", resp.Status)
					}
				}
				if err != nil {
					mu.Lock()
					first = errors.Join(first, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	if first != nil {
		return f, fmt.Errorf("%w\n%s", first, worker.Tail(10))
	}
	f.answered = float64(b.receipts) / time.Since(began).Seconds()
	if err := until(ctx, 2*time.Minute, func() bool { return amended(addr) >= b.receipts }); err != nil {
		return f, fmt.Errorf("%d of %d amended: %w\n%s", amended(addr), b.receipts, err, worker.Tail(10))
	}
	f.amended = float64(b.receipts) / time.Since(began).Seconds()
	return f, nil
}

func (b *bench) bodies() (all [][]byte) {
	references := provider.NewSigner(secret).Of("p")
	for i := 0; i < b.receipts; {
		body := []byte{'['}
		for range min(b.batch, b.receipts-i) {
			id, to := of(i)
			call := provider.Call{ID: id, To: to, Tenant: schemas.DefaultTenant, Channel: schemas.ChannelSMS, Attempt: 1, References: references}
			body = fmt.Appendf(body, `{"reference":"%s","status":"delivered","at":"%s"},`, call.Reference(), time.Now().UTC().Format(time.RFC3339))
			i++
		}
		body[len(body)-1] = ']'
		all = append(all, body)
	}
	return all
}

var amendedLine = regexp.MustCompile(`(?m)^weir_receipts_total\{outcome="amended",provider="p"\} (\S+)$`)

func amended(addr string) int {
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	m := amendedLine.FindSubmatch(text)
	if err != nil || m == nil {
		return 0
	}
	v, _ := strconv.ParseFloat(string(m[1]), 64)
	return int(v)
}

// bare produces the same records from here.
func (b *bench) bare(ctx context.Context) (f figures, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.cluster.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(time.Millisecond))
	if err != nil {
		return f, err
	}
	defer cl.Close()
	topic := receipt.Topic{Name: fmt.Sprintf("bare-%d", time.Now().UnixNano()), Partitions: partitions}
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, nil, topic.Name); err != nil {
		return f, err
	}
	var records []*kgo.Record
	now := schemas.MillisOf(time.Now())
	for i := range b.receipts {
		id, to := of(i)
		records = append(records, topic.Record(&schemas.Receipt{Provider: "p", MessageID: id, To: to, Status: schemas.StatusDelivered, At: now}))
	}
	began := time.Now()
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return f, err
	}
	f.answered = float64(b.receipts) / time.Since(began).Seconds()
	return f, nil
}

func until(ctx context.Context, within time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not in %v", within))
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
