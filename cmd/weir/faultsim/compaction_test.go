package faultsim

import (
	"io"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/topics"
)

// TestMarkersStay compacts a ledger in which a producer has aborted a
// transaction, with and without a record of its own that survives, and then
// commits what that producer writes. When what it commits can be read also where
// its marker did not stay, kfake has been mended, and markersStay can go.
func TestMarkersStay(t *testing.T) {
	for _, survivor := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			c := &cycle{trace: new(Trace), net: new(kfake.VirtualNetwork), tally: newTally(), brokers: []string{"127.0.0.1:9092"}, names: topics.Names{Prefix: "weir."}}
			c.trace.start()
			var err error
			c.cluster, err = kfake.NewCluster(kfake.ListenFn(c.net.Listen), kfake.NumBrokers(1), kfake.Ports(9092), kfake.WithLogger(kfake.BasicLogger(io.Discard, kfake.LogLevelNone)))
			if err != nil {
				t.Fatal(err)
			}
			defer c.cluster.Close()
			if c.cl, err = kgo.NewClient(c.own()...); err != nil {
				t.Fatal(err)
			}
			defer c.cl.Close()
			compacted := "compact"
			if _, err := kadm.NewClient(c.cl).CreateTopic(ctx, 1, 1, map[string]*string{"cleanup.policy": &compacted}, c.names.Ledger()); err != nil {
				t.Fatal(err)
			}
			var writers [2]*kgo.Client
			for i, id := range []string{"a", "b"} {
				if writers[i], err = kgo.NewClient(c.own(kgo.TransactionalID(id))...); err != nil {
					t.Fatal(err)
				}
				defer writers[i].Close()
			}
			transact := func(w *kgo.Client, key string, try kgo.TransactionEndTry) {
				t.Helper()
				if err := w.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				if err := w.ProduceSync(ctx, &kgo.Record{Topic: c.names.Ledger(), Key: []byte(key), Value: []byte("v")}).FirstErr(); err != nil {
					t.Fatal(err)
				}
				if err := w.EndTransaction(ctx, try); err != nil {
					t.Fatal(err)
				}
			}
			transact(writers[1], "first", kgo.TryCommit) // what lies before the log's start is forgotten
			if survivor {
				transact(writers[0], "survivor", kgo.TryCommit)
			}
			transact(writers[0], "aborted", kgo.TryAbort)
			transact(writers[1], "other", kgo.TryCommit)
			if got := c.markersStay(); got != survivor {
				t.Errorf("survivor %v: markersStay says %v\n%s", survivor, got, c.trace)
			}
			c.cluster.Compact()
			transact(writers[0], "last", kgo.TryCommit)
			transact(writers[1], "end", kgo.TryCommit)
			reader, err := kgo.NewClient(c.own(kgo.ConsumeTopics(c.names.Ledger()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			read := map[string]bool{}
			for !read["end"] {
				fetched := reader.PollFetches(ctx)
				if err := fetched.Err(); err != nil {
					t.Fatal(err)
				}
				fetched.EachRecord(func(r *kgo.Record) { read[string(r.Key)] = true })
			}
			if read["last"] != survivor || read["aborted"] || !read["other"] {
				t.Errorf("survivor %v: read %v", survivor, read)
			}
		})
	}
}
