package revise

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/schemas"
)

// How long the secret before is good after a rotation.
const (
	DefaultOverlap = 24 * time.Hour
	MaxOverlap     = 31 * 24 * time.Hour
)

// ByKey begins what a revision says of who made it, where that is a key: its name follows.
const ByKey = "key "

// Why an edit of a key is none.
var (
	ErrNoKey      = errors.New("there is no such key")
	ErrKeyThere   = errors.New("there is such a key already: rotate it for a new secret, or revoke it first")
	ErrKeyEnded   = errors.New("the key has expired, and a new secret of it would be good for nothing: give it a later end first")
	ErrKeyPast    = errors.New("the end of the key is in the past")
	ErrLastKey    = errors.New("it is the last key of the tenant default with the scopes policy and keys: without it no one could change everything over HTTP")
	ErrBadOverlap = errors.New("an overlap is 0s to 31d")
)

func keyIndex(p *schemas.Policy, name string) int {
	return slices.IndexFunc(p.Keys, func(k schemas.Key) bool { return k.Name == name })
}

// withKeys returns p with keys of its own, to be written to.
func withKeys(p *schemas.Policy) *schemas.Policy {
	next := *p
	next.Keys = slices.Clone(p.Keys)
	return &next
}

// CreateKey adds a key with a new secret, which stands nowhere but in the
// result: the policy has its hash. The policy is not validated.
func CreateKey(have *schemas.Policy, key schemas.Key, now schemas.Millis) (next *schemas.Policy, secret string, err error) {
	switch {
	case keyIndex(have, key.Name) >= 0:
		is := &have.Keys[keyIndex(have, key.Name)]
		return nil, "", fmt.Errorf("key %s: %w: it is of tenant %s with the scopes %s", key.Name, ErrKeyThere, is.Tenant, strings.Join(is.Scopes, ", "))
	case key.ExpiresAt != 0 && key.ExpiresAt <= now:
		return nil, "", fmt.Errorf("key %s: %w", key.Name, ErrKeyPast)
	}
	if secret, err = schemas.NewSecret(key.Test); err != nil {
		return nil, "", err
	}
	key.Hash = schemas.HashSecret(secret)
	next = withKeys(have)
	next.Keys = append(next.Keys, key)
	return next, secret, nil
}

// RotateKey gives a key a new secret. The one before is good for overlap
// longer, and no longer than the key itself; the one before that ends now.
func RotateKey(have *schemas.Policy, name string, overlap time.Duration, now schemas.Millis) (next *schemas.Policy, secret string, err error) {
	i := keyIndex(have, name)
	switch {
	case i < 0:
		return nil, "", fmt.Errorf("key %s: %w", name, ErrNoKey)
	case overlap < 0 || overlap > MaxOverlap:
		return nil, "", ErrBadOverlap
	case have.Keys[i].ExpiresAt != 0 && have.Keys[i].ExpiresAt <= now:
		return nil, "", fmt.Errorf("key %s: %w", name, ErrKeyEnded)
	}
	next = withKeys(have)
	key := &next.Keys[i]
	if secret, err = schemas.NewSecret(key.Test); err != nil {
		return nil, "", err
	}
	key.Previous = nil
	if overlap > 0 {
		key.Previous = &schemas.PreviousKey{Hash: key.Hash, ExpiresAt: now.Add(overlap)}
	}
	key.Hash = schemas.HashSecret(secret)
	return next, secret, nil
}

// KeepsAdmin refuses to go from a policy with a key that may administrate at
// the time now to one without.
func KeepsAdmin(have, next *schemas.Policy, now schemas.Millis) error {
	if hasAdmin(have, now) && !hasAdmin(next, now) {
		return ErrLastKey
	}
	return nil
}

func hasAdmin(p *schemas.Policy, now schemas.Millis) bool {
	return slices.ContainsFunc(p.Keys, func(k schemas.Key) bool {
		return k.Tenant == schemas.DefaultTenant && k.May("policy") && k.May("keys") && (k.ExpiresAt == 0 || now < k.ExpiresAt)
	})
}
