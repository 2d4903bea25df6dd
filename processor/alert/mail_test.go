package alert

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/providertest"
	"github.com/weirhq/weir/processor/provider/smtp"
	"github.com/weirhq/weir/processor/provider/smtp/smtptest"
	"github.com/weirhq/weir/schemas"
)

func TestMailText(t *testing.T) {
	st := &Standing{Subject: Subject{Event: schemas.AlertBreakerOpen, Provider: "aliyun"}, Since: minute, On: true, Begun: 1}
	h := Happening{Subject: Subject{Event: schemas.AlertDLQRecord, Reason: "attempts", Provider: "aliyun"}, At: minute, Class: "verify", Tenant: "acme", To: "+8613800000000"}
	s := &Sum{Subject: h.Subject}
	s.add(&h)
	subject, body := MailText(&Notice{Alert: "oncall", At: 2 * minute, Sums: []*Sum{s}, Standings: []*Standing{st}})
	want := `The breaker of provider aliyun is open since 1970-01-01 00:01:00 UTC (60 s).
Next: weir status

Given up on 1 message at 1970-01-01 00:01:00 UTC, reason attempts, provider aliyun. To 1 recipient: +86*********00. Class verify. Tenant acme.
Next: weir dlq list --reason attempts
`
	if diff := cmp.Diff(want, body); diff != "" || subject != "Weir: 2 things to know (alert oncall)" {
		t.Error(subject, diff)
	}
}

// TestMail goes by the policy's provider, under one id over all tries, and what others
// wrote is text.
func TestMail(t *testing.T) {
	srv := new(smtptest.Server).Start(t)
	settings := srv.Settings()
	settings["list_unsubscribe"] = "https://example.com/u"
	policy := &schemas.Revision{Policy: schemas.Policy{Providers: []schemas.Provider{
		{Name: "theirs", Type: schemas.ProviderExternal, Channels: []schemas.Channel{schemas.ChannelEmail}},
		{Name: "sms", Type: "simulated", Channels: []schemas.Channel{schemas.ChannelSMS}},
		{Name: "mail", Type: "smtp", Channels: []schemas.Channel{schemas.ChannelEmail}, Timeout: schemas.Duration(5 * time.Second), Settings: settings},
	}}}
	env := map[string]string{"WHOM": "oncall@Weir.example", "SMTP_PASSWORD": smtptest.Password}
	getenv := func(k string) string { return env[k] }
	sender := Sender{Getenv: getenv, Policy: func() *schemas.Revision { return policy }, Open: func(p schemas.Provider) (provider.Provider, error) {
		return provider.Types{"smtp": smtp.Type}.Open(p, provider.Deps{Private: outbound.Loopback, Getenv: getenv})
	}}
	to := func(address, with string) *schemas.Alert {
		a := &schemas.Alert{Name: "oncall", To: map[string]any{"type": "email", "address": address}}
		if with != "" {
			a.To["provider"] = with
		}
		return a
	}
	for _, tt := range []struct {
		name          string
		alert         *schemas.Alert
		does          providertest.Behaviour
		env           string
		want          Verdict
		says          string
		letters, went int
	}{
		{"the first that carries email", to("${WHOM}", ""), providertest.Behaviour{}, "", Taken, "", 1, 1},
		{"the one that is named", to("oncall@weir.example", "mail"), providertest.Behaviour{}, "", Taken, "", 1, 1},
		{"not now", to("${WHOM}", "mail"), providertest.Behaviour{Code: "4.3.2"}, "", Again, "4.3.2", 0, 1},
		{"no answer to it", to("${WHOM}", "mail"), providertest.Behaviour{Break: true}, "", Unsure, "connection_broken", 0, 1},
		{"never", to("${WHOM}", "mail"), providertest.Behaviour{Code: "5.1.1"}, "", Refused, "5.1.1", 0, 1},
		{"a provider that has gone", to("${WHOM}", "gone"), providertest.Behaviour{}, "", Again, "alerts.oncall.to.provider", 0, 0},
		{"a provider of others", to("${WHOM}", "theirs"), providertest.Behaviour{}, "", Again, "alerts.oncall.to.provider", 0, 0},
		{"a variable that is not there", to("${NOBODY}", ""), providertest.Behaviour{}, "", Again, "NOBODY", 0, 0},
		{"no address", to("nobody", ""), providertest.Behaviour{}, "", Refused, "to.address", 0, 0},
		{"a password that is not there", to("${WHOM}", ""), providertest.Behaviour{}, "SMTP_PASSWORD", Again, "SMTP_PASSWORD", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if was := env[tt.env]; tt.env != "" {
				delete(env, tt.env)
				defer func() { env[tt.env] = was }()
			}
			before := srv.Calls()
			srv.Do(tt.does)
			_, v, err := sender.Send(t.Context(), tt.alert, hostile())
			if v != tt.want || (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "@")) {
				t.Errorf("%s, %v", v, err)
			}
			got := srv.Mails()
			if len(got) != tt.letters || srv.Calls()-before != tt.went {
				t.Fatalf("%d letters, %d calls", len(got), srv.Calls()-before)
			}
			for _, m := range got {
				if m.To != "oncall@weir.example" || m.Header.Get("Message-Id") != "<alert_oncall_1@weir.example>" || m.HTML != "" || m.Header.Get("List-Unsubscribe") != "" || !strings.Contains(m.Text, "<!channel> *b*") || strings.Contains(m.Text, "13800000000") {
					t.Errorf("%s", m.Raw)
				}
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	srv.Do(providertest.Behaviour{})
	if _, v, err := sender.Send(ctx, to("${WHOM}", ""), hostile()); v != Again || err == nil {
		t.Error(v, err)
	}
	if _, v, err := (&Sender{Getenv: getenv}).Send(t.Context(), to("${WHOM}", ""), hostile()); v != Refused || !errors.Is(err, ErrUnsendable) {
		t.Error(v, err)
	}
}
