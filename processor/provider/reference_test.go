package provider_test

import (
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
