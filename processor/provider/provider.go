package provider

import (
	"cmp"
	"context"
	"time"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/schemas"
)

// Call is one attempt to send one message. The deadline is the context's.
type Call struct {
	ID       string // the message's id: the idempotency key, the same at every attempt
	Attempt  int    // from 1
	To       string // where it goes: the canonical recipient, or a mail address as the request spelled it
	Key      string // the canonical recipient, where it is not To: what receipts name
	From     string // empty is the provider's own
	ReplyTo  string
	Channel  schemas.Channel
	Tenant   string
	Class    string
	Content  content.Content
	Data     map[string]string
	Template string
	Vars     map[string]string
	Metadata map[string]string
	// ExpiresAt is when the message is of no more use; zero is never. A provider that
	// can be told drops it then.
	ExpiresAt schemas.Millis
	// Own is what the template says of this provider (templates[].providers), such
	// as the provider's own code of the template. nil where it says nothing.
	Own map[string]any
	// References signs what the provider is given to give back; nil leaves it unsigned,
	// and then its receipts are looked up.
	References *Signer
}

// Reference is what a provider is given to give back with its receipts.
func (c *Call) Reference() Reference {
	return Reference{MessageID: c.ID, To: cmp.Or(c.Key, c.To), Tenant: c.Tenant, Channel: c.Channel, Class: c.Class, Template: c.Template, Attempt: c.Attempt, signer: c.References}
}

// Kind is what came of a call.
type Kind string

const (
	Accepted  Kind = "accepted"  // the provider took it
	Throttled Kind = "throttled" // not now: too fast
	Transient Kind = "transient" // not now: try again
	Permanent Kind = "permanent" // never
	Unknown   Kind = "unknown"   // it may or may not have been taken
)

// Kinds lists every kind.
var Kinds = []Kind{Accepted, Throttled, Transient, Permanent, Unknown}

// Outcome is what came of a call. Code and Text stand in status events: they
// hold no recipient, body or secret.
type Outcome struct {
	Kind Kind
	// MayBeReceived says that the recipient may have received it although the
	// call failed. It decides whether the message's place is given back.
	// Unknown implies it.
	MayBeReceived bool
	// OfRecipient says that the failure is this recipient's and not the
	// provider's: a handset that is off, a mailbox that is full. It says nothing
	// against the provider's health.
	OfRecipient bool
	// OfProvider says that the provider throttles everyone and not this recipient
	// alone: a Throttled call only. A throttled call that is neither OfRecipient nor
	// OfProvider leaves open which of them it is.
	OfProvider bool
	// Suppress says that the recipient is not to be sent to again on this channel by
	// this tenant, and why: a Permanent failure that is OfRecipient.
	Suppress          schemas.SuppressReason
	ProviderMessageID string
	Code              string        // snake_case, stable
	Text              string        // for people
	RetryAfter        time.Duration // what the provider asked for; 0 when it did not
}

// Provider makes calls. Send is called from many goroutines at once. It returns
// when ctx ends, if not before; Close is called after the last Send returned.
type Provider interface {
	Send(ctx context.Context, c *Call) Outcome
	Close() error
}

// Receipt is what a provider tells later about a message that it took.
type Receipt = schemas.Receipt
