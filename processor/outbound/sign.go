package outbound

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrSecret is a secret that nothing can be signed with.
var ErrSecret = errors.New("a webhook's secret is base64, with or without whsec_ before it, of at least 16 bytes: make one with openssl rand -base64 32")

// Sign returns the headers of Standard Webhooks for a body: webhook-id, which stays
// the same over all tries, webhook-timestamp, and webhook-signature (v1:
// HMAC-SHA256 of id.timestamp.body).
func Sign(secret, id string, at time.Time, body []byte) (http.Header, error) {
	return SignAll([]string{secret}, id, at, body)
}

// SignAll is Sign with a signature of each secret, with spaces between: while secrets
// rotate, whoever knows one of them can verify.
func SignAll(secrets []string, id string, at time.Time, body []byte) (http.Header, error) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	var signatures []string
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) < 16 {
			return nil, ErrSecret
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + stamp + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	if len(signatures) == 0 {
		return nil, ErrSecret
	}
	h := http.Header{}
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", stamp)
	h.Set("Webhook-Signature", strings.Join(signatures, " "))
	return h, nil
}
