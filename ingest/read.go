package ingest

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/schemas"
)

// historyTimeout bounds one question to the History.
const historyTimeout = 3 * time.Second

// History is where messages are found that the tail no longer or never had.
type History interface {
	// Message returns all statuses of a message in the order of the log; none
	// and no error when it is unknown.
	Message(ctx context.Context, id string) ([]*schemas.Event, error)
	// Search finds messages of a tenant, the newest first.
	Search(ctx context.Context, q history.Search) (*history.Found, error)
	// Latest returns what is known of messages of a tenant, none of which was
	// accepted before since.
	Latest(ctx context.Context, tenant string, since schemas.Millis, names []history.Name) (map[history.Name]*schemas.Event, error)
	// Tally counts what happened to a tenant's messages.
	Tally(ctx context.Context, q history.Tally) (*history.Counted, error)
	// Errors counts what providers answered a tenant's messages, the most
	// frequent first.
	Errors(ctx context.Context, q history.Errors) ([]history.ErrorCount, error)
	// Refused counts whose messages limits refused, most first.
	Refused(ctx context.Context, q history.Refused) ([]history.RefusedCount, error)
	// Suppressions lists what a tenant suppresses, in the order of recipients.
	Suppressions(ctx context.Context, q history.Suppressions) ([]history.Suppressed, error)
}

// getMessage answers with a message's state and timeline.
func (s *Server) getMessage(w http.ResponseWriter, r *http.Request, c *caller) {
	to, p := s.whose(r, c)
	var m *client.Message
	if p == nil {
		m, p = s.find(r.Context(), c.about(), chi.URLParam(r, "id"), to...)
	}
	if p != nil {
		refuse(w, r, p)
		return
	}
	answer(w, http.StatusOK, "application/json", m)
}

// whose reads the recipients that a query's to may mean; none where there is no
// to. An id that a producer made may name messages to several.
func (s *Server) whose(r *http.Request, c *caller) (keys []string, p *client.Problem) {
	var to *string
	var channel schemas.Channel
	wrong, p := readQuery(r, func(name, v string) (err error) {
		switch name {
		case "to":
			to = &v
		case "channel":
			channel, err = readChannel(v)
		default:
			err = errUnknownField
		}
		return err
	})
	if p == nil && to != nil && len(wrong) == 0 {
		var err error
		if keys, err = recipients(channel, *to, s.regionOf(c.about())); err != nil {
			wrong = append(wrong, wrongParameter("to", err))
		}
	}
	if p == nil {
		p = invalidParameters(wrong)
	}
	return keys, p
}

// find reads a tenant's message from the tail if that has it whole; else
// History's events come before the tail's. Where recipients are named it is the
// message to one of them.
func (s *Server) find(ctx context.Context, tenant, text string, to ...string) (*client.Message, *client.Problem) {
	id, ok := messageID(text)
	if !ok {
		return nil, unknownMessage.problem("An id is a UUID.")
	}
	accepted, tailed, whole := s.tailed(tenant, id)
	events := tailed
	if !whole && s.history != nil {
		stored, err := s.stored(ctx, tenant, id)
		switch {
		case err == nil:
			events = join(stored, tailed)
		case accepted == nil && len(tailed) == 0:
			s.logger.Warn("reading a message's history failed", "error", err)
			return nil, after(historyUnavailable.problem("What became of older messages cannot be read now."), time.Second)
		default: // what is known is worth more than an error
			s.logger.Warn("reading a message's history failed", "error", err)
		}
	}
	if len(to) > 0 {
		events = slices.DeleteFunc(events, func(e *schemas.Event) bool { return !among(to, e.To) })
		if accepted != nil && !among(to, accepted.To) {
			accepted = nil
		}
	}
	if accepted == nil && len(events) == 0 {
		return nil, unknownMessage.problem("No message of yours has this id. One that another instance took in shows within two seconds.")
	}
	return fold(id, accepted, events), nil
}

// tailed returns what the tail knows of a tenant's message.
func (s *Server) tailed(tenant, id string) (accepted *schemas.Event, events []*schemas.Event, whole bool) {
	accepted, values, whole := s.recent.find(id, time.Now())
	if accepted != nil && accepted.Tenant != tenant {
		accepted, whole = nil, false
	}
	for _, v := range values {
		if e, err := schemas.DecodeEvent(v); err == nil { // it was decoded before it was kept
			events = append(events, e)
		}
	}
	return accepted, ofTenant(tenant, events), whole
}

func (s *Server) stored(ctx context.Context, tenant, id string) ([]*schemas.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	events, err := s.history.Message(ctx, id)
	if err != nil {
		return nil, err
	}
	return ofTenant(tenant, events), nil
}

// messageID returns an id in the spelling that Weir keeps it in, if it is one.
func messageID(text string) (string, bool) {
	if len(text) != 36 || uuid.Validate(text) != nil {
		return "", false
	}
	return strings.ToLower(text), true
}
