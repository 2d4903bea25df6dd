package smpp_test

import (
	"testing"

	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/processor/provider/smpp"
	"github.com/weirhq/weir/processor/provider/smpp/smpptest"
	"github.com/weirhq/weir/schemas"
)

func TestContract(t *testing.T) {
	providertest.Run(t, providertest.Adapter{
		Name: "smpp", Type: smpp.Type, Channels: []schemas.Channel{schemas.ChannelSMS},
		To: map[schemas.Channel]string{schemas.ChannelSMS: "+8613800000000"},
		Settings: func(endpoint string) map[string]any {
			return map[string]any{"endpoint": endpoint, "system_id": smpptest.SystemID, "password": "${SMPP_PASSWORD}"}
		},
		Env:         map[string]string{"SMPP_PASSWORD": smpptest.Password},
		Optional:    []string{"password"},
		Start:       func(t providertest.T) providertest.Server { return smpptest.Listen(t) },
		UnknownCode: "0x00000401",
		Lacks:       []providertest.Lack{providertest.LacksReference, providertest.LacksIdempotency, providertest.LacksRetryAfter},
		Receipts:    "over the session (deliver_sm)",
		Idempotency: "none: a call that is repeated is sent twice",
	})
}
