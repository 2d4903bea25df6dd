package admission

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestRoundsAnyPolicy is TestRounds under any limits, of which more than in practice
// are switched off and on, changed and moved while messages are on their way, and
// with windows short enough that places leave them.
func TestRoundsAnyPolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		playRounds(t, map[string]int{}, []string{`"body":"x"`, `"template":"login"`, `"body":"x","cost":2`}, func(t *rapid.T) string { return anyLimits(t, false) }, 1)
	})
}

// TestRoundsOfOneAttempt is TestRoundsAnyPolicy with limits that count attempts, and
// buckets. What a message holds of these from an attempt before, it keeps for good,
// so here nothing has one.
func TestRoundsOfOneAttempt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		playRounds(t, map[string]int{}, []string{`"body":"x"`, `"template":"login"`, `"body":"x","cost":2`}, func(t *rapid.T) string { return anyLimits(t, true) }, 1, "back", "failed", "release")
	})
}

// anyLimits draws limits whose names come again in other policies, and a template that
// is one part or two.
func anyLimits(t *rapid.T, attempts bool) string {
	var b strings.Builder
	b.WriteString("limits:\n")
	one := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "limit") }
	for _, name := range rapid.Permutation([]string{"verify", "second", "tenant", "all", "ip", "parts"}).Draw(t, "order") {
		var per string
		switch name {
		case "verify", "second":
			per = one("[recipient]", "[recipient]", "[recipient, tenant]")
		case "tenant":
			per = one("[tenant]", "[tenant]", "[tenant, class]")
		case "all":
			per = one("[]", "[]", "[]", "[provider]")
		case "ip":
			per = "[metadata.ip]"
		default:
			per = one(`["prefix:3"]`, `["prefix:3"], count: segments`, `["prefix:3"], count: cost`)
		}
		extra := one("", "", "", ", mode: off", ", mode: off", ", mode: observe", ", on_refusal: defer", ", on_refusal: defer", ", match: {tenant: shop}", "absent")
		if extra == "absent" {
			continue
		}
		if attempts && extra == "" && !strings.Contains(per, "count") {
			extra = one("", ", count: attempt", ", count: attempt")
		}
		windows := []string{"2/1h", "3/1h", "3/1h", "3/1h, 2/3s", "3/3s", "4/30m, 20/1d", "3/calendar-day", "4/1h, 3/calendar-day"}
		if attempts {
			windows = append(windows, "bucket 3 refill 1/s", "bucket 2 refill 0.1/s", "bucket 3 refill 1/s, 4/1h")
		}
		allow := one(windows...)
		fmt.Fprintf(&b, "  - {name: %s, per: %s, allow: [%s]%s}\n", name, per, quoted(allow), extra)
	}
	limits := b.String()
	if limits == "limits:\n" {
		limits = ""
	}
	body := strings.Repeat("x", rapid.SampledFrom([]int{1, 161}).Draw(t, "length"))
	return limits + fmt.Sprintf("templates:\n  - {name: login, channel: sms, body: %q}\n", body)
}

// quoted quotes windows in which YAML would see more than a word.
func quoted(windows string) string { return `"` + strings.ReplaceAll(windows, ", ", `", "`) + `"` }
