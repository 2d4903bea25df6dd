package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// Bounds of event streams.
const (
	feedEvents   = 64 << 10         // that a stream may be behind, or go on from
	feedBytes    = 32 << 20         // of them
	streamsOfKey = 16               // at once
	streamsOfAll = 256              // of one server
	streamBeat   = 15 * time.Second // of silence, then it says that it is there
	streamWrite  = 5 * time.Second  // for a client to take what is written; less than a shutdown's grace
	streamBatch  = 256              // events a write
)

// Why a stream ends or has a gap, in the reason of the event that says so.
const (
	reasonTooSlow      = "too_slow"        // the client took less than came
	reasonShuttingDown = "shutting_down"   // this server ends: connect again
	reasonKeyGone      = "unauthenticated" // the key was revoked or has expired
	reasonForgotten    = "forgotten"       // what followed Last-Event-ID is no longer in memory
)

// streams counts those that are open.
type streams struct {
	beat   time.Duration
	within time.Duration // a client takes what is written, or is dropped

	mu       sync.Mutex
	all      int
	byKey    map[string]int
	byTenant map[string]int
}

// enter counts one more, or says why there may be no more. A tenant may have no more
// streams than are free, counting before it opens the next: one tenant alone has half of
// all at most, a second then half of the rest, and so on. So none takes what others need.
func (s *streams) enter(c *caller) *client.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	who, free := c.by(), streamsOfAll-s.all
	switch n := s.byTenant[c.tenant]; {
	case s.byKey[who] >= streamsOfKey:
		return after(tooManyStreams.problem("This key has 16 streams of events open, and a key may have no more. Close one, such as a page of the console in another tab."), 5*time.Second)
	case free <= 0:
		return after(overloaded.problem("This server has as many streams of events as it may."), 5*time.Second)
	case n >= free:
		return after(tooManyStreams.problem(fmt.Sprintf("The keys of this tenant have %d streams of events open on this server, %d are free, and a tenant may have no more than are free. Close some.", n, free)), 5*time.Second)
	}
	s.all++
	s.byKey[who]++
	s.byTenant[c.tenant]++
	return nil
}

func (s *streams) leave(c *caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.byKey[c.by()]--; s.byKey[c.by()] == 0 {
		delete(s.byKey, c.by())
	}
	if s.byTenant[c.tenant]--; s.byTenant[c.tenant] == 0 {
		delete(s.byTenant, c.tenant)
	}
}

// eventFilter is which statuses a stream has.
type eventFilter struct {
	tenant, class, channel string
	to                     []string
	statuses               []schemas.Status
	every                  time.Duration // 0: each status by itself; else their sums, so often
}

func (q *eventFilter) wants(i *item) bool {
	return i.tenant == q.tenant && (len(q.to) == 0 || among(q.to, i.to)) && (q.class == "" || i.class == q.class) &&
		(q.channel == "" || i.channel == q.channel) && (len(q.statuses) == 0 || slices.Contains(q.statuses, i.status))
}

func (s *Server) readEventFilter(r *http.Request, c *caller) (*eventFilter, *client.Problem) {
	q := &eventFilter{tenant: c.about()}
	var to *string
	wrong, p := readQuery(r, func(name, v string) (err error) {
		switch name {
		case "to":
			to = &v
		case "status":
			q.statuses, err = readStatuses(v)
		case "class":
			q.class, err = readName(v)
		case "channel":
			var ch schemas.Channel
			ch, err = readChannel(v)
			q.channel = string(ch)
		case "summary":
			q.every, err = readEvery(v)
		default:
			err = errUnknownField
		}
		return err
	})
	if p != nil {
		return nil, p
	}
	if to != nil {
		var err error
		if q.to, err = recipients(schemas.Channel(q.channel), *to, s.regionOf(c.about())); err != nil {
			wrong = append(wrong, wrongParameter("to", err))
		}
	}
	return q, invalidParameters(wrong)
}

