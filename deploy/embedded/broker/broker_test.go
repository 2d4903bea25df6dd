//go:build unix

package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhq/weir/deploy/embedded/child"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{Name: Role, "writer": writer})
	os.Exit(m.Run())
}

// limit is the patience of a test with a real process.
const limit = 2 * time.Minute

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, dir string) *child.Process {
	t.Helper()
	began := time.Now()
	p, err := Start(within(t, limit), Options{Dir: dir, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready in %v", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() {
		p.Kill()
		<-p.Done()
	})
	return p
}

func stop(t *testing.T, p *child.Process) {
	t.Helper()
	began := time.Now()
	if err := p.Stop(within(t, limit)); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped in %v", time.Since(began).Round(time.Millisecond))
}

func client(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func create(t *testing.T, addr string, partitions int32, config map[string]string, topics ...string) {
	t.Helper()
	admin := kadm.NewClient(client(t, addr))
	defer admin.Close()
	pointers := map[string]*string{}
	for k, v := range config {
		pointers[k] = &v
	}
	made, err := admin.CreateTopics(within(t, limit), partitions, 1, pointers, topics...)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// read returns what topics hold up to their high watermarks (or last stable
// offsets, if committed), by topic/partition. The last must be visible: after its
// own kill -9 kfake aborts what was open without writing a marker.
func read(t *testing.T, addr string, committed bool, topics ...string) map[string][]*kgo.Record {
	t.Helper()
	ctx := within(t, limit)
	level := kgo.ReadUncommitted()
	if committed {
		level = kgo.ReadCommitted()
	}
	c := client(t, addr, kgo.ConsumeTopics(topics...), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	admin := kadm.NewClient(c)
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if committed {
		ends, err = admin.ListCommittedOffsets(ctx, topics...)
	}
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[fmt.Sprintf("%s/%d", o.Topic, o.Partition)] = o.Offset
		}
	})
	got := map[string][]*kgo.Record{}
	for len(left) > 0 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("%v; not read to the end: %v", err, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			at := fmt.Sprintf("%s/%d", r.Topic, r.Partition)
			if !r.Attrs.IsControl() {
				got[at] = append(got[at], r)
			}
			if r.Offset+1 >= left[at] {
				delete(left, at)
			}
		})
	}
	return got
}

func values(records []*kgo.Record) string {
	var out []string
	for _, r := range records {
		out = append(out, string(r.Value))
	}
	return strings.Join(out, " ")
}

