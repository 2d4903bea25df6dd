// Package simulated is a provider that sends nothing anywhere. Any recipient is
// accepted after 20 to 80 ms; magic recipients bring about every other outcome:
//
//	name            phone          what happens
//	permanent       +15005550001   refused for good
//	throttled       +15005550002   throttled, Retry-After 2 s, at every attempt
//	timeout         +15005550003   no answer until the call's deadline: unknown
//	transient       +15005550004   fails for now, surely not received, at every attempt
//	delivered       +15005550005   accepted, receipt delivered after 100 ms
//	accepted        +15005550006   accepted, no receipt
//	late            +15005550007   accepted, receipt delivered after 5 s
//	undelivered     +15005550008   accepted, receipt undelivered after 1 s
//	maybe           +15005550009   fails for now, perhaps received, at every attempt
//	bounce          +15005550010   refused for good, and the recipient is to be suppressed
//	transient-N     +1500555001N   fails for now at the first N attempts, then accepted
//	throttled-N     +1500555002N   throttled at the first N attempts, then accepted
//	timeout-N       +1500555003N   no answer at the first N attempts, then accepted
//
// N is 1 to 9. Where the recipient is no phone number, the name stands in the
// local part of an e-mail address (transient-2@example.com), after the last
// colon of a token or user (simulated:timeout) or as the last element of a
// URL's path (https://example.com/permanent).
//
// It keeps nothing between calls: what happens depends on recipient and attempt
// only, so it is the same after a restart. Receipts that are still due at Close
// are lost.
package simulated

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// phonePrefix begins the magic numbers: North America's 500 (personal
// communication) with exchange 555. They are valid E.164, so they pass
// admission, and belong to nobody.
const phonePrefix = "+1500555"

// RetryAfter is what throttled recipients are told to wait.
const RetryAfter = 2 * time.Second

type simulated struct {
	name     string
	from, to time.Duration // latency
	deps     provider.Deps

	ctx    context.Context // ends at Close: pending receipts are dropped
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Type is the adapter.
var Type = provider.Type{Open: Open, Check: func(in *provider.Settings) { readSettings(in) }}

// Open is the factory. Its one setting is latency: a duration, or two with a
// hyphen between; 20ms-80ms when absent.
func Open(p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
	in := deps.Settings(p)
	s := &simulated{name: p.Name, deps: deps}
	s.from, s.to = readSettings(in)
	if err := in.Err(); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

func readSettings(in *provider.Settings) (from, to time.Duration) {
	low, high, two := strings.Cut(in.Text("latency", "20ms-80ms"), "-")
	if !two {
		high = low
	}
	from, err1 := time.ParseDuration(low)
	to, err2 := time.ParseDuration(high)
	if err1 != nil || err2 != nil || from < 0 || to < from || to > schemas.MaxTimeout {
		in.Fail("latency", "must be a duration or two, such as 50ms or 20ms-80ms")
	}
	return from, to
}

// Close drops receipts that are still due.
func (s *simulated) Close() error {
	s.cancel()
	s.wg.Wait()
	return nil
}

// Send waits as long as the message's id says and answers as its recipient says.
func (s *simulated) Send(ctx context.Context, c *provider.Call) provider.Outcome {
	plan := planFor(c.Reference().To, c.Attempt)
	if plan.hang {
		<-ctx.Done()
		return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, OfRecipient: true, Code: "timeout", Text: "simulated: no answer before the deadline"}
	}
	select {
	case <-time.After(s.latency(c)):
	case <-ctx.Done():
		return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "timeout", Text: "simulated: no answer before the deadline"}
	}
	o := plan.outcome
	o.OfRecipient = o.Kind != provider.Accepted // who is magic fails alone: the provider is well
	if o.Kind == provider.Accepted {
		o.ProviderMessageID = messageID(c.ID)
	}
	if plan.receipt != "" {
		s.receipt(c, plan, o.ProviderMessageID)
	}
	return o
}

