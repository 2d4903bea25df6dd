package ingest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/schemas"
)

const (
	mostCounts = 10_000 // rows of an answer, of each kind
	mostDays   = 31
	statsSpan  = time.Hour // where from is not said

	// Spans up to these have latencies unless the question says otherwise: they cost
	// some thirty times what counts do.
	latencySpan       = 24 * time.Hour
	latencyBeforeSpan = 2 * time.Hour
)

// longest is the span that may be told apart by a time; of none it is what
// ClickHouse keeps.
var longest = map[history.Dimension]time.Duration{history.ByMinute: 24 * time.Hour, history.ByHour: 31 * 24 * time.Hour, history.ByDay: 800 * 24 * time.Hour, "": 800 * 24 * time.Hour}

// getStats counts what happened to the caller's messages.
func (s *Server) getStats(w http.ResponseWriter, r *http.Request, c *caller) {
	q, p := readTally(r, c, time.Now())
	if p != nil {
		refuse(w, r, p)
		return
	}
	if s.history == nil {
		refuse(w, r, noCounts())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), historyTimeout)
	defer cancel()
	counted, err := s.history.Tally(ctx, *q)
	switch {
	case errors.Is(err, history.ErrTooMany):
		refuse(w, r, invalidParameters([]client.FieldError{wrongParameter("by", errors.New("makes more than "+strconv.Itoa(mostCounts)+" rows of so long a time: ask for less of either"))}))
		return
	case err != nil:
		s.logger.Warn("counting failed", "error", err)
		refuse(w, r, after(historyUnavailable.problem("What happened cannot be counted now."), time.Second))
		return
	}
	answer(w, http.StatusOK, "application/json", statsOf(q, counted))
}

func readTally(r *http.Request, c *caller, now time.Time) (*history.Tally, *client.Problem) {
	q := &history.Tally{Tenant: c.about(), Most: mostCounts}
	var unit history.Dimension
	var latency *bool
	wrong, p := readQuery(r, func(name, v string) (err error) {
		switch name {
		case "from":
			q.From, err = readTime(v)
		case "until":
			q.Until, err = readTime(v)
		case "channel":
			var ch schemas.Channel
			ch, err = readChannel(v)
			q.Channel = string(ch)
		case "class":
			q.Class, err = readName(v)
		case "provider":
			q.Provider, err = readName(v)
		case "by":
			q.By, unit, err = readDimensions(v)
		case "days":
			if q.Days, err = strconv.Atoi(v); err != nil || q.Days < 0 || q.Days > mostDays {
				err = errors.New("is a whole number from 0 to 31")
			}
		case "latency":
			if v != "true" && v != "false" {
				err = errors.New("is true or false")
			}
			yes := v == "true"
			latency = &yes
		default:
			err = errUnknownField
		}
		return err
	})
	if p != nil {
		return nil, p
	}
	const minute = 60_000
	if q.Until == 0 {
		q.Until = schemas.MillisOf(now)
	}
	q.Until = (q.Until + minute - 1) / minute * minute
	if q.From == 0 {
		q.From = q.Until.Add(-statsSpan)
	}
	q.From = q.From / minute * minute
	if len(wrong) == 0 {
		wrong = wrongSpan(q.From, q.Until, schemas.MillisOf(now))
	}
	span := q.Until.Sub(q.From)
	if q.Latency, q.LatencyBefore = span <= latencySpan, span <= latencyBeforeSpan; latency != nil {
		q.Latency, q.LatencyBefore = *latency, *latency
	}
	switch {
	case len(wrong) > 0:
	case span > longest[unit]:
		wrong = append(wrong, wrongParameter("by", errors.New("tells apart by minute one day at most, by hour 31, else 800")))
	case q.Days > 0 && span > 24*time.Hour:
		wrong = append(wrong, wrongParameter("days", errors.New("compares with a span of a day at most")))
	}
	return q, invalidParameters(wrong)
}

// readDimensions reads what counts are told apart by; by status they always are.
func readDimensions(v string) (by []history.Dimension, unit history.Dimension, err error) {
	for name := range strings.SplitSeq(v, ",") {
		switch d := history.Dimension(name); d {
		case history.ByMinute, history.ByHour, history.ByDay:
			if unit != "" && unit != d {
				return nil, "", errors.New("has one of minute, hour and day")
			}
			unit = d
			by = append(by, d)
		case history.ByChannel, history.ByClass, history.ByProvider:
			by = append(by, d)
		case "status":
		default:
			return nil, "", errors.New("is of status, channel, class, provider, and one of minute, hour and day, with commas between them")
		}
	}
	return slices.Compact(by), unit, nil
}

func statsOf(q *history.Tally, counted *history.Counted) *client.Stats {
	out := &client.Stats{From: q.From, Until: q.Until, Counts: []client.StatsCount{}, Limits: []client.StatsLimit{}}
	for i := range counted.Counts {
		out.Counts = append(out.Counts, statsCount(&counted.Counts[i]))
	}
	for _, l := range counted.Limits {
		out.Limits = append(out.Limits, client.StatsLimit{At: l.At, Channel: l.Channel, Class: l.Class, Limit: l.Limit, Window: l.Window, Refused: l.Refused, Observed: l.Observed})
	}
	for d := 1; d <= q.Days; d++ {
		back := -time.Duration(d) * 24 * time.Hour
		out.Before = append(out.Before, client.StatsDay{From: q.From.Add(back), Until: q.Until.Add(back), Counts: []client.StatsCount{}})
	}
	for i := range counted.Before {
		if c := &counted.Before[i]; c.Day >= 1 && c.Day <= q.Days {
			day := &out.Before[c.Day-1]
			day.Counts = append(day.Counts, statsCount(c))
		}
	}
	return out
}

func statsCount(c *history.Count) client.StatsCount {
	return client.StatsCount{At: c.At, Channel: c.Channel, Class: c.Class, Provider: c.Provider, Status: c.Status, Events: c.Events, P50: c.P50, P95: c.P95, P99: c.P99}
}
