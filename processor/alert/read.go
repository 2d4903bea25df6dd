package alert

import (
	"bytes"
	"cmp"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

var (
	statusKind   = []byte(`{"kind":"status"`)
	statusField  = []byte(`"status":"`)
	isLimited    = []byte(`limited"`)
	isDeferred   = []byte(`deferred"`)
	observedTrue = []byte(`"observed":true`)
)

// interesting reports whether a record of weir.status may be one that an alert
// tells of, from how schemas.AppendEvent writes it: almost none is, and to read one
// takes ten times as long. No text within a record can look like a field, since
// its quotes are escaped.
func interesting(value []byte) bool {
	if !bytes.HasPrefix(value, statusKind) {
		return false
	}
	i := bytes.Index(value, statusField)
	if i < 0 {
		return false
	}
	rest := value[i+len(statusField):]
	return bytes.HasPrefix(rest, isLimited) || bytes.HasPrefix(rest, isDeferred) || bytes.Contains(rest, observedTrue)
}

// ofStatus appends what a record of weir.status says: one happening for each limit
// that refused the message, or would have. A record that cannot be read tells
// nothing here: the sink keeps it as a row.
func ofStatus(dst []Happening, value []byte) []Happening {
	if !interesting(value) {
		return dst
	}
	e, err := schemas.DecodeEvent(value)
	if err != nil || e.Kind != schemas.KindStatus {
		return dst
	}
	h := Happening{At: e.At, Class: cmp.Or(e.Class, schemas.DefaultClass), Tenant: cmp.Or(e.Tenant, schemas.DefaultTenant), To: e.To}
	switch {
	case e.Status == schemas.StatusLimited, e.Status == schemas.StatusDeferred && e.Reason == string(schemas.StatusLimited):
		h.Event = schemas.AlertLimitRefused
	case e.Observed:
		h.Event = schemas.AlertLimitObserved
	default:
		return dst
	}
	began := len(dst)
	if e.Decision != nil {
	evidence:
		for i := range e.Decision.Evidence {
			v := &e.Decision.Evidence[i]
			for j := range dst[began:] {
				if dst[began+j].Limit == clip(v.Limit) {
					continue evidence
				}
			}
			h.Limit, h.Window = clip(v.Limit), clip(v.Window)
			dst = append(dst, h)
		}
	}
	if len(dst) == began {
		h.Limit, h.Window = clip(e.Limit), clip(e.Window)
		dst = append(dst, h)
	}
	return dst
}

// ofDLQ appends what a record of weir.dlq says.
func ofDLQ(dst []Happening, r *kgo.Record) []Happening {
	h := Happening{Subject: Subject{Event: schemas.AlertDLQRecord}, At: schemas.MillisOf(r.Timestamp)}
	for _, x := range r.Headers {
		switch v := string(x.Value); x.Key {
		case schemas.HeaderReason:
			h.Reason = clip(v)
		case schemas.HeaderProvider:
			h.Provider = clip(v)
		case schemas.HeaderTenant:
			h.Tenant = v
		case schemas.HeaderKey:
			h.To = v
		}
	}
	h.Reason = cmp.Or(h.Reason, "unknown")
	if req, err := schemas.DecodeRequest(r.Value, func(string) (string, bool) { return "", false }); err == nil {
		h.Class, h.Tenant = cmp.Or(req.Class, schemas.DefaultClass), cmp.Or(h.Tenant, req.Tenant)
	}
	h.Tenant = cmp.Or(h.Tenant, schemas.DefaultTenant)
	return append(dst, h)
}
