package ingest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/ingest/failopen"
	"github.com/weirhq/weir/schemas"
)

// DefaultDegradedBytes bounds the journal of degraded decisions.
const DefaultDegradedBytes = 64 << 20

const (
	recordAtOnce = 64               // entries of the journal that are written to Kafka at once
	recordWithin = 30 * time.Second // for admission to decide one, before it is written again
	recordPause  = time.Second      // between two looks at the journal, and after what failed
	recordUnsure = 15 * time.Second // for the status of a message that was decided after all to be known
)

// degraded allows decisions that Kafka cannot make, to keys that want it so, and has them
// recorded later.
type degraded struct {
	journal *failopen.Journal // nil: allows nothing
	allowed prometheus.Counter
	bytes   prometheus.GaugeFunc
	failing atomic.Bool // the last entry could not be kept: logged once
	missing sync.Once   // logs that a key wants it and there is no journal
	unsure  time.Duration
}

const noJournal = "a key has on_unavailable: allow, and this process has no journal for it: it answers 503 while Kafka is unreachable. Set http.degraded_journal"

func (s *Server) openDegraded(cfg Config) (err error) {
	d := &s.degraded
	d.unsure = recordUnsure
	if cfg.DegradedJournal != "" {
		most := cfg.DegradedBytes
		if most == 0 {
			most = DefaultDegradedBytes
		}
		if d.journal, err = failopen.Open(cfg.DegradedJournal, most); err != nil {
			return err
		}
	} else if i := slices.IndexFunc(cfg.Policy.Latest().Policy.Keys, func(k schemas.Key) bool { return k.OnUnavailable != "" }); i >= 0 {
		d.missing.Do(func() { s.logger.Warn(noJournal, "key", cfg.Policy.Latest().Policy.Keys[i].Name) })
	}
	d.allowed = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "weir_http_degraded_decisions_total", Help: "Decisions that were allowed without asking any limit, because Kafka was unreachable or gave no decision in time (on_unavailable: allow).",
	})
	d.bytes = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_http_degraded_journal_bytes", Help: "Bytes of degraded decisions on this process's disk that are not recorded in Kafka yet.",
	}, func() float64 {
		if d.journal == nil {
			return 0
		}
		return float64(d.journal.Bytes())
	})
	err = errors.Join(s.registry.Register(d.allowed), s.registry.Register(d.bytes))
	if err != nil {
		s.closeDegraded()
	}
	return err
}

func (s *Server) closeDegraded() {
	if s.degraded.journal != nil {
		s.degraded.journal.Close()
	}
}

// allows reports whether the caller's key wants what cannot be decided allowed, and it can be.
func (s *Server) allows(c *caller) bool {
	if c.key == nil || c.key.OnUnavailable != schemas.UnavailableAllow {
		return false
	}
	if s.degraded.journal == nil {
		s.degraded.missing.Do(func() { s.logger.Warn(noJournal, "key", c.key.Name) })
		return false
	}
	return true
}

// orAllow turns the answer to a decision that Kafka could not make into one that allows it,
// once that is on the disk. Any other answer stays as it is.
func (s *Server) orAllow(r *http.Request, m *message, sent *client.Sent, p *client.Problem) (*client.Sent, *client.Problem) {
	now := schemas.MillisOf(time.Now())
	switch {
	case p == nil && (!m.undecided || s.ending.Err() != nil):
		return sent, nil
	case p != nil && p.Code != kafkaUnavailable.code && (p.Code != overloaded.code || !s.out.away.Load()):
		return sent, p
	case m.req.SendAt > now, m.req.ExpiresAt != 0 && m.req.ExpiresAt <= now: // it would not be sent now
		return sent, p
	case r.Context().Err() != nil: // no one reads the answer
		return sent, p
	}
	e := failopen.Record(m.req, m.to.Key, now)
	err := errTooLarge
	if len(e.Request) <= schemas.MaxRequestBytes {
		err = s.degraded.journal.Append(e)
	}
	if err != nil {
		if s.degraded.failing.CompareAndSwap(false, true) {
			s.logger.Error("a decision is refused that Kafka cannot make: it could not be kept to be recorded later", "error", err)
		}
		return sent, p
	}
	s.degraded.failing.Store(false)
	s.degraded.allowed.Inc()
	return &client.Sent{ID: m.req.ID, Status: schemas.StatusSent, Degraded: true}, nil
}

var errTooLarge = errors.New("its record is larger than a request may be")

