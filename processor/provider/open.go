package provider

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

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

var envForm = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// maxSecretFile bounds what is read of a file: a path by mistake to something
// large must not fill the memory.
const maxSecretFile = 64 << 10

// Resolve returns a setting's text with every ${NAME} replaced by that
// variable of the environment, or the content of the file that file:PATH
// names, without the newline at its end. Errors name the setting, and the
// variable or file it refers to, never a secret.
func Resolve(setting, value string, getenv func(string) string) (string, error) {
	if path, ok := strings.CutPrefix(value, "file:"); ok {
		f, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("settings.%s: %w", setting, err)
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
		switch {
		case err != nil:
			return "", fmt.Errorf("settings.%s: %w", setting, err)
		case len(b) == 0 || len(b) > maxSecretFile:
			return "", fmt.Errorf("settings.%s: %s is empty or over 64 KiB", setting, path)
		}
		return strings.TrimRight(string(b), "\r\n"), nil
	}
	var missing []string
	out := envForm.ReplaceAllStringFunc(value, func(ref string) string {
		name := ref[2 : len(ref)-1]
		v := getenv(name)
		if v == "" {
			missing = append(missing, name)
		}
		return v
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("settings.%s: the environment has no %s", setting, strings.Join(missing, ", "))
	}
	return out, nil
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