func produce(t *testing.T, c *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	if err := c.ProduceSync(within(t, limit), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// commitOffset commits an offset with metadata in the client's open transaction.
func commitOffset(ctx context.Context, c *kgo.Client, group, topic string, partition int32, offset int64, metadata string) error {
	id, epoch, err := c.ProducerID(ctx)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = "tx", group, id, epoch
	if txid, ok := c.OptValue(kgo.TransactionalID).(string); ok {
		req.TransactionalID = txid
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.Group, add.ProducerID, add.ProducerEpoch = req.TransactionalID, group, id, epoch
	added, err := add.RequestWith(ctx, c)
	if err == nil {
		err = kerr.ErrorForCode(added.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("add offsets: %w", err)
	}
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	meta, err := kadm.NewClient(c).Metadata(ctx, topic)
	if err != nil {
		return err
	}
	rt.Topic, rt.TopicID = topic, meta.Topics[topic].ID // version 6 has the id only
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.Metadata = partition, offset, &metadata
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, c)
	if err != nil {
		return fmt.Errorf("commit offsets: %w", err)
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// thirty topics, more than the whole catalogue with a few providers.
func thirty() []string {
	var topics []string
	for i := range 30 {
		topics = append(topics, fmt.Sprintf("t%02d", i))
	}
	return topics
}

func TestRestartKeepsEverything(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *child.Process){
		"stopped": stop,
		"killed": func(_ *testing.T, p *child.Process) {
			p.Kill()
			<-p.Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, dir := within(t, limit), t.TempDir()
			p := start(t, dir)
			create(t, p.Addr(), 8, map[string]string{"message.timestamp.type": "LogAppendTime"}, thirty()...)
			create(t, p.Addr(), 8, map[string]string{"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}, "ledger")

			c := client(t, p.Addr(), kgo.TransactionalID("tx"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			past := time.UnixMilli(1)
			transaction := func(end kgo.TransactionEndTry, value string, offset int64) {
				t.Helper()
				if err := c.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				for part := range int32(8) {
					produce(t, c,
						&kgo.Record{Topic: "t00", Partition: part, Value: []byte(value), Timestamp: past},
						&kgo.Record{Topic: "ledger", Partition: part, Key: []byte("k"), Value: []byte(value), Timestamp: past})
				}
				if err := commitOffset(ctx, c, "group", "t01", 3, offset, "meta "+value); err != nil {
					t.Fatal(err)
				}
				if err := c.EndTransaction(ctx, end); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			transaction(kgo.TryCommit, "one", 11)
			transaction(kgo.TryAbort, "two", 12)
			transaction(kgo.TryCommit, "three", 13)
			t.Logf("three transactions over 16 partitions took %v", time.Since(began).Round(time.Millisecond))
			// A fourth stays open: its process "dies" with it.
			if err := c.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			produce(t, c, &kgo.Record{Topic: "t00", Partition: 0, Value: []byte("four")})
			end(t, p)

			p = start(t, dir)
			c = client(t, p.Addr(), kgo.TransactionalID("tx"))
			if _, _, err := c.ProducerID(ctx); err != nil { // aborts the fourth
				t.Fatal(err)
			}
			// Without a visible record behind it, the end of the fourth is not: see read.
			produce(t, client(t, p.Addr(), kgo.RecordPartitioner(kgo.ManualPartitioner())),
				&kgo.Record{Topic: "t00", Partition: 0, Value: []byte("five")})
			admin := kadm.NewClient(c)
			listed, err := admin.ListTopics(ctx)
			if err != nil || len(listed) != 31 {
				t.Errorf("%d topics, want 31 (%v)", len(listed), err)
			}
			configs, err := admin.DescribeTopicConfigs(ctx, "ledger")
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
			for _, kv := range configs[0].Configs {
				if w, ok := want[kv.Key]; ok && kv.MaybeValue() != w {
					t.Errorf("%s is %q, want %q", kv.Key, kv.MaybeValue(), w)
				}
			}
			for at, records := range read(t, p.Addr(), true, "t00", "ledger") {
				want := "one three"
				if at == "t00/0" {
					want = "one three five"
				}
				if got := values(records); got != want {
					t.Errorf("%s holds %q committed, want %q", at, got, want)
				}
				for _, r := range records {
					if age := time.Since(r.Timestamp); age > time.Hour || age < 0 {
						t.Errorf("%s: append time %v ago; want the broker's time", at, age)
					}
				}
			}
			all := read(t, p.Addr(), false, "t00")
			if got := values(all["t00/0"]); got != "one two three four five" {
				t.Errorf("t00/0 holds %q uncommitted", got)
			}
			fetched, err := admin.FetchOffsets(ctx, "group")
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := fetched.Lookup("t01", 3); got.At != 13 || got.Metadata != "meta three" {
				t.Errorf("offset %d with %q, want 13 with \"meta three\"", got.At, got.Metadata)
			}
		})
	}
}

// writer is a parent: it starts the broker on args[0] and writes transactions over
// 24 partitions, each with an offset, until it is killed.
func writer(_ context.Context, args []string, ready func(string)) error {
	ctx := context.Background()
	p, err := Start(ctx, Options{Dir: args[0], Log: os.Stderr})
	if err != nil {
		return err
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(p.Addr()), kgo.TransactionalID("tx"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	admin := kadm.NewClient(c)
	made, err := admin.CreateTopics(ctx, 24, 1, nil, "out")
	if err == nil {
		err = made.Error()
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	fetched, err := admin.FetchOffsets(ctx, "group")
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // as kfake calls a group without offsets
		return err
	}
	at, _ := fetched.Lookup("out", 0)
	for n := at.At + 1; ; n++ {
		if err := c.BeginTransaction(); err != nil {
			return err
		}
		var records []*kgo.Record
		for part := range int32(24) {
			records = append(records, &kgo.Record{Topic: "out", Partition: part, Value: []byte("x")})
		}
		if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
		if err := commitOffset(ctx, c, "group", "out", 0, n, ""); err != nil {
			return err
		}
		if n == at.At+3 {
			ready(p.Addr()) // the kill that follows meets the commit, or one soon after
		}
		if err := c.EndTransaction(ctx, kgo.TryCommit); err != nil {
			return err
		}
	}
}

func TestAKilledParentTearsNothing(t *testing.T) {
	dir := t.TempDir()
	for round := range 8 {
		w, err := child.Start(within(t, limit), child.Spec{Role: "writer", Args: []string{dir}, Log: os.Stderr})
		if err != nil {
			t.Fatal(err)
		}
		w.Kill()
		<-w.Done()

		began := time.Now()
		p, err := Start(within(t, limit), Options{Dir: dir, Log: os.Stderr})
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		c := client(t, p.Addr(), kgo.TransactionalID("tx"))
		if _, _, err := c.ProducerID(t.Context()); err != nil { // aborts what was open
			t.Fatal(err)
		}
		fetched, err := kadm.NewClient(c).FetchOffsets(t.Context(), "group")
		if err != nil {
			t.Fatal(err)
		}
		at, _ := fetched.Lookup("out", 0)
		records := read(t, p.Addr(), true, "out")
		for part := range 24 {
			if n := len(records[fmt.Sprintf("out/%d", part)]); int64(n) != at.At {
				t.Errorf("round %d: partition %d holds %d, the group is at %d", round, part, n, at.At)
			}
		}
		t.Logf("round %d: %d transactions; successor ready %v after the kill", round, at.At, took.Round(time.Millisecond))
		c.Close()
		stop(t, p)
	}
}

func TestDeadMembersDoNotDelayTheNextStart(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir)
	create(t, p.Addr(), 8, nil, "in")
	join := func(addr string) *kgo.Client {
		// Longer than a new member is waited for below, on any machine.
		c := client(t, addr, kgo.ConsumerGroup("group"), kgo.ConsumeTopics("in"), kgo.SessionTimeout(2*limit), kgo.RebalanceTimeout(2*limit),
			kgo.Balancers(kgo.RangeBalancer()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		produce(t, c, &kgo.Record{Topic: "in", Value: []byte("x")})
		if err := c.PollFetches(within(t, limit)).Err0(); err != nil {
			t.Fatalf("a new member got nothing: %v", err)
		}
		return c
	}
	join(p.Addr()) // and never leaves, since its broker goes first
	stop(t, p)
	p = start(t, dir)
	began := time.Now()
	join(p.Addr())
	t.Logf("first record %v after joining", time.Since(began).Round(time.Millisecond))
}

func TestCleaning(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	addrs, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- Serve(ctx, Config{Dir: t.TempDir(), CleanEvery: 20 * time.Millisecond}, func(a string) { addrs <- a })
	}()
	defer func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	var addr string
	select {
	case addr = <-addrs:
	case err := <-ended:
		t.Fatal(err)
	}
	create(t, addr, 1, map[string]string{"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0"}, "ledger")
	create(t, addr, 1, map[string]string{"retention.ms": "50", "segment.bytes": "1024"}, "short")
	c := client(t, addr, kgo.TransactionalID("writer"))
	defer c.Close()
	transact := func(try kgo.TransactionEndTry, records ...*kgo.Record) {
		t.Helper()
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		produce(t, c, records...)
		if err := c.EndTransaction(within(t, limit), try); err != nil {
			t.Fatal(err)
		}
	}
	// An aborted transaction of a producer whose committed ones are all newer: a
	// compaction as kfake's would hide these from readers.
	transact(kgo.TryAbort, &kgo.Record{Topic: "ledger", Key: []byte("k"), Value: []byte("aborted")})
	for i := range 50 {
		v := fmt.Appendf(nil, "%d", i)
		transact(kgo.TryCommit,
			&kgo.Record{Topic: "ledger", Key: []byte("k"), Value: v},
			&kgo.Record{Topic: "short", Value: make([]byte, 100)})
	}
	poll := within(t, limit)
	admin := kadm.NewClient(c)
	for {
		starts, err := admin.ListStartOffsets(poll, "short")
		if err != nil {
			t.Fatal(err)
		}
		if first, _ := starts.Lookup("short", 0); first.Offset > 0 {
			break
		}
		if poll.Err() != nil {
			t.Fatal("nothing of the short topic was deleted")
		}
	}
	kept := read(t, addr, true, "ledger")["ledger/0"]
	if len(kept) != 50 || string(kept[len(kept)-1].Value) != "49" {
		t.Errorf("the ledger has %d records for those who read what is committed, want 50", len(kept))
	}
}

func TestAppendTime(t *testing.T) {
	p := start(t, t.TempDir())
	create(t, p.Addr(), 1, nil, "in")
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		c := client(t, p.Addr(), kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(5*time.Millisecond))
		var records []*kgo.Record
		for i := range 100 { // times that lie far apart, in one batch
			records = append(records, &kgo.Record{
				Topic: "in", Key: []byte(name), Value: bytes.Repeat([]byte("v"), i), Timestamp: time.UnixMilli(int64(i) << 30),
				Headers: []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, i)}},
			})
		}
		produce(t, c, records...)
		c.Close()
	}
	got := read(t, p.Addr(), false, "in")["in/0"]
	if len(got) != 500 {
		t.Fatalf("read %d records, want 500", len(got))
	}
	for i, r := range got {
		n := i % 100
		if string(r.Value) != strings.Repeat("v", n) || len(r.Headers) != 1 || string(r.Headers[0].Value) != fmt.Sprint(n) {
			t.Fatalf("record %d: %q with %v", i, r.Value, r.Headers)
		}
		if age := time.Since(r.Timestamp); age < 0 || age > time.Hour {
			t.Fatalf("record %d (%s): append time %v ago", i, r.Key, age)
		}
	}
}

func TestNothingIsMadeByAsking(t *testing.T) {
	p := start(t, t.TempDir())
	c := client(t, p.Addr(), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(0))
	err := c.ProduceSync(within(t, limit), &kgo.Record{Topic: "nowhere", Value: []byte("x")}).FirstErr()
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("got %v, want an unknown topic", err)
	}
}

func TestOneBrokerADirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lock(t.Context(), path, 50*time.Millisecond)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("held by process %d", os.Getpid())) {
		t.Errorf("got %v, want ErrLocked with the holder", err)
	}
	got := make(chan error, 1)
	go func() {
		again, err := lock(t.Context(), path, limit)
		if err == nil {
			err = again()
		}
		got <- err
	}()
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("a successor that waits: %v", err)
	}
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"busy port":     {Options{Dir: t.TempDir(), Addr: busy.Addr().String()}, "address already in use"},
		"no directory":  {Options{}, "no directory"},
		"not a place":   {Options{Dir: t.TempDir(), Addr: "here"}, "missing port"},
		"dir is a file": {Options{Dir: file}, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Start(within(t, limit), c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// The versions that the stream runtime relies on.
func TestSpeaks(t *testing.T) {
	p := start(t, t.TempDir())
	got, err := kadm.NewClient(client(t, p.Addr())).ApiVersions(within(t, limit))
	if err != nil {
		t.Fatal(err)
	}
	for _, broker := range got {
		for key, least := range map[kmsg.Key]int16{kmsg.TxnOffsetCommit: 5, kmsg.EndTxn: 5, kmsg.OffsetFetch: 8, kmsg.Produce: 12} {
			if most, ok := broker.KeyMaxVersion(key.Int16()); !ok || most < least {
				t.Errorf("%s up to %d, want %d", key.Name(), most, least)
			}
		}
		features, _ := json.Marshal(broker.Raw().FinalizedFeatures)
		t.Logf("features: %s", features)
	}
}
