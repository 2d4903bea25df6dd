// Package bodysign signs what Weir sends to an operator's own address, and verifies
// what such an address sends to Weir: HMAC-SHA256 under a secret that both know, by
// default as Standard Webhooks has it.
//
// It keeps no list of what it has seen: a request that is sent again within its
// five minutes is taken again.
package bodysign

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
)

// Tolerance is how far a request's timestamp may be from the time that it came:
// what Standard Webhooks' own libraries allow.
const Tolerance = 5 * time.Minute

// Scheme is how bodies are signed. The zero value signs nothing and verifies
// nothing.
type Scheme struct {
	secret string
	header string // of the signature; empty is Standard Webhooks
	stamp  string // the header of the timestamp; empty where only the body is signed
	prefix string // before the signature: "sha256="
	base64 bool   // rather than hex
}

// Of reads settings.sign:
//
//	secret            required; as whsec_… or base64 where header is absent, else any text
//	header            of the signature; without it, webhook-id, webhook-timestamp and webhook-signature
//	algorithm         sha256
//	signs             timestamp.body (default) or body; with header
//	timestamp_header  X-Timestamp; with header and timestamp.body; seconds since 1970
//	prefix            before the signature, such as sha256=; with header
//	encoding          hex (default) or base64; with header
func Of(in *provider.Settings) (s Scheme) {
	of := in.Under("sign", `{secret: "${SIGNING_SECRET}"}`)
	if of == nil {
		return s
	}
	s = Scheme{secret: of.Required("secret", "what both sides know, such as openssl rand -base64 32 makes"), header: of.Text("header", "")}
	of.OneOf("algorithm", "sha256")
	if s.header != "" {
		if of.OneOf("signs", "timestamp.body", "body") == "timestamp.body" {
			s.stamp = of.Text("timestamp_header", "X-Timestamp")
		}
		s.prefix = of.Text("prefix", "")
		s.base64 = of.OneOf("encoding", "hex", "base64") == "base64"
	}
	for name, text := range map[string]string{"header": s.header, "timestamp_header": s.stamp} {
		if text != "" && !httpguts.ValidHeaderFieldName(text) {
			of.Fail(name, "cannot be a header's name")
		}
	}
	if !httpguts.ValidHeaderFieldValue(s.prefix) {
		of.Fail("prefix", "holds what no header can")
	}
	if s.header == "" {
		if _, err := outbound.Sign(s.secret, "x", time.Unix(0, 0), nil); err != nil {
			of.Fail("secret", "cannot sign: %w", err)
		}
	}
	return s
}

// On reports whether it signs.
func (s Scheme) On() bool { return s.secret != "" }

// Sign returns the headers for a body. The id is the message's: the same at every
// attempt.
func (s Scheme) Sign(id string, at time.Time, body []byte) http.Header {
	switch {
	case !s.On():
		return nil
	case s.header == "":
		h, _ := outbound.Sign(s.secret, id, at, body) // the secret was tried in Of
		return h
	}
	h := http.Header{}
	stamp := ""
	if s.stamp != "" {
		stamp = strconv.FormatInt(at.Unix(), 10)
		h.Set(s.stamp, stamp)
	}
	h.Set(s.header, s.prefix+s.text(s.sum(stamp, body)))
	return h
}

func (s Scheme) sum(stamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(s.secret))
	if s.stamp != "" {
		mac.Write([]byte(stamp + "."))
	}
	mac.Write(body)
	return mac.Sum(nil)
}

func (s Scheme) text(sum []byte) string {
	if s.base64 {
		return base64.StdEncoding.EncodeToString(sum)
	}
	return hex.EncodeToString(sum)
}

// Verify is provider.ErrForged unless the request is signed with the secret, and,
// where the time is signed, within Tolerance of when it came.
func (s Scheme) Verify(h *provider.Hook) error {
	if !s.On() {
		return provider.ErrForged
	}
	name := s.stamp
	if s.header == "" {
		name = "Webhook-Timestamp"
	}
	stamp := ""
	var at time.Time
	if name != "" {
		stamp = h.Header.Get(name)
		seconds, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil {
			return provider.ErrForged
		}
		if at = time.Unix(seconds, 0); h.At.Sub(at).Abs() > Tolerance {
			return provider.ErrForged
		}
	}
	if s.header == "" {
		want, err := outbound.Sign(s.secret, h.Header.Get("Webhook-Id"), at, h.Body)
		if err != nil || h.Header.Get("Webhook-Id") == "" {
			return provider.ErrForged
		}
		for shown := range strings.FieldsSeq(h.Header.Get("Webhook-Signature")) { // several while a secret is being changed
			if hmac.Equal([]byte(shown), []byte(want.Get("Webhook-Signature"))) {
				return nil
			}
		}
		return provider.ErrForged
	}
	if !hmac.Equal([]byte(h.Header.Get(s.header)), []byte(s.prefix+s.text(s.sum(stamp, h.Body)))) {
		return provider.ErrForged
	}
	return nil
}
