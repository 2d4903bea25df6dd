package hooksecret_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/hooksecret"
	"github.com/weirhq/weir/schemas"
)

const (
	one = "0123456789abcdef0123456789abcdef"
	two = "another secret, with a space & more"
)

func read(v any) (hooksecret.Secret, error) {
	in := provider.SettingsOf(schemas.Provider{Settings: map[string]any{"receipt_secret": v}}, func(k string) string {
		return map[string]string{"ONE": one, "SHORT": "hunter2"}[k]
	})
	return hooksecret.Of(in), in.Err()
}

func of(t *testing.T, v any) hooksecret.Secret {
	t.Helper()
	s, err := read(v)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func hook(t *testing.T, query, password string) *provider.Hook {
	t.Helper()
	r := &http.Request{Header: make(http.Header)}
	if password != "" {
		r.SetBasicAuth("anybody", password)
	}
	u, err := url.Parse("https://weir.example.com/v1/receipts/aliyun?" + query)
	if err != nil {
		t.Fatal(err)
	}
	return &provider.Hook{URL: u, Header: r.Header}
}

func TestVerify(t *testing.T) {
	for _, tt := range []struct {
		name, query, password string
		secret                any
		forged                bool
	}{
		{"token", "token=" + one, "", "${ONE}", false},
		{"password", "", one, "${ONE}", false},
		{"a token that has to be escaped", url.Values{"token": {two}}.Encode(), "", two, false},
		{"the first of two", "token=" + one, "", []any{"${ONE}", two}, false},
		{"the second of two", "", two, []any{"${ONE}", two}, false},
		{"right password, wrong token", "token=x", one, "${ONE}", false},
		{"nothing", "", "", "${ONE}", true},
		{"an empty token", "token=", "", "${ONE}", true},
		{"another", "token=" + two, two, "${ONE}", true},
		{"the beginning", "token=" + one[:31], "", "${ONE}", true},
		{"more", "token=" + one + "0", "", "${ONE}", true},
		{"in another parameter", "secret=" + one, "", "${ONE}", true},
		{"the second of two tokens", "token=x&token=" + one, "", "${ONE}", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := of(t, tt.secret).Verify(hook(t, tt.query, tt.password))
			if got := errors.Is(err, provider.ErrForged); got != tt.forged || err != nil && !got {
				t.Errorf("%v", err)
			}
		})
	}
	if err := (hooksecret.Secret{}).Verify(hook(t, "token=", "")); !errors.Is(err, provider.ErrForged) {
		t.Errorf("no secret lets everybody in: %v", err)
	}
	if err := of(t, one).Verify(&provider.Hook{}); !errors.Is(err, provider.ErrForged) {
		t.Errorf("no address: %v", err)
	}
}

func TestOf(t *testing.T) {
	for name, tt := range map[string]struct {
		v    any
		want string
	}{
		"none":                 {nil, "settings.receipt_secret is missing"},
		"empty":                {"", "settings.receipt_secret is missing"},
		"a number":             {12345678901234567, "settings.receipt_secret is missing"},
		"short":                {"${SHORT}", "settings.receipt_secret has 7 characters: at least 16 are needed"},
		"no such variable":     {"${NONE}", "settings.receipt_secret: the environment has no NONE"},
		"no secrets":           {[]any{}, "takes one secret, or two"},
		"three":                {[]any{one, two, one}, "takes one secret, or two"},
		"one of two is short":  {[]any{one, "hunter2"}, "at least 16 are needed"},
		"one of two is a list": {[]any{one, []any{two}}, "is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(tt.v)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v", err)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), one) {
				t.Errorf("the error tells the secret: %v", err)
			}
		})
	}
}
