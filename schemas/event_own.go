package schemas

// EventReader reads records of weir.status one after the other, as they are read
// where millions are: without a copy of the value, and with room that is used
// again. Its zero value is ready. Not for concurrent use.
type EventReader struct {
	event         Event
	source, input Source
	decision      Decision
	onward        int32
}

// Read reads as DecodeEvent does, with its errors. The event is good until the
// next Read, and its strings are parts of value where that is written just as
// AppendEvent writes it: value must not change while they are in use.
func (r *EventReader) Read(value string) (*Event, error) {
	t := ownText{value, true}
	r.read(&t)
	if t.ok && t.s == "" {
		return &r.event, nil
	}
	return DecodeEvent([]byte(value))
}

// read reads what AppendEvent writes, but for a marker, of which there is one a
// partition and revision.
func (r *EventReader) read(t *ownText) {
	r.event = Event{}
	e := &r.event
	t.must(`{"kind":`)
	e.Kind = Kind(t.text())
	textIf := func(lit string, dst *string) {
		if t.is(lit) {
			*dst = t.text()
		}
	}
	textIf(`,"message_id":`, &e.MessageID)
	textIf(`,"tenant":`, &e.Tenant)
	textIf(`,"channel":`, &e.Channel)
	textIf(`,"class":`, &e.Class)
	textIf(`,"template":`, &e.Template)
	textIf(`,"to":`, &e.To)
	if t.is(`,"status":`) {
		e.Status = Status(t.text())
	}
	t.must(`,"at":`)
	e.At = t.instant()
	textIf(`,"reason":`, &e.Reason)
	if t.is(`,"attempt":`) {
		e.Attempt = int(t.number())
	}
	textIf(`,"provider":`, &e.Provider)
	textIf(`,"provider_message_id":`, &e.ProviderMessageID)
	textIf(`,"error_code":`, &e.ErrorCode)
	textIf(`,"error":`, &e.Error)
	textIf(`,"limit":`, &e.Limit)
	textIf(`,"window":`, &e.Window)
	if t.is(`,"retry_at":`) {
		e.RetryAt = t.instant()
	}
	if t.is(`,"accepted_at":`) {
		e.AcceptedAt = t.instant()
	}
	if t.is(`,"segments":`) {
		e.Segments = int(t.number())
	}
	if t.is(`,"cost":`) {
		e.Cost = int(t.number())
	}
	textIf(`,"price":`, &e.Price)
	textIf(`,"currency":`, &e.Currency)
	textIf(`,"duplicate_of":`, &e.DuplicateOf)
	textIf(`,"redrive_of":`, &e.RedriveOf)
	e.Observed = t.is(`,"observed":true`)
	textIf(`,"callback_url":`, &e.CallbackURL)
	if t.is(`,"source":`) {
		e.Source = t.source(&r.source)
	}
	if t.is(`,"decision":`) {
		e.Decision = r.readDecision(t)
	}
	t.must("}")
}

func (r *EventReader) readDecision(t *ownText) *Decision {
	d := &r.decision
	*d = Decision{
		Charges: d.Charges[:0], Returned: d.Returned[:0], Missing: d.Missing[:0], Carried: d.Carried[:0], Passed: d.Passed[:0],
		Restored: d.Restored[:0], Released: d.Released[:0], Reinstated: d.Reinstated[:0], Evidence: d.Evidence[:0],
	}
	t.must(`{"verdict":`)
	d.Verdict = Verdict(t.text())
	t.must(`,"partition":`)
	d.Partition = t.int32()
	t.must(`,"seq":`)
	d.Seq = t.number()
	t.must(`,"t":`)
	d.T = t.instant()
	t.must(`,"revision":`)
	d.Revision = t.number()
	if t.is(`,"input":`) {
		d.Input = t.source(&r.input)
	}
	charges := func(lit string, dst *[]Charge) {
		if t.is(lit) {
			*dst = t.chargesInto(*dst)
		}
	}
	charges(`,"charges":`, &d.Charges)
	charges(`,"returned":`, &d.Returned)
	charges(`,"missing":`, &d.Missing)
	charges(`,"carried":`, &d.Carried)
	if t.is(`,"passed":`) {
		d.Passed = append(d.Passed, t.asks()...)
	}
	charges(`,"restored":`, &d.Restored)
	charges(`,"released":`, &d.Released)
	charges(`,"reinstated":`, &d.Reinstated)
	if t.is(`,"onward":`) {
		r.onward = t.int32()
		d.Onward = &r.onward
	}
	if t.is(`,"evidence":`) {
		t.list(func() { d.Evidence = append(d.Evidence, t.evidence()) })
	}
	t.must("}")
	return d
}

func (r *ownText) source(s *Source) *Source {
	r.must(`{"topic":`)
	s.Topic = r.text()
	r.must(`,"partition":`)
	s.Partition = r.int32()
	r.must(`,"offset":`)
	s.Offset = r.number()
	r.must("}")
	return s
}

func (r *ownText) evidence() (v Evidence) {
	r.must(`{"limit":`)
	v.Limit = r.text()
	r.must(`,"scope":`)
	v.Scope = r.text()
	r.must(`,"window":`)
	v.Window = r.text()
	r.must(`,"n":`)
	v.N = r.number()
	r.must(`,"count":`)
	v.Count = r.number()
	r.must(`,"cost":`)
	v.Cost = r.number()
	if r.is(`,"oldest":`) {
		v.Oldest = r.instant()
	}
	if r.is(`,"start":`) {
		v.Start = r.instant()
	}
	if r.is(`,"since":`) {
		v.Since = r.instant()
	}
	r.must("}")
	return v
}

// int32 reads a number that fits.
func (r *ownText) int32() int32 {
	v := r.number()
	if v != int64(int32(v)) {
		r.ok = false
	}
	return int32(v)
}
