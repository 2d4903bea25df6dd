package audit

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// A decision's t and its record's append time, in ms: t may lie aheadMost after it, the
// 2 s at which a worker stalls, and lateMost before it, the 5 s that a transaction may
// take and the 2 s by which a clock may be wrong; each with 1 s more. What lies outside
// is named, and not proven: windows hold by t, and not by when messages left.
const (
	aheadMost = 3000
	lateMost  = 8000
)

// named is how many decisions outside these bounds a partition names one by one.
const named = 10

// bounded compares a decision's t with its record's append time.
func (p *partition) bounded(t schemas.Millis) {
	late := schemas.MillisOf(p.rec.Timestamp) - t
	if late >= 0 {
		p.clock.Behind = max(p.clock.Behind, time.Duration(late)*time.Millisecond)
	} else {
		p.clock.Ahead = max(p.clock.Ahead, time.Duration(-late)*time.Millisecond)
	}
	if !p.judged || -aheadMost <= late && late <= lateMost {
		return
	}
	if p.outside++; p.outside > named {
		p.cannotTell("further decisions whose t is too far from the append time")
		return
	}
	p.cannotTell(fmt.Sprintf("%s/%d offset %d, seq %d: t %s, appended %s", p.statusTopic, p.num, p.rec.Offset, p.e.Decision.Seq, t, schemas.MillisOf(p.rec.Timestamp)))
}

// decision judges one change of the partition's state.
func (p *partition) decision() error {
	d := p.e.Decision
	if !p.started {
		p.started, p.begin, p.t = true, d.T, d.T
		p.seq, p.first = d.Seq-1, d.Seq
		if d.Seq != 1 && !p.cut {
			p.judged = d.T >= p.bounds.since
			p.fault(KindSequence, "the log begins with seq %d, and nothing was deleted before it", d.Seq)
		}
		p.cut = d.Seq != 1
		if p.cut {
			// What was in force before is what the decision names; its since
			// lies before all that is read, where it makes no difference.
			p.revision = d.Revision
			if d.Verdict == schemas.VerdictMarker {
				p.revision = -1
			}
		}
		p.known = !p.cut
		p.tanks.cut, p.tanks.begin = p.cut, p.begin
		if err := p.adopt(); err != nil {
			return err
		}
	}
	if p.judged {
		p.counts.Decisions++
		if p.from == 0 {
			p.from = d.T
		}
	}
	if d.Partition != p.num || d.Seq != p.seq+1 {
		p.fault(KindSequence, "partition %d seq %d after %d", d.Partition, d.Seq, p.seq)
	}
	if d.T < p.t {
		p.fault(KindBackInTime, "t %s after %s", d.T, p.t)
	}
	p.bounded(d.T)
	p.seq, p.t = d.Seq, max(p.t, d.T)
	if p.otherZones() {
		p.zonesUntil = p.t
	}
	if d.Verdict != schemas.VerdictMarker && p.revision >= 0 && d.Revision != p.revision {
		p.fault(KindMarker, "decided under revision %d, while %d is in force here", d.Revision, p.revision)
	}
	if at := p.rules.lapses; at != 0 && p.t >= at {
		if err := p.adopt(); err != nil {
			return err
		}
	}
	if p.t-p.swept > 3_600_000 {
		p.sweep()
	}
	in, env, err := p.input()
	if err != nil {
		return err
	}
	p.to = p.e.To
	if p.to == "" && env != nil {
		p.to = env.Key
	}
	p.blind = d.Input != nil && in == nil
	p.trip = tripOf(env)
	p.why = p.begunFor(env)
	p.about(in, env)
	p.isFor(in)
	if p.away = ownersVerdict(d.Verdict) && p.to != "" && p.home() != p.num; p.away {
		p.owner(in, env)
		p.noMore()
		return nil
	}
	p.comesWith(env)
	p.redriven(in, env)
	p.comesTainted(env)
	p.comesOnce(in, env)
	p.declared(in, env)
	p.gates(in, env)
	p.comesHome(env)
	switch d.Verdict {
	case schemas.VerdictMarker:
		return p.marker()
	case schemas.VerdictAdmit, schemas.VerdictMove:
		p.goesOn()
		p.admit(in, env)
		p.decidesOnly(in, env)
	case schemas.VerdictCharge:
		p.goesOn()
		p.charge(in, env)
	case schemas.VerdictRefuse:
		p.counts.Refused += p.one()
		p.goesOn()
		p.refused(in, env)
	case schemas.VerdictDefer:
		p.counts.Deferred += p.one()
		p.goesOn()
		if p.e.Reason == "limited" { // waiting for a time is no refusal
			p.refused(in, env)
		} else {
			p.nothingReturned()
			p.learn(in, env)
		}
		p.awaitsTurn(env)
	case schemas.VerdictGiveBack:
		if p.e.Reason == reasonReleased {
			p.release(in, env)
		} else {
			p.giveBack(in, env)
		}
	case schemas.VerdictForward:
		p.forwards(in, env)
	case schemas.VerdictExpire:
		p.counts.Others += p.one()
		p.goesOn()
		p.ownReturns(in, env)
		if m := p.messages[p.key]; p.t < max(m.expires, p.expires) {
			p.fault(KindLate, "expired before its time, which is %s", max(m.expires, p.expires))
		}
	case schemas.VerdictReject:
		p.counts.Others += p.one()
		p.ownReturns(in, env)
	case schemas.VerdictCancel:
		p.counts.Others += p.one()
		p.cancellation(in)
		p.ownReturns(in, env)
	case schemas.VerdictSuppress:
		p.counts.Others += p.one()
		p.suppression(in)
		p.ownReturns(in, env)
	case schemas.VerdictDuplicate:
		p.counts.Others += p.one()
		p.nothingReturned()
	case schemas.VerdictNothing:
		p.counts.Others += p.one()
		p.nothingReturned()
		p.nothing(in, env)
	case schemas.VerdictRecord:
		p.counts.Others += p.one()
		p.recorded(in, env)
	default:
		p.fault(KindTorn, "there is no verdict %q", d.Verdict)
	}
	p.noMore()
	return nil
}

