package faultsim

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
)

// send is one record of weir.requests to be.
type send struct {
	at        time.Duration
	partition int32
	key       string
	value     []byte
	message   bool // it asks for a message, so it must have an end
	metadata  map[string]string
	replyTo   string            // the header weir-reply; "" for none
	ask       *schemas.QuotaAsk // it is a question, on weir.readmit
	once      string            // of all sends with the same word, one may be taken; "" for most
	headers   []kgo.RecordHeader
	again     *record // it is one of several of a message; nil for most
}

// spellings are ways to write the mobile number +86 138 0000 000N.
var spellings = []string{
	"+861380000000%d", "+861380000000%d", "1380000000%d", "138 0000 000%d", "+86 138-0000-000%d", "(+86) 1380000000%d", "00861380000000%d", "+86 0 1380000000%d",
}

// magic are recipients to which the simulated provider does something else than
// to accept: see docs/simulated.md.
var magic = []string{
	"+15005550001", "+15005550002", "+15005550004", "+15005550008", "+15005550009", "+15005550010", "+15005550011", "+15005550012", "+15005550021", "+15005550031",
	"permanent@example.com", "transient-1@Example.com", "timeout-1@example.com", "maybe@example.com", "undelivered@example.com", "delivered@EXAMPLE.com", "bounce@example.com",
	"Permanent@example.com", "TIMEOUT-1@example.com", "Undelivered@Example.com", "BOUNCE@example.com",
}

// bounces are those that a lane has suppressed, by a request of its own.
var bounces = []string{"+15005550010", "bounce@example.com"}

// traffic draws the requests of a plan.
func traffic(p *Plan) []send {
	r, weigh := rand.New(rand.NewPCG(p.Seed, 0x74726166)), weights(p)
	var all []send
	type sent struct{ id, to, tenant string }
	var ids []sent
	var keyed []schemas.Request
	for len(all) < p.Requests {
		// Bursts, and then the edges of the windows that they opened.
		at := time.Duration(r.Int64N(int64(p.Span)))
		to := fmt.Sprint(1 + r.IntN(3))
		for range 1 + r.IntN(8) {
			if edge := r.IntN(5); edge == 0 {
				w := []time.Duration{3 * time.Second, 5 * time.Second, 10 * time.Second}[r.IntN(3)]
				at += w + time.Duration(r.IntN(3)-1)*time.Millisecond
			} else if edge == 1 {
				at += time.Duration(r.IntN(400)) * time.Millisecond
			}
			q := schemas.Request{Channel: schemas.ChannelSMS, Class: "verify", Body: fmt.Sprintf("code %06d", r.IntN(1_000_000)), Cost: weigh()}
			number := 0
			fmt.Sscan(to, &number)
			q.To = fmt.Sprintf(spellings[r.IntN(len(spellings))], number)
			if p.Wide {
				beyond(r, &q)
			}
			s := send{at: at, message: true}
			switch n := r.IntN(100); {
			case n < 25:
				q.Class = "notice"
				if r.IntN(3) == 0 {
					q.Body = "消息" + q.Body + ": a text that needs two parts, because it has characters that GSM-7 does not have, and is long"
				}
			case n < 45:
				q.To = magic[r.IntN(len(magic))]
				if q.To[0] != '+' {
					q.Channel, q.Subject = schemas.ChannelEmail, "code"
				}
				q.Class = []string{"verify", "notice", "hold"}[r.IntN(3)]
			case n < 50:
				q.SendAt = schemas.MillisOf(p.Start.Add(at + time.Duration(r.IntN(15_000))*time.Millisecond))
				q.ID = draw(r)
				ids = append(ids, sent{q.ID, q.To, q.Tenant})
				s.once = "id " + q.ID
			case n < 55:
				q.ID = draw(r)
				ids = append(ids, sent{q.ID, q.To, q.Tenant})
				keyed = append(keyed, q)
				s.once = "id " + q.ID
			case n < 61:
				q.IdempotencyKey = fmt.Sprintf("key-%d", r.Uint32())
				keyed = append(keyed, q)
				s.once = "key " + q.IdempotencyKey
			case n < 75 && len(keyed) > 0:
				q = keyed[r.IntN(len(keyed))] // again, word for word
				s.once = "id " + q.ID
				if q.ID == "" {
					s.once = "key " + q.IdempotencyKey
				}
			case n < 80 && len(ids) > 0:
				i := ids[r.IntN(len(ids))]
				q = schemas.Request{Action: schemas.ActionCancel, ID: i.id, To: i.to, Tenant: i.tenant}
				s.message = false
			case n < 82:
				q = schemas.Request{Action: schemas.ActionSuppress, To: q.To}
				if r.IntN(2) == 0 {
					q.Class = "notice"
				}
				s.message = false
				if r.IntN(3) == 0 { // whom a lane has suppressed, as it has or otherwise
					q.To, q.Class = bounces[r.IntN(len(bounces))], ""
					if r.IntN(2) == 0 {
						q.Channel, q.Tenant = schemas.ChannelSMS, schemas.DefaultTenant
						if q.To[0] != '+' {
							q.Channel = schemas.ChannelEmail
						}
					}
				}
				terms(r, p, at, &q)
				for range r.IntN(3) { // and anew: until another time, or for another reason, or just so
					later := at + time.Duration(r.IntN(3000))*time.Millisecond
					other := q
					terms(r, p, later, &other)
					all = append(all, place(r, p, send{at: later}, &other))
				}
				back := q
				back.Action = schemas.ActionUnsuppress
				all = append(all, place(r, p, send{at: at + time.Duration(r.IntN(5000))*time.Millisecond}, &back))
			case n < 83:
				q.To = "138" // no number
			case n < 93 && p.Wide:
				// What a round meets on its way: a cancel, an opt-out, its expiry.
				soon := func() time.Duration { return at + time.Duration(r.IntN(40))*time.Millisecond }
				switch r.IntN(4) {
				case 0:
					q.ID = draw(r)
					s.once = "id " + q.ID
					all = append(all, place(r, p, send{at: soon()}, &schemas.Request{Action: schemas.ActionCancel, ID: q.ID, To: q.To, Tenant: q.Tenant}))
				case 1:
					for _, a := range []schemas.Action{schemas.ActionSuppress, schemas.ActionUnsuppress} {
						all = append(all, place(r, p, send{at: soon()}, &schemas.Request{Action: a, Channel: q.Channel, To: q.To}))
					}
				case 2:
					q.ExpiresAt = schemas.MillisOf(p.Start.Add(soon()))
				case 3:
					q = schemas.Request{Action: schemas.ActionRecord, Channel: q.Channel, To: q.To, Class: q.Class, Tenant: q.Tenant, Metadata: q.Metadata, Cost: q.Cost, At: schemas.MillisOf(p.Start.Add(at - time.Second))}
					s.message = false
				}
			}
			all = append(all, place(r, p, s, &q))
		}
	}
	if p.Gate {
		all = append(all, decisions(p)...)
	}
	all = append(all, questions(p, all)...)
	slices.SortStableFunc(all, func(a, b send) int { return cmp.Compare(a.at, b.at) })
	addressed(p, all)
	return all
}

