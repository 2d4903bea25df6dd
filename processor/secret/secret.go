// Package secret reads what a policy names and does not hold: ${NAME} is a
// variable of the environment, file:PATH the content of a file. The process that
// uses the secret resolves it; nothing of it is kept, logged or written to Kafka.
package secret

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

var envForm = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// maxFile bounds what is read of a file: a path by mistake to something large
// must not fill the memory.
const maxFile = 64 << 10

// Refers reports whether a field's text names what it does not hold.
func Refers(value string) bool {
	return strings.HasPrefix(value, "file:") || envForm.MatchString(value)
}

// Resolve is Bounds.Resolve without bounds.
func Resolve(field, value string, getenv func(string) string) (string, error) {
	return Bounds{}.Resolve(field, value, getenv)
}

// Resolve returns a field's text with every ${NAME} replaced by that variable of
// the environment, or the content of the file that file:PATH names, without the
// newline at its end. Errors name the field, and the variable or file it refers
// to, never a secret.
// What is out of bounds is an error.
func (b Bounds) Resolve(field, value string, getenv func(string) string) (string, error) {
	if path, ok := strings.CutPrefix(value, "file:"); ok {
		f, err := b.open(path)
		if err != nil {
			return "", fmt.Errorf("%s: %w", field, err)
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
		switch {
		case err != nil:
			return "", fmt.Errorf("%s: %w", field, err)
		case len(text) == 0 || len(text) > maxFile:
			return "", fmt.Errorf("%s: %s is empty or over 64 KiB", field, path)
		}
		return strings.TrimRight(string(text), "\r\n"), nil
	}
	var missing []string
	var err error
	out := envForm.ReplaceAllStringFunc(value, func(ref string) string {
		name := ref[2 : len(ref)-1]
		if !strings.HasPrefix(name, b.EnvPrefix) {
			err = fmt.Errorf("%s: %s %w", field, ref, ErrVariable)
			return ""
		}
		v := getenv(name)
		if v == "" {
			missing = append(missing, name)
		}
		return v
	})
	if err != nil {
		return "", err
	}
	if len(missing) > 0 {
		return "", fmt.Errorf("%s: the environment has no %s", field, strings.Join(missing, ", "))
	}
	return out, nil
}
