package status

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// ReasonReceipt is the reason of every amendment.
const ReasonReceipt = "receipt"

// Receipts writes what providers tell later to weir.status.
type Receipts struct {
	cl         *kgo.Client
	topic      string
	partitions int32
	logger     *slog.Logger
}

// NewReceipts returns a writer of amendments to a weir.status with so many
// partitions. cl must be an idempotent producer with acks=all, which is kgo's
// default, with kgo.RecordPartitioner(kgo.ManualPartitioner()); its owner
// flushes and closes it.
func NewReceipts(cl *kgo.Client, names topics.Names, partitions int32, logger *slog.Logger) *Receipts {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Receipts{cl: cl, topic: names.Status(), partitions: partitions, logger: logger}
}

// Event returns the amendment of a receipt; false when its status is none that
// a receipt can bring, or it names no message.
func Event(r provider.Receipt) (schemas.Event, bool) {
	if r.Status != schemas.StatusDelivered && r.Status != schemas.StatusUndelivered || r.MessageID == "" || r.To == "" {
		return schemas.Event{}, false
	}
	if r.At == 0 {
		r.At = schemas.MillisOf(time.Now())
	}
	return schemas.Event{
		Kind: schemas.KindStatus, MessageID: r.MessageID, Tenant: r.Tenant, Channel: string(r.Channel), Class: r.Class,
		Template: r.Template, To: r.To, Status: r.Status, At: r.At, Reason: ReasonReceipt, Attempt: r.Attempt,
		Provider: r.Provider, ProviderMessageID: r.ProviderMessageID, ErrorCode: r.Code, Error: r.Text,
	}, true
}

// Take writes a receipt. It returns before it is acknowledged, and waits only
// while the client's buffer is full. A failure is logged: the provider that
// sent it will not send it again.
func (r *Receipts) Take(rc provider.Receipt) {
	e, ok := Event(rc)
	if !ok {
		r.logger.Warn("receipt says nothing", "provider", rc.Provider, "status", rc.Status)
		return
	}
	rec := &kgo.Record{
		Topic: r.topic, Partition: schemas.PartitionOf(e.To, r.partitions),
		Key: []byte(e.To), Value: schemas.AppendEvent(nil, &e),
	}
	r.cl.Produce(context.Background(), rec, func(_ *kgo.Record, err error) {
		if err != nil {
			r.logger.Error("receipt was not written", "provider", e.Provider, "message_id", e.MessageID, "error", err)
		}
	})
}
