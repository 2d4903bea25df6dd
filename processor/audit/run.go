package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Config is what an audit reads and how.
type Config struct {
	Brokers    []string
	Names      topics.Names
	Partitions int32 // N; 0 is as many as weir.requests has
	// Since is the moment from which on everything is judged. What lies before
	// is read too, as far as a window can look, and only learnt from. The zero
	// time judges all that is there.
	Since time.Time
	// Slack is how long after its expiry a message may end: a call under way,
	// or a wait in a delay topic. Default 10 minutes.
	Slack time.Duration
	// Stall is how long a partition may bring nothing before its end: a dead
	// owner's open transaction holds it back. Default 60 s.
	Stall time.Duration
	// Memory is how much the process may take, in bytes; default DefaultMemory,
	// at least LeastMemory. What must be remembered and does not fit is not
	// judged, and the report says so. The caller tells the garbage collector.
	Memory   int64
	Progress func(line string) // may be nil; called at most once a second
	Options  []kgo.Opt
}

// tailSpan is how long before the cut records are compared one by one: longer
// than transactions last and clocks differ.
const tailSpan = 2 * time.Minute

// Run reads the logs up to a consistent cut and judges them. An error means
// that they could not be read to their ends; the report then has what was found
// until then, and is nil before anything was judged.
//
// The cut: first the group's offsets, then the end of weir.status; then, when
// every transaction that has a record below that end is over, the ends of all
// else. What a decision writes beside its status is in the same transaction, so
// it lies below the later ends; and every record below the group's offsets has
// its decision in the log that was cut after.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	began := time.Now()
	cfg.Slack = cmp.Or(cfg.Slack, 10*time.Minute)
	cfg.Stall = cmp.Or(cfg.Stall, time.Minute)
	cfg.Memory = cmp.Or(cfg.Memory, DefaultMemory)
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(cfg.Brokers...), kgo.ClientID("weir-audit")}, cfg.Options...)...)
	if err != nil {
		return nil, fmt.Errorf("open client: %w", err)
	}
	defer cl.Close()
	a := &auditing{Config: cfg, adm: kadm.NewClient(cl), found: newFindings(), budget: &budget{most: (cfg.Memory - reading) / 2}, said: began}
	err = a.run(ctx)
	if full, ok := errors.AsType[*errMemory](err); ok {
		a.found.cannotTell(full.Error()+"; nothing beyond was judged", 1)
		err = nil
	}
	if err != nil && !a.judging {
		return nil, err
	}
	a.found.judgeLate(a.lanesRead)
	r := a.found.finish()
	r.Took = time.Since(began)
	return r, err
}

type auditing struct {
	Config
	adm    *kadm.Client
	found  *findings
	reader reader
	budget *budget
	// judging is whether something may have been found.
	judging   bool
	lanesRead bool // every journal was read to its end
	read      atomic.Int64
	said      time.Time
	saying    sync.Mutex
}

// tick counts a record and tells of progress now and then, first after a second.
func (a *auditing) tick() int64 {
	n := a.read.Add(1)
	if a.Progress == nil || n%looks != 0 {
		return n
	}
	a.saying.Lock()
	defer a.saying.Unlock()
	if now := time.Now(); now.Sub(a.said) >= time.Second {
		a.said = now
		a.Progress(fmt.Sprintf("%d records read", n))
	}
	return n
}

