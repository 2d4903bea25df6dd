package alert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/backlog"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/skip"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// How often a term does what it does.
const (
	pollFor    = 200 * time.Millisecond
	looking    = time.Second      // at what stands
	lagEvery   = 15 * time.Second // at how far stages are behind
	saveEvery  = 5 * time.Second  // when something is held, or much was read
	landing    = 3 * time.Second  // for tries under way when a term ends
	saveWithin = 10 * time.Second
	maxPoll    = 50_000
)

// term is one time of being the alerter. All of it belongs to one goroutine, but
// for the tries under way and the look for lag, which hand over what they found.
type term struct {
	*election
	tx   *kgo.Client // writes the state; the transactional id fences who was before
	in   *kgo.Client
	adm  *kadm.Client
	read map[string]*TopicAt

	state    State
	revision int64
	rules    []Rule
	alerts   map[string]*schemas.Alert

	written map[string]bool // ids of notices that are written down
	flying  map[string]bool // and of those under way
	landed  chan Outcome
	flights sync.WaitGroup
	outcome []Outcome // for the next step
	looks   chan waits
	waits   waits // the last found

	looked, saved time.Time
	moved, held   bool // since it was saved
}

// term is the alerter's life from an election to its end. It returns nil when ctx
// ended and all is written down.
func (e *election) term(ctx context.Context) (err error) {
	t := &term{
		election: e, written: make(map[string]bool), flying: make(map[string]bool),
		landed: make(chan Outcome, 64), looks: make(chan waits, 1),
	}
	if err := t.open(ctx); err != nil {
		return err
	}
	defer t.close()
	e.metrics.active.Set(1)
	e.cfg.Logger.Info("this process sends the alerts", "slot", e.cfg.Slot)

	flightCtx, ground := context.WithCancel(context.WithoutCancel(ctx))
	defer ground()
	var looking sync.WaitGroup
	lagCtx, stop := context.WithCancel(ctx)
	behind := t.state.behind()
	looking.Go(func() { t.watchLag(lagCtx, behind) })
	defer looking.Wait()
	defer stop()
	for ctx.Err() == nil {
		if err = t.turn(ctx, flightCtx); err != nil {
			break
		}
		if !t.failing.IsZero() {
			t.well()
		}
	}
	return errors.Join(err, t.land(ground, err != nil))
}

