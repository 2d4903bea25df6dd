// Package hooksecret verifies the requests of providers that sign nothing: who
// calls must know a secret, which the operator writes into the address that he
// registers with the provider.
//
// It says who calls, and nothing of what is said. Whoever sees the address knows
// the secret, so the address belongs to nobody's log.
package hooksecret

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// Setting is the setting that holds the secret.
const Setting = "receipt_secret"

// Least is how many bytes a secret has at least: openssl rand -hex 16 makes 32.
const Least = 16

// Most is how many secrets may be in use at once: the new one and the one before,
// while the address at the provider is being changed.
const Most = 2

// Secret is what a provider's requests must show.
type Secret struct{ sums [][sha256.Size]byte }

// Of reads settings.receipt_secret: a text, or a list of at most two while one
// takes the place of the other. Each may hold ${NAME} or be file:PATH. It is an
// error when it is missing.
func Of(p schemas.Provider, getenv func(string) string) (Secret, error) {
	texts, ok := p.Settings[Setting].([]any)
	if !ok {
		texts = []any{p.Settings[Setting]}
	}
	if len(texts) == 0 || len(texts) > Most {
		return Secret{}, fmt.Errorf("settings.%s takes one secret, or two while one takes the place of the other", Setting)
	}
	var s Secret
	for _, v := range texts {
		text, ok := v.(string)
		if !ok || text == "" {
			return Secret{}, errors.New("settings." + Setting + " is missing: without it nobody can tell who sends receipts; write a secret such as openssl rand -hex 16 makes")
		}
		text, err := provider.Resolve(Setting, text, getenv)
		if err != nil {
			return Secret{}, err
		}
		if len(text) < Least {
			return Secret{}, fmt.Errorf("settings.%s has %d characters: at least %d are needed, such as openssl rand -hex 16 makes", Setting, len(text), Least)
		}
		s.sums = append(s.sums, sha256.Sum256([]byte(text)))
	}
	return s, nil
}

// Verify is provider.ErrForged unless the secret is the request's HTTP basic
// password, or the token of its address (?token=). It takes the same time however
// much of it is right.
func (s Secret) Verify(h *provider.Hook) error {
	_, password, _ := (&http.Request{Header: h.Header}).BasicAuth()
	var token string
	if h.URL != nil {
		token = h.URL.Query().Get("token")
	}
	ok := 0
	for _, shown := range []string{password, token} {
		sum := sha256.Sum256([]byte(shown))
		for i := range s.sums {
			ok |= subtle.ConstantTimeCompare(sum[:], s.sums[i][:])
		}
	}
	if ok != 1 {
		return provider.ErrForged
	}
	return nil
}
