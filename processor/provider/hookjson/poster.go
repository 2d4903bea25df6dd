package hookjson

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/hooksecret"
	"github.com/weirhq/weir/schemas"
)

// Poster is a provider that posts JSON and signs nothing: it is known by
// settings.receipt_secret. T is one of its receipts, U one of its inbound messages.
type Poster[T, U any] struct {
	Settings []string       // all that the type has: the listener reads the secret alone
	Answered provider.Reply // what it wants to read
	// Tries says that it tries an address with GET before it takes it.
	Tries bool
	// Receipt and Inbound read one element each; came is when the request came. That
	// an element tells nothing is no mistake.
	Receipt func(name string, in T, came time.Time) (r provider.Receipt, tells bool, err error)
	Inbound func(in U, came time.Time) (m provider.Inbound, tells bool, err error)
}

type listener[T, U any] struct {
	of     *Poster[T, U]
	name   string // the provider's, in the policy
	secret hooksecret.Secret
	logger *slog.Logger
}

// Listen opens what reads the poster's requests. The secret is required.
func (o *Poster[T, U]) Listen(p schemas.Provider, deps provider.Deps) (provider.Listener, error) {
	in := deps.Settings(p)
	in.Others(o.Settings...)
	l := &listener[T, U]{of: o, name: p.Name, secret: hooksecret.Of(in), logger: deps.Logger.With("provider", p.Name)}
	if err := in.Err(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *listener[T, U]) Receipts(h *provider.Hook) ([]provider.Receipt, provider.Reply, error) {
	return read(l, h, func(in T) (provider.Receipt, bool, error) { return l.of.Receipt(l.name, in, h.At) })
}

func (l *listener[T, U]) Inbound(h *provider.Hook) ([]provider.Inbound, provider.Reply, error) {
	return read(l, h, func(in U) (provider.Inbound, bool, error) { return l.of.Inbound(in, h.At) })
}

// read verifies a request and reads its elements.
func read[T, U, E, R any](l *listener[T, U], h *provider.Hook, one func(E) (R, bool, error)) ([]R, provider.Reply, error) {
	if err := l.secret.Verify(h); err != nil {
		return nil, provider.Reply{}, err
	}
	switch {
	case h.Method == http.MethodPost:
	case l.of.Tries && (h.Method == http.MethodGet || h.Method == http.MethodHead):
		return nil, l.of.Answered, nil
	default:
		return nil, provider.Reply{}, provider.ErrHook
	}
	out, err := Each(h.Body, l.logger, one)
	if err != nil {
		return nil, provider.Reply{}, err
	}
	return out, l.of.Answered, nil
}
