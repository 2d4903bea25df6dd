// Package providertest is the one contract that every adapter passes, against a
// server on loopback that speaks the provider's protocol.
//
// An adapter's test gives [Run] an [Adapter]: how to open it and how to start a
// server of its protocol. The server is the test's own: written after the
// provider's documentation, it understands calls as the provider would, so that
// what arrives is compared and not what was sent. Nothing here knows a provider.
// Adapters that speak HTTP have [HTTP] for most of their server.
//
// Run also keeps docs/providers/NAME.txt, what one success, one refusal and one
// throttled call are on the wire, and NAME's row in the table of docs/providers.md:
// with -rewrite it writes them, otherwise it compares. Where a merge leaves that
// table in conflict, take either side and rewrite.
//
// It says nothing of receipts but that forged ones are refused, and it never meets
// the provider itself.
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
	// From is a sender of a channel, where the one that Run has does not serve.
	From map[schemas.Channel]string
	// Settings are the provider's in the policy, for a server at endpoint. Secrets
	// stand in it as ${NAME}, with their values in Env. It has all that is required,
	// and whatever Listen needs.
	Settings func(endpoint string) map[string]any
	Env      map[string]string
	// Optional are the names of those Settings that may be left out; endpoint always
	// may. Without any other, Open must refuse, and name it.
	Optional []string
	// Own is what the test's template says of this provider, if its calls need that.
	// Calls have the variables code and name.
	Own map[string]any
	// Start starts a server. It ends with the test.
	Start func(t T) Server
	// UnknownCode is a code in the provider's form that Type.Codes does not have.
	UnknownCode string
	// Limits of the protocol, so that what cannot be carried is not asked for.
	Lacks []Lack
	// Receipts and Idempotency say in a few words how the provider does them, for the
	// table: "signed StatusCallback", "none: a call that is repeated is sent twice".
	Receipts, Idempotency string
	// Stable replaces in a transcript what differs from run to run and is the
	// protocol's own, such as a MIME boundary. Dates, addresses, signatures, long hex,
	// tokens and secrets are replaced already. It may be nil.
	Stable func(transcript string) string
}

// Lack is what a protocol does not have.
type Lack string

const (
	LacksReference   Lack = "reference"   // no field for Weir's id or reference
	LacksIdempotency Lack = "idempotency" // the provider does not recognise a repeated call
	LacksBody        Lack = "body"        // it sends its own templates: the text does not travel, the variables do
	LacksRetryAfter  Lack = "retry-after" // throttling does not say for how long
	LacksMessageID   Lack = "message-id"  // an accepted call has no id of the provider's
	LacksCodes       Lack = "codes"       // no codes but the protocol's (HTTP status, SMTP reply), and none unknown
	LacksAccount     Lack = "account"     // a refusal of the credentials cannot be told from one of the message
	LacksFrom        Lack = "from"        // the sender is not the call's to choose
	LacksReplyTo     Lack = "reply-to"    // e-mail without it
	LacksHTML        Lack = "html"        // e-mail without it
	LacksTitle       Lack = "title"       // push without it
	LacksData        Lack = "data"        // push without it
)

// T is what a server needs of a test.
type T interface {
	Helper()
	Cleanup(func())
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Server is a provider on loopback. Its methods may be called at any time. Its
// refusals say, in their text for people, the recipient and the message's text, as
// providers' do: an adapter must not repeat them.
type Server interface {
	// Endpoint is what Adapter.Settings takes.
	Endpoint() string
	// Do says how the calls to come are answered, until it is called again.
	Do(Behaviour)
	// Received returns the messages that it took, as it understood them, and clears
	// them.
	Received() []Message
	// Calls returns how many calls came since the start, taken or not: attempts to
	// send a message, without what comes before them (a bind, a token, EHLO).
	Calls() int
	// Wire returns what went over the wire since the start or the last Wire, as
	// readable text: requests and answers as they were sent, with the secrets still
	// in it. What is not text is decoded, with line breaks in values escaped.
	Wire() string
}

// Behaviour is how a server answers. At most one field is set; none is: accept.
type Behaviour struct {
	Code      string        // refuse with this code of the provider's, in its own form
	Throttle  time.Duration // refuse because it is too fast; tell to wait so long, where the protocol can; below 0: without a time
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
