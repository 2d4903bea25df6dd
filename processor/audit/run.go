package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
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
	Memory int64
	// Progress says how many offsets of the logs were read, of how many; may be nil; called at most
	// once a second.
	Progress func(done, total int64)
	Options  []kgo.Opt
}

// stateEvery is how often an audit that goes on reads weir.ledger and weir.seen whole.
const stateEvery = time.Hour

// tailSpan is how long before the cut records are compared one by one: longer
// than transactions last and clocks differ.
const tailSpan = 2 * time.Minute

// Run reads the logs up to a consistent cut and judges them. An error means
// that they could not be read to their ends; the report then has what was found
// until then, and is nil before anything was judged.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	a, err := open(cfg)
	if err != nil {
		return nil, err
	}
	defer a.close()
	c, err := a.cut(ctx)
	if err != nil {
		return nil, err
	}
	return a.judge(ctx, c)
}

// open prepares an audit.
func open(cfg Config) (*auditing, error) {
	cfg.Slack = cmp.Or(cfg.Slack, 10*time.Minute)
	cfg.Stall = cmp.Or(cfg.Stall, time.Minute)
	cfg.Memory = cmp.Or(cfg.Memory, DefaultMemory)
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(cfg.Brokers...), kgo.ClientID("weir-audit")}, cfg.Options...)...)
	if err != nil {
		return nil, fmt.Errorf("open client: %w", err)
	}
	a := &auditing{
		Config: cfg, adm: kadm.NewClient(cl), close: cl.Close, budget: &budget{most: (cfg.Memory - reading) / 2}, said: time.Now(),
		reader: reader{brokers: cfg.Brokers, stall: cfg.Stall, options: cfg.Options}, lastMeta: make(map[int32]int64), waiting: newWaits(),
		parts: make(map[int32]*partition), located: make(map[fault]Violation), journals: make(map[string]*journal),
	}
	a.tails, a.held = &share{of: a.budget}, &share{of: a.budget}
	return a, nil
}

// auditing is an audit: its state between two cuts.
type auditing struct {
	Config
	adm    *kadm.Client
	close  func()
	reader reader
	budget *budget
	bounds *bounds // nil before the first cut is judged
	keeps  bool    // partitions go on after the cut
	parts  map[int32]*partition
	// journals are those of lanes, by topic.
	journals map[string]*journal
	others   Counts // of dispatch topics and weir.dlq
	waiting  waits
	lastMeta map[int32]int64 // where the ledger's last known record of each partition is
	tails    *share          // what the joins keep
	held     *share          // what waits in delay topics
	compared time.Time       // when the state was compared last
	located  map[fault]Violation
	ids      map[string]kadm.TopicID // of topics, in an audit that follows

	read   atomic.Int64
	total  int64 // offsets to read, as of the cut
	before int64 // and read before
	said   time.Time
	saying sync.Mutex
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
		a.Progress(a.reader.passed.Load()-a.before, a.total)
	}
	return n
}

// begin makes what all partitions have in common, at the first cut.
func (a *auditing) begin(ctx context.Context, c *cut) error {
	names := a.Names
	b := &bounds{
		partitions: int32(len(a.reader.until[names.Requests()])), statusTopic: names.Status(), requests: names.Requests(), readmit: names.Readmit(),
		ledger: names.Ledger(), seenTopic: names.Seen(), slack: a.Slack, config: newHistory(), holes: make(map[string]int64), begins: make(map[string]schemas.Millis), found: newFindings(),
	}
	if !a.Since.IsZero() {
		b.since = schemas.MillisOf(a.Since)
	}
	// From when on each pair of topics is whole.
	for topic := range a.reader.until {
		at, err := a.reader.begins(ctx, topic)
		if err != nil {
			return err
		}
		b.begins[topic] = at
	}
	recent := schemas.MillisOf(c.at.Add(-tailSpan))
	whole := func(topics ...string) *join {
		retained := schemas.Millis(0)
		for _, t := range topics {
			if f := b.begins[t]; f > 0 {
				retained = max(retained, f.Add(time.Minute))
			}
		}
		j := newJoin(max(retained, b.since), recent)
		j.retained = retained
		return j
	}
	inputs := []string{names.Status(), names.Requests(), names.Readmit()}
	b.forwarded, b.hops, b.released, b.refusals = whole(inputs...), whole(inputs...), whole(inputs...), whole(inputs...)
	b.refusals.apart = true // an owner's log and home's are not cut at one moment
	if !a.keeps {
		b.wide = newWideCalls()
	}
	queues := slices.Collect(maps.Keys(c.queues))
	journals := slices.Collect(maps.Keys(c.journals))
	b.dispatched = whole(append(queues, names.Status())...)
	b.permitted = whole(append(journals, names.Status())...)
	b.ended = whole(append(journals, names.Status())...)
	b.dead = whole(names.Status(), names.DLQ())
	a.bounds = b
	return nil
}

