package receipt

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/optout"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Inbox turns messages from recipients into requests: a STOP suppresses who wrote
// it, a START lifts exactly what such a STOP suppresses. Any other does nothing. It
// may be used from any goroutine.
type Inbox struct {
	requests   string // topic
	partitions int32  // N
	policy     func() *schemas.Policy
	taken      *prometheus.CounterVec
}

// wordInvalid stands in the metric for the word of whom cannot be read who wrote it.
const wordInvalid = "invalid"

// NewInbox returns an inbox that writes to weir.requests of so many partitions.
// policy is the one in force.
func NewInbox(names topics.Names, partitions int32, policy func() *schemas.Policy, reg prometheus.Registerer) *Inbox {
	b := &Inbox{requests: names.Requests(), partitions: partitions, policy: policy, taken: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_inbound_total", Help: "Messages from recipients by provider and what they say: stop, start, help, other; invalid where who wrote cannot be read.",
	}, []string{"provider", "word"})}
	for _, p := range policy().Providers { // 0 before the first: else its increase is not seen
		for _, w := range []string{string(optout.Stop), string(optout.Start), string(optout.Help), string(optout.Other), wordInvalid} {
			b.taken.WithLabelValues(p.Name, w)
		}
	}
	if reg != nil {
		reg.MustRegister(b.taken)
	}
	return b
}

// ErrSender is an inbound message of whom cannot be read who wrote it.
var ErrSender = errors.New("who wrote it cannot be read")

// Take counts a message of a provider and returns the record that asks for what it
// says; nil where it asks for nothing. The error is ErrSender; it holds no
// recipient.
func (b *Inbox) Take(p *schemas.Provider, in provider.Inbound) (*kgo.Record, error) {
	word := optout.Word(in.Word)
	switch word {
	case optout.Stop, optout.Start, optout.Help:
	default:
		word = optout.Read(in.Text)
	}
	if word != optout.Stop && word != optout.Start {
		b.taken.WithLabelValues(p.Name, string(word)).Inc()
		return nil, nil
	}
	channel := in.Channel
	if channel == "" && len(p.Channels) > 0 {
		channel = p.Channels[0]
	}
	// A number without a country is one of the country that the tenant's numbers are read in.
	tenant, _ := b.policy().Tenant(cmp.Or(in.Tenant, schemas.DefaultTenant))
	who, err := recipient.Canonical(channel, in.From, tenant.DefaultRegion)
	if err != nil {
		b.taken.WithLabelValues(p.Name, wordInvalid).Inc()
		return nil, fmt.Errorf("%w: %w", ErrSender, err)
	}
	value := request.Suppress(who.Key, in.Tenant, channel, in.Class, schemas.SuppressStop, p.Name)
	if word == optout.Start {
		value = request.Unsuppress(who.Key, in.Tenant, channel, in.Class, "start", p.Name)
	}
	b.taken.WithLabelValues(p.Name, string(word)).Inc()
	return &kgo.Record{Topic: b.requests, Partition: schemas.PartitionOf(who.Key, b.partitions), Key: []byte(who.Key), Value: value}, nil
}

// Writer returns what takes a provider's messages that come over an adapter's own
// connection: it returns when what they ask for is safe in Kafka. cl is as for
// NewWriter.
func (b *Inbox) Writer(cl *kgo.Client, p schemas.Provider) func(provider.Inbound) error {
	return func(in provider.Inbound) error {
		rec, err := b.Take(&p, in)
		if rec == nil || err != nil { // who wrote it does not get readable by sending it again
			return nil
		}
		return cl.ProduceSync(context.Background(), rec).FirstErr()
	}
}
