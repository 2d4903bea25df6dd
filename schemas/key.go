package schemas

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
)

// What a key's secret begins with, so that a reader, and a scanner of source
// code, knows what it is and whether it can reach a real provider.
const (
	LivePrefix = "weir_live_"
	TestPrefix = "weir_test_"
)

// secretDigits is how many base62 digits 32 bytes take: 62^43 > 2^256.
const secretDigits = 43

// NewSecret makes a key's secret: LivePrefix or TestPrefix, and 32 random bytes
// as 43 digits of 0-9, a-z and A-Z, so that a double click selects all of it.
func NewSecret(test bool) (token string, err error) {
	var b [32]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("make a key's secret: %w", err)
	}
	digits := new(big.Int).SetBytes(b[:]).Text(62)
	prefix := LivePrefix
	if test {
		prefix = TestPrefix
	}
	return prefix + strings.Repeat("0", secretDigits-len(digits)) + digits, nil
}

// IsSecret reports whether token has the form of a key's secret, and whether
// of a test key's. It does not say that there is such a key.
func IsSecret(token string) (test, ok bool) {
	digits, live := strings.CutPrefix(token, LivePrefix)
	if !live {
		digits, test = strings.CutPrefix(token, TestPrefix)
	}
	if !live && !test || len(digits) != secretDigits {
		return false, false
	}
	for i := range len(digits) {
		c := digits[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false, false
		}
	}
	return test, true
}

// HashSecret is what a policy keeps of a secret: "sha256:" and the hash of the
// whole token in lower hex. A secret has 256 random bits, so it needs neither
// salt nor a slow hash.
func HashSecret(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}