// open fences who was the alerter before, reads what it wrote, and begins to read
// where it stopped.
func (t *term) open(ctx context.Context) (err error) {
	names := t.cfg.Names
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	t.tx, err = kgo.NewClient(
		kgo.SeedBrokers(t.cfg.Brokers...), kgo.ClientID("weir-alerts"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID(names.Alerts()), kgo.TransactionTimeout(10*time.Second), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchMaxBytes(names.BatchBytes(names.Alerts())),
	)
	if err != nil {
		return fmt.Errorf("open client: %w", err)
	}
	t.adm = kadm.NewClient(t.tx)
	fencing, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, _, err := t.tx.ProducerID(fencing); err != nil {
		return fmt.Errorf("fence the alerter before: %w", err)
	}
	was, err := t.load(ctx)
	if err != nil {
		return err
	}
	if err := t.begin(ctx, was); err != nil {
		return err
	}
	from := make(map[string]map[int32]kgo.Offset)
	for topic, at := range t.read {
		from[topic] = make(map[int32]kgo.Offset)
		for p, next := range at.Next {
			from[topic][p] = kgo.NewOffset().At(next)
		}
	}
	t.in, err = kgo.NewClient(
		kgo.SeedBrokers(t.cfg.Brokers...), kgo.ClientID("weir-alerts"), kgo.ConsumePartitions(from),
		kgo.KeepControlRecords(), // to stand behind them, as retention one day deletes them
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(500*time.Millisecond), kgo.FetchMaxBytes(16<<20), kgo.FetchMaxPartitionBytes(2<<20), stream.Bounded(),
	)
	if err != nil {
		return fmt.Errorf("open client: %w", err)
	}
	return t.save(ctx)
}

func (t *term) close() {
	if t.in != nil {
		t.in.Close()
	}
	if t.tx != nil {
		t.tx.Close()
	}
}

// load reads what was written down last; nil when nothing was.
func (t *term) load(ctx context.Context) (was *Saved, err error) {
	p := stream.Partition{Topic: t.cfg.Names.Alerts(), Partition: 0}
	read := stream.ReadConfig{Brokers: t.cfg.Brokers, ClientID: "weir-alerts"}
	look := &skip.Lookup{Read: read, Names: t.cfg.Names}
	read.Oversized = func(batch *kgo.Record) error { // no alerter wrote it
		t.metrics.foreign.Met(t.cfg.Logger, "a batch that Weir did not write is left out: let no one else write to this topic", "topic", batch.Topic, "partition", batch.Partition, "offset", batch.Offset)
		return nil
	}
	err = stream.Read(ctx, read, []stream.Range{{Partition: p}}, func(r *kgo.Record) error {
		if string(r.Key) != stateKey {
			return nil
		}
		if len(r.Value) == 0 {
			was = nil
			return nil
		}
		s, err := decodeSaved(r.Value)
		switch {
		case err == nil:
			was = s
		case errors.Is(err, errNewer):
			if skipped, failed := look.Covers(ctx, r); failed != nil || !skipped {
				return cmp.Or(failed, skip.Unreadable(t.cfg.Names, r, err))
			}
		default: // no alerter wrote it: the record before it says what was told
			t.metrics.foreign.Met(t.cfg.Logger, "a record that Weir did not write is left out: let no one else write to this topic", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "error", err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what was told: %w", err)
	}
	return was, nil
}

// begin sets where to read on: where it was stopped, or at the end the first time.
func (t *term) begin(ctx context.Context, was *Saved) error {
	names := []string{t.cfg.Names.Status(), t.cfg.Names.DLQ()}
	list, err := t.adm.ListTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("find the topics: %w", err)
	}
	starts, err := t.adm.ListStartOffsets(ctx, names...)
	if err != nil {
		return fmt.Errorf("find the topics' starts: %w", err)
	}
	ends, err := t.adm.ListCommittedOffsets(ctx, names...)
	if err != nil {
		return fmt.Errorf("find the topics' ends: %w", err)
	}
	t.read = make(map[string]*TopicAt)
	for _, topic := range names {
		d := list[topic]
		if d.Err != nil {
			return fmt.Errorf("%s: %w", topic, d.Err)
		}
		at := &TopicAt{ID: d.ID.String(), Next: make(map[int32]int64)}
		t.read[topic] = at
		for id := range d.Partitions {
			start, ok1 := starts.Lookup(topic, id)
			end, ok2 := ends.Lookup(topic, id)
			if err := errors.Join(start.Err, end.Err); err != nil || !ok1 || !ok2 {
				return fmt.Errorf("%s/%d: cannot tell its start and end: %w", topic, id, err)
			}
			at.Next[id] = end.Offset
			if was == nil || was.Read[topic] == nil {
				continue
			}
			next, known := was.Read[topic].Next[id]
			switch {
			case was.Read[topic].ID != at.ID, !known: // all of it is new
				at.Next[id] = start.Offset
			case next < start.Offset:
				t.cfg.Logger.Error("Kafka deleted records before alerts could tell of them", "topic", topic, "partition", id, "from", next, "to", start.Offset)
				at.Next[id] = start.Offset
			case next <= end.Offset:
				at.Next[id] = next
			default:
				t.cfg.Logger.Error("the log ends before what alerts have read of it: going on at its end", "topic", topic, "partition", id, "read", next, "end", end.Offset)
			}
		}
	}
	if was != nil {
		t.state = was.State
		t.state.takeOver()
		for _, a := range t.state.Alerts {
			if a.Out != nil {
				t.written[a.Out.ID] = true
			}
		}
	}
	return nil
}

// turn reads what is there, steps the state, writes it down if there is something
// to tell, and starts what is due.
func (t *term) turn(ctx, flightCtx context.Context) error {
	f, err := t.facts(ctx)
	if err != nil {
		return err
	}
	t.follow()
	f.Outcomes = t.outcome
	due, done := t.state.Step(t.rules, f, schemas.MillisOf(time.Now()))
	t.outcome = nil
	t.held = t.held || len(f.Happened) > 0
	t.finish(done)
	t.metrics.now(&t.state)
	fresh := slices.ContainsFunc(due, func(n *Notice) bool { return !t.written[n.ID] })
	if fresh || len(done) > 0 || (t.moved || t.held) && time.Since(t.saved) >= saveEvery {
		if err := t.save(ctx); err != nil {
			return err
		}
	}
	for _, n := range due {
		t.fly(flightCtx, n)
	}
	return nil
}

// facts are what came since the last turn.
func (t *term) facts(ctx context.Context) (f Facts, err error) {
	waiting, cancel := context.WithTimeout(ctx, pollFor)
	defer cancel()
	fetches := t.in.PollRecords(waiting, maxPoll)
	fetches.EachError(func(topic string, p int32, e error) {
		if stream.PassOversized(t.in, e) {
			t.cfg.Logger.Error("a batch is skipped: it decompresses to more than the bound", "topic", topic, "partition", p, "error", e)
			return
		}
		if !errors.Is(e, context.DeadlineExceeded) && !errors.Is(e, context.Canceled) {
			err = fmt.Errorf("read %s/%d: %w", topic, p, e)
		}
	})
	if err != nil {
		return f, err
	}
	age := time.Duration(0)
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) == 0 {
			return
		}
		for _, r := range p.Records {
			if r.Attrs.IsControl() {
				continue
			}
			read := ofDLQ
			if p.Topic == t.cfg.Names.Status() {
				read = func(dst []Happening, r *kgo.Record) []Happening { return ofStatus(dst, r.Value) }
			}
			f.Happened = t.hear(f.Happened, r, read)
			t.metrics.read.Inc()
		}
		last := p.Records[len(p.Records)-1]
		t.read[p.Topic].Next[p.Partition] = last.Offset + 1
		t.moved = true
		age = max(age, time.Since(last.Timestamp))
	})
	t.metrics.lag.Set(age.Seconds())
	for {
		select {
		case o := <-t.landed:
			delete(t.flying, o.Notice)
			t.outcome = append(t.outcome, o)
			continue
		case t.waits = <-t.looks:
			t.metrics.stages(t.waits.behind, schemas.MillisOf(time.Now()))
			continue
		default:
		}
		break
	}
	if time.Since(t.looked) >= looking {
		t.looked = time.Now()
		now := schemas.MillisOf(t.looked)
		reports := t.cfg.Reports()
		f.Standing = map[string][]Condition{
			schemas.AlertBreakerOpen:    breakers(t.cfg.Health()),
			schemas.AlertSinkDifference: sinks(reports, now),
			schemas.AlertClockStall:     clocks(reports, now),
			schemas.AlertStageStuck:     stuck(reports, now),
			schemas.AlertAudit:          audits(reports, now),
		}
		if t.waits.behind != nil {
			f.Standing[schemas.AlertLag] = t.waits.behind
		}
		if t.waits.stalled != nil {
			f.Standing[schemas.AlertProviderStalled] = t.waits.stalled
		}
	}
	return f, nil
}

