package faultsim

import (
	"fmt"
	"slices"
	"sync"

	"github.com/weirhq/weir/schemas"
)

// policies are what a plan chooses from and changes between: more, fewer,
// longer windows, new limits, in the part of the language that the oracle
// knows.
var policies = []string{`
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [2/5s, 4/20s, 50/calendar-day], timezone: Asia/Shanghai}
  - {name: everyone, per: [recipient], allow: [5/5s, 12/calendar-minute]}
  - {name: later, match: {class: notice}, per: [recipient, class], allow: [1/5s], on_refusal: defer}
`, `
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [1/5s, 3/20s, 9/calendar-hour], timezone: America/New_York}
  - {name: everyone, per: [recipient], allow: [3/5s, 8/calendar-minute]}
  - {name: later, match: {class: notice}, per: [recipient, class], allow: [2/4s], on_refusal: defer}
  - {name: tries, match: {class: verify}, per: [recipient], allow: [6/30s], count: attempt}
  - {name: weight, per: [recipient], allow: [9/10s, 60/calendar-hour], count: cost}
`, `
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [3/5s, 6/40s, 30/calendar-day], timezone: America/New_York, overrides: [{to: "+8613800000001", allow: [1/10s]}]}
  - {name: everyone, per: [recipient], allow: [6/5s, 14/calendar-minute], exempt: ["+8613800000002"]}
  - {name: parts, match: {class: notice}, per: [recipient], allow: [9/15s], count: segments}
`, `
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [2/10s, 4/20s, 20/calendar-month], timezone: Asia/Shanghai}
  - {name: addresses, match: {channel: email}, per: [recipient, channel], allow: [2/8s]}
  - {name: later, match: {class: notice}, per: [recipient], allow: [3/10s], on_refusal: defer}
  - {name: weight, match: {class: notice}, per: [recipient, class], allow: [6/12s], count: cost, on_refusal: defer}
`}

// wide are those with limits beyond one recipient: two or more on every message,
// in which tenants and classes meet. From one to another, limits come and go, are
// turned off and on, have another n, unit, per or place in the order, and count
// over recipients where they counted one.
var wide = []string{`
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [2/5s, 4/20s]}
  - {name: tenant, per: [tenant], allow: [5/4s, 30/calendar-minute], timezone: Asia/Shanghai}
  - {name: everybody, per: [], allow: [9/4s]}
  - {name: load, per: [tenant, class], allow: [14/6s, 90/calendar-minute], count: cost}
`, `
  - {name: everybody, per: [], allow: [12/5s, 60/calendar-hour]}
  - {name: everyone, per: [recipient], allow: [5/5s, 12/calendar-minute]}
  - {name: tenant, per: [tenant], allow: [4/3s]}
`, `
  - {name: ip, match: {class: verify}, per: [metadata.ip], allow: [5/6s]}
  - {name: verify, match: {class: verify}, per: [recipient, class], allow: [2/5s, 4/20s]}
  - {name: tenant, per: [tenant, class], allow: [6/4s]}
  - {name: everybody, per: [], allow: [7/4s], on_refusal: defer}
`, `
  - {name: everybody, per: [], allow: [8/3s], mode: off}
  - {name: prefix, per: ["prefix:4"], allow: [4/5s], mode: observe}
  - {name: parts, match: {class: notice}, per: [tenant], allow: [9/15s], count: segments, on_refusal: defer}
  - {name: tenant, per: [tenant], allow: [6/4s]}
  - {name: later, match: {class: notice}, per: [recipient, class], allow: [1/6s], on_refusal: defer}
`, `
  - {name: tries, match: {class: verify}, per: [tenant], allow: [9/10s], count: attempt}
  - {name: everyone, per: [recipient], allow: [5/5s, 12/calendar-minute]}
  - {name: channel, per: [channel, tenant], allow: [6/5s]}
  - {name: everybody, per: [], allow: [9/4s, bucket 12 refill 2/s]}
`, `
  - {name: everyone, per: [class], allow: [9/4s]}
  - {name: verify, match: {class: [verify, hold]}, per: ["prefix:5", class], allow: [8/6s]}
  - {name: provider, per: [provider], allow: [11/5s]}
  - {name: load, per: [channel], allow: [18/6s, bucket 24 refill 4/s], count: cost}
`, `
  - {name: tenant, per: [tenant], allow: [9/6s]}
  - {name: everybody, per: [], allow: [6/4s], exempt: ["+8613800000002"]}
  - {name: everyone, per: [recipient], allow: [5/5s, 12/calendar-minute]}
`}

const rest = `
classes:
  - {name: verify, priority: urgent, expires_after: 60s, retries: [1s, 5s]}
  - {name: notice, priority: bulk, expires_after: 60s, retries: [1s]}
  - {name: hold, expires_after: 60s, retries: [1s], on_unknown: hold}
tenants:
  - {name: default, default_region: CN}
  - {name: acme, default_region: CN}
  - {name: umbrella, default_region: CN}
  - {name: moved, default_region: CN}
providers:
  - {name: sim, type: simulated, channels: [sms, email], pace: [20/1s], concurrency: 8, timeout: 1s, settings: {latency: 1ms-50ms}}
`

const second = `  - {name: slow, type: simulated, channels: [sms], pace: [2/1s], concurrency: 2, timeout: 1s, settings: {latency: 100ms-400ms}}
`

const gate = `  - {name: nobody, type: none, channels: [sms, email]}
`

// parsed has every policy, the wide ones last: with one and with two providers
// that have lanes, and then with one more that only decides.
var parsed = sync.OnceValues(func() (all [4][]schemas.Policy, err error) {
	for i := range all {
		for n, limits := range slices.Concat(policies, wide) {
			text := "limits:" + limits + rest
			if i%2 == 1 {
				text += second
			}
			if i >= 2 {
				text += gate
			}
			doc, err := schemas.ParsePolicy(fmt.Sprintf("policy-%d.yaml", n), []byte(text))
			if err != nil {
				return all, err
			}
			all[i] = append(all[i], doc.Policy)
		}
	}
	return all, nil
})
