package ingest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/schemas"
)

// A list is joined from what is stored and what the tail has. Both place a
// message by the broker's time of its request, which is the same everywhere and
// for ever, so that a page begins where the one before ended. What this instance
// has just taken in has no such time yet: it comes first, and the cursor
// remembers that it was there.

// getMessages lists the caller's messages, the newest first.
func (s *Server) getMessages(w http.ResponseWriter, r *http.Request, c *caller) {
	q, from, p := s.readList(r, c)
	if p != nil {
		refuse(w, r, p)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), historyTimeout)
	defer cancel()
	page, p := s.search(ctx, q, from)
	if p != nil {
		refuse(w, r, p)
		return
	}
	answer(w, http.StatusOK, "application/json", page)
}

// readList reads what is asked for. Limit is that of the page.
func (s *Server) readList(r *http.Request, c *caller) (q history.Search, from bookmark, p *client.Problem) {
	var to, cursor string
	q = history.Search{Tenant: c.about(), Limit: defaultPage}
	wrong, p := readQuery(r, func(name, v string) (err error) {
		switch name {
		case "to":
			to = v
			if v == "" {
				err = errors.New("is a recipient")
			}
		case "channel":
			var ch schemas.Channel
			ch, err = readChannel(v)
			q.Channel = string(ch)
		case "class":
			q.Class, err = readName(v)
		case "status":
			q.Statuses, err = readStatuses(v)
		case "from":
			q.From, err = readTime(v)
		case "until":
			q.Until, err = readTime(v)
		case "limit":
			q.Limit, err = readLimit(v)
		case "cursor":
			cursor = v
		default:
			err = errUnknownField
		}
		return err
	})
	if p != nil {
		return q, from, p
	}
	if to != "" {
		var err error
		if q.To, err = recipients(schemas.Channel(q.Channel), to, s.regionOf(c.about())); err != nil {
			wrong = append(wrong, wrongParameter("to", err))
		}
	}
	if p := invalidParameters(wrong); p != nil {
		return q, from, p
	}
	if from, p = readBookmark(cursor, q); p != nil {
		return q, from, p
	}
	q.Before = from.place()
	return q, from, nil
}

func (s *Server) regionOf(tenant string) string {
	own, _ := s.policy.Latest().Policy.Tenant(tenant)
	return own.DefaultRegion
}

// bookmark is what a cursor holds: where the page before ended, and what was on
// pages before without a place.
type bookmark struct {
	Of   string         `json:"of"` // the filters, hashed
	At   schemas.Millis `json:"at,omitzero"`
	ID   string         `json:"id,omitempty"`
	Seen []string       `json:"seen,omitempty"` // beginnings of the hashes of ids

	// Memory says that the walk began without the store. It goes on so: with the
	// store it would leave out what that has of the pages before.
	Memory bool `json:"memory,omitempty"`
}

// mostSeen bounds a cursor. Beyond it messages that have no place yet are left
// to be found once they have one.
const mostSeen = largestPage

func (b bookmark) place() history.Place { return history.Place{At: b.At, ID: b.ID} }

func (b bookmark) String() string {
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // it is made of texts and a number
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func readBookmark(text string, q history.Search) (bookmark, *client.Problem) {
	b := bookmark{Of: filters(q)}
	if text == "" {
		return b, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var got bookmark
	if err == nil {
		err = json.Unmarshal(raw, &got)
	}
	if err != nil || got.Of != b.Of || got.At == 0 && got.ID != "" || got.At < 0 || len(got.ID) > 64 || len(got.Seen) > mostSeen {
		return b, invalidRequest.problem("The cursor belongs to other filters.", client.FieldError{Code: "bad_cursor", Detail: "is none that was given for these filters"})
	}
	return got, nil
}

// filters tells one question from another, whatever the page.
func filters(q history.Search) string {
	q.Limit, q.Before = 0, history.Place{}
	text, err := json.Marshal(q)
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

func hashOfID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:6])
}

// listed is one message on its way to a page.
type listed struct {
	history.Name
	at     schemas.Millis // its place
	placed bool           // at is the broker's, and stays
	unsure bool           // the store may know more than the tail
	stored *schemas.Event
}

func (l *listed) place() history.Place { return history.Place{At: l.at, ID: l.ID} }

// newer orders a page.
func newer(a, b *listed) int {
	return cmp.Or(b.place().Compare(a.place()), strings.Compare(b.To, a.To))
}

