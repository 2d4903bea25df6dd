package callback

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Replay returns the records by which the statuses of one message, in their order, are
// told again: to whom the policy says then, and under the same webhook-ids. n is how many
// partitions weir.callbacks has.
func Replay(names topics.Names, n int32, events []*schemas.Event) (out []*kgo.Record) {
	address := ""
	for _, e := range events {
		address = cmp.Or(address, e.CallbackURL)
	}
	for _, e := range events {
		tenant := cmp.Or(e.Tenant, schemas.DefaultTenant)
		k, of := keyOf(tenant, e.MessageID, e.To, true), keyOf(tenant, e.MessageID, e.To, false)
		head, err := json.Marshal(heading{ID: ID(e), Key: hex.EncodeToString(k[:]), Status: e.Status, URL: cmp.Or(e.CallbackURL, address), Replay: true, Of: hex.EncodeToString(of[:])})
		if err != nil {
			panic(fmt.Sprintf("a callback's heading cannot be written: %v", err)) // text and numbers
		}
		r := &kgo.Record{Topic: names.Callbacks(), Partition: schemas.PartitionOf(e.To, n), Value: Body(e)}
		env := schemas.Envelope{ID: e.MessageID, Tenant: tenant}
		env.Each(func(key string, v []byte) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: key, Value: v}) })
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: schemas.HeaderCallback, Value: head})
		out = append(out, r)
	}
	return out
}
