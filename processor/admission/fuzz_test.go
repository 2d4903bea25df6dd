package admission

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/presets"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// fuzzed is the whole of admission on a broker in this process: as producers and operators
// see it. It serves all inputs of a fuzzer's process.
type fuzzed struct {
	names topics.Names
	adm   *kadm.Client
	cl    *kgo.Client
	by    map[kgo.CompressionCodec]*kgo.Client
	pol   *policy.Watcher
	done  chan struct{}
	err   error
	n     atomic.Int64
}

const fuzzPartitions = 2

var fuzzWorld = sync.OnceValues(func() (*fuzzed, error) {
	ctx := context.Background()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.WithLogger(kfake.BasicLogger(io.Discard, kfake.LogLevelNone)))
	if err != nil {
		return nil, err
	}
	seeds := kgo.SeedBrokers(c.ListenAddrs()...)
	f := &fuzzed{by: make(map[kgo.CompressionCodec]*kgo.Client), done: make(chan struct{})}
	for _, codec := range codecs {
		cl, err := kgo.NewClient(seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(90<<20), kgo.ProducerLinger(0))
		if err != nil {
			return nil, err
		}
		f.by[codec], f.cl = cl, cl
	}
	f.adm = kadm.NewClient(f.cl)
	doc, err := schemas.ParsePolicy("dev.yaml", presets.Dev)
	if err != nil {
		return nil, err
	}
	if err := f.topics(ctx, &doc.Policy); err != nil {
		return nil, err
	}
	if f.pol, err = policy.Watch(ctx, f.names.Config(), slog.New(slog.DiscardHandler), seeds); err != nil {
		return nil, err
	}
	go f.pol.Run(ctx)
	if _, err := f.pol.Publish(ctx, f.cl, 0, "fuzz", doc.Policy); err != nil {
		return nil, err
	}
	go func() {
		defer close(f.done)
		f.err = Run(ctx, Config{
			Stream: stream.Config{Brokers: c.ListenAddrs(), TransactionalID: "fuzz", SessionTimeout: 6 * time.Second, BatchBytes: f.names.BatchBytes},
			Read:   stream.ReadConfig{Brokers: c.ListenAddrs()}, Names: f.names,
			Partitions: fuzzPartitions, DelayPartitions: 1, DLQPartitions: 1, ReplyPartitions: 1,
		}, f.pol)
	}()
	return f, nil
})

var codecs = []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}

func (f *fuzzed) topics(ctx context.Context, p *schemas.Policy) error {
	diff, err := topics.Plan(ctx, f.adm, topics.Catalogue(topics.Config{Partitions: fuzzPartitions, Replication: 1, Replies: 1}, p))
	if err == nil {
		err = topics.Apply(ctx, f.cl, diff, nil)
	}
	return err
}

// decided waits until everything in the requests and in readmit is decided: the group has
// passed it. It fails when that does not happen.
func (f *fuzzed) decided(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		select {
		case <-f.done:
			t.Fatalf("admission ended: %v", f.err)
		case <-time.After(2 * time.Millisecond):
		}
		behind, err := f.behind(ctx)
		switch {
		case ctx.Err() != nil:
			t.Fatalf("admission is stuck: %s", behind)
		case err == nil && behind == "":
			return
		}
	}
}

func (f *fuzzed) behind(ctx context.Context) (string, error) {
	ends, err := f.adm.ListEndOffsets(ctx, f.names.Requests(), f.names.Readmit())
	if err != nil {
		return "", err
	}
	at, err := f.adm.FetchOffsets(ctx, Group(f.names))
	if err != nil {
		return "", err
	}
	var behind []string
	ends.Each(func(o kadm.ListedOffset) {
		end := o.Offset
		if o.Topic == f.names.Readmit() {
			end-- // the marker of the transaction that wrote the last
		}
		if got, _ := at.Lookup(o.Topic, o.Partition); end > 0 && got.At < end {
			behind = append(behind, fmt.Sprintf("%s/%d at %d of %d", o.Topic, o.Partition, got.At, o.Offset))
		}
	})
	return strings.Join(behind, ", "), nil
}

