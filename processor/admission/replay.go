package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// replay repairs a ledger that lacks the last decisions: an older copy, or a topic that lost its
// end. It applies the decisions of weir.status since the last transaction that both have, which
// name every charge, refund and opt-out. It goes on at the group's offsets, which commit with the
// decisions, or after the last record that was decided. Buckets, decisions without sending and
// waiting messages that are newer than the ledger are not in weir.status, so they are given up.
//
// What the ledger has behind that transaction is taken back: a broker that lost the marker of an
// aborted transaction may show its records as committed by the next one.
func (in *inspection) replay(ctx context.Context, n int32, why error) ([]Problem, error) {
	s := in.stage
	problem := Problem{Partition: n, Err: why}
	refuse := func(because string) ([]Problem, error) {
		problem.Gives = "cannot be repaired here, since " + because + ": put the topic back from a newer copy"
		return []Problem{problem}, nil
	}
	requests, readmit := s.requests(n), s.readmit(n)
	p, behind, err := in.agreed(ctx, n)
	if errors.Is(err, errNotThere) {
		return refuse("weir.status has not all decisions since")
	} else if err != nil {
		return nil, err
	}
	in.parts[n].close()
	in.parts[n] = p
	var differs *differsError
	if err := s.complete(p); in.lost(n) || len(p.damaged) > 0 || errors.As(err, &differs) && differs.ledger {
		return refuse("what is left of it is damaged")
	}
	from := p.base.meta.Seq
	extents, err := s.extents(ctx, []stream.Partition{requests, readmit})
	if err != nil {
		return nil, err
	}
	if revision := p.base.meta.Marker.Revision; revision > 0 {
		rev, err := in.revision(ctx, revision)
		if err != nil {
			return nil, err
		}
		if err := p.adopt(rev); err != nil {
			return nil, err
		}
	}
	p.begin()
	defer p.rollback() // of nothing, after a commit

	next := make(map[stream.Partition]int64) // the offset after the last one that was decided
	if err := in.decisionsAfter(ctx, n, from, func(e *schemas.Event) error {
		if at := e.Decision.Input; at != nil {
			tp := stream.Partition{Topic: at.Topic, Partition: at.Partition}
			next[tp] = max(next[tp], at.Offset+1)
		}
		return p.apply(ctx, e, in.revision)
	}); errors.Is(err, errNotThere) {
		return refuse("weir.status has not all decisions since")
	} else if err != nil {
		return nil, err
	}
	m := &p.cur.meta
	m.RequestsID, m.ReadmitID = extents[requests].TopicID, extents[readmit].TopicID
	for tp, at := range map[stream.Partition]*int64{requests: &m.Requests, readmit: &m.Readmit} {
		*at = max(*at, next[tp]) // each record has a decision
		if group, ok := in.group[tp]; ok && group < *at {
			return refuse(fmt.Sprintf("the group is at %d of %s/%d, and what comes before %d was decided: somebody reset it", group, tp.Topic, n, *at))
		} else if ok {
			*at = group
		}
		if is := extents[tp]; *at < is.Start || *at > is.End {
			return refuse(fmt.Sprintf("%s/%d has lost what is next to read as well", tp.Topic, n))
		}
	}
	for key := range behind {
		problem.Write = append(problem.Write, &kgo.Record{Topic: s.env.names.Ledger(), Partition: n, Key: []byte(key), Value: behind[key]})
	}
	if err := p.changes(func(key, value []byte) {
		problem.Write = append(problem.Write, &kgo.Record{Topic: s.env.names.Ledger(), Partition: n, Key: key, Value: value})
	}, func(*seenRecord) {}); err != nil {
		return nil, err
	}
	problem.Gives = fmt.Sprintf("decisions %d to %d of weir.status are applied again: then limits and opt-outs are as they were. "+
		"Given up is what weir.status does not have of that time: buckets are fuller than they were, a message that was held without sending cannot be released, and one that waits is not known to wait, so a cancel of it takes effect when it is due. "+
		"weir audit names that; begin it with --since after the repair", from+1, m.Seq)
	problem.Consent = ConsentForget
	p.commit()
	return []Problem{problem}, nil
}

