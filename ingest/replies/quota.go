package replies

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// Question is the record that asks a partition's admission what is left (see
// limit.Rules.Inquire), for weir.readmit under its full name. The answer comes for
// the ticket: its Limits are exact as of the question's place in that partition's
// log. The client that writes it needs a manual partitioner.
func Question(readmit string, partition int32, ask *schemas.QuotaAsk, t *Ticket) *kgo.Record {
	rec := &kgo.Record{Topic: readmit, Partition: partition, Value: schemas.EncodeQuotaAsk(ask)}
	env := schemas.Envelope{Reason: schemas.ReadmitQuota, Reply: t.Header()}
	env.Each(func(key string, value []byte) {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: key, Value: value})
	})
	return rec
}
