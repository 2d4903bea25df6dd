package schemas

import (
	"fmt"
	"strconv"
)

// Kinds lists every kind of event.
var Kinds = []Kind{KindStatus, KindDecision}

// Verdicts lists every verdict.
var Verdicts = []Verdict{
	VerdictAdmit, VerdictRefuse, VerdictDefer, VerdictMove, VerdictGiveBack, VerdictForward, VerdictMarker,
	VerdictReject, VerdictDuplicate, VerdictExpire, VerdictSuppress, VerdictCancel, VerdictRecord, VerdictNothing,
	VerdictCharge,
}

// AppendEvent appends an event as one JSON object to dst: byte for byte what
// encoding/json writes without HTML escaping. Equal events give equal bytes.
func AppendEvent(dst []byte, e *Event) []byte {
	w := writeJSON()
	w.event(e)
	return w.done(dst)
}

func (w *jsonWriter) event(e *Event) {
	w.begin('{')
	w.text("kind", string(e.Kind))
	w.textIf("message_id", e.MessageID)
	w.textIf("tenant", e.Tenant)
	w.textIf("channel", e.Channel)
	w.textIf("class", e.Class)
	w.textIf("template", e.Template)
	w.textIf("to", e.To)
	w.textIf("status", string(e.Status))
	w.time("at", e.At)
	w.textIf("reason", e.Reason)
	w.intIf("attempt", int64(e.Attempt))
	w.textIf("provider", e.Provider)
	w.textIf("provider_message_id", e.ProviderMessageID)
	w.textIf("error_code", e.ErrorCode)
	w.textIf("error", e.Error)
	w.textIf("limit", e.Limit)
	w.textIf("window", e.Window)
	w.timeIf("retry_at", e.RetryAt)
	w.timeIf("accepted_at", e.AcceptedAt)
	w.intIf("segments", int64(e.Segments))
	w.intIf("cost", int64(e.Cost))
	w.textIf("price", e.Price)
	w.textIf("currency", e.Currency)
	w.textIf("duplicate_of", e.DuplicateOf)
	w.textIf("redrive_of", e.RedriveOf)
	if e.Observed {
		w.name("observed")
		w.literal("true")
	}
	w.textIf("callback_url", e.CallbackURL)
	w.sourceIf("source", e.Source)
	if e.Decision != nil {
		w.name("decision")
		w.decision(e.Decision)
	}
	w.end('}')
}

func (w *jsonWriter) sourceIf(name string, s *Source) {
	if s == nil {
		return
	}
	w.open(name, '{')
	w.text("topic", s.Topic)
	w.int("partition", int64(s.Partition))
	w.int("offset", s.Offset)
	w.end('}')
}

func (w *jsonWriter) decision(d *Decision) {
	w.begin('{')
	w.text("verdict", string(d.Verdict))
	w.int("partition", int64(d.Partition))
	w.int("seq", d.Seq)
	w.time("t", d.T)
	w.int("revision", d.Revision)
	w.sourceIf("input", d.Input)
	w.chargesIf("charges", d.Charges)
	w.chargesIf("returned", d.Returned)
	w.chargesIf("missing", d.Missing)
	w.chargesIf("carried", d.Carried)
	w.asksIf("passed", d.Passed)
	w.chargesIf("restored", d.Restored)
	w.chargesIf("released", d.Released)
	w.chargesIf("reinstated", d.Reinstated)
	if d.Onward != nil {
		w.int("onward", int64(*d.Onward))
	}
	w.evidenceIf("evidence", d.Evidence)
	if d.Marker != nil {
		w.name("marker")
		w.marker(d.Marker)
	}
	w.end('}')
}

func (w *jsonWriter) chargesIf(name string, charges []Charge) {
	if len(charges) == 0 {
		return
	}
	w.name(name)
	w.charges(charges)
}

func (w *jsonWriter) charges(charges []Charge) {
	w.begin('[')
	for i := range charges {
		c := &charges[i]
		w.begin('{')
		w.text("limit", c.Limit)
		w.text("scope", c.Scope)
		w.time("t", c.T)
		w.int("cost", c.Cost)
		w.end('}')
	}
	w.end(']')
}

func (w *jsonWriter) evidenceIf(name string, all []Evidence) {
	if len(all) == 0 {
		return
	}
	w.open(name, '[')
	for i := range all {
		w.evidence(&all[i])
	}
	w.end(']')
}

func (w *jsonWriter) evidence(v *Evidence) {
	w.begin('{')
	w.text("limit", v.Limit)
	w.text("scope", v.Scope)
	w.text("window", v.Window)
	w.int("n", v.N)
	w.int("count", v.Count)
	w.int("cost", v.Cost)
	w.timeIf("oldest", v.Oldest)
	w.timeIf("start", v.Start)
	w.timeIf("since", v.Since)
	w.end('}')
}

