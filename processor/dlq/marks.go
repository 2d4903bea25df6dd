package dlq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// marks are the records that were redriven, as weir.dlq.redriven has them: by the
// derived ids of the messages that send them again. A mark is written after the
// brokers have the record of weir.readmit, and before the redrive's position moves.
// So what a mark names was asked for. What was asked for in the last second before a
// crash may have no mark; admission recognises it for a day.
type marks struct {
	mu    sync.Mutex
	read  stream.Range
	at    map[uuid.UUID]schemas.Millis
	swept time.Time
}

// mark is one record of weir.dlq.redriven.
type mark struct {
	Version int      `json:"v"`
	IDs     []string `json:"ids"`
}

// follow reads what was marked since the last call.
func (m *marks) follow(ctx context.Context, reader *stream.Reader, topic string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at, m.read = make(map[uuid.UUID]schemas.Millis), stream.Range{Partition: stream.Partition{Topic: topic}}
	}
	now := time.Now()
	if now.Sub(m.swept) > time.Hour {
		m.swept = now
		for id, at := range m.at {
			if now.Sub(at.Time()) > topics.DLQRetention {
				delete(m.at, id)
			}
		}
	}
	reached, err := reader.Read(ctx, []stream.Range{m.read}, func(r *kgo.Record) error {
		var one mark
		if json.Unmarshal(r.Value, &one) != nil || one.Version != 1 {
			return nil // not Weir's
		}
		for _, text := range one.IDs {
			if id, err := uuid.Parse(text); err == nil {
				m.at[id] = schemas.MillisOf(r.Timestamp)
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("%s does not exist: run weir topics apply", topic)
	case err != nil:
		if _, gone := errors.AsType[*stream.GoneError](err); gone {
			m.at = nil // the topic is another: read all of it at the next call
		}
		return fmt.Errorf("read %s: %w", topic, err)
	}
	m.read = reached[m.read.Partition]
	return nil
}

// of returns when the record was redriven that the message id sends again; 0 is
// never.
func (m *marks) of(r *Record) schemas.Millis {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.at) == 0 || r.Skip != "" {
		return 0
	}
	id, err := uuid.Parse(r.NewID())
	if err != nil {
		return 0
	}
	return m.at[id]
}

// mark says that these messages were asked for.
func (b *Box) mark(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	value, err := json.Marshal(mark{1, ids})
	if err != nil {
		panic(err) // plain values
	}
	if err := b.cl.ProduceSync(ctx, &kgo.Record{Topic: b.names.Redriven(), Value: value}).FirstErr(); err != nil {
		return fmt.Errorf("write %s: %w", b.names.Redriven(), err)
	}
	return nil
}