// recordDegraded writes the journal's entries to Kafka until ctx ends.
func (s *Server) recordDegraded(ctx context.Context) {
	j := s.degraded.journal
	if j == nil {
		return
	}
	for ; ctx.Err() == nil; pause(ctx, recordPause) {
		if j.Bytes() == 0 {
			continue
		}
		n, err := s.recordAll(ctx, j)
		if err != nil {
			s.logger.Error("recording degraded decisions failed", "error", err)
		}
		if n > 0 {
			s.logger.Info("degraded decisions are recorded", "decisions", n, "left_bytes", j.Bytes())
		}
	}
}

// recordAll empties the journal, and returns how many entries are in Kafka.
func (s *Server) recordAll(ctx context.Context, j *failopen.Journal) (n int, err error) {
	for {
		entries, through, err := j.Next(recordAtOnce)
		if err != nil || len(entries) == 0 {
			return n, err
		}
		left := make([]*unrecorded, len(entries))
		for i := range entries {
			left[i] = &unrecorded{Entry: entries[i]}
		}
		for {
			var wg sync.WaitGroup
			for _, u := range left {
				wg.Go(func() { s.record(ctx, u) })
			}
			wg.Wait()
			if left = slices.DeleteFunc(left, func(u *unrecorded) bool { return u.over }); len(left) == 0 {
				break
			}
			if pause(ctx, recordPause); ctx.Err() != nil {
				return n, nil
			}
		}
		n += len(entries)
		if err := j.Done(through); err != nil {
			return n, err
		}
	}
}

// unrecorded is an entry that is not surely in the limits.
type unrecorded struct {
	failopen.Entry
	repeat time.Time // since when it is known that its id was decided before, and not how
	over   bool
}

// record has an entry recorded. Where admission has decided its message already, in time or
// later, it takes the record for a repeat: a message that was sent has its places then. One
// that was refused has none, though its sender was allowed to send it, and is recorded
// under an id of its own. That is the same at every try, so it is charged once.
func (s *Server) record(ctx context.Context, u *unrecorded) {
	q, err := schemas.DecodeRequest(u.Request, nil)
	if err != nil {
		s.logger.Error("a degraded decision cannot be recorded: its request cannot be read", "error", err)
		u.over = true
		return
	}
	reply := s.putRecord(ctx, u.To, u.Request)
	if reply == nil {
		return
	}
	e := reply.Event
	if e.Decision == nil || e.Decision.Verdict != schemas.VerdictDuplicate {
		if u.over = true; e.Decision == nil || e.Decision.Verdict != schemas.VerdictRecord {
			s.logger.Warn("admission did not record a degraded decision", "id", q.ID, "reason", e.Reason)
		}
		return
	}
	if e.DuplicateOf != q.ID { // another call under its key, which has been allowed by itself
		u.over = true
		return
	}
	switch s.statusOf(ctx, q, u.To) {
	case schemas.StatusLimited, schemas.StatusSuppressed, schemas.StatusExpired, schemas.StatusCancelled, schemas.StatusRejected:
		q.ID = schemas.KeyedID(q.At, q.Tenant, u.To, "\x00degraded\x00"+q.ID) // no caller's key has such a character
		q.IdempotencyKey = ""
		u.over = s.putRecord(ctx, u.To, schemas.RequestJSON(q)) != nil
	case schemas.StatusAccepted: // not known yet. Of a record that was written before, nothing ever is
		if u.repeat.IsZero() {
			u.repeat = time.Now()
		}
		u.over = time.Since(u.repeat) > s.degraded.unsure
	default:
		u.over = true
	}
}

// statusOf is what became of a message, and accepted where that is not known.
func (s *Server) statusOf(ctx context.Context, q *schemas.Request, to string) schemas.Status {
	m, p := s.find(ctx, q.Tenant, q.ID, to)
	if p != nil {
		return schemas.StatusAccepted
	}
	return m.Status
}

// putRecord writes a request and returns what admission says of it, or nil.
func (s *Server) putRecord(ctx context.Context, to string, value []byte) *schemas.Reply {
	ticket, err := s.replies.Expect()
	if err != nil {
		return nil
	}
	defer ticket.Done()
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	done := make(chan *client.Problem, 1)
	s.out.send(ctx, &kgo.Record{
		Topic: s.requests, Key: []byte(to), Value: value, Partition: schemas.PartitionOf(to, s.partitions),
		Headers: []kgo.RecordHeader{{Key: schemas.HeaderReply, Value: []byte(ticket.Header())}},
	}, func(p *client.Problem) { done <- p })
	select {
	case p := <-done:
		if p != nil {
			return nil
		}
	case <-ctx.Done():
		return nil
	}
	reply, err := ticket.Wait(ctx)
	if err != nil {
		return nil
	}
	return reply
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
