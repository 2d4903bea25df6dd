package secret_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/processor/secret"
	"github.com/weirhq/weir/schemas"
)

// TestBounds: whoever resolves a secret reads nothing outside the operator's bounds,
// in whatever way the policy writes it.
func TestBounds(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "secrets")
	for _, d := range []string{dir, filepath.Join(dir, "..data"), filepath.Join(dir, "sub")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"outside": "root", "secrets/inside": "ours", "secrets/..data/key": "mounted", "secrets/sub/deep": "deep"} {
		if err := os.WriteFile(filepath.Join(top, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"secrets/key": "..data/key", "secrets/out": "../outside", "secrets/abs": filepath.Join(top, "outside"), "secrets/dir": "..", "link": "secrets"} {
		if err := os.Symlink(to, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	env := func(k string) string { return map[string]string{"WEIR_S_A": "one", "HOME": "/root"}[k] }
	b := secret.Bounds{Dir: dir, EnvPrefix: "WEIR_S_"}
	for _, tt := range []struct {
		value, want string
		err         error
	}{
		{"plain", "plain", nil},
		{"${WEIR_S_A}", "one", nil},
		{"${HOME}", "", secret.ErrVariable},
		{"${WEIR_S_A} ${HOME}", "", secret.ErrVariable},
		{"${NOT_THERE}", "", secret.ErrVariable},
		{"file:" + dir + "/inside", "ours", nil},
		{"file:" + dir + "/sub/deep", "deep", nil},
		{"file:" + dir + "/key", "mounted", nil}, // as Kubernetes mounts them
		{"file:" + top + "/outside", "", secret.ErrFile},
		{"file:" + top + "/not-there", "", secret.ErrFile},
		{"file:" + dir + "/../outside", "", secret.ErrFile},
		{"file:" + dir + "/sub/../inside", "", secret.ErrFile},
		{"file:" + dir + "/out", "", secret.ErrFile},
		{"file:" + dir + "/abs", "", secret.ErrFile},
		{"file:" + dir + "/dir/outside", "", secret.ErrFile},
		{"file:" + dir, "", secret.ErrFile},
		{"file:" + dir + "x/y", "", secret.ErrFile},
		{"file:inside", "", secret.ErrFile},
		{"file:/etc/passwd", "", secret.ErrFile},
	} {
		got, err := b.Resolve("settings.key", tt.value, env)
		if got != tt.want || !errors.Is(err, tt.err) || tt.err == nil && err != nil {
			t.Errorf("%s: %q, %v; want %q, %v", tt.value, got, err, tt.want, tt.err)
		}
		if err != nil && strings.Contains(err.Error(), "no such") {
			t.Errorf("%s: the error says whether there is one: %v", tt.value, err)
		}
	}
	linked := secret.Bounds{Dir: filepath.Join(top, "link")}
	if got, err := linked.Resolve("k", "file:"+linked.Dir+"/inside", env); got != "ours" {
		t.Errorf("the directory is a link itself: %q, %v", got, err)
	}
	if err := (secret.Bounds{Dir: "secrets"}).Validate(); err == nil {
		t.Error("a directory that depends on where the process was started")
	}
}

// TestJudge: a policy over HTTP refers to nothing new but what is in bounds.
func TestJudge(t *testing.T) {
	of := func(text string) *schemas.Policy {
		return &schemas.Policy{Providers: []schemas.Provider{{Name: "p", Settings: map[string]any{"headers": map[string]any{"X": []any{text}}}}}}
	}
	both := secret.Bounds{Dir: "/run/secrets", EnvPrefix: "WEIR_S_"}
	for _, tt := range []struct {
		bounds     secret.Bounds
		have, next *schemas.Policy
		want       error
	}{
		{both, of(""), of("file:/run/secrets/a"), nil},
		{both, of(""), of("Bearer ${WEIR_S_A}"), nil},
		{both, of(""), of("file:/run/secrets/../../etc/shadow"), secret.ErrFile},
		{both, of(""), of("file:/etc/shadow"), secret.ErrFile},
		{both, of(""), of("Bearer ${HOME}"), secret.ErrVariable},
		{both, of("file:/etc/mine"), of("file:/etc/mine"), nil}, // an operator at the host named it
		{secret.Bounds{}, of("${MINE}"), of("x${MINE}"), nil},
		{secret.Bounds{}, of(""), of("plain"), nil},
		{secret.Bounds{}, of(""), of("file:/run/secrets/a"), secret.ErrFile},
		{secret.Bounds{}, of(""), of("${WEIR_S_A}"), secret.ErrVariable},
		{both, of(""), &schemas.Policy{Alerts: []schemas.Alert{{Name: "a", To: map[string]any{"url": "file:/etc/shadow"}}}}, secret.ErrFile},
		{both, of(""), &schemas.Policy{Tenants: []schemas.Tenant{{Name: "t", Callback: &schemas.Callback{URL: "https://x/${HOME}"}}}}, secret.ErrVariable},
		{both, of(""), &schemas.Policy{Tenants: []schemas.Tenant{{Name: "t", Callback: &schemas.Callback{Secret: "${HOME}"}}}}, secret.ErrVariable},
		{both, of(""), &schemas.Policy{Tenants: []schemas.Tenant{{Name: "t", Callback: &schemas.Callback{PreviousSecret: "${HOME}"}}}}, secret.ErrVariable},
	} {
		if err := tt.bounds.Judge(tt.have, tt.next); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%+v: %+v to %+v: %v, want %v", tt.bounds, tt.have, tt.next, err, tt.want)
		}
	}
}
