package request

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// What CloudEvents defines, and the extensions that are about the event's way and not
// about what it asks for.
var attributes = []string{
	"ce_specversion", "ce_id", "ce_source", "ce_type", "ce_time", "ce_subject", "ce_datacontenttype", "ce_dataschema", "ce_schemaurl",
	"ce_partitionkey", "ce_traceparent", "ce_tracestate",
}

// Extensions names the extension attributes of a CloudEvent that Weir ignores; nil when
// there are none. What carries an event may add some of its own, so they are counted and
// never a reason to reject a request.
func Extensions(r *kgo.Record) []string {
	var q schemas.Request
	is := false
	for _, h := range r.Headers {
		if len(h.Key) < 4 || !strings.EqualFold(h.Key[:3], "ce_") {
			continue
		}
		key := strings.ToLower(h.Key)
		if is = is || key == "ce_specversion"; !slices.Contains(attributes, key) {
			q.Ignored(key)
		}
	}
	if !is {
		return nil
	}
	return q.Unknown
}
