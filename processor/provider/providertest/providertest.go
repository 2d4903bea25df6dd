// Package providertest is the one contract that every adapter passes, against a
// server on loopback that speaks the provider's protocol.
//
// An adapter's test gives it an [Adapter]: how to open it and how to start a
// server of its protocol. The server is the test's own: written after the
// provider's documentation, it understands calls as the provider would, so that
// what arrives is compared and not what was sent. Nothing here knows a provider.
package providertest

import (
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// Adapter is what is tested.
type Adapter struct {
	Name     string // the type's: twilio
	Type     provider.Type
	Channels []schemas.Channel
	// To is a canonical recipient of a channel.
	To map[schemas.Channel]string
	// Settings are the provider's in the policy, for a server at endpoint. Secrets
	// stand in it as ${NAME}, with their values in Env.
	Settings func(endpoint string) map[string]any
	Env      map[string]string
	// Own is what the test's template says of this provider, if its calls need that.
	Own map[string]any
	// Start starts a server. It ends with the test.
	Start func(t T) Server
	// Limits of the protocol, so that what cannot be carried is not asked for.
	Lacks []Lack
}

// Lack is what a protocol does not have.
type Lack string

const (
	LacksReference   Lack = "reference"   // no field for Weir's id or reference
	LacksIdempotency Lack = "idempotency" // the provider does not recognise a repeated call
	LacksBody        Lack = "body"        // it sends its own templates: the text does not travel
	LacksRetryAfter  Lack = "retry-after" // throttling does not say for how long
	LacksMessageID   Lack = "message-id"  // an accepted call has no id of the provider's
	LacksCodes       Lack = "codes"       // no codes but the protocol's (HTTP status, SMTP reply)
)

// T is what a server needs of a test.
type T interface {
	Helper()
	Cleanup(func())
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Server is a provider on loopback. Its methods may be called at any time.
type Server interface {
	// Endpoint is what Adapter.Settings takes.
	Endpoint() string
	// Do says how the calls to come are answered, until it is called again.
	Do(Behaviour)
	// Received returns the messages that it took, as it understood them, and clears
	// them.
	Received() []Message
	// Wire returns what went over the wire since the start or the last Wire, as
	// readable text: requests and answers, with the secrets still in it.
	Wire() string
}

// Behaviour is how a server answers. Exactly one field is set; none is: accept.
type Behaviour struct {
	Code      string        // refuse with this code of the provider's, in its own form
	Throttle  time.Duration // refuse because it is too fast; tell to wait so long, where the protocol can
	Hang      bool          // read the call and answer nothing until the connection ends
	Garbage   bool          // answer what is not the protocol's
	Break     bool          // read the call and close the connection without an answer
	Closed    bool          // take no connections
	Forbidden bool          // refuse the credentials, as the provider does
}

// Message is what a server understood of a call.
type Message struct {
	To        string // as the canonical recipient
	From      string
	Reference string // what the provider would give back; empty where it lacks one
	Key       string // what makes a repeated call known as such
	Subject   string
	Body      string
	HTML      string
	Title     string
	ReplyTo   string
	Data      map[string]string
	Template  string            // the provider's own code of it
	Params    map[string]string // with its parameters, by name or by position from 1
	Parts     int               // how many short messages it took; 0 where that is not said
}