func (w *jsonWriter) marker(m *Marker) {
	w.begin('{')
	w.int("revision", m.Revision)
	w.int("seq", m.Seq)
	w.time("t", m.T)
	if len(m.Since) > 0 {
		w.open("since", '{')
		for _, limit := range sortedKeys(m.Since) {
			windows := m.Since[limit]
			if windows == nil {
				w.name(limit)
				w.literal("null")
				continue
			}
			w.open(limit, '{')
			for _, window := range sortedKeys(windows) {
				w.time(window, windows[window])
			}
			w.end('}')
		}
		w.end('}')
	}
	w.end('}')
}

// AppendCharges appends charges as a JSON array to dst: the header weir-place.
// No charges are an empty array.
func AppendCharges(dst []byte, charges []Charge) []byte {
	w := writeJSON()
	w.charges(charges)
	return w.done(dst)
}

// AppendEvidence appends evidence as a JSON array to dst, as it stands in an event.
func AppendEvidence(dst []byte, all []Evidence) []byte {
	w := writeJSON()
	w.begin('[')
	for i := range all {
		w.evidence(&all[i])
	}
	w.end(']')
	return w.done(dst)
}

// DecodeCharges reads what AppendCharges writes.
func DecodeCharges(value []byte) ([]Charge, error) {
	r := readJSON(value)
	defer r.done()
	var charges []Charge
	if !r.intoCharges(&charges) {
		return nil, fmt.Errorf("decode charges: %s", atByte(r.why, r.at))
	}
	if !r.end() {
		return nil, fmt.Errorf("decode charges: %s", atByte("something follows the JSON array", r.offset()))
	}
	return charges, nil
}

// DecodeEvent reads the value of a weir.status record. Unknown fields are
// ignored, so that an older reader survives a newer writer; of a name that
// stands twice the last counts, null is absent, and what is not UTF-8 becomes
// U+FFFD. Nothing of value is kept. The error says where the value is wrong
// and holds none of it.
func DecodeEvent(value []byte) (*Event, error) {
	r := readJSON(value)
	defer r.done()
	e := &Event{}
	if !r.event(e) {
		return nil, fmt.Errorf("decode status event: %s", atByte(r.why, r.at))
	}
	if !r.end() {
		return nil, fmt.Errorf("decode status event: %s", atByte("something follows the JSON object", r.offset()))
	}
	return e, nil
}

func (r *jsonReader) event(e *Event) bool {
	return r.object(func(key []byte) bool {
		switch string(key) {
		case "kind":
			return r.intoText((*string)(&e.Kind))
		case "message_id":
			return r.intoText(&e.MessageID)
		case "tenant":
			return r.intoText(&e.Tenant)
		case "channel":
			return r.intoText(&e.Channel)
		case "class":
			return r.intoText(&e.Class)
		case "template":
			return r.intoText(&e.Template)
		case "to":
			return r.intoText(&e.To)
		case "status":
			return r.intoText((*string)(&e.Status))
		case "at":
			return r.intoTime(&e.At)
		case "reason":
			return r.intoText(&e.Reason)
		case "attempt":
			return r.intoCount(&e.Attempt)
		case "provider":
			return r.intoText(&e.Provider)
		case "provider_message_id":
			return r.intoText(&e.ProviderMessageID)
		case "error_code":
			return r.intoText(&e.ErrorCode)
		case "error":
			return r.intoText(&e.Error)
		case "limit":
			return r.intoText(&e.Limit)
		case "window":
			return r.intoText(&e.Window)
		case "retry_at":
			return r.intoTime(&e.RetryAt)
		case "accepted_at":
			return r.intoTime(&e.AcceptedAt)
		case "segments":
			return r.intoCount(&e.Segments)
		case "cost":
			return r.intoCount(&e.Cost)
		case "price":
			return r.intoText(&e.Price)
		case "currency":
			return r.intoText(&e.Currency)
		case "duplicate_of":
			return r.intoText(&e.DuplicateOf)
		case "redrive_of":
			return r.intoText(&e.RedriveOf)
		case "observed":
			return r.intoBool(&e.Observed)
		case "callback_url":
			return r.intoText(&e.CallbackURL)
		case "source":
			return r.intoSource(&e.Source)
		case "decision":
			return r.intoDecision(&e.Decision)
		}
		return r.skip()
	})
}

func (r *jsonReader) intoCount(dst *int) bool {
	v := int64(*dst)
	ok := r.intoInt(&v, strconv.IntSize)
	*dst = int(v)
	return ok
}

func (r *jsonReader) intoInt32(dst *int32) bool {
	v := int64(*dst)
	ok := r.intoInt(&v, 32)
	*dst = int32(v)
	return ok
}

