package provider

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

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
}

// Factory opens an adapter for one provider of the policy. It reads all of the
// settings and refuses those it does not know.
type Factory func(p schemas.Provider, deps Deps) (Provider, error)

// Types is the table of adapters by a provider's type.
type Types map[string]Factory

// Open opens a provider by its type. Deps may be left out.
func (t Types) Open(p schemas.Provider, deps Deps) (Provider, error) {
	open, ok := t[p.Type]
	if !ok {
		return nil, fmt.Errorf("provider %s: type %q is none of %s", p.Name, p.Type, strings.Join(slices.Sorted(maps.Keys(t)), ", "))
	}
	if deps.Getenv == nil {
		deps.Getenv = func(string) string { return "" }
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Receipts == nil {
		deps.Receipts = func(Receipt) {}
	}
	pr, err := open(p, deps)
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", p.Name, err)
	}
	return pr, nil
}

// Resolve is secret.Resolve of a setting.
func Resolve(setting, value string, getenv func(string) string) (string, error) {
	return secret.Resolve("settings."+setting, value, getenv)
}

// Known refuses settings that the adapter does not have.
func Known(settings map[string]any, names ...string) error {
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		if !slices.Contains(names, k) {
			return fmt.Errorf("settings.%s is not a setting of this type: it has %s", k, strings.Join(names, ", "))
		}
	}
	return nil
}
