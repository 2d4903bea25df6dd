package dlq

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// ErrGone means that a request's record is no longer in Kafka.
var ErrGone = errors.New("the record has left Kafka")

// Resend asks admission to send a message again from its request, whose record
// stands at src: as a new message of the same bytes, whose id it returns. To
// ask twice is to ask once, since the id is derived from the old one. id, key
// (the canonical recipient) and tenant are the old message's, as its statuses
// have them. The error is ErrGone, or Kafka's.
func (b *Box) Resend(ctx context.Context, src schemas.Source, id, key, tenant string) (string, error) {
	was, err := b.one(ctx, src)
	if err != nil {
		return "", err
	}
	partitions, err := b.owners(ctx)
	if err != nil {
		return "", err
	}
	env := schemas.Envelope{
		ID: schemas.RedriveID(id, src), Key: key, Tenant: tenant, Origin: src, Reason: schemas.ReadmitRedrive, RedriveOf: id,
	}
	if string(was.Key) != key {
		env.RequestKey = string(was.Key)
	}
	for _, h := range was.Headers {
		if h.Key == schemas.HeaderTimestamp {
			_ = env.Set(h.Key, string(h.Value)) // one that is no time is dropped, as admission does
		}
	}
	rec := again(&env, was, b.names.Readmit(), partitions)
	if err := b.cl.ProduceSync(ctx, rec).FirstErr(); err != nil {
		return "", fmt.Errorf("write %s: %w", b.names.Readmit(), err)
	}
	return env.ID, nil
}

// one reads the record at a place, or returns ErrGone.
func (b *Box) one(ctx context.Context, src schemas.Source) (was *kgo.Record, err error) {
	starts, err := b.adm.ListStartOffsets(ctx, src.Topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("find the start of %s/%d: %w", src.Topic, src.Partition, err)
	}
	if start, ok := starts.Lookup(src.Topic, src.Partition); !ok || src.Offset < start.Offset {
		return nil, ErrGone
	}
	_, err = b.reader.Span(ctx, stream.Partition{Topic: src.Topic, Partition: src.Partition}, src.Offset, src.Offset+1, func(r *kgo.Record) error {
		was = r
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", src.Topic, err)
	case was == nil:
		return nil, ErrGone
	}
	return was, nil
}