func (r *jsonReader) intoSource(dst **Source) bool {
	if was, ok := r.null(); was || !ok {
		*dst = nil
		return ok
	}
	s := &Source{}
	*dst = s
	return r.object(func(key []byte) bool {
		switch string(key) {
		case "topic":
			return r.intoText(&s.Topic)
		case "partition":
			return r.intoInt32(&s.Partition)
		case "offset":
			return r.intoInt(&s.Offset, 64)
		}
		return r.skip()
	})
}

func (r *jsonReader) intoDecision(dst **Decision) bool {
	if was, ok := r.null(); was || !ok {
		*dst = nil
		return ok
	}
	d := &Decision{}
	*dst = d
	return r.object(func(key []byte) bool {
		switch string(key) {
		case "verdict":
			return r.intoText((*string)(&d.Verdict))
		case "partition":
			return r.intoInt32(&d.Partition)
		case "seq":
			return r.intoInt(&d.Seq, 64)
		case "t":
			return r.intoTime(&d.T)
		case "revision":
			return r.intoInt(&d.Revision, 64)
		case "input":
			return r.intoSource(&d.Input)
		case "charges":
			return r.intoCharges(&d.Charges)
		case "returned":
			return r.intoCharges(&d.Returned)
		case "missing":
			return r.intoCharges(&d.Missing)
		case "carried":
			return r.intoCharges(&d.Carried)
		case "passed":
			return r.intoAsks(&d.Passed)
		case "restored":
			return r.intoCharges(&d.Restored)
		case "released":
			return r.intoCharges(&d.Released)
		case "reinstated":
			return r.intoCharges(&d.Reinstated)
		case "onward":
			return r.intoPartition(&d.Onward)
		case "evidence":
			return r.intoEvidence(&d.Evidence)
		case "marker":
			return r.intoMarker(&d.Marker)
		}
		return r.skip()
	})
}

func (r *jsonReader) intoCharges(dst *[]Charge) bool {
	*dst = nil
	if was, ok := r.null(); was || !ok {
		return ok
	}
	return r.array(func() bool {
		*dst = append(*dst, Charge{})
		c := &(*dst)[len(*dst)-1]
		if was, ok := r.null(); was || !ok {
			return ok
		}
		return r.object(func(key []byte) bool {
			switch string(key) {
			case "limit":
				return r.intoText(&c.Limit)
			case "scope":
				return r.intoText(&c.Scope)
			case "t":
				return r.intoTime(&c.T)
			case "cost":
				return r.intoInt(&c.Cost, 64)
			}
			return r.skip()
		})
	})
}

func (r *jsonReader) intoEvidence(dst *[]Evidence) bool {
	*dst = nil
	if was, ok := r.null(); was || !ok {
		return ok
	}
	return r.array(func() bool {
		*dst = append(*dst, Evidence{})
		v := &(*dst)[len(*dst)-1]
		if was, ok := r.null(); was || !ok {
			return ok
		}
		return r.object(func(key []byte) bool {
			switch string(key) {
			case "limit":
				return r.intoText(&v.Limit)
			case "scope":
				return r.intoText(&v.Scope)
			case "window":
				return r.intoText(&v.Window)
			case "n":
				return r.intoInt(&v.N, 64)
			case "count":
				return r.intoInt(&v.Count, 64)
			case "cost":
				return r.intoInt(&v.Cost, 64)
			case "oldest":
				return r.intoTime(&v.Oldest)
			case "start":
				return r.intoTime(&v.Start)
			case "since":
				return r.intoTime(&v.Since)
			}
			return r.skip()
		})
	})
}

func (r *jsonReader) intoMarker(dst **Marker) bool {
	if was, ok := r.null(); was || !ok {
		*dst = nil
		return ok
	}
	m := &Marker{}
	*dst = m
	return r.object(func(key []byte) bool {
		switch string(key) {
		case "revision":
			return r.intoInt(&m.Revision, 64)
		case "seq":
			return r.intoInt(&m.Seq, 64)
		case "t":
			return r.intoTime(&m.T)
		case "since":
			return r.intoSince(&m.Since)
		}
		return r.skip()
	})
}

func (r *jsonReader) intoSince(dst *map[string]map[string]Millis) bool {
	*dst = nil
	if was, ok := r.null(); was || !ok {
		return ok
	}
	return r.object(func(key []byte) bool {
		limit := string(key)
		if *dst == nil {
			*dst = make(map[string]map[string]Millis)
		}
		(*dst)[limit] = nil
		if was, ok := r.null(); was || !ok {
			return ok
		}
		windows := make(map[string]Millis)
		(*dst)[limit] = windows
		return r.object(func(key []byte) bool {
			window := string(key)
			var since Millis
			ok := r.intoTime(&since)
			windows[window] = since
			return ok
		})
	})
}
