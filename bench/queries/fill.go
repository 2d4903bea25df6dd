package main

import (
	"container/heap"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
	schema "github.com/weirhq/weir/schemas/clickhouse"
)

// block is how many rows one insert has: what the sink takes at most.
const block = 50_000

// fill makes a day of events until end, and inserts them as the sink does: those
// that are not there yet.
func fill(ctx context.Context, url string, end time.Time, events int, log io.Writer) error {
	if err := warehouse.Migrate(ctx, url); err != nil {
		return err
	}
	conn, err := warehouse.Open(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var there uint64
	if err := conn.QueryRow(ctx, countEvents).Scan(&there); err != nil {
		return fmt.Errorf("count events: %w", err)
	}
	if there >= uint64(events) {
		return beside(ctx, conn, log)
	}
	if there > 0 {
		var first time.Time
		if err := conn.QueryRow(ctx, "SELECT min(accepted_at) FROM messages_by_time").Scan(&first); err != nil {
			return fmt.Errorf("read the first event: %w", err)
		}
		if began := end.Add(-24 * time.Hour); !first.Equal(began) || there%block != 0 {
			return fmt.Errorf("there are %d events since %v of a day that began %v: begin anew in an empty directory", there, first, began)
		}
	}
	full := make(chan *sink.Block, 1)
	go func() {
		defer close(full)
		d := newDay(schemas.MillisOf(end), events)
		for range there {
			d.next()
		}
		for made, over := int(there), false; made < events && !over; {
			b := sink.NewBlock([]byte("bench"))
			b.Reserve(block)
			for range min(block, events-made) {
				e, part, offset := d.next()
				if over = e == nil; over {
					break
				}
				b.Append(sink.Record{Partition: part, Offset: offset, Appended: e.At, Value: schemas.AppendEvent(nil, e)})
				made++
			}
			select {
			case full <- b:
			case <-ctx.Done():
				return
			}
		}
	}()
	began, rows, said := time.Now(), int(there), time.Now()
	for b := range full {
		// The answer to an insert may be lost; its token makes the second do nothing.
		token := fmt.Sprintf("day/%d", rows)
		err := insert(ctx, conn, token, b)
		for try := 0; err != nil && try < 5 && ctx.Err() == nil; try++ {
			fmt.Fprintln(log, "again:", err)
			err = insert(ctx, conn, token, b)
		}
		if err != nil {
			return err
		}
		rows += b.Rows()
		if time.Since(said) > 5*time.Second {
			said = time.Now()
			fmt.Fprintf(log, "%d of %d events\n", rows, events)
		}
	}
	fmt.Fprintf(log, "%d events in %v\n", rows, time.Since(began).Round(time.Second))
	return beside(ctx, conn, log)
}

// beside puts in what the day's events do not bring: minutes of the days before, and
// who is suppressed.
func beside(ctx context.Context, conn driver.Conn, log io.Writer) error {
	if err := copyMinutes(ctx, conn); err != nil {
		return err
	}
	if err := suppressSome(ctx, conn); err != nil {
		return err
	}
	fmt.Fprintln(log, "the week before and suppressions are there")
	return settle(ctx, conn)
}

const countEvents = "SELECT count() + (SELECT count() FROM decisions WHERE kind = 'decision') FROM status_events"

func insert(ctx context.Context, conn driver.Conn, token string, b *sink.Block) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"async_insert": 0, "max_insert_threads": 1, "parallel_view_processing": 0, "max_partitions_per_insert_block": 0,
		"insert_deduplication_token": token, "deduplicate_blocks_in_dependent_materialized_views": 1,
		"min_insert_block_size_rows": 1 << 20, "min_insert_block_size_bytes": 1 << 30, "max_insert_block_size": 1 << 20,
	}))
	batch, err := conn.PrepareBatch(ctx, schema.StatusLog.Insert())
	if err != nil {
		return fmt.Errorf("prepare insert: %w", err)
	}
	defer func() { _ = batch.Close() }()
	for i, c := range b.Columns() {
		if err := batch.Column(i).Append(c); err != nil {
			return fmt.Errorf("fill column %d: %w", i, err)
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	return nil
}

// Shape of the day. Events a message come to about four.
const (
	partitions = 32
	perMessage = 3.95
	regulars   = 300_000 // recipients who are written to again and again
)

var (
	tenants   = []string{"acme", "globex", "initech", "umbrella", "hooli"}
	prefixes  = []string{"+86138", "+86139", "+86150", "+86186", "+6591", "+9198", "+5511"}
	providers = []string{"aliyun", "tencent", "twilio", "sns"}
	classes   = []string{"verify", "verify", "notice", "marketing"}
	codes     = []string{"isv.BUSINESS_LIMIT_CONTROL", "LimitExceeded", "30003", "30008", "timeout"}
)

// day hands out the events of a day in the order of their times.
type day struct {
	rnd     *rand.Rand
	begin   schemas.Millis
	total   int // messages
	made    int
	waiting steps
	offsets [partitions]int64
	seqs    [partitions]int64
}

func newDay(end schemas.Millis, events int) *day {
	return &day{rnd: rand.New(rand.NewPCG(1, 8)), begin: end.Add(-24 * time.Hour), total: int(float64(events)/perMessage) + 1}
}

// accepted is when the nth message comes: twice as many by day as by night.
func (d *day) accepted(n int) schemas.Millis {
	x := float64(n) / float64(d.total)
	return d.begin.Add(time.Duration(float64(24*time.Hour) * (x + math.Sin(2*math.Pi*x)/(6*math.Pi))))
}

// next returns the next event, with its place in weir.status; nil after the last.
func (d *day) next() (e *schemas.Event, part int32, offset int64) {
	for d.made < d.total && (len(d.waiting) == 0 || d.accepted(d.made) <= d.waiting[0].At) {
		d.live(d.accepted(d.made))
		d.made++
	}
	if len(d.waiting) == 0 {
		return nil, 0, 0
	}
	e = heap.Pop(&d.waiting).(*schemas.Event)
	part = schemas.PartitionOf(e.To, partitions)
	offset = d.offsets[part]
	d.offsets[part]++
	if e.Decision != nil {
		e.Decision.Partition, e.Decision.Seq, e.Decision.T, e.Decision.Revision = part, d.seqs[part], e.At, 7
		d.seqs[part]++
	}
	return e, part, offset
}

// live makes a message's events.
func (d *day) live(accepted schemas.Millis) {
	r := d.rnd
	var (
		who      = r.Uint64N(regulars)
		class    = classes[r.IntN(len(classes))]
		tenant   = tenants[min(r.IntN(8), 4)%5]
		provider = providers[min(r.IntN(6), 3)]
	)
	if r.IntN(4) == 0 {
		who = regulars + r.Uint64N(20_000_000) // once in a while
	}
	// A product by a large odd number spreads them over the digits.
	to := fmt.Sprintf("%s%08d", prefixes[min(r.IntN(14), 6)*int(min(who%5, 1))], who*2654435761%100_000_000)
	id := fmt.Sprintf("%08x-%04x-7%03x-%04x-%012x", uint64(accepted)>>16, uint64(accepted)&0xffff, r.IntN(1<<12), 0x8000+r.IntN(1<<14), r.Uint64()&(1<<48-1))
	src := &schemas.Source{Topic: "weir.requests", Partition: schemas.PartitionOf(to, partitions), Offset: int64(d.made / partitions)}
	at := accepted
	put := func(wait time.Duration, s schemas.Status, more func(*schemas.Event)) {
		at = at.Add(wait)
		e := &schemas.Event{Kind: schemas.KindStatus, MessageID: id, Tenant: tenant, Channel: "sms", Class: class, Template: fmt.Sprintf("%s-%d", class, r.IntN(6)),
			To: to, Status: s, At: at, AcceptedAt: accepted, Source: src}
		more(e)
		heap.Push(&d.waiting, e)
	}
	ms := func(least, most int) time.Duration {
		return time.Duration(least+r.IntN(most-least)) * time.Millisecond
	}
	try := func(n int) func(*schemas.Event) {
		return func(e *schemas.Event) { e.Provider, e.Attempt = provider, n }
	}
	// A tenant has a limit of its own, which another partition owns.
	var carried []schemas.Charge
	if tenant == "acme" {
		put(0, "", func(e *schemas.Event) {
			carried = []schemas.Charge{{Limit: "acme", Scope: "tenant=acme", T: e.At, Cost: 1}}
			e.Kind, e.Decision = schemas.KindDecision, &schemas.Decision{Verdict: schemas.VerdictCharge, Input: src, Charges: carried, Onward: &src.Partition}
		})
	}
	admit := func(e *schemas.Event) {
		e.Provider = provider
		e.Decision = &schemas.Decision{Verdict: schemas.VerdictAdmit, Input: src, Carried: carried,
			Charges: []schemas.Charge{{Limit: class, Scope: to, T: e.At, Cost: 1}, {Limit: "everyone", Scope: to, T: e.At, Cost: 1}}}
		if r.IntN(50) == 0 {
			e.Limit, e.Window, e.Observed = "trial", "7/3600s", true
		}
	}
	refuse := func(s schemas.Status, v schemas.Verdict) {
		put(ms(4, 30), s, func(e *schemas.Event) {
			e.Limit, e.Window, e.Reason, e.RetryAt = class, "1/60s", "limited", e.At.Add(40*time.Second)
			e.Decision = &schemas.Decision{Verdict: v, Input: src, Evidence: []schemas.Evidence{
				{Limit: class, Scope: to, Window: "1/60s", N: 1, Count: 1, Cost: 1, Oldest: e.At.Add(-20 * time.Second)}}}
		})
	}
	retry := func(n int) {
		put(ms(1, 2000), schemas.StatusSending, try(n))
		put(ms(20, 400), schemas.StatusRetrying, func(e *schemas.Event) {
			try(n)(e)
			e.ErrorCode, e.RetryAt = codes[r.IntN(len(codes))], e.At.Add(5*time.Second)
			e.Error = "the provider is busy: try again later"
		})
		put(5*time.Second, schemas.StatusQueued, func(e *schemas.Event) { admit(e); e.Attempt, e.Decision.Verdict = n, schemas.VerdictMove })
	}
	sent := func(n int) {
		put(ms(1, 2000), schemas.StatusSending, try(n))
		put(ms(20, 400), schemas.StatusSent, func(e *schemas.Event) {
			try(n)(e)
			e.ProviderMessageID, e.Segments, e.Price, e.Currency = fmt.Sprintf("%016x", r.Uint64()), 1, "0.045", "CNY"
		})
		if r.IntN(20) < 17 {
			status := schemas.StatusDelivered
			if r.IntN(15) == 0 {
				status = schemas.StatusUndelivered
			}
			put(ms(500, 30_000), status, func(e *schemas.Event) {
				try(n)(e)
				e.AcceptedAt, e.Source, e.Template, e.Reason, e.ProviderMessageID = 0, nil, "", "receipt", fmt.Sprintf("%016x", r.Uint64())
			})
		}
	}
	switch kind := r.IntN(100); {
	case kind < 8:
		refuse(schemas.StatusLimited, schemas.VerdictRefuse)
	case kind < 10:
		put(ms(4, 30), schemas.StatusDuplicate, func(e *schemas.Event) {
			e.DuplicateOf, e.Reason = id, "duplicate"
			e.Decision = &schemas.Decision{Verdict: schemas.VerdictDuplicate, Input: src}
		})
	case kind < 12:
		put(ms(4, 30), schemas.StatusQueued, admit)
		put(ms(1, 2000), schemas.StatusSending, try(1))
		put(ms(20, 400), schemas.StatusFailed, func(e *schemas.Event) {
			try(1)(e)
			e.ErrorCode, e.Error, e.Reason = "30005", "unknown destination handset", "refused"
		})
		// It gives its places back.
		heap.Push(&d.waiting, &schemas.Event{Kind: schemas.KindDecision, MessageID: id, Tenant: tenant, Channel: "sms", Class: class, To: to, At: at.Add(10 * time.Millisecond),
			Decision: &schemas.Decision{Verdict: schemas.VerdictGiveBack, Input: src,
				Returned: []schemas.Charge{{Limit: class, Scope: to, T: accepted, Cost: 1}, {Limit: "everyone", Scope: to, T: accepted, Cost: 1}}}})
	case kind < 17:
		put(ms(4, 30), schemas.StatusQueued, admit)
		tries := 1 + r.IntN(3)
		for n := 1; n <= tries; n++ {
			retry(n)
		}
		sent(tries + 1)
	case kind < 19:
		refuse(schemas.StatusDeferred, schemas.VerdictDefer)
		put(40*time.Second, schemas.StatusQueued, admit)
		sent(1)
	default:
		put(ms(4, 30), schemas.StatusQueued, admit)
		sent(1)
	}
}

// steps is a heap of events by time.
type steps []*schemas.Event

func (s steps) Len() int           { return len(s) }
func (s steps) Less(i, j int) bool { return s[i].At < s[j].At }
func (s steps) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *steps) Push(e any)        { *s = append(*s, e.(*schemas.Event)) }
func (s *steps) Pop() any {
	old := *s
	e := old[len(old)-1]
	*s = old[:len(old)-1]
	return e
}
