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
