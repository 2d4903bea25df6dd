package apns

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"errors"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Apple takes a token whose time of issue is at most an hour ago, and refuses ones
// that are made anew more often than every 20 minutes ("Establishing a token-based
// connection to APNs", Refresh your token regularly).
const (
	renewAfter  = 40 * time.Minute
	renewAtMost = 20 * time.Minute
)

// tokens makes the provider's authentication tokens.
type tokens struct {
	team, keyID string
	key         *ecdsa.PrivateKey
	now         func() time.Time

	mu    sync.Mutex
	token string
	made  time.Time // by the wall clock: a machine that slept has an old token
}

// parseKey reads the key that Apple gives out as a .p8 file.
func parseKey(pem string) (*ecdsa.PrivateKey, error) {
	key, err := jwt.ParseECPrivateKeyFromPEM([]byte(pem))
	if err != nil || key.Curve != elliptic.P256() {
		return nil, errors.New("is no private key of curve P-256 in PEM, as the .p8 file holds it")
	}
	return key, nil
}

// get returns the token for a call.
func (t *tokens) get() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now().Round(0)
	if age := now.Sub(t.made); t.token != "" && age < renewAfter && age >= 0 {
		return t.token, nil
	}
	unsigned := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"iss": t.team, "iat": now.Unix()})
	unsigned.Header["kid"] = t.keyID
	token, err := unsigned.SignedString(t.key)
	if err != nil {
		return "", err
	}
	t.token, t.made = token, now
	return token, nil
}

// expired says that Apple called a token expired: the next call makes another. A young
// one stays, as another would be no better and be refused for coming too soon: the
// clocks differ.
func (t *tokens) expired(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if token == t.token && t.now().Round(0).Sub(t.made) >= renewAtMost {
		t.token = ""
	}
}
