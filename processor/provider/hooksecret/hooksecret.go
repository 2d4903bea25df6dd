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
	"fmt"
	"net/http"

	"github.com/weirhq/weir/processor/provider"
)

// Setting is the setting that holds the secret.
const Setting = "receipt_secret"

// least is how many bytes a secret has at least: openssl rand -hex 16 makes 32.
const least = 16

// most is how many secrets may be in use at once: the new one and the one before,
// while the address at the provider is being changed.
const most = 2

// Secret is what a provider's requests must show.
type Secret struct{ sums [][sha256.Size]byte }

// Of reads settings.receipt_secret: a text, or a list of at most two while one
// takes the place of the other. Each may hold ${NAME} or be file:PATH. That it is
// missing is a mistake.
func Of(in *provider.Settings) (s Secret) {
	v := in.Any(Setting)
	texts, several := v.([]any)
	if !several {
		texts = []any{v}
	}
	if len(texts) == 0 || len(texts) > most {
		in.Fail(Setting, "takes one secret, or two while one takes the place of the other")
		return s
	}
	for i, v := range texts {
		name := Setting
		if several {
			name = fmt.Sprintf("%s[%d]", Setting, i)
		}
		text, ok := v.(string)
		if !ok || text == "" {
			in.Fail(name, "is missing: without it nobody can tell who sends receipts; write a secret such as openssl rand -hex 16 makes")
			continue
		}
		if text = in.Resolve(name, text); len(text) < least {
			in.Fail(name, "has %d characters: at least %d are needed, such as openssl rand -hex 16 makes", len(text), least)
		}
		s.sums = append(s.sums, sha256.Sum256([]byte(text)))
	}
	return s
}

// Given is Of where there may be no secret.
func Given(in *provider.Settings) (s Secret) {
	if in.Any(Setting) == nil {
		return s
	}
	return Of(in)
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