// hear appends what a record says. One that makes the program panic says nothing, as one
// that cannot be read does.
func (t *term) hear(happened []Happening, r *kgo.Record, read func([]Happening, *kgo.Record) []Happening) (out []Happening) {
	defer func() {
		if v := recover(); v != nil {
			t.cfg.Watch.Poisoned(stage, schemas.ReasonInternalError)
			t.cfg.Logger.Error("a record made the alerter panic; it is left out", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "panic", v, "stack", string(debug.Stack()))
			out = happened
		}
	}()
	return read(happened, r)
}

// follow takes the policy in force.
func (t *term) follow() {
	latest := t.cfg.Policy()
	if t.alerts != nil && latest.Revision == t.revision {
		return
	}
	t.revision = latest.Revision
	t.rules, t.alerts = nil, make(map[string]*schemas.Alert)
	for i := range latest.Policy.Alerts {
		a := &latest.Policy.Alerts[i]
		t.rules = append(t.rules, RuleOf(a))
		t.alerts[a.Name] = a
	}
}

// finish says what notices came to.
func (t *term) finish(done []Done) {
	for _, d := range done {
		for _, event := range d.Notice.Events() {
			t.metrics.alerts.WithLabelValues(d.Notice.Alert, event, outcomeOf(d.Verdict)).Inc()
		}
		switch d.Verdict {
		case Taken:
			t.cfg.Logger.Info("an alert was sent", "alert", d.Notice.Alert, "notice", d.Notice.ID, "events", d.Notice.Events(), "count", d.Notice.Count())
		case Again, Unsure:
			t.cfg.Logger.Error("an alert was given up: nobody took it for 15 minutes; what it says is held for the next", "alert", d.Notice.Alert, "notice", d.Notice.ID)
		case Refused:
			t.cfg.Logger.Error("an alert was refused by its receiver; what it says is held for the next", "alert", d.Notice.Alert, "notice", d.Notice.ID)
		}
		delete(t.written, d.Notice.ID)
	}
}

// save writes down what was told and how far was read. A notice is tried only after
// that. The end of ctx does not interrupt it: the client of a transaction that failed
// writes nothing more, and there is something to write at the end.
func (t *term) save(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveWithin)
	defer cancel()
	s := Saved{Version: savedVersion, At: schemas.MillisOf(time.Now()), By: t.cfg.Slot, Read: t.read, State: t.state}
	if err := t.tx.BeginTransaction(); err != nil {
		return fmt.Errorf("write what was told: %w", err)
	}
	r := &kgo.Record{Topic: t.cfg.Names.Alerts(), Partition: 0, Key: []byte(stateKey), Value: s.encode()}
	// Not ProduceSync: without a broker the client heeds the context of no record.
	produced := make(chan error, 1)
	t.tx.Produce(ctx, r, func(_ *kgo.Record, err error) { produced <- err })
	var err error
	select {
	case err = <-produced:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("write what was told: %w", err)
	}
	if err := t.tx.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("write what was told: %w", err)
	}
	clear(t.written)
	for _, a := range t.state.Alerts {
		if a.Out != nil {
			t.written[a.Out.ID] = true
		}
	}
	t.saved, t.moved, t.held = time.Now(), false, false
	t.show(r.Offset)
	return nil
}

