package receipt

import (
	"cmp"
	"crypto/sha256"
	"strconv"
	"time"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/processor/status"
	"github.com/weirhq/weir/schemas"
)

// says reports whether a receipt says anything at all, and of something.
func says(rc *provider.Receipt) bool {
	amends := rc.Status == schemas.StatusDelivered || rc.Status == schemas.StatusUndelivered
	return (amends || rc.Suppress != "") && keyOf(rc) != ""
}

// named reports whether a receipt names its message: nothing need be looked up.
func named(rc *provider.Receipt) bool { return rc.MessageID != "" && rc.To != "" }

// earliest is how long before it came a provider's time of a receipt may lie. What
// says of itself that it is older, or of the future, is of when it came: the store
// keeps a part a day, and refuses a block of too many.
const earliest = 7 * 24 * time.Hour

// amended returns the status event that a named receipt brings, and the suppress
// request; nil where it brings none.
func amended(rc provider.Receipt, came schemas.Millis) (event *schemas.Event, suppress []byte) {
	if rc.At > came || rc.At < came.Add(-earliest) {
		rc.At = came
	}
	rc.Tenant = cmp.Or(rc.Tenant, schemas.DefaultTenant)
	if e, ok := status.Event(rc); ok {
		event = &e
	}
	if rc.Suppress != "" {
		suppress = request.Suppress(rc.To, rc.Tenant, rc.Channel, "", rc.Suppress, rc.Provider)
	}
	return event, suppress
}

// filled is a receipt with what the store knows of its message.
func filled(rc provider.Receipt, c history.Carried) provider.Receipt {
	rc.MessageID, rc.To, rc.Tenant = c.MessageID, c.To, c.Tenant
	rc.Channel, rc.Class, rc.Template = schemas.Channel(c.Channel), c.Class, c.Template
	rc.Attempt = cmp.Or(rc.Attempt, c.Attempt)
	return rc
}

// handed is what the store is asked for a receipt that does not name its message.
func handed(rc *provider.Receipt) history.Handed {
	if rc.MessageID != "" {
		return history.Handed{MessageID: rc.MessageID}
	}
	return history.Handed{Provider: rc.Provider, ProviderMessageID: rc.ProviderMessageID}
}

// wait is how long a receipt waits whose message the store did not have at so many
// tries; 0 is no longer. A send is recorded within seconds as a rule, and within
// hours when ClickHouse was away. All waits together are three days.
func wait(tries int) time.Duration {
	switch {
	case tries < len(firstWaits):
		return firstWaits[tries]
	case tries < len(firstWaits)+11:
		return 6 * time.Hour
	}
	return 0
}

var firstWaits = []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute, time.Hour, time.Hour, time.Hour, time.Hour, time.Hour, time.Hour}

// waitAway is how long one waits that came so long ago, while the store is away:
// that is no try. Each wait is a record written again, so they grow.
func waitAway(age time.Duration) time.Duration {
	switch {
	case age < 30*time.Second:
		return 5 * time.Second
	case age < 10*time.Minute:
		return 30 * time.Second
	}
	return 5 * time.Minute
}

// mark is 128 bits of what a receipt says, so that it is known when it comes again.
// Its time and text are no part of it: providers that repeat a receipt, say because
// they missed the answer, may give it another time.
type mark [16]byte

func markOf(rc *provider.Receipt) mark {
	b := make([]byte, 0, 256)
	for _, s := range [...]string{
		rc.Provider, rc.MessageID, rc.ProviderMessageID, rc.To, rc.Tenant, strconv.Itoa(rc.Attempt), string(rc.Status), rc.Code, string(rc.Suppress),
	} {
		b = append(append(b, s...), 0)
	}
	sum := sha256.Sum256(b)
	return mark(sum[:16])
}
