package lane

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// weirHeader begins the names of Weir's own headers.
const weirHeader = "weir-"

func foreign(key string) bool {
	return len(key) < len(weirHeader) || !strings.EqualFold(key[:len(weirHeader)], weirHeader)
}

// expired reports whether a message's time is over.
func (it *item) expired(t schemas.Millis) bool { return it.env.ExpiresAt != 0 && it.env.ExpiresAt <= t }

// stale reports whether a message must be decided again before it is called.
func (it *item) stale(t schemas.Millis) bool {
	return it.staleAt != 0 && it.staleAt < t && !it.overdueAgain()
}

// notBefore returns the moment of the message's decision, before which it is not called:
// this clock may be behind the one that decided. A clock that is far behind is wrong, and
// holds no one up.
func (it *item) notBefore(t schemas.Millis) schemas.Millis {
	if it.env.DecidedAt > t.Add(clockMistrust) {
		return t
	}
	return it.env.DecidedAt
}

// overdueAgain reports whether deciding a message again makes no difference: it is
// overdue on its return from that, and was so on an earlier one. It is called all the
// same, or it would go round for ever where a decision takes longer to arrive, or to be
// permitted, than it may be called on.
func (it *item) overdueAgain() bool { return it.overdue && it.stales >= 2 }

// goesStale returns how often the message is stale, as its next decision is to know:
// once, and once more for each time that it was overdue.
func (it *item) goesStale() int {
	if it.overdue {
		return it.stales + 1
	}
	return max(it.stales, 1)
}

// newItem reads the envelope of a dispatch record. One that is none of
// admission's is foreign: it is no message.
func newItem(r *kgo.Record) *item {
	it := &item{
		key: callKey{topic: r.Topic, partition: r.Partition, offset: r.Offset},
		rec: r, journal: -1, revision: -1,
	}
	for _, h := range r.Headers {
		if err := it.env.Set(h.Key, string(h.Value)); err != nil && it.foreign == nil {
			it.foreign = err
		}
	}
	if it.foreign == nil {
		it.foreign = it.env.Dispatched()
	}
	if it.foreign != nil {
		it.env = schemas.Envelope{} // nothing of it is believed
	}
	it.callBy, it.stales = it.env.CallBy, it.env.Stale
	it.env.CallBy, it.env.Stale = 0, 0 // they are this record's: nothing that follows from it has them
	return it
}

// read fills in what a revision of the policy makes of the item's bytes.
func (it *item) read(rev *schemas.Revision, provider string) {
	if it.revision == rev.Revision {
		return
	}
	it.revision = rev.Revision
	defer func() {
		if v := recover(); v != nil { // its content is at fault, and no other message's
			it.bad = fmt.Errorf("panic: %v", v)
		}
	}()
	origin := it.env.Origin
	it.event = schemas.Event{
		Kind: schemas.KindStatus, MessageID: it.env.ID, Tenant: it.env.Tenant, To: it.env.Key, Provider: provider,
		AcceptedAt: it.env.AcceptedAt, RedriveOf: it.env.RedriveOf, CallbackURL: it.env.CallbackURL, Source: &origin,
	}
	it.staleAt = 0
	req, err := schemas.DecodeRequest(it.rec.Value, func(key string) (string, bool) {
		for _, h := range it.rec.Headers {
			if strings.EqualFold(h.Key, key) && foreign(h.Key) {
				return string(h.Value), true
			}
		}
		return "", false
	})
	if it.bad = err; err != nil {
		it.event.Class = schemas.DefaultClass
		return
	}
	if req.Class == "" {
		req.Class = schemas.DefaultClass
	}
	if it.event.Tenant == "" {
		it.event.Tenant = schemas.DefaultTenant
	}
	it.pinned = req.Provider != ""
	if it.staleAt = it.callBy; it.staleAt == 0 && it.env.DecidedAt != 0 { // admission was an earlier version
		it.staleAt = it.env.DecidedAt.Add(cmp.Or(time.Duration(rev.Policy.Class(req.Class).StaleAfter), schemas.SlackMost))
	}
	it.event.Channel, it.event.Class, it.event.Template, it.event.Cost = string(req.Channel), req.Class, req.Template, req.Cost
	text, err := content.Of(req, &rev.Policy)
	if it.bad = err; err != nil {
		return
	}
	if req.Channel == schemas.ChannelSMS {
		it.event.Segments = schemas.Segments(text.Body)
	}
	it.setCall(req, text)
	it.call.Own = ownOf(&rev.Policy, req.Template, provider)
}

// ownOf is what a template says of a provider.
func ownOf(p *schemas.Policy, template, provider string) map[string]any {
	for i := range p.Templates {
		if t := &p.Templates[i]; template != "" && t.Name == template {
			return t.Providers[provider]
		}
	}
	return nil
}