// terms draws until when a suppression stands, and why: often for as short that
// messages come on both sides of its end, and sometimes over before it is decided.
func terms(r *rand.Rand, p *Plan, at time.Duration, q *schemas.Request) {
	q.ExpiresAt, q.Metadata = 0, nil
	if r.IntN(3) > 0 {
		q.ExpiresAt = schemas.MillisOf(p.Start.Add(at + time.Duration(r.IntN(4000))*time.Millisecond))
	}
	if r.IntN(2) == 0 {
		q.Metadata = map[string]string{schemas.MetaReason: []string{"stop", "hard_bounce", "asked"}[r.IntN(3)]}
	}
}

// decisions draws messages that name the provider that only decides, and others
// that may come to it, and releases of them: before, soon after, at the edges of
// windows, more than once.
func decisions(p *Plan) (all []send) {
	r, weigh := rand.New(rand.NewPCG(p.Seed, 0x64656369)), weights(p)
	for range p.Requests / 3 {
		at := time.Duration(r.Int64N(int64(p.Span)))
		q := schemas.Request{
			ID: draw(r), Channel: schemas.ChannelSMS, Class: []string{"verify", "notice"}[r.IntN(2)], Body: "code", Cost: weigh(),
			To: fmt.Sprintf("+861380000000%d", 1+r.IntN(3)),
		}
		if r.IntN(4) > 0 {
			q.Provider = "nobody"
		} else if r.IntN(2) == 0 { // a lane tries first
			q.To = magic[r.IntN(9)]
		}
		if p.Wide {
			beyond(r, &q)
		}
		all = append(all, place(r, p, send{at: at, message: true, once: "id " + q.ID}, &q))
		for range r.IntN(3) {
			later := []time.Duration{-50 * time.Millisecond, 20 * time.Millisecond, time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second}[r.IntN(6)]
			later += time.Duration(r.Int64N(int64(100 * time.Millisecond)))
			all = append(all, place(r, p, send{at: max(at+later, 0)}, &schemas.Request{Action: schemas.ActionRelease, ID: q.ID, To: q.To, Tenant: q.Tenant}))
		}
	}
	return all
}

// weights draws costs, for limits that count them: one in ten messages is more than some
// window ever allows. They have numbers of their own, so that a seed has the traffic that
// it had without them.
func weights(p *Plan) func() int {
	r := rand.New(rand.NewPCG(p.Seed, 0x636f7374))
	return func() int { return []int{0, 0, 0, 0, 0, 2, 2, 3, 4, 12}[r.IntN(10)] }
}

// beyond gives a request what limits beyond its recipient tell apart: a tenant, an
// address, and more recipients than one partition has.
func beyond(r *rand.Rand, q *schemas.Request) {
	q.Tenant = []string{"", "", "acme", "acme", "umbrella"}[r.IntN(5)]
	if ip := r.IntN(4); ip > 0 {
		q.Metadata = map[string]string{"ip": fmt.Sprintf("10.0.0.%d", ip)}
	}
	if r.IntN(2) == 0 {
		q.To = fmt.Sprintf("+861380000000%d", 4+r.IntN(6))
	}
}

// place encodes a request and chooses its partition as one of many clients
// would.
func place(r *rand.Rand, p *Plan, s send, q *schemas.Request) send {
	s.value, s.metadata = schemas.RequestJSON(q), q.Metadata
	s.key = q.To
	switch r.IntN(4) {
	case 0:
		s.partition = int32(crc32.ChecksumIEEE([]byte(s.key)) % uint32(p.Partitions))
	case 1:
		s.partition, s.key = r.Int32N(p.Partitions), ""
	default:
		s.partition = schemas.PartitionOf(s.key, p.Partitions)
	}
	return s
}

// draw makes an id as a producer of requests would.
func draw(r *rand.Rand) string {
	var b [16]byte
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	id, _ := uuid.FromBytes(b[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.String()
}
