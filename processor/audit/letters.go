package audit

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// What Weir gives up on has its bytes in weir.dlq: a message that failed, and a request
// that was rejected. One letter each, under the same id and for the same reason.

// letterless reports whether a dead letter's reason is of records that are no message, or
// that an operator skipped.
func letterless(reason string) bool {
	switch reason {
	case schemas.ReasonForeignRecord, schemas.ReasonMisroutedRecord, schemas.ReasonUnmatchedReceipt, schemas.ReasonUnreadableReceipt, "skipped":
		return true
	default:
		return false
	}
}

func letterItem(id, reason string, accepted schemas.Millis) item {
	return item{id: idOf(id), t: accepted, rest: sumOf("letter", reason)[0]}
}

// buried compares the end in hand with weir.dlq.
func (p *partition) buried() {
	e := p.e
	gaveUp := e.Kind == schemas.KindStatus && (e.Status == schemas.StatusFailed || e.Status == schemas.StatusRejected)
	ofAction := e.Kind == schemas.KindDecision && e.Decision != nil && e.Decision.Verdict == schemas.VerdictReject
	if !p.judged || !gaveUp && !ofAction || e.AcceptedAt < p.bounds.since {
		return
	}
	p.dead.putOf(letterItem(e.MessageID, e.Reason, e.AcceptedAt), e.AcceptedAt, 1, e.At)
}

// letters takes the records of a partition of weir.dlq.
func letters(b *bounds, log source, counts *Counts, tick func() error) error {
	for {
		r, err := log()
		if err != nil || r == nil {
			return err
		}
		if env := letterOf(r); env != nil {
			counts.Letters++
			b.dead.putOf(letterItem(env.ID, env.Reason, env.AcceptedAt), env.AcceptedAt, -1, schemas.MillisOf(r.Timestamp))
		}
		if tick == nil {
			continue
		}
		if err := tick(); err != nil {
			return err
		}
	}
}

// letterOf reads the envelope of a dead letter; nil for one that is of no message.
func letterOf(r *kgo.Record) *schemas.Envelope {
	env := new(schemas.Envelope)
	for _, h := range r.Headers {
		if env.Set(h.Key, string(h.Value)) != nil {
			return nil
		}
	}
	if env.ID == "" || env.AcceptedAt == 0 || letterless(env.Reason) {
		return nil
	}
	return env
}

// unburied returns the ends without a dead letter. A letter without an end is none: what
// a stage could not process is in weir.dlq too, and it may name a message.
func (b *bounds) unburied(into *findings) (all []found) {
	only, extra, tangled := b.dead.difference()
	for _, i := range only {
		all = append(all, found{i, KindLetter, []string{b.statusTopic}, "given up on, and not once in weir.dlq for this reason"})
	}
	const hidden = "dead letters of what is no message hide whether an end has its own"
	settled := b.dead.settle(extra, tangled)
	b.found.cannotTell(hidden, settled)
	into.cannotTell(hidden, int64(len(tangled))-settled)
	b.found.cannotTell("ends of messages that were accepted before the retained weir.dlq", b.dead.untold())
	return all
}
