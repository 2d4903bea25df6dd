package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// diagnose logs what may hold a site up: transactions that are open, logs whose
// committed end is behind, groups and their lag.
func (s *site) diagnose() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
	if err != nil {
		s.t.Log(err)
		return
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	var b strings.Builder
	if txns, err := adm.DescribeTransactions(ctx); err != nil {
		fmt.Fprintf(&b, "describe transactions: %v\n", err)
	} else {
		for _, x := range txns.Sorted() {
			if strings.HasPrefix(x.TxnID, s.names.Prefix) && x.State != "CompleteCommit" && x.State != "CompleteAbort" && x.State != "Empty" {
				fmt.Fprintf(&b, "transaction %s: %s since %s, timeout %d ms, producer %d/%d\n", x.TxnID, x.State, time.UnixMilli(x.StartTimestamp).UTC().Format("15:04:05.000"), x.TimeoutMillis, x.ProducerID, x.ProducerEpoch)
			}
		}
	}
	var topicNames []string
	if all, err := adm.ListTopics(ctx); err == nil {
		for _, name := range all.Names() {
			if strings.HasPrefix(name, s.names.Prefix) {
				topicNames = append(topicNames, name)
			}
		}
	}
	stable, err1 := adm.ListCommittedOffsets(ctx, topicNames...)
	ends, err2 := adm.ListEndOffsets(ctx, topicNames...)
	if err1 != nil || err2 != nil {
		fmt.Fprintf(&b, "list offsets: %v, %v\n", err1, err2)
	}
	ends.Each(func(end kadm.ListedOffset) {
		if at, _ := stable.Lookup(end.Topic, end.Partition); at.Offset != end.Offset {
			fmt.Fprintf(&b, "%s/%d: committed up to %d of %d\n", end.Topic, end.Partition, at.Offset, end.Offset)
		}
	})
	if groups, err := adm.ListGroups(ctx); err == nil {
		for _, g := range groups.Groups() {
			if !strings.HasPrefix(g, s.names.Prefix) {
				continue
			}
			described, err := adm.DescribeGroups(ctx, g)
			if err != nil {
				fmt.Fprintf(&b, "group %s: %v\n", g, err)
				continue
			}
			fmt.Fprintf(&b, "group %s: %s, %d members", g, described[g].State, len(described[g].Members))
			offsets, err := adm.FetchOffsets(ctx, g)
			if err != nil {
				fmt.Fprintf(&b, "; offsets: %v", err)
			}
			offsets.Each(func(o kadm.OffsetResponse) {
				if end, _ := ends.Lookup(o.Topic, o.Partition); o.At >= 0 && end.Offset-o.At > 1 {
					fmt.Fprintf(&b, "; %s/%d at %d of %d", strings.TrimPrefix(o.Topic, s.names.Prefix), o.Partition, o.At, end.Offset)
				}
			})
			b.WriteByte('\n')
		}
	}
	s.t.Logf("the site:\n%s", b.String())
}

// around logs the records of weir.status near an offset with their producers
// and the markers that ended their transactions.
func (s *site) around(partition int32, from, to int64) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		s.names.Status(): {partition: kgo.NewOffset().At(max(from, 0))}}))
	if err != nil {
		s.t.Log(err)
		return
	}
	defer cl.Close()
	var b strings.Builder
	for done := false; !done && ctx.Err() == nil; {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if done = done || r.Offset >= to; done {
				return
			}
			text := "marker: abort"
			if r.Attrs.IsControl() {
				if len(r.Key) == 4 && r.Key[3] == 1 {
					text = "marker: commit"
				}
			} else {
				text = string(r.Value[:min(len(r.Value), 330)])
			}
			fmt.Fprintf(&b, "%d %s producer %d/%d %s\n", r.Offset, r.Timestamp.UTC().Format("05.000"), r.ProducerID, r.ProducerEpoch, text)
		})
	}
	s.t.Logf("status/%d:\n%s", partition, b.String())
}
