package admission

import (
	"testing"

	"github.com/weirhq/weir/schemas"
)

const handedPolicy = `
limits:
  - {name: code, match: {class: code}, per: [recipient], allow: [1/60s]}
providers:
  - {name: mine, type: external, channels: [sms], lanes: 3, price: {currency: CNY, per_segment: 0.045}}
  - {name: nobody, type: none, channels: [sms]}
`

// A message whose provider Weir does not call ends when it is admitted, and
// takes its places like any other.
func TestEndsWhenHandedOver(t *testing.T) {
	both(t, func(t *testing.T, again func(*bench)) {
		b := newBench(t)
		b.apply(2, handedPolicy)
		const mine = `{"provider":"mine","priority":"urgent","channel":"sms","to":"+8613800000000","class":"code","body":"x"}`
		o := b.want(b.request(mine), "sent admit +1 > dispatch.mine.urgent")
		if s := o.send[0]; s.partition != schemas.PartitionOf(codeTo, 3) || len(s.env.Place) != 1 || s.env.DecidedAt != b.now || s.env.ID != o.event.MessageID {
			t.Errorf("handed over as %+v", s)
		}
		if e := o.event; e.Provider != "mine" || e.Price != "0.045" || e.Currency != "CNY" || e.Attempt != 0 {
			t.Errorf("%+v", e)
		}
		again(b)
		const nobody = `{"provider":"nobody","channel":"sms","to":"+8613800000000","class":"code","body":"x"}`
		b.want(b.request(nobody), "limited refuse limited")
		b.now += 60_000
		again(b)
		if e := b.want(b.request(nobody), "sent admit +1").event; e.Price != "" || e.Provider != "nobody" {
			t.Errorf("%+v", e)
		}
		again(b)
		b.want(b.request(mine), "limited refuse limited")
	})
}
