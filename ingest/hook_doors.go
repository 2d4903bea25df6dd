package ingest

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/receipt"
	"github.com/weirhq/weir/schemas"
)

// forgedEvery is how often the log tells of calls that are not surely a provider's.
const forgedEvery = 10 * time.Second

// hooks are the doors by which providers call Weir: no API key, but each provider's
// own proof that it is it.
type hooks struct {
	policy *policy.Watcher
	open   func(schemas.Provider) (provider.Listener, error) // nil: no provider calls
	topic  receipt.Topic
	inbox  *receipt.Inbox
	public *url.URL // nil: what the call says
	logger *slog.Logger

	mu       sync.Mutex
	revision int64
	doors    map[string]*door

	forgedMu sync.Mutex
	told     time.Time
	untold   int
}

// door is one provider's listener, or why there is none.
type door struct {
	of       schemas.Provider
	listener provider.Listener
	err      error
	next     time.Time // when one that could not be opened is tried again
}

// doorAgain is how soon a listener is opened again that could not be: its secret may
// stand in a file that is being put there.
const doorAgain = 10 * time.Second

func newHooks(cfg Config, logger *slog.Logger) (*hooks, error) {
	h := &hooks{policy: cfg.Policy, open: cfg.Listen, topic: cfg.Receipts, inbox: cfg.Inbox, logger: logger}
	if cfg.PublicURL != "" {
		u, err := url.Parse(cfg.PublicURL)
		if err != nil {
			return nil, err
		}
		h.public = u
	}
	return h, nil
}

// of returns a provider's listener under the policy in force. It is opened once for
// each form of the provider's entry. nil is that there is no such provider.
func (h *hooks) of(name string) *door {
	rev := h.policy.Latest()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.doors == nil || rev.Revision != h.revision {
		was := h.doors
		h.doors, h.revision = make(map[string]*door), rev.Revision
		for _, p := range rev.Policy.Providers { // what did not change stays open
			if d := was[p.Name]; d != nil && reflect.DeepEqual(d.of, p) {
				h.doors[p.Name] = d
			}
		}
	}
	d := h.doors[name]
	if d != nil && (d.err == nil || errors.Is(d.err, provider.ErrNoListener) || time.Now().Before(d.next)) {
		return d
	}
	for _, p := range rev.Policy.Providers {
		if p.Name != name {
			continue
		}
		d = &door{of: p, next: time.Now().Add(doorAgain), err: provider.ErrNoListener}
		if h.open != nil {
			full, _ := rev.Policy.Provider(name)
			d.listener, d.err = h.open(full)
		}
		if d.err != nil && !errors.Is(d.err, provider.ErrNoListener) {
			h.logger.Error("a provider's calls cannot be taken: it is told to come again", "provider", name, "error", d.err)
		}
		h.doors[name] = d
		return d
	}
	return nil
}

// forged tells of a call that is not surely the provider's, now and then.
func (h *hooks) forged(name string, from netip.Addr) {
	h.forgedMu.Lock()
	defer h.forgedMu.Unlock()
	if time.Since(h.told) < forgedEvery {
		h.untold++
		return
	}
	h.logger.Warn("a call in a provider's name was refused: its signature or secret does not fit", "provider", name, "from", maskAddr(from), "more_since", h.untold)
	h.told, h.untold = time.Now(), 0
}

// maskAddr is the network of an address.
func maskAddr(a netip.Addr) string {
	bits := 48
	if a.Is4() {
		bits = 24
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return ""
	}
	return p.String()
}

// publicPath reports whether a request is one of a provider's, which come under the
// public address whatever the listener's own name is.
func publicPath(path string) bool {
	return strings.HasPrefix(path, "/v1/receipts/") || strings.HasPrefix(path, "/v1/inbound/")
}

// publicName reports whether host is that of the public address.
func (h *hooks) publicName(host string) bool {
	return h.public != nil && strings.EqualFold(h.public.Host, host)
}

// address is a request's as the provider called it.
func (h *hooks) address(r *http.Request) *url.URL {
	u := &url.URL{Scheme: "http", Host: r.Host}
	if h.public != nil {
		u = &url.URL{Scheme: h.public.Scheme, Host: h.public.Host, Path: h.public.Path, RawPath: h.public.RawPath}
	}
	// Whole, as it stood in the request: signatures are of the bytes.
	if u.RawPath != "" || r.URL.RawPath != "" {
		u.RawPath = u.EscapedPath() + r.URL.EscapedPath()
	}
	u.Path += r.URL.Path
	u.RawQuery = r.URL.RawQuery
	return u
}