// noMore judges that a decision says nothing that is not its verdict's to say.
func (p *partition) noMore() {
	d := p.e.Decision
	if len(d.Charges) > 0 {
		switch d.Verdict {
		case schemas.VerdictAdmit, schemas.VerdictMove, schemas.VerdictRecord, schemas.VerdictCharge:
		default:
			p.fault(KindCharges, "%s took %d places", d.Verdict, len(d.Charges))
		}
	}
	goesOn := d.Verdict == schemas.VerdictAdmit || d.Verdict == schemas.VerdictMove
	if len(d.Carried) > 0 && !goesOn {
		p.fault(KindCarried, "%s carries %d places", d.Verdict, len(d.Carried))
	}
	if d.Verdict == schemas.VerdictCharge && len(d.Restored)+len(d.Reinstated) > 0 {
		p.fault(KindRestored, "%s puts back %d old places", d.Verdict, len(d.Restored)+len(d.Reinstated))
	}
	if p.away && len(d.Released)+len(d.Reinstated) > 0 {
		p.fault(KindOwner, "an owner asks for %d places back: home alone does", len(d.Released)+len(d.Reinstated))
	}
	for i := range d.Passed {
		a := &d.Passed[i]
		l := p.rules.byName[a.Limit]
		switch {
		case d.Verdict == schemas.VerdictCharge, d.Verdict == schemas.VerdictRecord, goesOn && a.T == 0:
		case a.T == 0 || l != nil && !l.drains:
			p.fault(KindPassed, "%s says that %s passed it", d.Verdict, a.Limit)
		}
	}
	if d.Onward != nil && !p.away && d.Verdict != schemas.VerdictCharge && d.Verdict != schemas.VerdictRecord {
		p.fault(KindOwner, "%s sends the message on to partition %d", d.Verdict, *d.Onward)
	}
}

// about holds that a decision on a record of readmit is about the message that
// the record is, or that it asks to cancel or release.
func (p *partition) about(in *kgo.Record, env *schemas.Envelope) {
	if in == nil || in.Topic != p.readmit || p.e.Decision.Verdict == schemas.VerdictGiveBack {
		return
	}
	if !p.ours(env) {
		if p.e.Decision.Verdict != schemas.VerdictNothing {
			p.fault(KindPhantom, "the record that it answers is not of Weir's making")
		}
		return
	}
	if env.Reason == schemas.ReadmitQuota && p.e.Decision.Verdict != schemas.VerdictNothing {
		p.fault(KindPhantom, "the record that it answers only asks what is left")
	}
	if v := p.e.Decision.Verdict; p.movedOptOut(env) && v != schemas.VerdictSuppress && v != schemas.VerdictNothing && v != schemas.VerdictReject {
		p.fault(KindPhantom, "the record that it answers moves an opt-out, and is no message")
	}
	if env.ID == p.e.MessageID && (env.Key == p.e.To || p.e.Decision.Verdict == schemas.VerdictForward && recipient.Fold(env.Key) == p.e.To) {
		return
	}
	req := p.request(in)
	names := req != nil && (req.Action == schemas.ActionCancel || req.Action == schemas.ActionRelease) && req.ID == p.e.MessageID
	if env.Key != p.e.To || !names {
		p.fault(KindPhantom, "the record that it answers is message %s's", env.ID)
	}
}
