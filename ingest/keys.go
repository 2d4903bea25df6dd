package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/schemas"
)

// completeKey gives a key, as it came in a body, what bodies lack: the hashes of
// the one that it replaces, or a new secret, which it returns. Its error is of
// the body.
func completeKey(put *schemas.Edited, have *schemas.Policy, now schemas.Millis) (secret string, err error) {
	key := &put.Policy.Keys[put.Item]
	wrong := func(field, message string) error {
		return schemas.PolicyErrors{{Path: put.Path() + "." + field, Message: message}}
	}
	var was *schemas.Key
	for i := range have.Keys {
		if have.Keys[i].Name == key.Name {
			was = &have.Keys[i]
		}
	}
	if key.ExpiresAt != 0 && key.ExpiresAt <= now && (was == nil || was.ExpiresAt != key.ExpiresAt) {
		return "", wrong("expires_at", "is in the past: leave it out, or name a later end; DELETE revokes a key")
	}
	switch {
	case key.Hash != "": // whoever brings a hash has made the secret himself
		return "", nil
	case was != nil && was.Test != key.Test:
		return "", wrong("test", "cannot change, since the secret says which it is: make another key")
	case was != nil:
		key.Hash, key.Previous = was.Hash, was.Previous
		return "", nil
	case key.Previous != nil:
		return "", wrong("previous", "is what a rotation leaves: a new key has none")
	}
	if secret, err = schemas.NewSecret(key.Test); err != nil {
		return "", err
	}
	key.Hash = schemas.HashSecret(secret)
	return secret, nil
}

// rotateKey gives a key a new secret, which is in the answer and nowhere else.
func (s *Server) rotateKey(w http.ResponseWriter, r *http.Request, c *caller) {
	o, p := editOptions(r, schemas.ResourceKey)
	if p == nil && o.fresh {
		p = invalidRequest.problem("If-None-Match means nothing here.")
	}
	if p != nil {
		refuse(w, r, p)
		return
	}
	body, p := readBody(w, r)
	if p != nil {
		refuse(w, r, p)
		return
	}
	overlap, p := overlapOf(body)
	if p != nil {
		refuse(w, r, p)
		return
	}
	name := chi.URLParam(r, "name")
	var secret string
	res, p := s.edit(r, c, o, func(have *schemas.Revision) (next *schemas.Policy, err error) {
		was, there := have.Policy.Resource(schemas.ResourceKey, name)
		if !there || c.share(&have.Policy, schemas.ResourceKey, name) == hidden {
			return nil, noResource(schemas.ResourceKey)
		}
		if p := s.since(o.holds(have.Revision, was, true), &o, have, name); p != nil {
			return nil, p
		}
		next, secret, err = revise.RotateKey(&have.Policy, name, overlap, schemas.MillisOf(time.Now()))
		if errors.Is(err, revise.ErrKeyEnded) {
			return nil, policyConflict.problem("The key has expired. Give it a later expires_at first.")
		}
		return next, err
	})
	if p != nil {
		refuse(w, r, p)
		return
	}
	v, _ := res.Next.Resource(schemas.ResourceKey, name)
	out := shown(res.Now.Revision, v)
	out.Secret = secret
	report(&out, res, false)
	answerResource(w, http.StatusOK, out)
}

// overlapOf reads the body of a rotation, which may be empty.
func overlapOf(body []byte) (time.Duration, *client.Problem) {
	overlap := schemas.Duration(revise.DefaultOverlap)
	if len(bytes.TrimSpace(body)) == 0 {
		return time.Duration(overlap), nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return 0, invalidRequest.problem("The body is one JSON object, or nothing.", client.FieldError{Code: schemas.ReasonNotObject, Detail: "is no JSON object"})
	}
	for name, raw := range fields {
		var text string
		switch err := json.Unmarshal(raw, &text); {
		case name != "overlap":
			return 0, invalidRequest.problem("errors lists what is wrong.", client.FieldError{Pointer: "/" + known(name), Code: schemas.ReasonUnknownField, Detail: "is unknown: there is overlap"})
		case err != nil || overlap.UnmarshalText([]byte(text)) != nil || time.Duration(overlap) > revise.MaxOverlap:
			return 0, invalidRequest.problem("errors lists what is wrong.", client.FieldError{Pointer: "/overlap", Code: schemas.ReasonBadValue, Detail: "is a duration from 0s to 31d, such as 24h"})
		}
	}
	return time.Duration(overlap), nil
}
