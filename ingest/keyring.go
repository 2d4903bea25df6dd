package ingest

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
	"sync/atomic"

	"github.com/weirhq/weir/schemas"
)

// keyring finds the key of a token in the policy in force. The zero value is
// ready, and its method may be called from many goroutines.
type keyring struct{ made atomic.Pointer[ring] }

// ring is the keys of one revision by the beginning of their hashes.
type ring struct {
	of    *schemas.Revision
	slots map[[4]byte][]slot
}

type slot struct {
	hash  [sha256.Size]byte
	until schemas.Millis // 0: no end
	live  *caller
	test  *caller
}

// find returns the caller whose token this is at the time now; nil when it is
// nobody's. How long it takes tells nothing of any token: it is hashed before
// anything is compared.
func (k *keyring) find(in *schemas.Revision, token string, now schemas.Millis) *caller {
	r := k.made.Load()
	if r == nil || r.of != in {
		r = newRing(in)
		k.made.Store(r)
	}
	sum := sha256.Sum256([]byte(token))
	slots := r.slots[[4]byte(sum[:4])]
	var found *caller
	for i := range slots {
		s := &slots[i]
		if subtle.ConstantTimeCompare(s.hash[:], sum[:]) == 1 && (s.until == 0 || now < s.until) {
			found = s.live
			if strings.HasPrefix(token, schemas.TestPrefix) || found.key.Test {
				found = s.test
			}
		}
	}
	return found
}

func newRing(in *schemas.Revision) *ring {
	r := &ring{of: in, slots: make(map[[4]byte][]slot)}
	add := func(key *schemas.Key, hash string, until schemas.Millis) {
		raw, err := hex.DecodeString(strings.TrimPrefix(hash, "sha256:"))
		if err != nil || len(raw) != sha256.Size {
			return // no token has it
		}
		s := slot{
			hash: [sha256.Size]byte(raw), until: until,
			live: &caller{tenant: key.Tenant, key: key}, test: &caller{tenant: key.Tenant, key: key, test: true},
		}
		at := [4]byte(raw[:4])
		r.slots[at] = append(r.slots[at], s)
	}
	for i := range in.Policy.Keys {
		key := &in.Policy.Keys[i]
		add(key, key.Hash, key.ExpiresAt)
		if p := key.Previous; p != nil {
			until := p.ExpiresAt
			if key.ExpiresAt != 0 {
				until = min(until, key.ExpiresAt)
			}
			add(key, p.Hash, until)
		}
	}
	return r
}
