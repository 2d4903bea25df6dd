package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// dismiss makes every member leave its classic group. A killed process has no
// time to leave, and kfake keeps members across a restart: without this the next
// start would wait for their sessions to end before it gets its partitions.
func dismiss(d *door, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(d.Addr().String()), kgo.Dialer(d.dial))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	groups, err := admin.DescribeGroups(ctx)
	if err != nil {
		return fmt.Errorf("describe groups: %w", err)
	}
	var errs []error
	for _, g := range groups.Sorted() {
		if len(g.Members) == 0 {
			continue
		}
		var ids []string
		for _, m := range g.Members {
			ids = append(ids, m.MemberID)
		}
		if err := leave(ctx, client, g.Group, ids); err != nil {
			errs = append(errs, fmt.Errorf("group %s: %w", g.Group, err))
		}
	}
	return errors.Join(errs...)
}

// leave takes members out of a group by their ids.
func leave(ctx context.Context, client *kgo.Client, group string, ids []string) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	for _, id := range ids {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = id
		req.Members = append(req.Members, m)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}
