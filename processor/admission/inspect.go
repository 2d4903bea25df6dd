package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/skip"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/topics"
)

// Consent is what an operator must agree to before a repair that gives
// something up.
type Consent string

// Consents.
const (
	ConsentNone   Consent = ""             // nothing is given up
	ConsentSkip   Consent = "skip-deleted" // requests that are gone are never decided
	ConsentForget Consent = "forget"       // state under one key is gone
)

// Problem is one thing for which admission would refuse a partition, and what
// puts it right.
type Problem struct {
	Partition int32
	Err       error                      // one of the package's errors, with where
	Write     []*kgo.Record              // to the ledger; with no Stand either, nothing here can repair it
	Stand     map[stream.Partition]int64 // offsets of the group to set
	Gives     string                     // what the repair gives up or restores, in words
	Consent   Consent
}

// Repairable reports whether the problem says how to put it right.
func (p *Problem) Repairable() bool { return len(p.Write) > 0 || len(p.Stand) > 0 }

// Inspect looks at the state as a restore would, changes nothing, and returns
// what is wrong. No admission may run meanwhile. group is where its consumer
// group stands; a partition that it lacks has no offset. cuts are the offsets at which brokers
// lost the rest of a partition before they went on with other records.
func Inspect(ctx context.Context, read stream.ReadConfig, names topics.Names, partitions int32, group, cuts map[stream.Partition]int64) ([]Problem, error) {
	read = skip.Batches(ctx, read, names, slog.New(slog.DiscardHandler))
	whole := read // what is read beside is little
	read.Progress = nil
	in := &inspection{
		stage: &stage{cfg: Config{Read: read, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}, env: environment{names: names, partitions: partitions}, cuts: cuts},
		parts: make(map[int32]*partition), damaged: make(damages), good: make(map[damageKey][]byte), group: group,
	}
	in.stage.parts = in.parts
	defer func() {
		for _, p := range in.parts {
			p.close()
		}
	}()
	var ranges []stream.Range
	ledger := names.Ledger()
	for n := range partitions {
		p, err := newPartition(n, in.stage.env)
		if err != nil {
			return nil, err
		}
		in.parts[n] = p
		ranges = append(ranges, p.ranges()...)
	}
	if err := stream.Read(ctx, whole, ranges, func(r *kgo.Record) error {
		in.parts[r.Partition].take(r, r.Topic == ledger)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the ledger and the known keys: %w", err)
	}
	for _, p := range in.parts {
		maps.Copy(in.damaged, p.damaged)
	}
	if len(in.damaged) > 0 {
		if err := in.findGood(ctx, in.damaged); err != nil {
			return nil, err
		}
	}
	var out []Problem
	for _, k := range slices.SortedFunc(maps.Keys(in.damaged), inOrder) {
		p := in.damage(k, in.damaged[k])
		if p.Consent == ConsentForget && in.parts[k.partition].base.meta.Seq > 0 {
			forget, err := in.forget(k.partition)
			if err != nil {
				return nil, err
			}
			p.Write = append(p.Write, forget)
		}
		out = append(out, p)
	}
	for n := range partitions {
		found, err := in.positions(ctx, n)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
		differs, err := in.differs(ctx, n, len(found) > 0)
		if err != nil {
			return nil, err
		}
		out = append(out, differs...)
	}
	return out, nil
}

// differs compares a partition's state with what its last transaction left. A repair writes
// again what an outsider's records replaced, if it is still in the log, and then the two are
// the same or the rest is given up. others: there are problems that must be repaired before.
func (in *inspection) differs(ctx context.Context, n int32, others bool) ([]Problem, error) {
	p := in.parts[n]
	if in.lost(n) {
		return nil, nil // its own repair takes the rest as it stands
	}
	err := in.stage.complete(p)
	if err == nil {
		return nil, nil
	}
	problem := Problem{Partition: n, Err: err}
	suspects := make(damages)
	for key, at := range p.outside {
		k := damageKey{n, key}
		if _, damaged := in.damaged[k]; !damaged {
			suspects[k] = damage{topic: in.stage.env.names.Ledger(), offset: at}
		}
	}
	if len(suspects) > 0 {
		if err := in.findGood(ctx, suspects); err != nil {
			return nil, err
		}
	}
	lost := make(map[string]bool)
	for _, k := range slices.SortedFunc(maps.Keys(suspects), inOrder) {
		value, ok := in.good[k]
		if !ok {
			lost[k.key] = true
			continue
		}
		if err := p.load([]byte(k.key), value); err != nil {
			return nil, err
		}
		problem.Write = append(problem.Write, &kgo.Record{Topic: suspects[k].topic, Partition: n, Key: []byte(k.key), Value: value})
	}
	again := fmt.Sprintf("what %d keys said before somebody else wrote under them is still in the log, and is written again", len(problem.Write))
	switch {
	case in.stage.complete(p) == nil:
		problem.Gives = again + ": then the state is what the last transaction left, and nothing is lost"
		return []Problem{problem}, nil
	case others:
		problem.Write, problem.Gives = nil, "repair first what else is said of this partition, and look again"
		return []Problem{problem}, nil
	}
	rebuilt, words, err := in.rebuild(ctx, n, lost)
	if err != nil {
		return nil, err
	}
	for _, r := range rebuilt {
		if err := p.load(r.Key, r.Value); err != nil {
			return nil, err
		}
	}
	if problem.Write = append(problem.Write, rebuilt...); len(rebuilt) > 0 && in.stage.complete(p) == nil {
		problem.Gives = words + ": then the state is what the last transaction left, and nothing is lost"
		return []Problem{problem}, nil
	}
	problem.Gives = "the rest of what differs is not in the log any more. To have it back put the topic back from a copy. Else the state is taken as it stands: limits may let more through, opt-outs, cancels and waiting messages may be forgotten, and a message that was sent under a key may be sent again"
	if len(problem.Write) > len(rebuilt) {
		problem.Gives = again + "; " + problem.Gives
	}
	if words != "" {
		problem.Gives = words + "; " + problem.Gives
	}
	forget, err := in.forget(n)
	if err != nil {
		return nil, err
	}
	problem.Write, problem.Consent = append(problem.Write, forget), ConsentForget
	return []Problem{problem}, nil
}

// inOrder has the meta record first: what another repair writes of it must stay.
func inOrder(a, b damageKey) int {
	rank := func(k damageKey) int {
		if k.key == metaKey {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.key, b.key))
}

// lost reports whether a partition has a damaged record of which no good one is left.
func (in *inspection) lost(n int32) bool {
	for k := range in.damaged {
		if _, ok := in.good[k]; k.partition == n && !ok {
			return true
		}
	}
	return false
}

// forget returns the meta record after which a partition's state is taken as it stands.
func (in *inspection) forget(n int32) (*kgo.Record, error) {
	m := in.parts[n].base.meta
	m.Sums = sums{}
	value, err := m.encode()
	return &kgo.Record{Topic: in.stage.env.names.Ledger(), Partition: n, Key: []byte(metaKey), Value: value}, err
}

type inspection struct {
	stage   *stage
	parts   map[int32]*partition
	damaged damages
	good    map[damageKey][]byte // the last good value of a damaged key, nil for a tombstone
	group   map[stream.Partition]int64
}

// findGood reads the ledger once more, for the last good record of each bad
// key. If there is one, it is what the bad record replaced: compaction keeps
// the last record of a key in what it has cleaned, and everything in the rest,
// so what stood between the two could only be gone if the first were too. A bad
// record that reads as a good one is in no transaction, and its good one is in one.
func (in *inspection) findGood(ctx context.Context, bad damages) error {
	scratch, err := newPartition(0, in.stage.env)
	if err != nil {
		return err
	}
	defer scratch.close()
	var ranges []stream.Range
	for k, d := range bad {
		if at := (stream.Range{Partition: stream.Partition{Topic: d.topic, Partition: k.partition}}); !slices.Contains(ranges, at) {
			ranges = append(ranges, at)
		}
	}
	if err := stream.Read(ctx, in.stage.cfg.Read, ranges, func(r *kgo.Record) error {
		k := damageKey{r.Partition, string(r.Key)}
		if d, ok := bad[k]; ok && r.Offset < d.offset && (d.why != nil || r.Attrs.IsTransactional()) && scratch.load(r.Key, r.Value) == nil {
			in.good[k] = r.Value
		}
		return nil
	}); err != nil {
		return fmt.Errorf("read the ledger again: %w", err)
	}
	return nil
}

// damage says how to put a damaged record right.
func (in *inspection) damage(k damageKey, d damage) Problem {
	one := damages{k: d}
	p := Problem{Partition: k.partition, Err: one.err()}
	rec := &kgo.Record{Topic: d.topic, Partition: k.partition, Key: []byte(k.key)}
	switch value, ok := in.good[k]; {
	case ok:
		rec.Value = value
		p.Write, p.Gives = []*kgo.Record{rec}, "what stood before is still in the log and is written again: nothing is lost"
	case k.key == metaKey || len(k.key) == 17 && k.key[0] != suppressionKind && k.key[0] != waitingKind && k.key[0] != heldKind:
		p.Gives = "cannot be repaired here: put the topic back from a copy, or run the version of Weir that wrote it"
	default:
		p.Write, p.Consent = []*kgo.Record{rec}, ConsentForget
		p.Gives = "nothing is left of what stood before: what one recipient or scope has in one limit (of many places there, some), one opt-out, one waiting message or one decision without sending is forgotten"
	}
	return p
}

// positions compares where a partition's state stands with the input and with
// the group.
func (in *inspection) positions(ctx context.Context, n int32) ([]Problem, error) {
	s, p := in.stage, in.parts[n]
	if value, ok := in.good[damageKey{n, metaKey}]; ok {
		if err := p.load([]byte(metaKey), value); err != nil {
			return nil, err
		}
	}
	if _, bad := in.damaged[damageKey{n, metaKey}]; bad && p.base.meta.Seq == 0 {
		return nil, nil // nothing is known
	}
	m := p.base.meta
	if m.Seq > 0 && m.Partitions != s.env.partitions {
		return []Problem{{Partition: n, Err: fmt.Errorf("%s/%d was written with %d partitions, now there are %d: %w", s.env.names.Ledger(), n, m.Partitions, s.env.partitions, ErrPartitionsChanged), Gives: "cannot be repaired here"}}, nil
	}
	whole := s.whole(ctx, map[int32]*partition{n: {num: n, base: standing{meta: m}}}, nil)
	switch {
	case errors.Is(whole, ErrLedgerLost):
		return in.replay(ctx, n, whole)
	case whole == nil || errors.Is(whole, ErrDeleted) || errors.Is(whole, ErrBeyondEnd) || errors.Is(whole, ErrTopicRecreated):
	default:
		return nil, whole
	}
	committed := make(map[stream.Partition]stream.Position)
	for _, tp := range []stream.Partition{s.requests(n), s.readmit(n)} {
		committed[tp] = stream.Position{Offset: -1}
		if at, ok := in.group[tp]; ok {
			committed[tp] = stream.Position{Offset: at}
		}
	}
	agrees := s.agrees(p, committed)
	if errors.Is(agrees, ErrLedgerLost) {
		return in.replay(ctx, n, agrees)
	}
	// An older copy of the ledger must not be taken for the truth: what was
	// decided since would be decided again.
	status := stream.Partition{Topic: s.env.names.Status(), Partition: n}
	extents, err := s.extents(ctx, []stream.Partition{s.requests(n), s.readmit(n), status})
	if err != nil {
		return nil, err
	}
	decided, err := lastDecided(ctx, s.cfg.Read, status.Topic, extents, math.MaxInt64/10, false)
	if err != nil {
		return nil, err
	}
	last := decided[n]
	switch {
	case last > m.Seq:
		return in.replay(ctx, n, behind(s.env.names.Ledger(), n, m.Seq, last))
	case whole == nil && agrees == nil:
		return nil, nil
	}
	if whole == nil && last < m.Seq {
		return []Problem{{Partition: n, Err: agrees, Stand: in.stand(n, &m), Consent: ConsentForget,
			Gives: fmt.Sprintf("the group is set to where the state is. weir.status has no decision as late as the ledger's last, %d, so nothing shows that the ledger is not an older copy: if it is, what was decided since is decided again, and may be sent twice", m.Seq)}}, nil
	}
	if whole == nil {
		return []Problem{{Partition: n, Err: agrees, Stand: in.stand(n, &m), Gives: "the group is set to where the state stands: nothing is lost"}}, nil
	}
	gives := "the limits stay as they stand"
	for _, at := range []struct {
		tp   stream.Partition
		id   *string
		next *int64
	}{{s.requests(n), &m.RequestsID, &m.Requests}, {s.readmit(n), &m.ReadmitID, &m.Readmit}} {
		is := extents[at.tp]
		was := *at.next
		switch err := m.reads(at.tp, at.id, was, is); {
		case err == nil:
			continue
		case errors.Is(err, ErrBeyondEnd):
			*at.next = is.End
		default:
			*at.next = is.Start
		}
		*at.id = is.TopicID
		gives += fmt.Sprintf("; %s/%d goes on at %d instead of %d, and what stood between was never decided", at.tp.Topic, n, *at.next, was)
	}
	if in.lost(n) {
		m.Sums = sums{}
	}
	value, err := m.encode()
	if err != nil {
		return nil, err
	}
	return []Problem{{
		Partition: n, Err: whole, Gives: gives, Consent: ConsentSkip, Stand: in.stand(n, &m),
		Write: []*kgo.Record{{Topic: s.env.names.Ledger(), Partition: n, Key: []byte(metaKey), Value: value}},
	}}, nil
}

func (in *inspection) stand(n int32, m *meta) map[stream.Partition]int64 {
	return map[stream.Partition]int64{in.stage.requests(n): m.Requests, in.stage.readmit(n): m.Readmit}
}
