package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/google/uuid"

	"github.com/weirhq/weir/cmd/weir/e2e"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const (
	tenants    = 40
	recipients = 12_000
)

// traffic is what both systems get: the same seed, the same requests.
type traffic struct {
	rng    *rand.Rand
	shares []float64 // of tenants, added up
}

func newTraffic(seed uint64) *traffic {
	t := &traffic{rng: rand.New(rand.NewPCG(seed, 1))}
	sum := 0.0
	for i := range tenants {
		sum += 1 / math.Sqrt(float64(i+1)) // few are large, most are small
		t.shares = append(t.shares, sum)
	}
	return t
}

// next returns a request with an id of its own.
func (t *traffic) next() schemas.Request {
	tenant, _ := slices.BinarySearch(t.shares, t.rng.Float64()*t.shares[tenants-1])
	var b [16]byte
	for i := range b {
		b[i] = byte(t.rng.Uint32())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // UUID version 4
	return schemas.Request{
		ID: uuid.UUID(b).String(), Tenant: fmt.Sprintf("t%02d", tenant), Channel: schemas.ChannelSMS, Class: "verify",
		To: fmt.Sprintf("+86138%08d", t.rng.IntN(recipients)), Body: fmt.Sprintf("code %06d", t.rng.IntN(1_000_000)),
	}
}

// produce writes n requests in e2e.Bursts, on both sides of each fifth second, where
// windows that align with a clock begin. It returns the tenants of all ids.
func produce(ctx context.Context, brokers []string, names topics.Names, t *traffic, n, perSecond int) (map[string]string, error) {
	p, err := e2e.NewProducer(brokers, names, e2e.Murmur2)
	if err != nil {
		return nil, err
	}
	made := make(map[string]string, n)
	if err := e2e.Bursts(ctx, n, perSecond, func(int) {
		q := t.next()
		made[q.ID] = q.Tenant
		p.Send(ctx, &q, q.To)
	}); err != nil {
		return nil, err
	}
	acked, err := p.Close(ctx)
	if err == nil && len(acked) != n {
		err = fmt.Errorf("%d of %d requests were acknowledged", len(acked), n)
	}
	return made, err
}
