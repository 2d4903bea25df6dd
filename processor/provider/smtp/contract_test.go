package smtp_test

import (
	"testing"

	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/processor/provider/smtp"
	"github.com/weirhq/weir/processor/provider/smtp/smtptest"
	"github.com/weirhq/weir/schemas"
)

func TestContract(t *testing.T) {
	var ca string // of the server that was started last
	providertest.Run(t, providertest.Adapter{
		Name: "smtp", Type: smtp.Type, Channels: []schemas.Channel{schemas.ChannelEmail},
		To: map[schemas.Channel]string{schemas.ChannelEmail: "zoe@weir.example"},
		Settings: func(endpoint string) map[string]any {
			s := smtptest.SettingsFor(endpoint, ca)
			s["receipt_secret"] = "${RECEIPT_SECRET}"
			s["helo"] = "sender.weir.example"
			return s
		},
		Env:      map[string]string{"SMTP_PASSWORD": smtptest.Password, "RECEIPT_SECRET": "c0ntract-s3cret-16"},
		Optional: []string{"port", "tls", "ca", "receipt_secret", "helo"},
		Start: func(t providertest.T) providertest.Server {
			s := new(smtptest.Server).Start(t)
			ca = s.CA
			return s
		},
		Lacks:       []providertest.Lack{providertest.LacksRetryAfter, providertest.LacksCodes},
		Receipts:    "bounces and complaints that a mail server posts (RFC 3464, 5965)",
		Idempotency: "Message-ID, the same at every attempt; relays do not look at it, some mailboxes do",
		Stable:      smtptest.Stable,
	})
}
