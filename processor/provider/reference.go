package provider

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/weirhq/weir/schemas"
)

// Reference names a message to a provider that gives back what it was given. One
// that a Signer signed proves what it says: a receipt with it needs no lookup, and
// may come before the send is recorded. Any other is only a claim.
type Reference struct {
	MessageID string
	To        string // canonical recipient
	Tenant    string
	Channel   schemas.Channel
	Class     string
	Template  string
	Attempt   int

	signer *Signer // signs String; nil: String is unsigned
	signed string  // the text of one that was parsed and has a signature, which may be wrong
}

// Signer signs the references that one provider is given, and verifies what comes
// back. The key is Weir's alone: a provider that signs its calls still cannot name a
// message that it was not given.
type Signer struct {
	key      []byte
	provider string
}

// NewSigner returns the signer of a secret; of a random one if it is empty.
func NewSigner(secret string) *Signer {
	if secret == "" {
		secret = rand.Text() + rand.Text()
	}
	return &Signer{key: []byte(secret)}
}

// Of is the signer for a provider, by its name in the policy.
func (s *Signer) Of(provider string) *Signer {
	if s == nil {
		return nil
	}
	return &Signer{key: s.key, provider: provider}
}

const tagBytes = 8

func (s *Signer) tag(b []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte("weir reference\x00" + s.provider + "\x00"))
	mac.Write(b)
	return mac.Sum(nil)[:tagBytes]
}

// Verify reads a reference that this signer signed for the provider; false for any
// other text.
func (s *Signer) Verify(provider, text string) (Reference, bool) {
	if s == nil {
		return Reference{}, false
	}
	r, err := ParseReference(text)
	if err != nil || r.signed == "" {
		return Reference{}, false
	}
	b, _ := base64.RawURLEncoding.DecodeString(text)
	b = b[:len(b)-4]
	body, tag := b[:len(b)-tagBytes], b[len(b)-tagBytes:]
	return r, hmac.Equal(tag, s.Of(provider).tag(body))
}

// ErrReference is text that is no reference.
var ErrReference = errors.New("not a reference of Weir's")

const (
	unsignedReference = 1
	signedReference   = 2
)

// channelCodes are part of references: append only.
var channelCodes = []schemas.Channel{"", schemas.ChannelSMS, schemas.ChannelVoice, schemas.ChannelEmail, schemas.ChannelPush, schemas.ChannelWebhook}

// String is the reference as URL-safe base64 text without padding: 41 characters,
// 30 without a signature, and some four for each three of recipient, tenant, class
// and template. It ends in a checksum against damage.
func (r Reference) String() string {
	version := byte(unsignedReference)
	if r.signer != nil {
		version = signedReference
	}
	b := []byte{version, byte(max(0, slices.Index(channelCodes, r.Channel)))}
	b = binary.AppendUvarint(b, uint64(max(0, r.Attempt)))
	if id, err := uuid.Parse(r.MessageID); err == nil && id.String() == r.MessageID {
		b = append(append(b, 1), id[:]...)
	} else {
		b = appendText(append(b, 0), r.MessageID)
	}
	for _, s := range []string{r.To, r.Tenant, r.Class, r.Template} {
		b = appendText(b, s)
	}
	if r.signer != nil {
		b = append(b, r.signer.tag(b)...)
	}
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(append(b, sum[:4]...))
}

// Within is String in at most n characters. Of a reference that is longer the
// template is left out, and then the class too: who gives it back still names the
// message, its recipient and its tenant. It is empty where that is too long as well.
func (r Reference) Within(n int) string {
	for _, leave := range []func(){func() {}, func() { r.Template = "" }, func() { r.Class = "" }} {
		leave()
		if s := r.String(); len(s) <= n {
			return s
		}
	}
	return ""
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// ParseReference reads what String wrote. It does not verify a signature: what it
// returns is a claim until Signer.Verify says otherwise.
func ParseReference(s string) (Reference, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) < 8 || b[0] != unsignedReference && b[0] != signedReference {
		return Reference{}, ErrReference
	}
	b, check := b[:len(b)-4], b[len(b)-4:]
	if sum := sha256.Sum256(b); string(sum[:4]) != string(check) {
		return Reference{}, ErrReference
	}
	r := Reference{}
	if b[0] == signedReference {
		if len(b) < 8+tagBytes {
			return Reference{}, ErrReference
		}
		r.signed, b = s, b[:len(b)-tagBytes]
	}
	if int(b[1]) >= len(channelCodes) {
		return Reference{}, ErrReference
	}
	r.Channel = channelCodes[b[1]]
	attempt, n := binary.Uvarint(b[2:])
	if n <= 0 || attempt > 1<<16 || len(b) < 3+n {
		return Reference{}, ErrReference
	}
	r.Attempt = int(attempt)
	b = b[2+n:]
	short := b[0] == 1
	b = b[1:]
	ok := true
	if short {
		if len(b) < 16 {
			return Reference{}, ErrReference
		}
		r.MessageID, b = uuid.UUID(b[:16]).String(), b[16:]
	} else {
		r.MessageID, b, ok = text(b)
	}
	for _, into := range []*string{&r.To, &r.Tenant, &r.Class, &r.Template} {
		if !ok {
			return Reference{}, ErrReference
		}
		*into, b, ok = text(b)
	}
	if !ok || len(b) != 0 {
		return Reference{}, ErrReference
	}
	return r, nil
}

func text(b []byte) (string, []byte, bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return "", nil, false
	}
	return string(b[size : size+int(n)]), b[size+int(n):], true
}

// Receipt begins a receipt of the message. It takes the signature along, by which the
// receipts stage knows what it may believe.
func (r Reference) Receipt(provider string) Receipt {
	signed := r.signed
	if r.signer != nil {
		signed = r.String()
	}
	return Receipt{Provider: provider, Reference: signed, MessageID: r.MessageID, To: r.To, Tenant: r.Tenant, Channel: r.Channel, Class: r.Class, Template: r.Template, Attempt: r.Attempt}
}
