package main

import (
	"bytes"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/weirhq/weir/processor/route"
	"github.com/weirhq/weir/schemas"
)

func TestProvidersInStatus(t *testing.T) {
	doc, err := schemas.ParsePolicy("p.yaml", []byte(`
providers:
  - {name: down, type: simulated, channels: [sms], pace: [5/1s, 200/60s], lanes: 2}
  - {name: silent, type: simulated, channels: [sms]}
  - {name: throttling, type: simulated, channels: [sms]}
  - {name: refusing, type: simulated, channels: [sms]}
  - {name: trying, type: simulated, channels: [sms]}
`))
	if err != nil {
		t.Fatal(err)
	}
	now := schemas.Millis(1_800_000_000_000)
	health := route.Health{
		"down": {Lanes: []schemas.Health{
			{Lane: 0, Breaker: schemas.BreakerClosed, Calls: 30, Failures: 6, Refused: 5, At: now},
			{Lane: 1, Breaker: schemas.BreakerOpen, ProbeAt: now + 5000, Calls: 10, Failures: 9, At: now},
		}},
		"throttling": {Lanes: []schemas.Health{{Breaker: schemas.BreakerClosed, SilentUntil: now + 7000, Calls: 4, At: now}}},
		"refusing":   {Lanes: []schemas.Health{{Breaker: schemas.BreakerClosed, Calls: 8, Refused: 8, At: now}}},
		"trying":     {Lanes: []schemas.Health{{Breaker: schemas.BreakerHalfOpen, Calls: 7, Failures: 7, At: now - 200_000}}},
		"gone":       {Lanes: []schemas.Health{{Breaker: schemas.BreakerOpen, ProbeAt: now + 1, At: now}}},
	}
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	printProviders(w, providersOf(&doc.Policy, health, now))
	w.Flush()
	want := `
PROVIDER  BREAKER                   CALLS IN 60 s  ACCEPTED  PACE
down      open, probed at 08:00:05Z  40             50.0 %     5/1s 200/60s
silent    –                         0              –          –
throttling closed, throttled until 08:00:07Z 4 100.0 % –
refusing  closed                    8              0.0 %      –
trying    half_open                 0              –          –
`
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if words(out.String()) != words(want) {
		t.Errorf("got\n%s", out.String())
	}
}
