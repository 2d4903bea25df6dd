package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/dlq"
)

const (
	dlqTimeout   = 20 * time.Second // of a call, well within writeTimeout
	dlqScan      = 100_000          // records that one page looks at
	redriveFor   = 8 * time.Second  // of one call; less than a shutdown's grace
	defaultPage  = 50
	largestPage  = 500
	mostRedriven = 60 // ids
)

// getDLQ lists what Weir gave up on of the caller's messages.
func (s *Server) getDLQ(w http.ResponseWriter, r *http.Request, c *caller) {
	q := dlqQuery{tenant: c.about()}
	limit, cursor, oldest := defaultPage, "", false
	wrong, p := readQuery(r, func(name, v string) (err error) {
		switch name {
		case "limit":
			limit, err = readLimit(v)
		case "cursor":
			cursor = v
		case "order":
			if oldest = v == "oldest"; !oldest && v != "newest" {
				err = errors.New("is newest or oldest")
			}
		default:
			err = q.set(name, v)
		}
		return err
	})
	if p != nil {
		refuse(w, r, p)
		return
	}
	if p := q.problem(wrong); p != nil {
		refuse(w, r, p)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), dlqTimeout)
	defer cancel()
	page, err := s.dlq.List(ctx, q.filter, dlq.ListOptions{Limit: limit, Cursor: cursor, Oldest: oldest, Scan: dlqScan})
	if err != nil {
		s.refuseDLQ(w, r, err, "/cursor")
		return
	}
	answer(w, http.StatusOK, "application/json", page)
}

// postRedrive asks admission to send again what it is told, for as long as a
// call may take; the cursor goes on.
func (s *Server) postRedrive(w http.ResponseWriter, r *http.Request, c *caller) {
	body, p := readBody(w, r)
	if p != nil {
		refuse(w, r, p)
		return
	}
	q := dlqQuery{tenant: c.tenant}
	o := dlq.RedriveOptions{Within: redriveFor}
	all := false
	fields := make(map[string]json.RawMessage)
	if len(bytes.TrimSpace(body)) > 0 {
		if err := json.Unmarshal(body, &fields); err != nil || fields == nil { // null would be all there is
			refuse(w, r, invalidRequest.problem("The body is one JSON object.", client.FieldError{Code: "not_object", Detail: "is no JSON object"}))
			return
		}
	}
	var wrong []client.FieldError
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		raw := fields[name]
		var err error
		switch {
		case string(raw) == "null":
			// It is absent, if there is such a field at all.
			if !slices.Contains(redriveFields, name) {
				err = errUnknownField
			}
		case name == "dry_run":
			if json.Unmarshal(raw, &o.DryRun) != nil {
				err = errors.New("is true or false")
			}
		case name == "all":
			if json.Unmarshal(raw, &all) != nil {
				err = errors.New("is true or false")
			}
		case name == "again":
			if json.Unmarshal(raw, &q.filter.Again) != nil {
				err = errors.New("is true or false")
			}
		case name == "rate":
			if json.Unmarshal(raw, &o.Rate) != nil || !(o.Rate > 0 && o.Rate <= dlq.MaxRate) {
				err = errors.New("is a number of messages a second, above 0 and at most 10000")
			}
		case name == "cursor":
			if json.Unmarshal(raw, &o.Cursor) != nil {
				err = errors.New("is a text")
			}
		case name == "ids":
			if json.Unmarshal(raw, &q.filter.IDs) != nil || len(q.filter.IDs) == 0 || len(q.filter.IDs) > mostRedriven || slices.Contains(q.filter.IDs, "") {
				err = errors.New("is a list of 1 to 60 ids") // none is not all
			}
		default:
			var v string
			if json.Unmarshal(raw, &v) != nil {
				err = errors.New("is a text")
			} else {
				err = q.set(name, v)
			}
		}
		if err != nil {
			code := "bad_value"
			if errors.Is(err, errUnknownField) {
				code = "unknown_field"
			}
			wrong = append(wrong, client.FieldError{Pointer: "/" + known(name), Code: code, Detail: err.Error()})
		}
	}
	if len(wrong) == 0 && q.filter.Empty() && !q.forbidden && !all && !o.DryRun {
		wrong = append(wrong, client.FieldError{Pointer: "/all", Code: "required", Detail: "is true where there is no filter: everything that can be is sent again"})
	}
	if p := q.problem(wrong); p != nil {
		refuse(w, r, p)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), dlqTimeout)
	defer cancel()
	sum, err := s.dlq.Redrive(ctx, q.filter, o)
	if err != nil {
		s.refuseDLQ(w, r, err, "/cursor")
		return
	}
	status := http.StatusAccepted
	if o.DryRun {
		status = http.StatusOK
	}
	answer(w, status, "application/json", sum)
}

var redriveFields = []string{"since", "until", "class", "provider", "reason", "tenant", "ids", "all", "again", "dry_run", "rate", "cursor"}

// dlqQuery is a filter as it is read.
type dlqQuery struct {
	filter    dlq.Filter
	tenant    string // whose records the caller may see
	forbidden bool
}

func (q *dlqQuery) set(name, v string) error {
	switch name {
	case "since", "until":
		t, err := readTime(v)
		if err != nil {
			return err
		}
		if name == "since" {
			q.filter.Since = t
		} else {
			q.filter.Until = t
		}
	case "class":
		q.filter.Class = v
	case "provider":
		q.filter.Provider = v
	case "reason":
		q.filter.Reason = v
	case "tenant":
		q.forbidden = v != "" && v != q.tenant
	default:
		return errUnknownField
	}
	return nil
}

// problem is what is wrong with the query, or nil; then it is the tenant's.
func (q *dlqQuery) problem(wrong []client.FieldError) *client.Problem {
	switch {
	case len(wrong) > 0:
		return invalidRequest.problem("errors lists what is wrong.", wrong[:min(len(wrong), 32)]...)
	case q.forbidden:
		return forbiddenTenant.problem("A request may name only its own tenant.",
			client.FieldError{Pointer: "/tenant", Code: forbiddenTenant.code, Detail: "is not the caller's"})
	}
	q.filter.Tenant = q.tenant
	return nil
}

func (s *Server) refuseDLQ(w http.ResponseWriter, r *http.Request, err error, pointer string) {
	if errors.Is(err, dlq.ErrCursor) {
		refuse(w, r, invalidRequest.problem("The cursor belongs to other filters.", client.FieldError{Pointer: pointer, Code: "bad_cursor", Detail: "is none that was given for these filters"}))
		return
	}
	s.logger.Warn("the DLQ cannot be read or redriven", "error", err)
	refuse(w, r, after(kafkaUnavailable.problem("Ask again for the same: what was asked for before is recognised."), retryKafka))
}
