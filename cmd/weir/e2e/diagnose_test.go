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
