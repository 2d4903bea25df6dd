package receipt

import (
	"cmp"
	"crypto/sha256"
	"strconv"
	"strings"
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

// proven is a receipt of which a verified reference says what it is about.
func proven(rc provider.Receipt, ref provider.Reference) provider.Receipt {
	rc.MessageID, rc.To, rc.Tenant = ref.MessageID, cmp.Or(ref.To, rc.To), ref.Tenant
	rc.Channel, rc.Class, rc.Template, rc.Attempt = ref.Channel, ref.Class, ref.Template, ref.Attempt
	return rc
}

// whole reports whether a reference says all that an amendment needs.
func whole(ref provider.Reference) bool {
	return ref.MessageID != "" && ref.To != "" && ref.Tenant != ""
}

// claimed is a receipt that proves nothing. Whose message it is, only the store says.
func claimed(rc provider.Receipt) provider.Receipt {
	rc.Tenant, rc.Channel, rc.Class, rc.Template, rc.Attempt = "", "", "", "", 0
	return rc
}

// match returns the message that a receipt is about, of those that the store has under
// its id; or why it is none of them, as the metric says it. A message counts only if
// the receipt's provider was given it, and for the recipient that the receipt names, if
// it names one.
func match(rc *provider.Receipt, has []history.Carried) (history.Carried, string) {
	if len(has) == 0 {
		return history.Carried{}, outcomeUnmatched
	}
	has = kept(has, func(c history.Carried) bool { return c.Provider == rc.Provider })
	if len(has) == 0 {
		return history.Carried{}, outcomeOtherProvider
	}
	if rc.To != "" {
		exact := kept(has, func(c history.Carried) bool { return c.To == rc.To })
		if len(exact) == 0 {
			exact = kept(has, func(c history.Carried) bool { return sameRecipient(c.To, rc.To) })
		}
		if has = exact; len(has) == 0 {
			return history.Carried{}, outcomeOtherRecipient
		}
	}
	if rc.ProviderMessageID != "" { // a client's id may be of several: the provider's is of one
		if own := kept(has, func(c history.Carried) bool { return c.ProviderMessageID == rc.ProviderMessageID }); len(own) > 0 {
			has = own
		}
	}
	last := has[len(has)-1]
	for _, c := range has {
		if c.To != last.To || c.Tenant != last.Tenant {
			return history.Carried{}, outcomeAmbiguous
		}
	}
	return last, ""
}

func kept(all []history.Carried, keep func(history.Carried) bool) []history.Carried {
	var out []history.Carried
	for _, c := range all {
		if keep(c) {
			out = append(out, c)
		}
	}
	return out
}

// sameRecipient reports whether a provider's spelling of a recipient is that of the
// message's, which is canonical: an address in any case, a number without its country.
func sameRecipient(canonical, theirs string) bool {
	if strings.Contains(canonical, "@") {
		return strings.EqualFold(canonical, theirs)
	}
	digits, isNumber := strings.CutPrefix(canonical, "+")
	if !isNumber {
		return false
	}
	theirs = strings.Map(func(r rune) rune {
		if strings.ContainsRune("+-. ()", r) {
			return -1
		}
		return r
	}, theirs)
	const least = 6 // digits: fewer are no number of a person's
	theirs = strings.TrimLeft(theirs, "0")
	return len(theirs) >= least && strings.HasSuffix(digits, theirs)
}

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
	rc.Attempt = c.Attempt
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
// they missed the answer, may give it another time. What was only claimed is not the
// mark of the same once it is known: else a false claim would hide a true receipt.
type mark [16]byte

func markOf(rc *provider.Receipt, known bool) mark {
	b := make([]byte, 0, 256)
	if !known {
		b = append(append(append(b, "claim\x00"...), rc.Reference...), 0)
	}
	for _, s := range [...]string{
		rc.Provider, rc.MessageID, rc.ProviderMessageID, rc.To, rc.Tenant, strconv.Itoa(rc.Attempt), string(rc.Status), rc.Code, string(rc.Suppress),
	} {
		b = append(append(b, s...), 0)
	}
	sum := sha256.Sum256(b)
	return mark(sum[:16])
}
