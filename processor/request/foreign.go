package request

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// maxWhy bounds what a dead letter says about a record that anyone may have
// written: an error may quote it.
const maxWhy = 300

// Foreign makes the dead letter of a record of one of Weir's own topics that Weir
// did not write, or that cannot be read. An error with a Code has that for its reason. Of its headers it has those that name the
// message, where they can be read: if it is one after all, it can be found.
func Foreign(r *kgo.Record, dlq string, partitions int32, why error) *kgo.Record {
	var env schemas.Envelope
	for _, h := range r.Headers {
		switch h.Key {
		case schemas.HeaderID, schemas.HeaderKey, schemas.HeaderTenant, schemas.HeaderOrigin, schemas.HeaderProvider, schemas.HeaderAcceptedAt:
			was := env
			if env.Set(h.Key, string(h.Value)) != nil {
				env = was
			}
		}
	}
	at := schemas.Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
	if env.Origin.Topic == "" {
		env.Origin = at
	}
	env.AcceptedAt = cmp.Or(env.AcceptedAt, schemas.MillisOf(r.Timestamp))
	text := fmt.Sprintf("%s: a record that Weir did not write, or that was damaged: %v", at, why)
	if len(text) > maxWhy {
		text = strings.ToValidUTF8(text[:maxWhy], "") + "…"
	}
	reason := schemas.ReasonForeignRecord
	if own, ok := errors.AsType[interface {
		error
		Code() string
	}](why); ok { // another fault than that
		reason, text = own.Code(), fmt.Sprintf("%s: %s", at, cut(why.Error(), maxWhy))
	}
	env = Dead(env, reason, text)
	return DeadLetter(r, dlq, schemas.PartitionOf(cmp.Or(env.Key, string(r.Key)), partitions), &env)
}
