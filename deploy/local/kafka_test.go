//go:build e2e

package local

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// parentVar makes this test binary a process that starts Kafka and hangs.
const parentVar = "WEIR_TEST_KAFKA_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVar) != "" {
		k, err := start1(context.Background(), Options{})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(k.Dir(), k.nodes[0].cmd.Process.Pid)
		select {}
	}
	os.Exit(m.Run())
}

func start1(ctx context.Context, o Options) (*Kafka, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var err error
	if o.LibDir, err = Ensure(ctx, "", os.Stderr); err != nil {
		return nil, err
	}
	return StartKafka(ctx, o)
}

func mustStart(t *testing.T, o Options) *Kafka {
	t.Helper()
	began := time.Now()
	k, err := start1(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d broker(s) ready in %v", len(k.Addrs()), time.Since(began).Round(10*time.Millisecond))
	t.Cleanup(k.Stop)
	return k
}

func client(t *testing.T, k *Kafka, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(k.Addrs()...)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestOneBroker(t *testing.T) {
	dir := t.TempDir()
	k := mustStart(t, Options{Dir: dir})
	ctx := within(t, 2*time.Minute)
	c := client(t, k, kgo.TransactionalID("tx"))
	admin := kadm.NewClient(c)
	stamp := "LogAppendTime"
	if _, err := admin.CreateTopic(ctx, 8, 1, map[string]*string{"message.timestamp.type": &stamp}, "in"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := c.ProduceSync(ctx, &kgo.Record{Topic: "in", Value: []byte("x"), Timestamp: time.UnixMilli(1)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := c.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	t.Logf("first transaction took %v", time.Since(began).Round(time.Millisecond))
	versions, err := admin.ApiVersions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		most, _ := v.KeyMaxVersion(kmsg.TxnOffsetCommit.Int16())
		t.Logf("TxnOffsetCommit up to %d", most)
		for _, f := range v.Raw().FinalizedFeatures {
			if f.Name == "transaction.version" && f.MaxVersionLevel != 2 {
				t.Errorf("transaction.version is %d, want 2", f.MaxVersionLevel)
			}
		}
	}
	c.Close()
	// Seen first: a broker that is its own controller may forget the marker of what
	// was committed just before a kill. See the package comment.
	readOne(t, k)
	began = time.Now()
	if err := k.Restart(ctx, 0); err != nil { // kill -9
		t.Fatal(err)
	}
	t.Logf("restarted in %v", time.Since(began).Round(10*time.Millisecond))
	began = time.Now()
	k.Stop()
	t.Logf("stopped in %v", time.Since(began).Round(10*time.Millisecond))

	again := mustStart(t, Options{Dir: dir})
	if again.Addrs()[0] != k.Addrs()[0] {
		t.Errorf("address %s, then %s", k.Addrs()[0], again.Addrs()[0])
	}
	readOne(t, again)
}

// readOne reads the record of TestOneBroker, committed.
func readOne(t *testing.T, k *Kafka) {
	t.Helper()
	c := client(t, k, kgo.ConsumeTopics("in"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	fetches := c.PollFetches(within(t, 2*time.Minute))
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	got := fetches.Records()
	if len(got) != 1 || string(got[0].Value) != "x" || time.Since(got[0].Timestamp) > time.Hour {
		t.Errorf("got %v, want the record with the broker's time", got)
	}
}

// What was committed just before a kill -9 of the only broker is seen after it, if
// the controller is another process.
func TestKilledRightAfterCommit(t *testing.T) {
	k := mustStart(t, Options{Dir: t.TempDir(), Apart: true})
	ctx := within(t, 2*time.Minute)
	if _, err := kadm.NewClient(client(t, k)).CreateTopic(ctx, 8, 1, nil, "in"); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		c := client(t, k, kgo.TransactionalID(fmt.Sprint("tx", n)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for part := range int32(8) {
			c.Produce(ctx, &kgo.Record{Topic: "in", Partition: part, Value: fmt.Append(nil, n)}, nil)
		}
		if err := c.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.EndTransaction(ctx, kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		k.Kill(0)
		c.Close()
		began := time.Now()
		if err := k.Restart(ctx, 0); err != nil {
			t.Fatal(err)
		}
		t.Logf("kill %d: back after %v", n, time.Since(began).Round(10*time.Millisecond))
		reader := client(t, k, kgo.ConsumeTopics("in"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		want := 8 * (n + 1)
		for seen := 0; seen < want; {
			fetches := reader.PollFetches(within(t, 2*time.Minute))
			if err := fetches.Err(); err != nil {
				t.Fatalf("after %d of %d records: %v", seen, want, err)
			}
			seen += fetches.NumRecords()
		}
		reader.Close()
	}
}

func TestThreeBrokersLoseOne(t *testing.T) {
	k := mustStart(t, Options{Brokers: 3})
	ctx := within(t, 2*time.Minute)
	c := client(t, k)
	if _, err := kadm.NewClient(c).CreateTopic(ctx, 6, 3, nil, "in"); err != nil {
		t.Fatal(err)
	}
	send := func() {
		t.Helper()
		for part := range 6 {
			if err := c.ProduceSync(ctx, &kgo.Record{Topic: "in", Key: fmt.Append(nil, part), Value: []byte("x")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	send()
	began := time.Now()
	k.Kill(1)
	send()
	t.Logf("all partitions written %v after the kill", time.Since(began).Round(10*time.Millisecond))
	began = time.Now()
	if err := k.Restart(ctx, 1); err != nil {
		t.Fatal(err)
	}
	t.Logf("restarted in %v", time.Since(began).Round(10*time.Millisecond))
	send()
}

func TestDiesWithItsParent(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(exe)
	parent.Env = append(os.Environ(), parentVar+"=1")
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	dir, pid, _ := strings.Cut(strings.TrimSpace(line), " ")
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	ctx := within(t, 2*time.Minute)
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		left, _ := exec.Command("pgrep", "-g", pid).Output()
		_, err := os.Stat(dir)
		if len(left) == 0 && os.IsNotExist(err) {
			return
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatalf("still there: processes %q, directory %v", left, err == nil)
		}
	}
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"two brokers": {Options{Brokers: 2}, "2 brokers: 1 or 3"},
		"no jars":     {Options{LibDir: t.TempDir()}, "format broker 0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := StartKafka(within(t, 2*time.Minute), c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
