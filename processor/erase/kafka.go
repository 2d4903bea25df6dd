package erase

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Holding is a topic that may hold the person, and until when.
type Holding struct {
	Topic   string         `json:"topic"`
	Holds   string         `json:"holds"`
	Records int64          `json:"records"` // of everybody, aborted ones and markers included
	Newest  schemas.Millis `json:"newest,omitzero"`
	// Until is the latest moment at which what is there now can still be there:
	// Kafka deletes whole segments, so the newest record, the time for which a
	// segment takes records, and the retention. 0 is for ever, or until its key is
	// removed: Note says which.
	Until schemas.Millis `json:"until,omitzero"`
	Note  string         `json:"note,omitempty"`
}

// Holdings asks Kafka which topics hold anything of anyone, with their real
// retention.
func Holdings(ctx context.Context, adm *kadm.Client, cfg topics.Config, p *schemas.Policy, now schemas.Millis) ([]Holding, error) {
	names := cfg.Names()
	holds := map[string]string{}
	var inputs []string
	for _, s := range topics.Catalogue(cfg, p) {
		holds[s.Name] = s.Holds
		if s.Bound {
			inputs = append(inputs, s.Name)
		}
	}
	all, err := adm.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	prefix := strings.TrimSuffix(names.Requests(), "requests")
	var of []string
	for _, t := range all.Names() {
		if (strings.HasPrefix(t, prefix) || slices.Contains(inputs, t)) && t != names.Health() && t != names.Reports() {
			of = append(of, t)
		}
	}
	if len(of) == 0 {
		return nil, nil
	}
	configs, err := adm.DescribeTopicConfigs(ctx, of...)
	if err != nil {
		return nil, fmt.Errorf("read the topics' settings: %w", err)
	}
	starts, err := adm.ListStartOffsets(ctx, of...)
	if err != nil {
		return nil, fmt.Errorf("read the topics' beginnings: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, of...)
	if err != nil {
		return nil, fmt.Errorf("read the topics' ends: %w", err)
	}
	// Not every broker can say it (KIP-734); now stands in.
	newest, _ := adm.ListMaxTimestampOffsets(ctx, of...)
	var out []Holding
	for _, t := range of {
		h := Holding{Topic: t, Holds: holds[t]}
		if h.Holds == "" {
			h.Holds = "of a provider or a policy that is gone"
		}
		ends.Each(func(o kadm.ListedOffset) {
			if first, ok := starts.Lookup(t, o.Partition); ok && o.Topic == t && o.Err == nil && first.Err == nil {
				h.Records += o.Offset - first.Offset
			}
		})
		if h.Records == 0 {
			continue
		}
		newest.Each(func(o kadm.ListedOffset) {
			if o.Topic == t && o.Err == nil && o.Timestamp > 0 {
				h.Newest = max(h.Newest, schemas.Millis(o.Timestamp))
			}
		})
		set, err := configs.On(t, nil)
		if err != nil {
			return nil, fmt.Errorf("read the settings of %s: %w", t, err)
		}
		value := func(key string) string {
			for _, c := range set.Configs {
				if c.Key == key && c.Value != nil {
					return *c.Value
				}
			}
			return ""
		}
		until(&h, names, value("cleanup.policy"), value("retention.ms"), value("segment.ms"), now)
		out = append(out, h)
	}
	return out, nil
}

// segmentTime is Kafka's segment.ms, where the topic says none.
const segmentTime = 7 * 24 * time.Hour

// until says when what is there now is gone.
func until(h *Holding, names topics.Names, cleanup, retention, segment string, now schemas.Millis) {
	kept, err := strconv.ParseInt(retention, 10, 64)
	switch {
	case h.Topic == names.Ledger():
		h.Note = "compacted: the person's places go when no window sees them any more, their waiting messages when they end; an opt-out (suppression) stays on purpose until it is lifted"
	case h.Topic == names.Config():
		h.Note = "for ever: holds the person only where the policy names them (exempt, overrides)"
	case h.Topic == names.Alerts():
		h.Note = "compacted: three masked recipients of each limit and reason at most, and hashes, until a notice has told of them"
	case h.Topic == names.CallbackState():
		h.Note = "compacted: ids of messages, and the addresses that they name for their callbacks, until those are through"
	case h.Topic == names.Endpoints():
		h.Note = "compacted: endpoints of tenants, and no recipients"
	case strings.Contains(cleanup, "compact"):
		h.Note = "compacted: until each key is removed"
	case err != nil || kept < 0:
		h.Note = "for ever, by the topic's retention.ms"
	default:
		rolls := segmentTime
		if ms, err := strconv.ParseInt(segment, 10, 64); err == nil && ms > 0 {
			rolls = time.Duration(min(ms, int64(365*24*time.Hour/time.Millisecond))) * time.Millisecond
		}
		last := h.Newest
		if last == 0 || last > now {
			last = now
		}
		h.Until = last.Add(rolls).Add(time.Duration(min(kept, int64(3650*24*time.Hour/time.Millisecond))) * time.Millisecond)
	}
}
