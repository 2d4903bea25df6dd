package e2e

import (
	"fmt"
	"math/rand/v2"

	"github.com/google/uuid"

	"github.com/weirhq/weir/schemas"
)

// Trace makes requests from a seed: the same seed, the same requests. Most go
// to phones in many spellings, a fifth of them to a few hot ones; the others to
// the simulated provider's magic e-mail addresses.
type Trace struct {
	rng        *rand.Rand
	recipients int
	hot        int
	keyed      map[string][]schemas.Request // requests with a key, by recipient: some come again
	calm       bool                         // no more addresses whose calls fail and are tried again
}

// NewTrace returns the trace of a seed over so many recipients.
func NewTrace(seed uint64, recipients int) *Trace {
	return &Trace{
		rng: rand.New(rand.NewPCG(seed, 1)), recipients: recipients, hot: max(recipients/200, 1),
		keyed: make(map[string][]schemas.Request),
	}
}

// spellings are ways in which people write one Chinese mobile number, of which
// they are given the two halves of its last eight digits.
var spellings = []string{
	"+86138%04d%04d", "+86138%04d%04d", "+86138%04d%04d", // as most programs do
	"138%04d%04d", "138 %04d %04d", "+86 138 %04d %04d", "+86 138-%04d-%04d", "(+86) 138%04d%04d", "0086138%04d%04d",
}

// magic are what the simulated provider does to an e-mail address; see
// processor/provider/simulated. Most second calls succeed: five failures in a row
// open the provider's breaker, and this trace is not about breakers.
var magic = []string{
	"transient-1", "transient-1", "transient-1", "permanent", "permanent", "maybe", "undelivered",
	"delivered", "delivered", "delivered", "delivered", "permanent", "delivered", "undelivered",
}

// Next returns the next request and the key that its producer gives the
// record: the recipient as spelled; empty is none.
func (t *Trace) Next() (q schemas.Request, key string) {
	r := t.rng
	q = schemas.Request{Channel: schemas.ChannelSMS, Class: "verify", Body: fmt.Sprintf("code %06d", r.IntN(1_000_000))}
	q.Tenant = []string{"", "", "", "acme", "acme", "umbrella"}[r.IntN(6)]
	n := r.IntN(t.recipients)
	if r.IntN(5) == 0 {
		n = r.IntN(t.hot)
	}
	q.To = fmt.Sprintf(spellings[r.IntN(len(spellings))], n/10_000, n%10_000)
	switch p := r.IntN(100); {
	case p < 3:
		q.Channel, q.Subject = schemas.ChannelEmail, "code"
		kind := magic[r.IntN(len(magic))]
		if t.calm && kind != "permanent" {
			kind = "delivered"
		}
		q.To = fmt.Sprintf("%s@%c%d.example.com", kind, "aA"[r.IntN(2)], n%(t.recipients/20+1))
	case p < 13:
		q.Class = "notice"
	}
	// A request with a key comes again now and then, word for word.
	name := fmt.Sprint(n)
	switch again := t.keyed[name]; r.IntN(50) {
	case 0:
		q.IdempotencyKey = fmt.Sprintf("key-%d", r.Uint32())
		t.keyed[name] = append(again, q)
	case 1:
		var b [16]byte
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		id, _ := uuid.FromBytes(b[:])
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4: the producer's own
		q.ID = id.String()
		t.keyed[name] = append(again, q)
	case 2, 3, 4:
		if len(again) > 0 {
			q = again[r.IntN(len(again))]
		}
	}
	if key = q.To; r.IntN(20) == 0 {
		key = ""
	}
	return q, key
}
