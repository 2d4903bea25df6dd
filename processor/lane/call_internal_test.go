package lane

import (
	"testing"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/schemas"
)

// TestACallSaysWhenItExpires: who can tell a provider, tells it.
func TestACallSaysWhenItExpires(t *testing.T) {
	it := item{env: schemas.Envelope{ID: "m", Key: "+12", Attempt: 2, ExpiresAt: 1700000000000}}
	it.setCall(&schemas.Request{Channel: schemas.ChannelPush}, content.Content{})
	if it.call.ExpiresAt != 1700000000000 || it.call.Attempt != 3 || it.call.To != "+12" {
		t.Errorf("the call has %+v", it.call)
	}
}

// TestMailGoesToTheSpellingOfTheRequest: its key ignores letter case, and so do the
// receipts of it; the address that a provider is called with does not.
func TestMailGoesToTheSpellingOfTheRequest(t *testing.T) {
	for _, c := range []struct {
		channel      schemas.Channel
		to, key, out string
	}{
		{schemas.ChannelEmail, " Ann.B@Example.com", "ann.b@example.com", "Ann.B@example.com"},
		{schemas.ChannelEmail, "ann.b@example.com", "ann.b@example.com", "ann.b@example.com"},
		{schemas.ChannelEmail, "Ann@example.com", "Ann@example.com", "Ann@example.com"}, // accepted before keys ignored letter case
		{schemas.ChannelEmail, "eve@example.com", "ann@example.com", "ann@example.com"}, // bytes of another message
		{schemas.ChannelSMS, "138 0000 0000", "+8613800000000", "+8613800000000"},
		{schemas.ChannelPush, "Token@A.example", "Token@A.example", "Token@A.example"},
	} {
		it := &item{env: schemas.Envelope{ID: "x", Key: c.key}}
		it.setCall(&schemas.Request{Channel: c.channel, To: c.to}, content.Content{})
		if it.call.To != c.out || it.call.Reference().To != c.key {
			t.Errorf("%s goes to %s, and its receipts name %s; want %s and %s", c.to, it.call.To, it.call.Reference().To, c.out, c.key)
		}
	}
}
