package provider

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/secret"
	"github.com/weirhq/weir/schemas"
)

// Deps is what adapters are given.
type Deps struct {
	Getenv func(string) string
	Logger *slog.Logger
	// Receipts takes what arrives after a call. It must not block for long and
	// may be called from any goroutine until Close has returned.
	Receipts func(Receipt)
	// Told is Receipts for an adapter that can have its provider send a receipt again: the
	// channel gives nil, or is closed, when the receipt is safe, and an error when it is not.
	// It is Receipts where it is left out.
	Told func(Receipt) <-chan error
	// Inbound takes a message that somebody sent to the operator over the adapter's own
	// connection (SMPP). It returns when the message is safe, or says why it is not: the
	// provider is then told to send it again. It may block, and may be called from any
	// goroutine until Close has returned. Where nobody takes inbound messages it may be
	// left out; they are then taken and dropped.
	Inbound func(Inbound) error
	// PublicURL is how providers reach Weir's HTTP listener, without a slash at its
	// end (http.public_url); empty where they cannot. Receipts go to
	// PublicURL/v1/receipts/NAME, inbound messages to PublicURL/v1/inbound/NAME.
	PublicURL string
	// Secrets are what the settings may refer to; Private are the networks that may be
	// called although they are not public.
	Secrets secret.Bounds
	Private outbound.Networks
}

// Factory opens an adapter for one provider of the policy. It reads all of the
// settings and refuses those it does not know.
type Factory func(p schemas.Provider, deps Deps) (Provider, error)

// Type is one kind of provider.
type Type struct {
	Open Factory // nil where Weir does not call it
	// Listen opens what reads the provider's own requests to Weir; nil where it makes
	// none. It reads the same settings as Open.
	Listen func(p schemas.Provider, deps Deps) (Listener, error)
	// Check reads the settings as Open and Listen do, by the same code, and opens
	// nothing: in keeps what is wrong. The policy is judged by it when it is applied.
	Check func(in *Settings)
	// Codes says what the provider's codes mean; nil where it has none of its own.
	Codes *Codes
	// Template checks what a template says of a provider of this type
	// (templates[].providers); nil where nothing may be said.
	Template func(own map[string]any) error
}

// Types is the table of adapters by a provider's type.
type Types map[string]Type

// Open opens a provider by its type. Deps may be left out.
func (t Types) Open(p schemas.Provider, deps Deps) (Provider, error) {
	typ, err := t.of(p)
	if err != nil {
		return nil, err
	}
	if typ.Open == nil {
		return nil, fmt.Errorf("provider %s: Weir does not call a provider of type %s", p.Name, p.Type)
	}
	pr, err := typ.Open(p, deps.filled())
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", p.Name, err)
	}
	return pr, nil
}

// ErrNoListener is a provider whose type makes no requests to Weir.
var ErrNoListener = errors.New("this type of provider sends no receipts and no inbound messages over HTTP")

// Listen opens what reads a provider's requests to Weir. Deps may be left out. The
// error is ErrNoListener where the type has none.
func (t Types) Listen(p schemas.Provider, deps Deps) (Listener, error) {
	typ, err := t.of(p)
	if err != nil {
		return nil, err
	}
	if typ.Listen == nil {
		return nil, fmt.Errorf("provider %s: %w", p.Name, ErrNoListener)
	}
	l, err := typ.Listen(p, deps.filled())
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", p.Name, err)
	}
	return l, nil
}

func (t Types) of(p schemas.Provider) (Type, error) {
	typ, ok := t[p.Type]
	if !ok {
		return Type{}, fmt.Errorf("provider %s: type %q is none of %s", p.Name, p.Type, strings.Join(slices.Sorted(maps.Keys(t)), ", "))
	}
	return typ, nil
}

func (deps Deps) filled() Deps {
	if deps.Getenv == nil {
		deps.Getenv = func(string) string { return "" }
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Receipts == nil {
		deps.Receipts = func(Receipt) {}
	}
	if deps.Told == nil {
		receipts := deps.Receipts
		deps.Told = func(rc Receipt) <-chan error {
			receipts(rc)
			safe := make(chan error)
			close(safe)
			return safe
		}
	}
	if deps.Inbound == nil {
		deps.Inbound = func(Inbound) error { return nil }
	}
	return deps
}
