package route

import (
	"slices"
	"time"

	"github.com/weirhq/weir/schemas"
)

// slackMost is how long a message waits at most for a provider that throttles
// everyone, while another provider could send it.
const slackMost = 2 * time.Second

// Slack returns how long a message of a class may wait for such a provider: 2 s, and
// no more than a tenth of its class's stale_after (0: it has none) or of left, the
// time until it expires (0: it does not).
func Slack(c schemas.Class, left time.Duration) time.Duration {
	slack := slackMost
	if c.StaleAfter > 0 {
		slack = min(slack, time.Duration(c.StaleAfter)/10)
	}
	if left > 0 {
		slack = min(slack, left/10)
	}
	return slack
}

// Elsewhere reports whether a policy has a provider for a message besides one.
func Elsewhere(p *schemas.Policy, m Message, provider string) bool {
	targets, failover, _ := candidates(p, m)
	for _, t := range targets {
		if t.Provider != provider {
			return true
		}
	}
	for _, name := range failover {
		if name != provider {
			return true
		}
	}
	return false
}

// Untried reports whether a retry of a message prefers another provider of the policy
// that was not tried yet, if that is healthy.
func Untried(p *schemas.Policy, m Message, tried []schemas.Tried) bool {
	if len(tried) == 0 || !slices.Contains(nextOn(p, m), tried[len(tried)-1].Outcome) {
		return false
	}
	name, err := Next(p, m, 0, tried, nil, func(string) Share { return ShareFull })
	return err == nil && !slices.ContainsFunc(tried, func(t schemas.Tried) bool { return t.Provider == name })
}