// search makes one page.
func (s *Server) search(ctx context.Context, q history.Search, from bookmark) (*client.MessagePage, *client.Problem) {
	fresh, placed, more := s.remembered(q, from)
	items := make(map[history.Name]*listed, len(placed)+q.Limit)
	for _, l := range placed {
		items[l.Name] = l
	}
	// floor is where the sources that have more ended: what is older comes with
	// the next page.
	var floor *history.Place
	if more {
		end := placed[len(placed)-1].place()
		floor = &end
	}
	page := &client.MessagePage{Messages: []client.Message{}}
	reached, err := s.fill(ctx, q, items, fresh, from.Memory)
	if err != nil {
		if !errors.Is(err, errNoHistory) {
			s.logger.Warn("searching messages failed", "error", err)
			if begun := from.place() != (history.Place{}) || len(from.Seen) > 0; begun || len(fresh)+len(placed) == 0 {
				return nil, after(historyUnavailable.problem("What was asked for is not in memory, and what is stored cannot be read now."), time.Second)
			}
		}
		from.Memory, page.Partial = true, true
	}
	if reached != nil && (floor == nil || reached.Compare(*floor) > 0) {
		floor = reached
	}

	next := from
	take := func(l *listed) bool {
		if len(page.Messages) == q.Limit {
			return false
		}
		if m := s.summary(q.Tenant, l); m != nil && (len(q.Statuses) == 0 || slices.Contains(q.Statuses, m.Status)) {
			page.Messages = append(page.Messages, *m)
			if !l.placed {
				next.Seen = append(next.Seen, hashOfID(l.ID))
			}
		}
		return true
	}
	for _, l := range fresh {
		if items[l.Name] == nil && !l.placed && len(next.Seen) < mostSeen && !take(l) {
			page.NextCursor = next.String()
			return page, nil
		}
	}
	rest := make([]*listed, 0, len(items))
	for _, l := range items {
		if !slices.Contains(from.Seen, hashOfID(l.ID)) && (floor == nil || l.place().Compare(*floor) >= 0) {
			rest = append(rest, l)
		}
	}
	slices.SortFunc(rest, newer)
	for _, l := range rest {
		if !take(l) {
			page.NextCursor = next.String()
			return page, nil
		}
		next.At, next.ID = l.at, l.ID
	}
	if floor != nil {
		next.At, next.ID = floor.At, floor.ID
		page.NextCursor = next.String()
	}
	return page, nil
}

// remembered returns what the tail has of the messages asked for, the newest
// first: those that have no place yet, and of those that have one as many as a
// page may need. more says that there are more of these.
func (s *Server) remembered(q history.Search, from bookmark) (fresh, placed []*listed, more bool) {
	most := q.Limit + 1
	cut := func() {
		slices.SortFunc(placed, newer)
		if len(placed) > most {
			placed, more = placed[:most], true
		}
	}
	before := from.place()
	s.recent.each(time.Now(), func(id uuid.UUID, g *gist) {
		if g.tenant != q.Tenant || g.accepted == 0 ||
			len(q.To) > 0 && !among(q.To, g.to) || q.Channel != "" && g.channel != q.Channel || q.Class != "" && g.class != q.Class ||
			g.accepted < q.From || q.Until > 0 && g.accepted >= q.Until ||
			len(q.Statuses) > 0 && !slices.Contains(q.Statuses, g.status) {
			return
		}
		l := &listed{Name: history.Name{ID: id.String(), To: g.to}, at: g.accepted, placed: g.decided, unsure: !g.whole}
		switch {
		case !l.placed && before == (history.Place{}):
			if !slices.Contains(from.Seen, hashOfID(l.ID)) {
				fresh = append(fresh, l)
			}
		case l.placed && (before == (history.Place{}) || l.place().Compare(before) < 0):
			if placed = append(placed, l); len(placed) > 8*most {
				cut()
			}
		}
	})
	cut()
	slices.SortFunc(fresh, newer)
	return fresh[:min(len(fresh), most)], placed, more
}

// errNoHistory says that nothing stored is asked for.
var errNoHistory = errors.New("there is no ClickHouse")

// fill adds what is stored to the items, and says where the store ended.
func (s *Server) fill(ctx context.Context, q history.Search, items map[history.Name]*listed, fresh []*listed, memory bool) (reached *history.Place, err error) {
	if s.history == nil || memory {
		return nil, errNoHistory
	}
	q.Limit++
	found, err := s.history.Search(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, e := range found.Events {
		name := history.Name{ID: e.MessageID, To: e.To}
		l := items[name]
		if l == nil {
			l = &listed{Name: name, at: e.AcceptedAt, placed: true}
			items[name] = l
		}
		l.stored, l.unsure = e, false
	}
	var unsure []*listed
	for _, l := range items {
		if l.unsure {
			unsure = append(unsure, l)
		}
	}
	for _, l := range fresh {
		if l.unsure {
			unsure = append(unsure, l)
		}
	}
	names, since := make([]history.Name, len(unsure)), schemas.Millis(0)
	for i, l := range unsure {
		// A request that is repeated under its key may be a day old.
		if names[i] = l.Name; i == 0 || l.at.Add(-48*time.Hour) < since {
			since = l.at.Add(-48 * time.Hour)
		}
	}
	known, err := s.history.Latest(ctx, q.Tenant, since, names)
	for _, l := range unsure {
		if e := known[l.Name]; e != nil {
			l.stored, l.placed = e, true // a fresh one's own place is where the store has it
		}
	}
	return found.Reached, err
}

// summary is a message as a list has it; nil when it has left memory meanwhile.
func (s *Server) summary(tenant string, l *listed) *client.Message {
	accepted, events, _ := s.tailed(tenant, l.ID)
	if accepted != nil && accepted.To != l.To {
		accepted = nil
	}
	events = slices.DeleteFunc(events, func(e *schemas.Event) bool { return e.To != l.To })
	if e := l.stored; e != nil {
		if n := len(events); n > 0 && events[n-1].At < e.At {
			events = append(events, e)
		} else {
			events = slices.Insert(events, 0, e)
		}
	}
	if accepted == nil && len(events) == 0 {
		return nil
	}
	m := fold(l.ID, accepted, events)
	m.Timeline, m.Observed = []*schemas.Event{}, false
	return m
}
