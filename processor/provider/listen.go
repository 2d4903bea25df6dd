package provider

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/weirhq/weir/schemas"
)

// Listener reads the requests that a provider makes to Weir. Its methods may be
// called from many goroutines at once. They verify before they read: a request
// that is not surely the provider's is ErrForged, and nothing else is said of it.
type Listener interface {
	// Receipts reads a request to /v1/receipts/NAME: any number of receipts, and what
	// to answer when all of them are safe in Kafka.
	Receipts(h *Hook) ([]Receipt, Reply, error)
	// Inbound reads a request to /v1/inbound/NAME.
	Inbound(h *Hook) ([]Inbound, Reply, error)
}

// Hook is a request of a provider's.
type Hook struct {
	Method string
	URL    *url.URL // as the provider called it: under the public address
	Header http.Header
	Body   []byte
	At     time.Time // when it came
	Source string    // the address that it came from, without the port
}

// Reply is what a provider is told: the zero value is 204 without a body.
type Reply struct {
	Status      int
	ContentType string
	Body        []byte
}

// Inbound is a message that somebody sent to one of the operator's numbers or
// addresses, or that amounts to one, such as a click on "unsubscribe".
type Inbound struct {
	ID      string // the provider's
	From    string // who wrote it: the recipient of Weir's messages
	To      string // the operator's number or address
	Channel schemas.Channel
	Text    string
	At      time.Time
	// Tenant and Class narrow what a STOP stops; empty is all of the channel.
	Tenant, Class string
	// Word overrides what Text says, where the provider has judged it already:
	// "stop", "start" or "help".
	Word string
}

var (
	// ErrForged is a request that is not surely the provider's: 401.
	ErrForged = errors.New("the signature or the secret does not fit")
	// ErrHook is a request that is the provider's and cannot be read: 400.
	ErrHook = errors.New("the request cannot be read")
	// ErrNoHook is a listener that reads no requests of this kind: 404.
	ErrNoHook = errors.New("this provider makes no such requests")
)

// Unreadable is ErrHook with what is wrong, for whoever wrote the request: where that
// is the operator. It holds nothing of the request itself.
type Unreadable struct{ Reason string }

func (u *Unreadable) Error() string { return ErrHook.Error() + ": " + u.Reason }

// Is makes it ErrHook.
func (u *Unreadable) Is(err error) bool { return err == ErrHook }
