package provider

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/weirhq/weir/schemas"
)

// Reference names a message to a provider that gives back what it was given: with
// it a receipt needs no looking up, and may come before the send is recorded.
type Reference struct {
	MessageID string
	To        string // canonical recipient
	Tenant    string
	Channel   schemas.Channel
	Class     string
	Template  string
	Attempt   int
}

// ErrReference is text that is no reference.
var ErrReference = errors.New("not a reference of Weir's")

const referenceVersion = 1

// channelCodes are part of references: append only.
var channelCodes = []schemas.Channel{"", schemas.ChannelSMS, schemas.ChannelVoice, schemas.ChannelEmail, schemas.ChannelPush, schemas.ChannelWebhook}

// String is the reference as URL-safe base64 text without padding: 30 characters
// and some four for each three of recipient, tenant, class and template. It ends in
// a checksum against damage, not against forgery: who gives it back is verified
// before it is read.
func (r Reference) String() string {
	b := []byte{referenceVersion, byte(max(0, slices.Index(channelCodes, r.Channel)))}
	b = binary.AppendUvarint(b, uint64(max(0, r.Attempt)))
	if id, err := uuid.Parse(r.MessageID); err == nil && id.String() == r.MessageID {
		b = append(append(b, 1), id[:]...)
	} else {
		b = appendText(append(b, 0), r.MessageID)
	}
	for _, s := range []string{r.To, r.Tenant, r.Class, r.Template} {
		b = appendText(b, s)
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

// ParseReference reads what String wrote.
func ParseReference(s string) (Reference, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) < 8 || b[0] != referenceVersion {
		return Reference{}, ErrReference
	}
	b, check := b[:len(b)-4], b[len(b)-4:]
	if sum := sha256.Sum256(b); string(sum[:4]) != string(check) {
		return Reference{}, ErrReference
	}
	if int(b[1]) >= len(channelCodes) {
		return Reference{}, ErrReference
	}
	r := Reference{Channel: channelCodes[b[1]]}
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

// Receipt begins a receipt of the message.
func (r Reference) Receipt(provider string) Receipt {
	return Receipt{Provider: provider, MessageID: r.MessageID, To: r.To, Tenant: r.Tenant, Channel: r.Channel, Class: r.Class, Template: r.Template, Attempt: r.Attempt}
}