func (it *item) setCall(req *schemas.Request, text content.Content) {
	it.call = provider.Call{
		ID: it.env.ID, Attempt: it.env.Attempt + 1, To: addressed(req, it.env.Key), Key: it.env.Key, From: req.From, ReplyTo: req.ReplyTo,
		Channel: req.Channel, Tenant: it.event.Tenant, Class: req.Class, Content: text,
		Data: req.Data, Template: req.Template, Vars: req.Vars, Metadata: req.Metadata, ExpiresAt: it.env.ExpiresAt,
	}
}

// addressed is where a message goes: to its key, or to the spelling that the request
// gives a mail address of this key. The letter case of a local part is the receiving
// host's to judge.
func addressed(req *schemas.Request, key string) string {
	if req.Channel == schemas.ChannelEmail {
		if to, err := recipient.Canonical(req.Channel, req.To, ""); err == nil && to.Key == recipient.Fold(key) {
			return to.Address()
		}
	}
	return key
}

// status writes a status event of an item.
func (s *stage) status(tx *stream.Tx, it *item, e schemas.Event, headers ...kgo.RecordHeader) {
	tx.Produce(&kgo.Record{
		Topic: s.cfg.Names.Status(), Partition: schemas.PartitionOf(it.env.Key, s.cfg.Partitions),
		Key: []byte(it.env.Key), Value: schemas.AppendEvent(nil, &e), Headers: headers,
	})
}

// passOn writes an item's bytes and foreign headers under a new envelope.
func passOn(tx *stream.Tx, it *item, topic string, partition int32, env schemas.Envelope, value []byte) {
	rec := &kgo.Record{Topic: topic, Partition: partition, Key: []byte(env.Key), Value: value}
	for _, h := range it.rec.Headers {
		if foreign(h.Key) {
			rec.Headers = append(rec.Headers, h)
		}
	}
	env.Each(func(k string, v []byte) { rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: k, Value: v}) })
	tx.Produce(rec)
}

// retry lets a message wait in a delay topic for its next attempt. It keeps its
// place: admission moves it.
func (s *stage) retry(tx *stream.Tx, it *item, v settlement, due schemas.Millis, code string) {
	env := it.env
	env.Attempt, env.Taint, env.LastError = it.attempt, v.taint, code
	env.Tried = schemas.Try(env.Tried, s.cfg.Provider, schemas.RetryCause(v.reason))
	env.Reason, env.DueAt, env.Return = schemas.ReadmitRetry, due, s.cfg.Names.Readmit()
	tier := topics.TierFor(v.wait)
	passOn(tx, it, s.cfg.Names.Delay(tier.Name), schemas.PartitionOf(env.Key, s.cfg.DelayPartitions), env, it.rec.Value)
}

// readmit asks admission to decide a message anew.
func (s *stage) readmit(tx *stream.Tx, it *item, reason string) {
	env := it.env
	if env.Reason = reason; reason == schemas.ReadmitStale {
		env.Stale = it.goesStale()
	}
	passOn(tx, it, s.cfg.Names.Readmit(), schemas.PartitionOf(env.Key, s.cfg.Partitions), env, it.rec.Value)
}

// suppress asks admission not to let this tenant send to the item's recipient on its
// channel any more, in the transaction of the outcome that says so: as often as that
// is committed, which is once.
func (s *stage) suppress(tx *stream.Tx, it *item, why schemas.SuppressReason) {
	if it.event.Channel == "" || it.event.Tenant == "" {
		return // its bytes cannot be read any more, and this would suppress more than was said
	}
	tx.Produce(&kgo.Record{
		Topic: s.cfg.Names.Requests(), Partition: schemas.PartitionOf(it.env.Key, s.cfg.Partitions), Key: []byte(it.env.Key),
		Value: request.Suppress(it.env.Key, it.event.Tenant, schemas.Channel(it.event.Channel), "", why, s.cfg.Provider),
	})
}

// close writes what a message that was not sent leaves behind: its bytes in the
// DLQ, its place back to admission.
func (s *stage) close(tx *stream.Tx, it *item, attempt int, v settlement, code, text string) {
	env := it.env
	env.Attempt, env.Taint, env.LastError = attempt, v.taint, code
	if v.deadLetter {
		dead := env
		dead.Reason, dead.Error = v.reason, text
		if v.giveBack {
			dead.Place = nil
		}
		tx.Produce(request.DeadLetter(it.rec, s.cfg.Names.DLQ(), schemas.PartitionOf(env.Key, s.cfg.DLQPartitions), &dead))
	}
	if v.giveBack && len(env.Place) > 0 {
		env.Reason = schemas.ReadmitGiveBack
		passOn(tx, it, s.cfg.Names.Readmit(), schemas.PartitionOf(env.Key, s.cfg.Partitions), env, nil)
	}
}
