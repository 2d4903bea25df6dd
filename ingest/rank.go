package ingest

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// Bounds of what is counted from events and not from rollups.
const (
	rankSpan     = 24 * time.Hour      // where from is not said
	longestRank  = 31 * 24 * time.Hour // a question reads all of it
	rankTimeout  = 10 * time.Second
	mostErrors   = 200
	defaultRanks = 20
	mostRanks    = 100
)

// getErrors counts what providers answered the caller's messages.
func (s *Server) getErrors(w http.ResponseWriter, r *http.Request, c *caller) {
	q := history.Errors{Tenant: c.about(), Most: mostErrors}
	ranked(s, w, r, &q.From, &q.Until, func(name, v string) (err error) {
		switch name {
		case "provider":
			q.Provider, err = readName(v)
		case "class":
			q.Class, err = readName(v)
		default:
			err = errUnknownField
		}
		return err
	}, func(ctx context.Context) (any, error) {
		counts, err := s.history.Errors(ctx, q)
		out := client.Errors{From: q.From, Until: q.Until, Errors: make([]client.ErrorCount, len(counts))}
		for i, e := range counts {
			out.Errors[i] = client.ErrorCount{Provider: e.Provider, ErrorCode: e.Code, Example: e.Example, Events: e.Events}
		}
		return out, err
	})
}

// getRefused tells whose messages limits refused most.
func (s *Server) getRefused(w http.ResponseWriter, r *http.Request, c *caller) {
	q := history.Refused{Tenant: c.about(), Most: defaultRanks}
	ranked(s, w, r, &q.From, &q.Until, func(name, v string) (err error) {
		switch name {
		case "class":
			q.Class, err = readName(v)
		case "limit":
			if q.Most, err = strconv.Atoi(v); err != nil || q.Most < 1 || q.Most > mostRanks {
				err = errors.New("is a whole number from 1 to 100")
			}
		default:
			err = errUnknownField
		}
		return err
	}, func(ctx context.Context) (any, error) {
		counts, err := s.history.Refused(ctx, q)
		out := client.Refused{From: q.From, Until: q.Until, Recipients: make([]client.RefusedCount, len(counts))}
		for i, n := range counts {
			out.Recipients[i] = client.RefusedCount{To: recipient.Mask(n.To), Refused: n.Refused, LastAt: n.LastAt, Limit: n.Limit}
		}
		return out, err
	})
}

// ranked reads a question, from and until into where they belong and the rest by set,
// and answers what count makes of the store's counts.
func ranked(s *Server, w http.ResponseWriter, r *http.Request, from, until *schemas.Millis, set func(name, v string) error, count func(context.Context) (any, error)) {
	if p := readSpan(r, from, until, set); p != nil {
		refuse(w, r, p)
		return
	}
	if s.history == nil {
		refuse(w, r, noCounts())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), rankTimeout)
	defer cancel()
	out, err := count(ctx)
	if err != nil {
		s.logger.Warn("counting failed", "error", err)
		refuse(w, r, after(historyUnavailable.problem("What happened cannot be counted now, or not of so long a time."), time.Second))
		return
	}
	answer(w, http.StatusOK, "application/json", out)
}

func noCounts() *client.Problem {
	return after(historyUnavailable.problem("This server has no ClickHouse, which counts."), time.Minute)
}

// readSpan reads from and until, the last day where they are not said; set reads
// the other parameters.
func readSpan(r *http.Request, from, until *schemas.Millis, set func(name, v string) error) *client.Problem {
	wrong, p := readQuery(r, func(name, v string) (err error) {
		switch name {
		case "from":
			*from, err = readTime(v)
		case "until":
			*until, err = readTime(v)
		default:
			err = set(name, v)
		}
		return err
	})
	if p != nil {
		return p
	}
	now := schemas.MillisOf(time.Now())
	if *until == 0 {
		*until = now
	}
	if *from == 0 {
		*from = until.Add(-rankSpan)
	}
	if len(wrong) == 0 {
		wrong = wrongSpan(*from, *until, now)
	}
	if len(wrong) == 0 && until.Sub(*from) > longestRank {
		wrong = append(wrong, wrongParameter("from", errors.New("is at most 31 days before until")))
	}
	return invalidParameters(wrong)
}

// wrongSpan is what is wrong with any span.
func wrongSpan(from, until, now schemas.Millis) []client.FieldError {
	const year = 366 * 86_400_000
	switch {
	case until <= from:
		return []client.FieldError{wrongParameter("until", errors.New("is not after from"))}
	case from < 0 || until > now+year:
		return []client.FieldError{wrongParameter("from", errors.New("or until is out of all time"))}
	}
	return nil
}