func (s *simulated) receipt(c *provider.Call, pl plan, id string) {
	r := c.Reference().Receipt(s.name)
	r.ProviderMessageID, r.Status = id, pl.receipt
	if pl.receipt == schemas.StatusUndelivered {
		r.Code, r.Text = "undelivered", "simulated: the recipient could not be reached"
	}
	s.wg.Go(func() {
		select {
		case <-time.After(pl.after):
			r.At = schemas.MillisOf(time.Now())
			s.deps.Receipts(r)
		case <-s.ctx.Done():
		}
	})
}

func hash(text string, n int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%d", text, n)
	// FNV's high bits move little with the last bytes.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

func (s *simulated) latency(c *provider.Call) time.Duration {
	spread := uint64(s.to-s.from) + 1
	return s.from + time.Duration(hash(c.ID, c.Attempt)%spread)
}

// messageID makes the provider's id of a message: the same at every attempt, as
// a provider that honours idempotency keys would.
func messageID(id string) string {
	return "sim-" + hex.EncodeToString(binary.BigEndian.AppendUint64(nil, hash(id, 0)))
}

// plan is what a recipient asks for at one attempt.
type plan struct {
	outcome provider.Outcome
	hang    bool
	receipt schemas.Status
	after   time.Duration
}

var accepted = provider.Outcome{Kind: provider.Accepted}

var plans = map[string]plan{
	"permanent": {outcome: provider.Outcome{Kind: provider.Permanent, Code: "invalid_recipient", Text: "simulated: refused for good"}},
	"bounce":    {outcome: provider.Outcome{Kind: provider.Permanent, OfRecipient: true, Suppress: schemas.SuppressHardBounce, Code: "no_such_recipient", Text: "simulated: there is nobody"}},
	"throttled": {outcome: provider.Outcome{Kind: provider.Throttled, Code: "throttled", Text: "simulated: too fast", RetryAfter: RetryAfter}},
	"timeout":   {hang: true},
	"transient": {outcome: provider.Outcome{Kind: provider.Transient, Code: "unavailable", Text: "simulated: not now"}},
	"maybe":     {outcome: provider.Outcome{Kind: provider.Transient, MayBeReceived: true, Code: "internal_error", Text: "simulated: failed, perhaps after sending"}},

	"accepted":    {outcome: accepted},
	"delivered":   {outcome: accepted, receipt: schemas.StatusDelivered, after: 100 * time.Millisecond},
	"late":        {outcome: accepted, receipt: schemas.StatusDelivered, after: 5 * time.Second},
	"undelivered": {outcome: accepted, receipt: schemas.StatusUndelivered, after: time.Second},
}

// byNumber names the magic numbers by their last four digits.
var byNumber = map[string]string{
	"0001": "permanent", "0002": "throttled", "0003": "timeout", "0004": "transient", "0005": "delivered",
	"0006": "accepted", "0007": "late", "0008": "undelivered", "0009": "maybe", "0010": "bounce",
	"001": "transient-", "002": "throttled-", "003": "timeout-",
}

func planFor(to string, attempt int) plan {
	name := magicName(to)
	if base, n, ok := strings.Cut(name, "-"); ok && len(n) == 1 && n[0] >= '1' && n[0] <= '9' {
		times, _ := strconv.Atoi(n)
		if base != "transient" && base != "throttled" && base != "timeout" {
			return plans["accepted"]
		}
		if attempt > times {
			return plans["accepted"]
		}
		name = base
	}
	if p, ok := plans[name]; ok {
		return p
	}
	return plans["accepted"]
}

// magicName returns what may be the name of a plan.
func magicName(to string) string {
	if digits, ok := strings.CutPrefix(to, phonePrefix); ok && len(digits) == 4 {
		if name, ok := byNumber[digits]; ok {
			return name
		}
		if name, ok := byNumber[digits[:3]]; ok {
			return name + digits[3:]
		}
		return ""
	}
	if local, _, ok := strings.Cut(to, "@"); ok {
		return local
	}
	return to[strings.LastIndexAny(to, "/:")+1:]
}