// FuzzAdmission: whatever a producer writes, in whatever compression, admission decides it and
// goes on. size blows the value, the key and a header up.
func FuzzAdmission(f *testing.F) {
	valid := []byte(`{"channel":"sms","to":"+8613800000000","class":"verify","body":"x"}`)
	f.Add(valid, []byte("k"), "content-type", []byte("application/json"), uint8(0), uint32(0), uint8(0))
	f.Add([]byte("a"), []byte(nil), "", []byte(nil), uint8(4), uint32(3<<20), uint8(1))
	f.Add(valid, []byte(nil), "x", []byte("a"), uint8(4), uint32(1500<<10), uint8(3))
	f.Add(valid, []byte("k"), "x", []byte("a"), uint8(1), uint32(1500<<10), uint8(2))
	f.Add([]byte("a"), []byte(nil), "", []byte(nil), uint8(3), uint32(20<<20), uint8(1))
	f.Add(valid, []byte(nil), "x", []byte("a"), uint8(2), uint32(schemas.MaxHeaderBytes-40), uint8(3))
	f.Add([]byte(`{"action":"suppress","to":"a@example.com"}`), []byte(nil), "weir-reply", []byte("0/x"), uint8(0), uint32(0), uint8(4))
	f.Add([]byte(`{"channel":"email","to":"a@example.com","subject":"s","body":"b","send_at":"2026-11-24T00:00:00Z","provider":"nobody"}`), []byte(nil), "ce_specversion", []byte("1.0"), uint8(0), uint32(0), uint8(5))
	f.Add([]byte{0, 0, 0, 0, 1, 0}, []byte(nil), "content-type", []byte("application/x-protobuf"), uint8(0), uint32(0), uint8(1))
	f.Fuzz(func(t *testing.T, value, key []byte, header string, held []byte, codec uint8, size uint32, where uint8) {
		if err := overBroker(header); err != nil {
			t.Skip(err)
		}
		w, err := fuzzWorld()
		if err != nil {
			t.Fatal(err)
		}
		n := int(size % (24 << 20))
		grow := func(b []byte) []byte {
			if len(b) == 0 || n <= len(b) {
				return b
			}
			return append(b[:len(b):len(b)], []byte(strings.Repeat(string(b[:1]), n-len(b)))...)
		}
		r := &kgo.Record{Topic: w.names.Requests(), Partition: int32(where>>7) % fuzzPartitions, Key: key, Value: value, Headers: []kgo.RecordHeader{{Key: header, Value: held}}}
		switch where % 8 {
		case 1:
			r.Value = grow(value)
		case 2:
			r.Key = grow(key)
		case 3:
			r.Headers[0].Value = grow(held)
		case 4:
			for range n % 5000 {
				r.Headers = append(r.Headers, r.Headers[0])
			}
		}
		if err := w.by[codecs[int(codec)%len(codecs)]].ProduceSync(t.Context(), r).FirstErr(); err != nil {
			return // the broker does not take it
		}
		w.decided(t)
	})
}

// overBroker tells what a record's header cannot be.
func overBroker(header string) error {
	if strings.ToValidUTF8(header, "") != header {
		return fmt.Errorf("no text")
	}
	return nil
}

// FuzzPolicies: under any policy that apply takes, with any number of anything, admission decides.
func FuzzPolicies(f *testing.F) {
	for _, n := range []uint16{0, 1, 8, 9, 40} {
		f.Add(n, n, n, n, uint8(n), "verify")
	}
	f.Add(uint16(30), uint16(0), uint16(12), uint16(3), uint8(7), "x")
	f.Fuzz(func(t *testing.T, providers, routes, limits, classes uint16, windows uint8, class string) {
		w, err := fuzzWorld()
		if err != nil {
			t.Fatal(err)
		}
		text := policyOf(int(providers%48), int(routes%48), int(limits%48), int(classes%48), int(windows%12))
		doc, err := schemas.ParsePolicy("fuzz.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.topics(t.Context(), &doc.Policy); err != nil {
			t.Fatal(err)
		}
		if _, err := w.pol.Publish(t.Context(), w.cl, w.pol.Latest().Revision, "fuzz", doc.Policy); err != nil {
			t.Fatal(err)
		}
		for p := range int32(fuzzPartitions) {
			for i := range 3 {
				to := fmt.Sprintf("+861380000%04d", w.n.Add(1)%10000)
				value := fmt.Appendf(nil, `{"channel":"sms","to":%q,"class":%q,"body":"x","metadata":{"m":"%d"}}`, to, class, i)
				if err := w.cl.ProduceSync(t.Context(), &kgo.Record{Topic: w.names.Requests(), Partition: p, Value: value}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.decided(t)
	})
}

// policyOf is a policy of so many of each.
func policyOf(providers, routes, limits, classes, windows int) string {
	var b strings.Builder
	list := func(name string, n int, item func(i int)) {
		if n > 0 {
			fmt.Fprintf(&b, "%s:\n", name)
		}
		for i := range n {
			item(i)
		}
	}
	list("providers", providers, func(i int) {
		fmt.Fprintf(&b, "- {name: p%d, type: simulated, channels: [sms]}\n", i)
	})
	list("classes", classes, func(i int) {
		fmt.Fprintf(&b, "- {name: %s}\n", []string{"verify", "x", fmt.Sprintf("c%d", i)}[min(i, 2)])
	})
	list("limits", limits, func(i int) {
		var allow []string
		for k := range max(windows, 1) {
			allow = append(allow, fmt.Sprintf("%d/%dm", i+k+1, k+1))
		}
		per := []string{"recipient", "tenant", "recipient, class", "metadata.m"}[i%4]
		fmt.Fprintf(&b, "- {name: l%d, per: [%s], allow: [%s]}\n", i, per, strings.Join(allow, ", "))
	})
	list("routes", min(routes, providers), func(i int) {
		fmt.Fprintf(&b, "- name: r%d\n  match: {metadata.m: [\"%d\"]}\n  to:\n", i, i%3)
		for k := range providers {
			fmt.Fprintf(&b, "  - {provider: p%d, weight: %d}\n", k, 1+k%9)
		}
	})
	return b.String()
}
