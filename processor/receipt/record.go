package receipt

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Topic is weir.receipts as a writer knows it.
type Topic struct {
	Name       string
	Partitions int32
}

// TopicOf is the topic under a prefix, which has so many partitions.
func TopicOf(names topics.Names, partitions int32) Topic {
	return Topic{Name: names.Receipts(), Partitions: partitions}
}

// Record is a receipt as it stands in weir.receipts. Receipts of one message have
// one key, so that repeats meet.
func (t Topic) Record(rc *provider.Receipt) *kgo.Record {
	short := *rc
	if len(short.Text) > maxText {
		short.Text = strings.ToValidUTF8(short.Text[:maxText], "") + "…"
	}
	value, err := json.Marshal(&short)
	if err != nil {
		panic(err) // text and numbers can be written
	}
	key := keyOf(rc)
	return &kgo.Record{Topic: t.Name, Partition: schemas.PartitionOf(key, t.Partitions), Key: []byte(key), Value: value}
}

func keyOf(rc *provider.Receipt) string { return cmp.Or(rc.MessageID, rc.ProviderMessageID) }

// maxBytes is how long a receipt may be. What it brings must fit into a record of
// weir.status: one that does not would stand in the way of all behind it.
const maxBytes = 64 << 10

// maxText is how much of a provider's text goes on.
const maxText = 500

var errTooLarge = errors.New("over 64 KiB")

func decode(value []byte) (*provider.Receipt, error) {
	rc := new(provider.Receipt)
	if err := json.Unmarshal(value, rc); err != nil {
		return nil, fmt.Errorf("read a receipt: %w", err)
	}
	return rc, nil
}

// Writer writes the receipts that come over adapters' own connections.
type Writer struct {
	cl     *kgo.Client
	topic  Topic
	logger *slog.Logger
}

// NewWriter returns a writer. cl must be an idempotent producer with acks=all, which
// is kgo's default, with kgo.RecordPartitioner(kgo.ManualPartitioner()); its owner
// flushes and closes it.
func NewWriter(cl *kgo.Client, topic Topic, logger *slog.Logger) *Writer {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Writer{cl: cl, topic: topic, logger: logger}
}

// Take writes a receipt. It returns before it is acknowledged, and waits only while
// the client's buffer is full. A failure is logged: whoever told it does not tell it
// again.
func (w *Writer) Take(rc provider.Receipt) {
	w.cl.Produce(context.Background(), w.topic.Record(&rc), func(_ *kgo.Record, err error) {
		if err != nil {
			w.logger.Error("receipt was not written", "provider", rc.Provider, "message_id", rc.MessageID, "error", err)
		}
	})
}

// Told writes a receipt as Take does; the channel says when it is acknowledged, or
// that it will not be.
func (w *Writer) Told(rc provider.Receipt) <-chan error {
	safe := make(chan error, 1)
	w.cl.Produce(context.Background(), w.topic.Record(&rc), func(_ *kgo.Record, err error) { safe <- err })
	return safe
}
