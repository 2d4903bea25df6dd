package schemas

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Breaker is the state of a provider's circuit breaker as one lane sees it
// (Nygard, Release It!, 2007).
type Breaker string

const (
	BreakerClosed   Breaker = "closed"    // calls are made
	BreakerOpen     Breaker = "open"      // no calls until ProbeAt
	BreakerHalfOpen Breaker = "half_open" // a few calls probe whether it is well again
)

// Health is a record of weir.health: what one lane says of its provider. The
// latest record of a HealthKey counts; a tombstone takes the lane's word back.
// It advises routing and is no part of any decision's proof.
type Health struct {
	Provider string  `json:"provider"`
	Lane     int32   `json:"lane"`
	Breaker  Breaker `json:"breaker"`
	ProbeAt  Millis  `json:"probe_at,omitzero"` // open: from then on calls may probe
	// SilentUntil is until when the lane makes no call because the provider throttles
	// everyone; absent when it does not.
	SilentUntil Millis `json:"silent_until,omitzero"`
	Calls       int64  `json:"calls"`            // ended in the last HealthWindow, and permitted since the breaker last closed
	Failures    int64  `json:"failures"`         // of these: transient or unknown, which is what breakers and routing judge by
	Refused     int64  `json:"refused,omitzero"` // of these: neither accepted nor failed, but throttled or refused for good
	At          Millis `json:"at"`
}

// HealthWindow is the span, in milliseconds, that Calls, Failures and Refused count.
const HealthWindow = 60_000

// HealthKey is the key of a lane's records on weir.health.
func HealthKey(provider string, lane int32) string {
	return provider + "/" + strconv.Itoa(int(lane))
}

// Encode returns the record's value.
func (h *Health) Encode() []byte {
	b, err := json.Marshal(h)
	if err != nil {
		panic(fmt.Sprintf("health record cannot be encoded: %v", err)) // strings and numbers only
	}
	return b
}

// DecodeHealth reads a record's value.
func DecodeHealth(b []byte) (Health, error) {
	var h Health
	if err := json.Unmarshal(b, &h); err != nil {
		return Health{}, fmt.Errorf("health record is torn or foreign: %w", err)
	}
	switch h.Breaker {
	case BreakerClosed, BreakerOpen, BreakerHalfOpen:
		return h, nil
	}
	return Health{}, fmt.Errorf("health record with breaker %q: run the version that wrote it", h.Breaker)
}