func (a *auditing) run(ctx context.Context) error {
	names := a.Names
	a.reader = reader{brokers: a.Brokers, stall: a.Stall, options: a.Options}

	// The cut.
	done, err := a.adm.FetchOffsets(ctx, names.Requests()+".admission")
	// A group that nobody was in for a week is gone; then only what has a
	// decision is known to have been processed.
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("fetch the group's offsets: %w", err)
	}
	state := []string{names.Requests(), names.Readmit(), names.Status(), names.Config()}
	var ledger metas
	if err := a.reader.stable(ctx, a.adm, names.Ledger()); err != nil {
		return err
	}
	if ledger.starts, ledger.ends, err = a.stateCut(ctx); err != nil {
		return err
	}
	if ledger.before, err = a.ledgers(ctx); err != nil {
		return err
	}
	over, err := a.journalsOver(ctx)
	if err != nil {
		return err
	}
	if err := a.reader.ends(ctx, a.adm, names.Status()); err != nil {
		return err
	}
	now := time.Now()
	if err := a.reader.settled(ctx, a.adm, names.Status()); err != nil {
		return err
	}
	waiting, released, err := a.waits(ctx)
	if err != nil {
		return err
	}
	delays := []string{}
	for _, t := range topics.Tiers {
		delays = append(delays, names.Delay(t.Name))
	}
	if err := a.reader.ends(ctx, a.adm, append(delays, names.Requests(), names.Readmit(), names.Config(), names.DLQ(), names.Ledger())...); err != nil {
		return err
	}
	for _, topic := range state {
		if len(a.reader.until[topic]) == 0 {
			return fmt.Errorf("%s does not exist: Weir has not been set up on this cluster, or under another prefix", topic)
		}
	}
	n := int32(len(a.reader.until[names.Requests()]))
	if a.Partitions != 0 && a.Partitions != n || int(n) != len(a.reader.until[names.Readmit()]) || int(n) != len(a.reader.until[names.Status()]) {
		return fmt.Errorf("the partition count N is %d, and requests, readmit and status have %d, %d and %d partitions: they must be equal, and never change", a.Partitions,
			n, len(a.reader.until[names.Readmit()]), len(a.reader.until[names.Status()]))
	}
	log, closeConfig, err := a.reader.open(ctx, names.Config(), 0)
	if err != nil {
		return err
	}
	skipped, err := a.skips(ctx)
	if err != nil {
		closeConfig()
		return err
	}
	config, err := readHistory(log, skipped)
	closeConfig()
	if err != nil {
		return err
	}
	a.found.cannotTell("revisions of the policy that an operator skipped: whether any process followed one", config.skipped)

	b := &bounds{
		partitions: n, statusTopic: names.Status(), requests: names.Requests(), readmit: names.Readmit(), ledger: names.Ledger(), seenTopic: names.Seen(),
		config: config, skips: skipped, holes: make(map[string]int64), doors: config.doors(), slack: a.Slack, gone: make(map[string]bool), found: a.found,
	}
	if !a.Since.IsZero() {
		b.since = schemas.MillisOf(a.Since)
	}
	if b.metas = &ledger; len(a.reader.until[names.Ledger()]) == 0 {
		b.metas = nil
	} else if ledger.after, err = a.ledgers(ctx); err != nil {
		return err
	}
	if err := a.hold(ctx, &waiting, released); err != nil {
		return err
	}
	b.waiting, b.over = waiting, over
	if b.clocks, err = a.clocks(ctx, append(state, names.DLQ(), names.Ledger(), names.Health(), names.Reports())...); err != nil {
		return err
	}
	queues, journals, err := a.providers(ctx, b)
	if err != nil {
		return err
	}

	// From when on each pair of topics is whole.
	firsts := make(map[string]schemas.Millis)
	for topic := range a.reader.until {
		if firsts[topic], err = a.reader.begins(ctx, topic); err != nil {
			return err
		}
	}
	from := func(topics ...string) schemas.Millis {
		at := b.since
		for _, t := range topics {
			if f := firsts[t]; f > 0 {
				at = max(at, f.Add(time.Minute))
			}
		}
		return at
	}
	recent := schemas.MillisOf(now.Add(-tailSpan))
	inputs := from(names.Status(), names.Requests(), names.Readmit())
	b.forwarded, b.hops, b.released = newJoin(inputs, recent), newJoin(inputs, recent), newJoin(inputs, recent)
	b.wide = newWideCalls()
	b.dispatched = newJoin(from(append(slices.Collect(maps.Keys(queues)), names.Status())...), recent)
	b.permitted = newJoin(from(append(slices.Collect(maps.Keys(journals)), names.Status())...), recent)
	b.ended = newJoin(b.permitted.from, recent)
	b.refusals = newJoin(inputs, recent)
	b.dead = newJoin(from(names.Status(), names.DLQ()), recent)

	var mu sync.Mutex
	tails := &share{of: a.budget}
	// The joins belong to all workers: whoever reads takes what they have come to.
	tick := func() error {
		if a.tick()%looks != 0 {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		return tails.take(func() string { return "the records of the last two minutes, and calls in wide limits" }, b.forwarded.size()+b.hops.size()+b.released.size()+b.dispatched.size()+b.permitted.size()+b.ended.size()+b.dead.size()+b.refusals.size()+b.wide.size())
	}
	report := &a.found.report
	report.Partitions, report.Revisions = n, len(config.policies)-1
	whole := ctx
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	a.judging = true
	for num := range n {
		work.Go(func() error {
			p, err := a.partition(ctx, b, num, done, tick)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			report.Checked.add(&p.counts)
			for s, n := range p.ends {
				report.Ends[s] += n
			}
			report.Clock.Ahead, report.Clock.Behind = max(report.Clock.Ahead, p.clock.Ahead), max(report.Clock.Behind, p.clock.Behind)
			if p.from > 0 && (report.From == 0 || p.from < report.From) {
				report.From = p.from
			}
			report.Until = max(report.Until, p.t)
			report.densest(p.calls.densest)
			return nil
		})
	}
	for topic, provider := range queues {
		for num := range int32(len(a.reader.until[topic])) {
			work.Go(func() error {
				log, closeLog, err := a.reader.open(ctx, topic, num)
				if err != nil {
					return err
				}
				defer closeLog()
				var c Counts
				if err := dispatches(b, provider, log, &c, tick); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				report.Checked.add(&c)
				return nil
			})
		}
	}
	for num := range a.reader.until[names.DLQ()] {
		work.Go(func() error {
			log, closeLog, err := a.reader.open(ctx, names.DLQ(), num)
			if err != nil {
				return err
			}
			defer closeLog()
			var c Counts
			if err := letters(b, log, &c, tick); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			report.Checked.add(&c)
			return nil
		})
	}
	for topic, provider := range journals {
		work.Go(func() error {
			lanes := int32(len(a.reader.until[topic]))
			s := newSending(config.paces(provider), lanes > 1)
			own := &share{of: a.budget}
			defer own.close()
			var c Counts
			var holes int64
			for num := range lanes {
				log, closeLog, err := a.reader.open(ctx, topic, num)
				if err != nil {
					return err
				}
				l := &lane{bounds: b, provider: provider, begin: firsts[topic], flights: make(map[flight]int), sending: s}
				err = l.run(log, func() error {
					if err := tick(); err != nil {
						return err
					}
					return own.tick(func() string { return topic }, func() int64 { return l.size() })
				})
				closeLog()
				if err != nil {
					return err
				}
				c.add(&l.counts)
				holes += l.skipped
			}
			mu.Lock()
			defer mu.Unlock()
			b.holes[provider] = holes
			report.Checked.add(&c)
			s.finish(provider, b)
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	a.lanesRead = true
	report.densest(b.wide.densest())
	return a.locate(whole, slices.Concat(b.compare(queues, journals), b.unburied(), b.forged()))
}

// skips reads what operators skipped, and notes it for the report.
func (a *auditing) skips(ctx context.Context) (skips, error) {
	topic := a.Names.Skips()
	if err := a.reader.ends(ctx, a.adm, topic); err != nil {
		return nil, err
	}
	log, closeLog, err := a.reader.open(ctx, topic, 0)
	if err != nil {
		return nil, err
	}
	defer closeLog()
	all, err := readSkips(log)
	for _, record := range slices.Sorted(maps.Keys(all)) {
		a.found.report.Skips = append(a.found.report.Skips, all[record])
	}
	return all, err
}

// journalsOver finds what of the journals is of transactions that were over before the end
// of weir.status was taken: its statuses are below that end.
func (a *auditing) journalsOver(ctx context.Context) (map[string]map[int32]int64, error) {
	all, err := a.adm.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	over := make(map[string]map[int32]int64)
	for _, topic := range all.Names() {
		if !strings.HasPrefix(topic, a.Names.Journal("")) {
			continue
		}
		if err := a.reader.stable(ctx, a.adm, topic); err != nil {
			return nil, err
		}
		over[topic] = maps.Clone(a.reader.until[topic])
	}
	return over, nil
}

// partition judges one partition of the decision log.
func (a *auditing) partition(ctx context.Context, b *bounds, num int32, done kadm.OffsetResponses, tick func() error) (*partition, error) {
	var closes []func()
	defer func() {
		for _, c := range closes {
			c()
		}
	}()
	open := func(topic string) (source, error) {
		s, c, err := a.reader.open(ctx, topic, num)
		if err == nil {
			closes = append(closes, c)
		}
		return s, err
	}
	log, err1 := open(b.statusTopic)
	requests, err2 := open(b.requests)
	readmit, err3 := open(b.readmit)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	p := newPartition(num, b, requests, readmit)
	p.cut = a.reader.start[b.statusTopic][num] > 0
	for topic, f := range p.in {
		f.from = a.reader.start[topic][num]
	}
	p.done = make(map[string]int64)
	for _, topic := range []string{b.requests, b.readmit} {
		if o, ok := done.Lookup(topic, num); ok && o.Err == nil {
			p.done[topic] = o.At
		}
	}
	own := &share{of: a.budget}
	defer own.close()
	p.atCut = func(reached bool) error { return a.compareState(ctx, p, reached) }
	return p, p.run(log, func() error {
		if err := tick(); err != nil {
			return err
		}
		return own.tick(func() string { return fmt.Sprintf("%s/%d at %s", b.statusTopic, num, p.t) }, p.size)
	})
}

// providers finds the dispatch topics and journals of every provider that there
// ever was, and takes their ends.
func (a *auditing) providers(ctx context.Context, b *bounds) (queues, journals map[string]string, err error) {
	queues, journals = make(map[string]string), make(map[string]string)
	for name, has := range b.config.providers() {
		for _, q := range topics.Queues {
			if has.queues {
				queues[a.Names.Dispatch(name, q)] = name
			}
		}
		if has.journal {
			journals[a.Names.Journal(name)] = name
		}
	}
	all := slices.Concat(slices.Collect(maps.Keys(queues)), slices.Collect(maps.Keys(journals)))
	if len(all) == 0 {
		return queues, journals, nil
	}
	there, err := a.adm.ListTopics(ctx, all...)
	if err != nil {
		return nil, nil, fmt.Errorf("list topics: %w", err)
	}
	var have []string
	for _, topic := range all {
		if there.Has(topic) {
			have = append(have, topic)
			continue
		}
		b.gone[cmp.Or(queues[topic], journals[topic])] = true
		delete(queues, topic)
		delete(journals, topic)
	}
	// One topic of a provider says nothing without the others.
	maps.DeleteFunc(queues, func(_, p string) bool { return b.gone[p] })
	maps.DeleteFunc(journals, func(_, p string) bool { return b.gone[p] })
	if len(have) == 0 {
		return queues, journals, nil
	}
	return queues, journals, a.reader.ends(ctx, a.adm, have...)
}

// found is an item that only one topic has, and where it may stand.
type found struct {
	item
	kind   Kind
	topics []string
	text   string
}

// compare returns what only one of two topics has.
func (b *bounds) compare(queues, journals map[string]string) (all []found) {
	status := []string{b.statusTopic}
	holes := maps.Clone(b.holes) // a skipped record is a permit or an outcome
	for _, c := range []struct {
		j           *join
		kind        Kind
		further     []string
		only, extra string
		before      string
	}{
		{b.dispatched, KindDispatch, slices.Sorted(maps.Keys(queues)), "admitted, and not dispatched once with these places", "dispatched, and not admitted once with these places", "admissions before the retained dispatch topics"},
		{b.forwarded, KindForward, []string{b.readmit}, "forwarded, and not there once in weir.readmit", "in weir.readmit as forwarded, and no partition forwarded it", "forwards before the retained log"},
		{b.hops, KindHop, []string{b.readmit}, "sent on, and not there once in weir.readmit with all that it carries", "in weir.readmit as sent on, and no decision sent it so", "steps of messages whose requests lie before the retained log"},
		{b.released, KindReleased, []string{b.readmit}, "asked back of its owner, or to be put back, and not there once in weir.readmit", "in weir.readmit as asked back, or to be put back, and no decision of home asked for it", "places asked back that were taken before the retained log"},
		{b.permitted, KindPermit, slices.Sorted(maps.Keys(journals)), "sending, without one permit in the journal", "permitted in the journal, without its status sending", "sendings before the retained journals"},
		{b.ended, KindOutcome, slices.Sorted(maps.Keys(journals)), "what it says came of the attempt is not once in the journal", "an outcome of the journal that no status says", "outcomes before the retained journals"},
	} {
		only, extra, tangled := c.j.difference()
		for _, i := range only {
			if c.kind == KindPermit && b.skippedPermit(i) {
				continue // it is counted as what cannot be told
			}
			if c.kind == KindOutcome && skippedOutcome(holes, i) {
				continue
			}
			all = append(all, found{i, c.kind, status, c.only})
		}
		for _, i := range extra {
			all = append(all, found{i, c.kind, c.further, c.extra})
		}
		for range tangled {
			b.found.violation(Violation{Kind: c.kind, Partition: -1, Offset: -1, Text: c.only + ", or the reverse: several, which cannot be told apart"})
		}
		b.found.cannotTell(c.before, c.j.before)
	}
	return all
}

// locate reads again, where something is wrong, to say at which records: the
// comparison of topics has kept ids and times only. What it does not find is
// reported without.
func (a *auditing) locate(ctx context.Context, all []found) error {
	wanted := make(map[string]bool) // topics
	ids := make(map[string][]int)
	places := make([]*kgo.Record, len(all))
	for i := range all {
		if i < 3*kept {
			id := all[i].message()
			ids[id] = append(ids[id], i)
			for _, t := range all[i].topics {
				wanted[t] = true
			}
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(wanted)) {
		for num := range a.reader.until[topic] {
			log, closeLog, err := a.reader.open(ctx, topic, num)
			if err != nil {
				return err
			}
			for {
				r, err := log()
				if err != nil {
					closeLog()
					return err
				}
				if r == nil {
					break
				}
				for id, of := range ids {
					if !holds(r, id) {
						continue
					}
					for _, i := range of {
						if f := &all[i]; slices.Contains(f.topics, topic) && (places[i] == nil || speaksOf(r, f.t)) {
							places[i] = r
						}
					}
				}
			}
			closeLog()
		}
	}
	for i := range all {
		v := Violation{Kind: all[i].kind, Topic: all[i].topics[0], Partition: -1, Offset: -1, MessageID: all[i].message(), T: all[i].t, Text: all[i].text}
		if r := places[i]; r != nil {
			v.Topic, v.Partition, v.Offset, v.Appended = r.Topic, r.Partition, r.Offset, schemas.MillisOf(r.Timestamp)
		}
		a.found.violation(v)
	}
	return nil
}

// holds reports whether a record names a message.
func holds(r *kgo.Record, id string) bool {
	return bytes.Contains(r.Value, []byte(id)) ||
		slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == schemas.HeaderID && string(h.Value) == id })
}

// speaksOf reports whether a record names a moment.
func speaksOf(r *kgo.Record, t schemas.Millis) bool {
	text := []byte(t.String())
	return bytes.Contains(r.Value, text) || slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return bytes.Equal(h.Value, text) })
}