// judge reads the logs up to a cut, and judges them.
func (a *auditing) judge(ctx context.Context, c *cut) (*Report, error) {
	if a.bounds == nil {
		if err := a.begin(ctx, c); err != nil {
			return nil, err
		}
	}
	b := a.bounds
	b.found.cannotTell("revisions of the policy that an operator skipped: whether any process followed one", c.config.skipped-b.config.skipped)
	b.config, b.doors, b.skips, b.metas, b.over, b.wrote, b.clocks, b.gone = c.config, c.config.doors(), c.skips, c.metas, c.over, c.wrote, c.clocks, c.gone
	for _, j := range b.joins() {
		j.advance(schemas.MillisOf(c.at.Add(-tailSpan)))
	}
	into := newFindings()
	report := &into.report
	report.Cut, report.Partitions, report.Revisions = schemas.MillisOf(c.at), b.partitions, len(c.config.policies)-1
	for _, record := range slices.Sorted(maps.Keys(c.skips)) {
		report.Skips = append(report.Skips, c.skips[record])
	}
	if c.hidden {
		into.cannotTell("whether the ends of journals were removed: the groups of lanes may not be described", 1)
	}
	err := a.readAll(ctx, c, into)
	b.found.judgeLate(err == nil)
	if err == nil {
		report.densest(b.wide.densest())
		err = a.locate(ctx, slices.Concat(b.compare(c.queues, c.journals, into), b.unburied(into), b.forged()), into)
	}
	if full, ok := errors.AsType[*errMemory](err); ok {
		into.cannotTell(full.Error()+"; nothing beyond was judged", 1)
		if err = nil; a.keeps {
			err = full
		}
	}
	if a.keeps {
		b.found.forget(c.at.Add(-unknownFor))
	}
	into.take(b.found)
	r := into.finish()
	r.unenforced(b.config)
	r.Took = time.Since(c.began)
	return r, err
}

// readAll has every partition of every topic read up to the cut.
func (a *auditing) readAll(ctx context.Context, c *cut, into *findings) error {
	b := a.bounds
	a.total, a.before = a.reader.left(), a.reader.passed.Load()
	if err := a.hold(ctx, &a.waiting, c.released); err != nil {
		return err
	}
	b.waiting = a.waiting
	var mu sync.Mutex
	// The joins belong to all workers: whoever reads takes what they have come to.
	tick := func() error {
		if a.tick()%looks != 0 {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		size := b.wide.size()
		for _, j := range b.joins() {
			size += j.size()
		}
		return a.tails.take(func() string { return "the records of the last two minutes, and calls in wide limits" }, size)
	}
	report := &into.report
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for num := range b.partitions {
		p := a.parts[num]
		if p == nil {
			p = a.partition(num)
		}
		if a.keeps {
			a.parts[num] = p
		}
		work.Go(func() error {
			if err := a.walk(ctx, p, c, into, tick); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			report.Checked.add(&p.counts)
			report.Checked.add(&p.end)
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
	each := func(topic string, take func(log source, counts *Counts) error) {
		for num := range a.reader.until[topic] {
			work.Go(func() error {
				log, closeLog, err := a.reader.resume(ctx, topic, num, 0)
				if err != nil {
					return err
				}
				defer closeLog()
				var counts Counts
				err = take(log, &counts)
				mu.Lock()
				defer mu.Unlock()
				a.others.add(&counts)
				return err
			})
		}
	}
	for topic, provider := range c.queues {
		each(topic, func(log source, counts *Counts) error { return dispatches(b, provider, log, counts, tick) })
	}
	each(a.Names.DLQ(), func(log source, counts *Counts) error { return letters(b, log, counts, tick) })
	for topic, provider := range c.journals {
		if a.journals[topic] == nil {
			a.journals[topic] = newJournal(b, provider, topic, a.budget)
		}
		j := a.journals[topic]
		work.Go(func() error {
			if err := j.walk(ctx, &a.reader, schemas.MillisOf(c.at.Add(-tailSpan)), tick); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			j.judge(into)
			return nil
		})
	}
	err := work.Wait()
	if c.state && err == nil {
		a.compared = c.began
	}
	report.Checked.add(&a.others)
	return err
}

// partition makes the state in which a partition of the decision log is judged.
func (a *auditing) partition(num int32) *partition {
	b := a.bounds
	p := newPartition(num, b, nil, nil)
	p.cut = a.reader.start[b.statusTopic][num] > 0
	for topic, f := range p.in {
		f.from = a.reader.start[topic][num]
		f.at = f.from
	}
	p.share = &share{of: a.budget}
	return p
}

// walk judges a partition's log up to a cut.
func (a *auditing) walk(ctx context.Context, p *partition, c *cut, into *findings, tick func() error) error {
	var closes []func()
	defer func() {
		for _, c := range closes {
			c()
		}
	}()
	log, closeLog, err := a.reader.resume(ctx, p.statusTopic, p.num, 0)
	if err != nil {
		return err
	}
	closes = append(closes, closeLog)
	for topic, f := range p.in {
		// What no one answered may have been deleted by age: markers of transactions.
		next, closeFeed, err := a.reader.openFrom(ctx, topic, p.num, max(f.at, a.reader.start[topic][p.num]))
		if err != nil {
			return err
		}
		closes = append(closes, closeFeed)
		f.reopen(next)
		p.done[topic] = 0
		if o, ok := c.done.Lookup(topic, p.num); ok && o.Err == nil {
			p.done[topic] = o.At
		}
	}
	if c.state {
		p.atCut = func(reached bool) error { return a.compareState(ctx, p, reached) }
	}
	err = p.walk(log, func() error {
		if err := tick(); err != nil {
			return err
		}
		return p.share.tick(func() string { return fmt.Sprintf("%s/%d at %s", p.statusTopic, p.num, p.t) }, p.size)
	})
	if err != nil {
		return err
	}
	if !a.keeps {
		defer p.share.close()
	}
	return p.judgeCut(into)
}

// joins are all of the bounds'.
func (b *bounds) joins() []*join {
	return []*join{b.forwarded, b.hops, b.released, b.refusals, b.dispatched, b.permitted, b.ended, b.dead}
}
