package report

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// Write writes a report under its key (schemas.ReportKeySink, ReportKeyAudit) and
// waits until the brokers have it, or until ctx ends. cl must not be within a
// transaction. Where At is 0 the error says so: readers tell by it what is stale.
func Write(ctx context.Context, cl *kgo.Client, topic, key string, r schemas.Report) error {
	if key == "" || r.At == 0 {
		return fmt.Errorf("write to %s: a report needs a key and the time it was made", topic)
	}
	record := &kgo.Record{Topic: topic, Partition: 0, Key: []byte(key), Value: r.Encode()}
	if err := cl.ProduceSync(ctx, record).FirstErr(); err != nil {
		return fmt.Errorf("write %s to %s: %w", key, topic, err)
	}
	return nil
}
