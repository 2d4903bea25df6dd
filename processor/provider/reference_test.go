package provider_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

func TestReferenceComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := provider.Reference{
			MessageID: rapid.OneOf(rapid.Just("0199b2a0-5c00-7000-8000-0123456789ab"), rapid.String()).Draw(t, "id"),
			To:        rapid.String().Draw(t, "to"), Tenant: rapid.String().Draw(t, "tenant"),
			Channel: rapid.SampledFrom([]schemas.Channel{"", schemas.ChannelSMS, schemas.ChannelWebhook}).Draw(t, "channel"),
			Class:   rapid.String().Draw(t, "class"), Template: rapid.String().Draw(t, "template"), Attempt: rapid.IntRange(0, 1000).Draw(t, "attempt"),
		}
		s := want.String()
		if got, err := provider.ParseReference(s); err != nil || got != want {
			t.Fatalf("%q: %+v, %v; want %+v", s, got, err, want)
		}
		i := rapid.IntRange(0, len(s)-1).Draw(t, "at")
		if _, err := provider.ParseReference(s[:i]); err == nil {
			t.Fatalf("cut at %d and still a reference", i)
		}
	})
}

// TestSigned: only what Weir's key signed, for that provider and unchanged, proves
// anything. Any other is read as a claim.
func TestSigned(t *testing.T) {
	key := provider.NewSigner("a key")
	call := provider.Call{ID: "0199b2a0-5c00-7000-8000-0123456789ab", To: "+8613800000000", Tenant: "acme", Channel: schemas.ChannelSMS, Class: "verify", Template: "login", Attempt: 2, References: key.Of("p")}
	unsigned := call
	unsigned.References = nil
	s := call.Reference().String()
	if got := len(s) - len(unsigned.Reference().String()); got != 11 {
		t.Errorf("a signature takes %d characters", got)
	}
	r, ok := key.Verify("p", s)
	if !ok || r.MessageID != call.ID || r.To != call.To || r.Tenant != "acme" || r.Channel != schemas.ChannelSMS || r.Class != "verify" || r.Template != "login" || r.Attempt != 2 {
		t.Errorf("%+v, %v", r, ok)
	}
	if back, err := provider.ParseReference(s); err != nil || back.Receipt("p").Reference != s || call.Reference().Receipt("p").Reference != s {
		t.Errorf("%v: the signature is lost on the way", err)
	}
	short := call.Reference().Within(len(s) - 1)
	if r, ok := key.Verify("p", short); !ok || r.Template != "" || r.To != call.To {
		t.Errorf("shortened: %+v, %v", r, ok)
	}
	sum := func(b []byte) string { // with a true checksum
		h := sha256.Sum256(b)
		return base64.RawURLEncoding.EncodeToString(append(b, h[:4]...))
	}
	raw, _ := base64.RawURLEncoding.DecodeString(s)
	raw = raw[:len(raw)-4]
	none, _ := base64.RawURLEncoding.DecodeString(unsigned.Reference().String())
	none = append(none[:len(none)-4], make([]byte, 8)...)
	none[0] = 2
	for name, text := range map[string]string{
		"unsigned": unsigned.Reference().String(), "empty": "", "zeros for a tag": sum(none),
		"another recipient": sum(bytes.Replace(bytes.Clone(raw), []byte("+8613800000000"), []byte("+8613800000001"), 1)),
		"another tenant":    sum(bytes.Replace(bytes.Clone(raw), []byte("acme"), []byte("bank"), 1)),
		"another tag":       sum(append(bytes.Clone(raw[:len(raw)-1]), raw[len(raw)-1]^1)),
		"an older version":  sum(append([]byte{1}, raw[1:]...)),
	} {
		if r, ok := key.Verify("p", text); ok {
			t.Errorf("%s is verified: %+v", name, r)
		}
	}
	if _, ok := key.Verify("q", s); ok {
		t.Error("one provider's is another's")
	}
	if _, ok := provider.NewSigner("").Verify("p", s); ok {
		t.Error("one key's is another's")
	}
	if _, ok := (*provider.Signer)(nil).Verify("p", s); ok {
		t.Error("no key verifies")
	}
}

func FuzzParseReference(f *testing.F) {
	f.Add(provider.Reference{MessageID: "x", To: "+8613800000000", Attempt: 2}.String())
	f.Add("AQEBAA")
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := provider.ParseReference(s); err == nil && r.To != "" {
			if again, err := provider.ParseReference(r.String()); err != nil || again != r {
				t.Errorf("%+v, %v", again, err)
			}
		}
	})
}

func TestReferenceWithin(t *testing.T) {
	full := provider.Reference{MessageID: "0199b2a0-5c00-7000-8000-0123456789ab", To: "+8613800000000", Tenant: "acme", Channel: schemas.ChannelSMS, Class: "verify", Template: "login-code", Attempt: 2}
	noTemplate := full
	noTemplate.Template = ""
	least := noTemplate
	least.Class = ""
	for _, tt := range []struct {
		n    int
		want string
	}{
		{len(full.String()), full.String()},
		{len(full.String()) - 1, noTemplate.String()},
		{len(noTemplate.String()), noTemplate.String()},
		{len(noTemplate.String()) - 1, least.String()},
		{len(least.String()), least.String()},
		{len(least.String()) - 1, ""},
		{0, ""},
	} {
		if got := full.Within(tt.n); got != tt.want || len(got) > tt.n {
			t.Errorf("within %d: %q, want %q", tt.n, got, tt.want)
		}
	}
}