// agreed returns the state that a partition's ledger had after its last transaction that is also in
// weir.status, and what keys had then that the ledger has written since.
func (in *inspection) agreed(ctx context.Context, n int32) (p *partition, behind map[string][]byte, err error) {
	names, read := in.stage.env.names, in.stage.cfg.Read
	ledger := stream.Range{Partition: stream.Partition{Topic: names.Ledger(), Partition: n}}
	type transaction struct {
		offset int64
		meta   *meta
	}
	var all []transaction
	if err := stream.Read(ctx, read, []stream.Range{ledger}, func(r *kgo.Record) error {
		if string(r.Key) == metaKey {
			if m, err := decodeMeta(r.Value); err == nil {
				all = append(all, transaction{r.Offset, m})
			}
		}
		return nil
	}); err != nil {
		return nil, nil, fmt.Errorf("read the ledger again: %w", err)
	}
	all = all[max(len(all)-mostTransactions, 0):]
	first := int64(0)
	if len(all) > 0 {
		first = all[0].meta.Seq - 1
	}
	times := make(map[int64]schemas.Millis)
	if err := in.decisionsAfter(ctx, n, first, func(e *schemas.Event) error { times[e.Decision.Seq] = e.Decision.T; return nil }); err != nil {
		return nil, nil, err
	}
	// One that was aborted was decided again later, under the same numbers.
	until := int64(-1)
	for _, x := range slices.Backward(all) {
		t, decided := times[x.meta.Seq]
		next, further := times[x.meta.Seq+1]
		if decided && t <= x.meta.T && (!further || x.meta.T <= next) {
			until = x.offset
			break
		}
	}
	if until < 0 && len(all) > 0 {
		return nil, nil, errNotThere
	}
	behind = make(map[string][]byte)
	if err := stream.Read(ctx, read, []stream.Range{{Partition: ledger.Partition, From: until + 1}}, func(r *kgo.Record) error {
		behind[string(r.Key)] = nil
		return nil
	}); err != nil {
		return nil, nil, fmt.Errorf("read the ledger again: %w", err)
	}
	if p, err = newPartition(n, in.stage.env); err != nil {
		return nil, nil, err
	}
	if err := stream.Read(ctx, read, p.ranges(), func(r *kgo.Record) error {
		isLedger := r.Topic == ledger.Topic
		if isLedger && r.Offset > until {
			return nil
		}
		if _, ok := behind[string(r.Key)]; ok && isLedger {
			behind[string(r.Key)] = r.Value
		}
		p.take(r, isLedger)
		return nil
	}); err != nil {
		p.close()
		return nil, nil, fmt.Errorf("read the ledger again: %w", err)
	}
	return p, behind, nil
}

// mostTransactions bounds how far back the last transaction is looked for that ledger and
// weir.status both have.
const mostTransactions = 1000

// apply takes over what a decision changed.
func (p *partition) apply(ctx context.Context, e *schemas.Event, revision func(context.Context, int64) (*schemas.Revision, error)) error {
	d, m := e.Decision, &p.cur.meta
	m.Seq, m.T = d.Seq, max(m.T, d.T)
	if d.Marker != nil {
		rev, err := revision(ctx, d.Marker.Revision)
		if err != nil {
			return err
		}
		rules, err := limit.Compile(&rev.Policy, limit.Retained(d.Marker.Since, m.T))
		if err != nil {
			return fmt.Errorf("compile revision %d: %w", rev.Revision, err)
		}
		m.Marker, p.cur.rules, p.cur.pol = *d.Marker, rules, &rev.Policy
		m.T++ // as switchTo does
	}
	p.table.Unwind(p.cur.rules, d.Returned, m.T)
	p.table.Restore(p.cur.rules, slices.Concat(d.Restored, d.Charges), m.T)
	if k := waitKey(e.Tenant, e.To, e.MessageID); e.MessageID != "" {
		if _, waits := p.waiting.find(k); waits {
			p.waiting.remove(k) // it came back, or was cancelled
		}
	}
	if d.Verdict != schemas.VerdictSuppress {
		return nil
	}
	sc := scope{Tenant: e.Tenant, Channel: e.Channel, Class: e.Class}
	switch e.Reason {
	case reasonSuppress:
		_, err := p.suppressed.add(e.To, sc, terms{Until: e.RetryAt, Reason: e.ErrorCode, Provider: e.Provider}, d.T)
		return err
	case reasonUnsuppress:
		p.suppressed.remove(e.To, sc, d.T)
	}
	return nil
}

// errNotThere means that weir.status does not have every decision.
var errNotThere = errors.New("a decision is missing")

// decisionsAfter calls fn with the events of all decisions of a partition that are later than
// seq, in their order.
func (in *inspection) decisionsAfter(ctx context.Context, n int32, seq int64, fn func(*schemas.Event) error) error {
	tp := stream.Partition{Topic: in.stage.env.names.Status(), Partition: n}
	extents, err := stream.Extents(ctx, in.stage.cfg.Read, []stream.Partition{tp})
	if err != nil {
		return err
	}
	for back := int64(tailOffsets); ; back *= 8 {
		from, last := extents[tp].End-back, int64(0)
		err := stream.Read(ctx, in.stage.cfg.Read, []stream.Range{{Partition: tp, From: from}}, func(r *kgo.Record) error {
			e, err := schemas.DecodeEvent(r.Value)
			switch {
			case err != nil || e.Decision == nil || e.Decision.Seq <= last:
				return nil
			case e.Decision.Seq > max(seq, last)+1:
				return errNotThere
			}
			if last = e.Decision.Seq; last <= seq {
				return nil
			}
			return fn(e)
		})
		if !errors.Is(err, errNotThere) || last > 0 || from <= extents[tp].Start {
			return err
		}
	}
}
