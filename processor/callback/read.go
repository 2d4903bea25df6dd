package callback

import (
	"cmp"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

const (
	ownFor = keepTrying // how long a message's own address is kept for receipts after it was sent
	maxOwn = 200_000    // of them, of a partition

	// maxBytes is how large a callback may be as it comes, many times what Weir writes. One
	// that has to wait is a record of a delay topic, with a heading that escapes its id and
	// address: up to six times as long. What does not fit there would stop the stage.
	maxBytes = 64 << 10
)

// take takes in what was read.
func (s *stage) take(polled []*kgo.Record, now schemas.Millis) {
	oldest := now
	status := s.cfg.Names.Status()
	for _, r := range polled {
		p := s.parts[r.Partition]
		if p == nil {
			continue
		}
		oldest = min(oldest, schemas.MillisOf(r.Timestamp))
		if s.tx != nil {
			if why := s.tx.On(r); why != nil {
				s.putAside(p, r, why, now)
				continue
			}
		}
		if r.Topic == status {
			if r.Offset >= p.status.next {
				p.status.next = r.Offset + 1
				s.takeStatus(p, r, now)
			}
			continue
		}
		if r.Offset < p.callbacks.next {
			continue
		}
		p.callbacks.next = r.Offset + 1
		j, err := readJob(r)
		if err != nil {
			s.out = append(s.out, request.Foreign(r, s.cfg.Names.DLQ(), max(s.cfg.DLQPartitions, 1), err))
			s.metrics.dead.WithLabelValues(schemas.ReasonForeignRecord).Inc()
			s.metrics.foreign.Met(s.cfg.Logger, "a record that Weir did not write is put aside; its bytes go to the DLQ. Let no one else write to this topic",
				"topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "error", err)
			continue
		}
		if j.hop == 0 && stream.Size(r) > maxBytes {
			s.tooLarge(r)
			continue
		}
		if j.hop == 0 {
			if o, ok := p.own[liveKey(j.Of)]; ok && j.URL == "" && o.Until > now {
				j.URL = o.URL
			}
			if !s.targets.wants(j.tenant, j.Status, j.URL) {
				continue
			}
		}
		s.open(j, p, p.callbacks, now)
		if j.hop > 0 && !j.Replay && j.seq >= p.status.next && p.book.expects(j) {
			p.early = append(p.early, j)
			continue
		}
		s.arrive(j, now)
	}
	for _, p := range s.parts {
		early := p.early
		p.early = nil
		for _, j := range early {
			if j.seq >= p.status.next {
				p.early = append(p.early, j)
				continue
			}
			s.arrive(j, now)
		}
	}
	s.metrics.lag.Set(now.Sub(oldest).Seconds())
}

// putAside ends a record that cannot be processed: its bytes go to the DLQ, and no
// callback tells of it. If it is a callback that was away, what is behind it goes on.
func (s *stage) putAside(p *part, r *kgo.Record, why *stream.Poison, now schemas.Millis) {
	in := p.callbacks
	if r.Topic == s.cfg.Names.Status() {
		in = p.status
	}
	if r.Offset < in.next {
		return
	}
	in.next = r.Offset + 1
	s.out = append(s.out, request.Foreign(r, s.cfg.Names.DLQ(), max(s.cfg.DLQPartitions, 1), why))
	if in == p.status || why.Tries > 0 {
		return
	}
	if j, err := readJob(r); err == nil && j.hop > 0 && p.book.expects(j) {
		s.open(j, p, in, now)
		p.book.arrive(j)
		s.end(j, now)
	}
}

// tooLarge puts a record aside whose callback could not wait.
func (s *stage) tooLarge(r *kgo.Record) {
	why := &stream.Poison{Reason: schemas.ReasonTooLarge, Err: fmt.Errorf("its callback has more than %d bytes", maxBytes)}
	s.out = append(s.out, request.Foreign(r, s.cfg.Names.DLQ(), max(s.cfg.DLQPartitions, 1), why))
	s.metrics.dead.WithLabelValues(why.Reason).Inc()
}

// takeStatus takes in a record of weir.status.
func (s *stage) takeStatus(p *part, r *kgo.Record, now schemas.Millis) {
	if len(s.targets.of) == 0 || len(r.Value) < len(kindField) || string(r.Value[:len(kindField)]) != string(kindField) {
		return
	}
	e, err := s.reader.Read(string(r.Value))
	if err != nil || e.Kind != schemas.KindStatus {
		return // the sink keeps what cannot be read as a row
	}
	tenant := cmp.Or(e.Tenant, schemas.DefaultTenant)
	if s.targets.of[tenant] == nil {
		return
	}
	if len(r.Value) > maxBytes && len(Body(e))+len(e.CallbackURL) > maxBytes { // without the decision
		s.tooLarge(r)
		return
	}
	key := keyOf(tenant, e.MessageID, e.To, false)
	address := s.address(p, key, e, now)
	if !s.targets.wants(tenant, e.Status, address) {
		return
	}
	j := &job{
		heading: heading{ID: ID(e), Status: e.Status, URL: address},
		key:     key, tenant: tenant, message: e.MessageID, body: Body(e), seq: r.Offset, offset: r.Offset,
	}
	s.open(j, p, p.status, now)
	s.arrive(j, now)
}

// address is the request's own callback_url. Receipts do not know it, so it is kept for
// them when the message is sent.
func (s *stage) address(p *part, k messageKey, e *schemas.Event, now schemas.Millis) string {
	if e.CallbackURL == "" {
		if o, ok := p.own[k]; ok && o.Until > now {
			return o.URL
		}
		return ""
	}
	switch e.Status {
	case schemas.StatusSent, schemas.StatusUnknown:
		if len(p.own) < maxOwn {
			o := own{URL: e.CallbackURL, Until: now.Add(ownFor)}
			p.own[k] = o
			s.save(p, ownKind, k, encode(o))
		}
	default: // what follows has it still
	}
	return e.CallbackURL
}

func (s *stage) open(j *job, p *part, in *intake, now schemas.Millis) {
	j.part, j.from, j.arrived = p, in, now
	in.begin(j.offset)
	s.count++
}

// close notes that a record is finished.
func (s *stage) close(j *job) {
	j.from.end(j.offset)
	s.count--
}
