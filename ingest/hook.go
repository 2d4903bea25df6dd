package ingest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/ingest/throttle"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// maxHookBytes is how much a provider may tell at once.
const maxHookBytes = 1 << 20

// receipts takes what a provider tells of messages that it took. A GET tells nothing:
// by it a provider's console tries an address before it takes it (Aliyun's does).
func (s *Server) receipts(w http.ResponseWriter, r *http.Request, _ *caller) {
	s.hooked(w, r, func(d *door, h *provider.Hook) ([]*kgo.Record, provider.Reply, error) {
		list, reply, err := d.listener.Receipts(h)
		if err != nil {
			return nil, reply, err
		}
		if h.Method != http.MethodPost && len(list) > 0 {
			return nil, provider.Reply{}, provider.ErrHook // taken by nobody, so not to be said to be safe
		}
		records := make([]*kgo.Record, 0, len(list))
		for i := range list {
			list[i].Provider = d.of.Name
			if list[i].At == 0 {
				list[i].At = schemas.MillisOf(h.At)
			}
			records = append(records, s.hooks.topic.Record(&list[i]))
		}
		return records, reply, nil
	})
}

// inbound takes messages from recipients. A GET shows a page and does nothing: mail
// scanners and previews follow every link.
func (s *Server) inbound(w http.ResponseWriter, r *http.Request, _ *caller) {
	s.hooked(w, r, func(d *door, h *provider.Hook) ([]*kgo.Record, provider.Reply, error) {
		list, reply, err := d.listener.Inbound(h)
		if err != nil || h.Method != http.MethodPost {
			return nil, reply, err
		}
		var records []*kgo.Record
		for _, in := range list {
			rec, err := s.hooks.inbox.Take(&d.of, in)
			if err != nil { // the provider cannot mend it by sending it again
				s.logger.Warn("an inbound message asks for nothing, since who wrote it cannot be read", "provider", d.of.Name, "error", err)
				continue
			}
			if rec != nil {
				records = append(records, rec)
			}
		}
		return records, reply, nil
	})
}

// hooked takes a provider's call: it finds the provider, has it verified and read, and
// answers when all that it brings is safe in Kafka.
func (s *Server) hooked(w http.ResponseWriter, r *http.Request, read func(*door, *provider.Hook) ([]*kgo.Record, provider.Reply, error)) {
	d := s.hooks.of(chi.URLParam(r, "provider"))
	switch {
	case d == nil || errors.Is(d.err, provider.ErrNoListener):
		refuse(w, r, noHook.problem("The policy has no provider of this name that makes such calls."))
		return
	case d.err != nil:
		refuse(w, r, after(hookUnavailable.problem("The provider's calls cannot be taken now; the server's log says why."), doorAgain))
		return
	}
	body, p := readHook(w, r)
	if p != nil {
		refuse(w, r, p)
		return
	}
	method := r.Method
	if method == http.MethodHead { // a GET whose body net/http leaves out
		method = http.MethodGet
	}
	from := throttle.ClientAddr(r, s.pace.trusted)
	h := &provider.Hook{Method: method, URL: s.hooks.address(r), Header: r.Header, Body: body, At: time.Now(), Source: from.String()}
	records, reply, err := read(d, h)
	switch {
	case errors.Is(err, provider.ErrForged):
		s.hooks.forged(d.of.Name, from)
		w.Header().Set("WWW-Authenticate", `Basic realm="weir"`)
		refuse(w, r, s.pace.guessed(w, r, forgedHook.problem("The signature or the secret does not fit.")))
		return
	case errors.Is(err, provider.ErrNoHook):
		refuse(w, r, noHook.problem("This provider makes no such calls."))
		return
	case err != nil:
		detail := "The call is the provider's and cannot be read."
		if u, ok := errors.AsType[*provider.Unreadable](err); ok {
			detail += " What is wrong: " + u.Reason + "."
		}
		refuse(w, r, badHook.problem(detail))
		return
	}
	if p := s.keep(r.Context(), w, records); p != nil {
		refuse(w, r, p)
		return
	}
	if reply.ContentType != "" {
		w.Header().Set("Content-Type", reply.ContentType)
	}
	w.WriteHeader(cmp.Or(reply.Status, http.StatusNoContent))
	_, _ = w.Write(reply.Body) // net/http says so to nobody either
}

// keep writes records and waits for all of them.
func (s *Server) keep(ctx context.Context, w http.ResponseWriter, records []*kgo.Record) *client.Problem {
	if len(records) == 0 {
		return nil
	}
	began := time.Now()
	defer waited(w, began)
	timer := time.NewTimer(answerTimeout)
	defer timer.Stop()
	for part := range slices.Chunk(records, hookAtOnce) { // all at once might be more than wait for Kafka at once
		done := make(chan *client.Problem, len(part))
		for _, rec := range part {
			s.out.send(ctx, rec, func(bad *client.Problem) { done <- bad })
		}
		for range part {
			var bad *client.Problem
			select {
			case bad = <-done:
			case <-timer.C:
				bad = s.out.problem(records[0], context.DeadlineExceeded)
			}
			if bad != nil {
				bad.Detail = "Kafka did not acknowledge all of it: send it again. What it had is recognised."
				return bad
			}
		}
	}
	return nil
}

// hookAtOnce is how many records of one call wait for Kafka at once.
const hookAtOnce = 2000

// readHook returns a call's body, whole, whatever its type.
func readHook(w http.ResponseWriter, r *http.Request) ([]byte, *client.Problem) {
	if p := encoded(r.Header); p != nil {
		return nil, p
	}
	if r.ContentLength > maxHookBytes {
		w.Header().Set("Connection", "close") // rather than read what is thrown away
		return nil, hookTooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHookBytes))
	if err == nil {
		connOf(r).working()
		return body, nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, hookTooLarge()
	}
	return nil, broken(w, err)
}

func hookTooLarge() *client.Problem {
	return tooLarge.problem("A provider's call has at most 1 MiB.", client.FieldError{Pointer: "", Code: schemas.ReasonTooLarge, Detail: "is over 1048576 bytes"})
}
