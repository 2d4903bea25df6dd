package admission

import (
	"cmp"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/limit"
	"github.com/weirhq/weir/schemas"
)

// foreseen is how many records are read before the first of them is decided.
const foreseen = 64

// read reads records and tells their partitions' tables whom they are about, so
// that no decision waits for memory that the one before could have asked for. It
// decides nothing: by the time of its decision a record may meet another policy.
func (s *stage) read(records []*kgo.Record) []input {
	if s.batch == nil {
		s.batch = make([]input, foreseen)
	}
	readmit := s.env.names.Readmit()
	for i, r := range records {
		s.readAhead(&s.batch[i], r, r.Topic == readmit)
	}
	for _, p := range s.parts {
		if len(p.ahead) > 0 {
			p.table.Touch(p.cur.rules, p.ahead)
			p.ahead = p.ahead[:0]
		}
	}
	return s.batch[:len(records)]
}

// foresee takes the recipient for canonical, and fields that a limit seldom
// counts by for absent: where that is wrong, the table has prepared another place.
func (p *partition) foresee(in *input) {
	switch in.env.Reason {
	case schemas.ReadmitGiveBack, schemas.ReadmitUnwind, schemas.ReadmitCharge, schemas.ReadmitCharged:
		return
	}
	if in.foreign {
		return
	}
	if req, err := in.request(); err == nil && req.Action == schemas.ActionSend {
		p.ahead = append(p.ahead, limit.Subject{
			Recipient: cmp.Or(in.env.Key, req.To), Channel: string(req.Channel), Template: req.Template,
			Tenant: cmp.Or(req.Tenant, schemas.DefaultTenant), Class: cmp.Or(req.Class, schemas.DefaultClass), Metadata: req.Metadata,
		})
	}
}