// getEvents streams what happens to the caller's messages as it happens
// (text/event-stream), until the client leaves or the server ends.
func (s *Server) getEvents(w http.ResponseWriter, r *http.Request, c *caller) {
	q, p := s.readEventFilter(r, c)
	if p == nil {
		p = s.streams.enter(c)
	}
	if p != nil {
		refuse(w, r, p)
		return
	}
	defer s.streams.leave(c)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	out := &eventWriter{to: w, rc: http.NewResponseController(w), within: s.streams.within}
	f, gap := s.feed.follow(r.Header.Get("Last-Event-ID"))
	out.buf.WriteString("retry: 2000\n")
	out.beat(f.position())
	if gap {
		out.say("gap", reasonForgotten, f.position())
	}
	if !out.flush() {
		return
	}
	beat := time.NewTicker(s.streams.beat)
	defer beat.Stop()
	var due <-chan time.Time
	var sum *sums
	if q.every > 0 {
		tick := time.NewTicker(q.every)
		defer tick.Stop()
		due, sum = tick.C, newSums(time.Now())
	}
	for {
		items, how, changed := f.read(streamBatch)
		switch how {
		case readSome:
			for i := range items {
				switch {
				case !f.take(&items[i]) || !q.wants(&items[i]):
				case sum != nil:
					sum.add(&items[i])
				default:
					out.event(&items[i], f.position())
				}
			}
			select {
			case <-due: // also while there is always more to read
				out.summary(sum.take(time.Now()), f.position())
			default:
			}
			if out.buf.Len() > 0 && !out.flush() {
				return
			}
			continue
		case readCut:
			out.say("cut", reasonTooSlow, f.position())
		case readEnd:
			out.say("end", reasonShuttingDown, f.position())
		case readNone:
			select {
			case <-changed:
				continue
			case <-r.Context().Done():
				return
			case <-due:
				if out.summary(sum.take(time.Now()), f.position()); !out.flush() {
					return
				}
				continue
			case <-beat.C:
			}
			if !s.still(w, r, c) {
				out.say("end", reasonKeyGone, f.position())
				break
			}
			if out.beat(f.position()); !out.flush() {
				return
			}
			continue
		}
		out.flush()
		return
	}
}

// still reports whether the key that a stream began with would begin it now.
func (s *Server) still(w http.ResponseWriter, r *http.Request, c *caller) bool {
	now, p := s.identify(w, r)
	return p == nil && now.tenant == c.tenant && now.may(scopeRead) == nil && (c.about() == c.tenant || now.has(string(scopeOperate)))
}

// eventWriter writes an event stream (WHATWG HTML, 9.2), a batch at a time.
type eventWriter struct {
	to     http.ResponseWriter
	rc     *http.ResponseController
	buf    bytes.Buffer
	within time.Duration // for a client to take what is written
}

// event writes a status. Its decision is left out: GET of the message has it.
func (o *eventWriter) event(i *item, position string) {
	text := i.show()
	if text == nil {
		return
	}
	o.buf.WriteString("event: status\nid: ")
	o.buf.WriteString(position)
	o.buf.WriteString("\ndata: ")
	o.buf.Write(text)
	o.buf.WriteString("\n\n")
}

// say writes what is no status.
func (o *eventWriter) say(name, reason, position string) {
	fmt.Fprintf(&o.buf, "event: %s\nid: %s\ndata: {\"reason\":%q,\"at\":%q}\n\n", name, position, reason, schemas.MillisOf(time.Now()))
}

// beat says that the stream is there, and how far it has come.
func (o *eventWriter) beat(position string) { fmt.Fprintf(&o.buf, ": here\nid: %s\n\n", position) }

// flush reports whether the client took it, in time.
func (o *eventWriter) flush() bool {
	if err := o.rc.SetWriteDeadline(time.Now().Add(o.within)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return false
	}
	_, err := o.to.Write(o.buf.Bytes())
	o.buf.Reset()
	return err == nil && o.rc.Flush() == nil
}
