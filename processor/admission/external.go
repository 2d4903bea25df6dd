package admission

import "github.com/weirhq/weir/schemas"

// handOver ends a message whose provider Weir does not call: nobody after
// admission will tell its end, so its dispatch is it. One of type external
// goes to its dispatch topic, for its consumer. One of type none goes nowhere, and may be taken back.
func (p *partition) handOver(m *message, o outcome) outcome {
	v, _ := p.cur.pol.Provider(m.env.Provider)
	if v.HasLane() {
		return o
	}
	e := &o.event
	e.Status = schemas.StatusSent
	if v.Price != nil {
		e.Price, e.Currency = v.Price.Of(e.Segments), v.Price.Currency
	}
	if v.Type == schemas.ProviderNone {
		p.hold(m, o.send[0].env.Place)
		o.send = nil
	}
	return o
}
