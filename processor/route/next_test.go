package route

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// TestNext: a message that was tried goes to another healthy provider of its route, as
// its policy says; after an unknown outcome it stays.
func TestNext(t *testing.T) {
	all := func(extra string) string {
		return `
providers: [{name: a, type: simulated, channels: [sms]}, {name: b, type: simulated, channels: [sms]}, {name: c, type: simulated, channels: [sms]}, {name: mail, type: simulated, channels: [email]}]
` + extra
	}
	three := all(`routes: [{name: r, to: [{provider: a}, {provider: b}, {provider: c}, {provider: mail}]}]`)
	pair := all(`routes: [{name: r, to: [{provider: a}, {provider: b}]}]`)
	spare := all(`routes: [{name: r, to: [{provider: a}], failover: [b]}]`)
	alone := all(`routes: [{name: r, to: [{provider: a}]}]`)
	never := all(`routes: [{name: r, to: [{provider: a}, {provider: b}], next_provider_on: []}]`)
	only := all(`routes: [{name: r, to: [{provider: a}, {provider: b}], next_provider_on: [throttled]}]`)
	twice := all(`
classes: [{name: x, next_provider_on: [transient, throttled, unknown]}]
routes: [{name: r, to: [{provider: a}, {provider: b}], next_provider_on: []}]`)
	hold := all(`
classes: [{name: x, next_provider_on: []}]
routes: [{name: r, to: [{provider: a}, {provider: b}]}]`)
	type try = schemas.Tried
	const tr, th, un = schemas.RetryTransient, schemas.RetryThrottled, schemas.RetryUnknown
	for _, tt := range []struct {
		name, policy string
		shares       map[string]Share // full where absent
		tried        []try
		want         map[string]bool // who may be chosen, and each of them is by some message
	}{
		{"not tried", three, nil, nil, map[string]bool{"a": true, "b": true, "c": true}},
		{"transient", three, nil, []try{{Provider: "a", Outcome: tr}}, map[string]bool{"b": true, "c": true}},
		{"throttled", three, nil, []try{{Provider: "b", Outcome: th}}, map[string]bool{"a": true, "c": true}},
		{"two tried", three, nil, []try{{Provider: "b", Outcome: th}, {Provider: "a", Outcome: tr}}, map[string]bool{"c": true}},
		{"all tried: any but the last", three, nil, []try{{Provider: "c", Outcome: tr}, {Provider: "b", Outcome: th}, {Provider: "a", Outcome: tr}}, map[string]bool{"b": true, "c": true}},
		{"the others are not healthy", pair, map[string]Share{"b": ShareNone}, []try{{Provider: "a", Outcome: tr}}, map[string]bool{"a": true}},
		{"the others are on probation", pair, map[string]Share{"b": ShareProbing}, []try{{Provider: "a", Outcome: tr}}, map[string]bool{"a": true, "b": true}}, // a probe's share only
		{"the other is degraded", pair, map[string]Share{"b": ShareDegraded}, []try{{Provider: "a", Outcome: tr}}, map[string]bool{"b": true}},
		{"failover counts", spare, nil, []try{{Provider: "a", Outcome: tr}}, map[string]bool{"b": true}},
		{"failover, and back", spare, nil, []try{{Provider: "a", Outcome: tr}, {Provider: "b", Outcome: tr}}, map[string]bool{"a": true}},
		{"alone", alone, nil, []try{{Provider: "a", Outcome: tr}}, map[string]bool{"a": true}},
		{"without routes", all(""), nil, []try{{Provider: "a", Outcome: tr}}, map[string]bool{"b": true, "c": true}},
		{"the route says never", never, nil, []try{{Provider: "a", Outcome: tr}}, map[string]bool{"a": true, "b": true}},
		{"the route says throttled: transient", only, nil, []try{{Provider: "a", Outcome: tr}}, map[string]bool{"a": true, "b": true}},
		{"the route says throttled: throttled", only, nil, []try{{Provider: "a", Outcome: th}}, map[string]bool{"b": true}},
		{"the class says never", hold, nil, []try{{Provider: "a", Outcome: tr}}, map[string]bool{"a": true, "b": true}},
		{"unknown stays", pair, nil, []try{{Provider: "a", Outcome: un}}, map[string]bool{"a": true}},
		{"unknown stays, whatever was tried before", three, nil, []try{{Provider: "b", Outcome: tr}, {Provider: "a", Outcome: un}}, map[string]bool{"a": true}},
		{"unknown stays, whatever came later", three, nil, []try{{Provider: "a", Outcome: un}, {Provider: "b", Outcome: tr}}, map[string]bool{"a": true}},
		{"unknown, and it is out", pair, map[string]Share{"a": ShareNone}, []try{{Provider: "a", Outcome: un}}, map[string]bool{"b": true}},
		{"unknown, and the class allows it", twice, nil, []try{{Provider: "a", Outcome: un}}, map[string]bool{"b": true}},
		{"who left the policy", pair, nil, []try{{Provider: "gone", Outcome: un}}, map[string]bool{"a": true, "b": true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doc, err := schemas.ParsePolicy("p.yaml", []byte(tt.policy))
			if err != nil {
				t.Fatal(err)
			}
			share := func(name string) Share {
				if s, ok := tt.shares[name]; ok {
					return s
				}
				return ShareFull
			}
			got := map[string]bool{}
			for i := range 400 {
				name, err := Next(&doc.Policy, Message{Channel: "sms", Class: "x", Key: "+8613800000000"}, mix(uint64(i)), tt.tried, share, share)
				if err != nil {
					t.Fatal(err)
				}
				got[name] = true
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}

	doc, err := schemas.ParsePolicy("p.yaml", []byte(pair))
	if err != nil {
		t.Fatal(err)
	}
	if name, err := Next(&doc.Policy, Message{Channel: "sms", Pinned: "a"}, 0, []try{{Provider: "a", Outcome: tr}}, nil, nil); name != "a" || err != nil {
		t.Errorf("pinned: %s, %v", name, err)
	}
	if _, err := Next(&doc.Policy, Message{Channel: "voice"}, 0, []try{{Provider: "a", Outcome: tr}}, nil, nil); err == nil {
		t.Error("a channel that nobody serves was routed")
	}
	none := func(string) Share { return ShareNone }
	_, err = Next(&doc.Policy, Message{Channel: "sms"}, 0, []try{{Provider: "a", Outcome: un}}, none, none)
	if e, ok := errors.AsType[*Error](err); !ok || !e.Temporary() {
		t.Errorf("%v", err)
	}
}

// TestUntried: a retry that prefers another provider, one that was not tried, need not wait as
// long as the one that throttled it asks for.
func TestUntried(t *testing.T) {
	providers := `providers: [{name: a, type: simulated, channels: [sms]}, {name: b, type: simulated, channels: [sms]}]
`
	type try = schemas.Tried
	const th, un = schemas.RetryThrottled, schemas.RetryUnknown
	for _, tt := range []struct {
		name, policy, pinned string
		tried                []try
		want                 bool
	}{
		{"another", "", "", []try{{Provider: "a", Outcome: th}}, true},
		{"not tried", "", "", nil, false},
		{"all are tried", "", "", []try{{Provider: "b", Outcome: th}, {Provider: "a", Outcome: th}}, false},
		{"pinned", "", "a", []try{{Provider: "a", Outcome: th}}, false},
		{"no other in its route", `routes: [{name: r, to: [{provider: a}]}]`, "", []try{{Provider: "a", Outcome: th}}, false},
		{"failover", `routes: [{name: r, to: [{provider: a}], failover: [b]}]`, "", []try{{Provider: "a", Outcome: th}}, true},
		{"the route says never", `routes: [{name: r, to: [{provider: a}, {provider: b}], next_provider_on: []}]`, "", []try{{Provider: "a", Outcome: th}}, false},
		{"the first may have it", "", "", []try{{Provider: "b", Outcome: un}, {Provider: "a", Outcome: th}}, false},
	} {
		doc, err := schemas.ParsePolicy("p.yaml", []byte(providers+tt.policy))
		if err != nil {
			t.Fatal(err)
		}
		if got := Untried(&doc.Policy, Message{Channel: "sms", Class: "x", Key: "+8613800000000", Pinned: tt.pinned}, tt.tried); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