// show commits the positions, so that the group's lag is to be seen as any other's.
// Nothing is read from it.
func (t *term) show(written int64) {
	offsets := map[string]map[int32]kgo.EpochOffset{t.cfg.Names.Alerts(): {0: {Epoch: -1, Offset: written + 2}}} // and the marker
	for topic, at := range t.read {
		offsets[topic] = make(map[int32]kgo.EpochOffset)
		for p, next := range at.Next {
			offsets[topic][p] = kgo.EpochOffset{Epoch: -1, Offset: next}
		}
	}
	t.group.CommitOffsets(context.Background(), offsets, nil)
}

// fly starts a try, if none of this notice is under way.
func (t *term) fly(ctx context.Context, n *Notice) {
	a := t.alerts[n.Alert]
	if a == nil || t.flying[n.ID] || !t.written[n.ID] {
		return
	}
	t.flying[n.ID] = true
	as := *n // its tries are counted meanwhile
	t.flights.Go(func() {
		answer, verdict, err := t.send(ctx, a, &as)
		o := Outcome{Alert: as.Alert, Notice: as.ID, At: schemas.MillisOf(time.Now()), Verdict: verdict}
		switch {
		case ctx.Err() != nil:
			return // whoever comes next tries it again
		case err != nil:
			t.cfg.Logger.Warn("an alert could not be sent", "alert", as.Alert, "notice", as.ID, "try", as.Tries+1, "error", err)
		case verdict != Taken:
			o.After = answer.RetryAfter.Milliseconds()
			t.cfg.Logger.Warn("an alert was not taken", "alert", as.Alert, "notice", as.ID, "try", as.Tries+1, "status", answer.Code, "said", said(answer), "retry_after", answer.RetryAfter)
		}
		select {
		case t.landed <- o:
		case <-ctx.Done():
		}
	})
}

// send is Sender.Send. A panic of it may have come after the notice was taken.
func (t *term) send(ctx context.Context, a *schemas.Alert, n *Notice) (answer *outbound.Answer, verdict Verdict, err error) {
	defer func() {
		if v := recover(); v != nil {
			t.cfg.Logger.Error("sending an alert panicked", "alert", n.Alert, "notice", n.ID, "panic", v, "stack", string(debug.Stack()))
			verdict, err = Unsure, fmt.Errorf("panic: %v", v)
		}
	}()
	return t.cfg.Sender.Send(ctx, a, n)
}

// land waits a moment for tries under way, and writes down what they came to. lost
// says that nothing can be written any more.
func (t *term) land(ground context.CancelFunc, lost bool) error {
	limit := time.NewTimer(landing)
	defer limit.Stop()
	for over := lost; len(t.flying) > 0 && !over; {
		select {
		case o := <-t.landed:
			delete(t.flying, o.Notice)
			t.outcome = append(t.outcome, o)
		case <-limit.C:
			over = true
		}
	}
	ground()
	t.flights.Wait()
	if lost {
		return nil
	}
	_, done := t.state.Step(t.rules, Facts{Outcomes: t.outcome}, schemas.MillisOf(time.Now()))
	t.finish(done)
	return t.save(context.Background())
}

// watchLag looks now and then how far stages are behind; before are those that were.
func (t *term) watchLag(ctx context.Context, before map[string]Condition) {
	looker, err := backlog.Open(t.cfg.Brokers)
	if err != nil {
		t.cfg.Logger.Error("alerts cannot report lag", "error", err)
		return
	}
	defer looker.Close()
	l := &laggards{looker: looker, queues: t.cfg.Queues, policy: t.cfg.Policy, health: t.cfg.Health, behind: before}
	tick := time.NewTicker(lagEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		within, cancel := context.WithTimeout(ctx, 2*lagEvery)
		found, err := l.guarded(within, schemas.MillisOf(time.Now()))
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil { // what is known of the others counts
			t.cfg.Logger.Warn("how far stages are behind is not known of all of them now", "error", err)
		}
		select {
		case t.looks <- found:
		case <-ctx.Done():
			return
		}
	}
}
