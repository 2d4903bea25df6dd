package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// Bounds are what a policy may refer to. The zero value bounds nothing that Resolve
// reads, and permits nothing that comes over HTTP: whoever writes the policy at the
// host may name what is on it, a caller of the API only what the operator gave it.
type Bounds struct {
	Dir       string // files below it, without a way out by symbolic links; empty is no bound
	EnvPrefix string // variables whose names begin so; empty is no bound
}

// Errors of a reference out of bounds. They are the same whether or not the file or
// the variable exists.
var (
	ErrFile     = errors.New("is not a file below secrets.dir (WEIR_SECRETS_DIR)")
	ErrVariable = errors.New("does not begin with secrets.env_prefix (WEIR_SECRETS_ENV_PREFIX)")
)

// Validate refuses bounds that mean nothing.
func (b Bounds) Validate() error {
	if b.Dir != "" && !filepath.IsAbs(b.Dir) {
		return fmt.Errorf("%q is no absolute path, such as /run/secrets", b.Dir)
	}
	return nil
}

// below returns path as it stands below the directory. It looks at no file.
func (b Bounds) below(path string) (string, bool) {
	if !filepath.IsAbs(path) || slices.Contains(strings.Split(path, "/"), "..") {
		return "", false
	}
	rel, err := filepath.Rel(b.Dir, path)
	return rel, err == nil && rel != "." && filepath.IsLocal(rel)
}

// open opens a file that is in bounds. A symbolic link may lead to what is below the
// directory too.
func (b Bounds) open(path string) (*os.File, error) {
	if b.Dir == "" {
		return os.Open(path)
	}
	rel, ok := b.below(path)
	if !ok {
		return nil, ErrFile
	}
	// The directory may be named by a link itself; below it none leads out.
	root, err := os.OpenRoot(b.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(rel)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return nil, ErrFile
	}
	return f, err
}

// permits judges a reference as references returns it, by its text alone: no file is
// looked at, so the answer says nothing of the host.
func (b Bounds) permits(ref string) error {
	if path, ok := strings.CutPrefix(ref, "file:"); ok {
		if _, below := b.below(path); b.Dir == "" || !below {
			return ErrFile
		}
		return nil
	}
	if b.EnvPrefix == "" || !strings.HasPrefix(ref[2:], b.EnvPrefix) {
		return ErrVariable
	}
	return nil
}

// Judge refuses a policy that came over HTTP and refers to what the one in force does
// not, out of bounds. Its error is ErrFile or ErrVariable, and names the reference.
func (b Bounds) Judge(have, next *schemas.Policy) error {
	known := references(have)
	for _, ref := range references(next) {
		if slices.Contains(known, ref) {
			continue
		}
		if err := b.permits(ref); err != nil {
			return fmt.Errorf("%s %w: a policy over HTTP may refer to nothing else", ref, err)
		}
	}
	return nil
}

// references are what a policy refers to: file:PATH, or ${NAME}.
func references(p *schemas.Policy) (out []string) {
	var look func(v any)
	look = func(v any) {
		switch v := v.(type) {
		case string:
			if strings.HasPrefix(v, "file:") {
				out = append(out, v)
				return
			}
			out = append(out, envForm.FindAllString(v, -1)...)
		case map[string]any:
			for _, in := range v {
				look(in)
			}
		case []any:
			for _, in := range v {
				look(in)
			}
		}
	}
	for i := range p.Providers {
		look(p.Providers[i].Settings)
	}
	for i := range p.Alerts {
		look(p.Alerts[i].To)
	}
	for i := range p.Tenants {
		if cb := p.Tenants[i].Callback; cb != nil {
			look([]any{cb.URL, cb.Secret, cb.PreviousSecret})
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
