package alert

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// MailText is a notice as an e-mail: what Slack shows, in plain text.
func MailText(n *Notice) (subject, body string) {
	var b strings.Builder
	if n.Test {
		b.WriteString("Whoever reads this will be told by the alert " + n.Alert + ".\n")
	}
	items := n.Items()
	for i, item := range items {
		if i == maxItems {
			fmt.Fprintf(&b, "And %d more: see weir status and weir tail.\n", len(items)-i)
			break
		}
		b.WriteString(item.Text + "\n")
		if item.Next != "" && item.State != Resolved {
			b.WriteString("Next: " + item.Next + "\n")
		}
		b.WriteString("\n")
	}
	return n.Title(), strings.TrimRight(b.String(), "\n") + "\n"
}

// mail makes one try by a provider of the policy. It is a call beside the lane's: it
// waits for no pace, and no limit, suppression or breaker is asked. The notice's id is
// the message's, so that its Message-ID is the same over all tries.
func (s *Sender) mail(ctx context.Context, a *schemas.Alert, n *Notice) (*outbound.Answer, Verdict, error) {
	if s.Policy == nil || s.Open == nil {
		return nil, Refused, ErrUnsendable
	}
	address, err := s.text(a, "address")
	if err != nil {
		return nil, Again, err // the environment may be put right
	}
	to, err := recipient.Canonical(schemas.ChannelEmail, address, "")
	if err != nil {
		return nil, Refused, fmt.Errorf("alerts.%s.to.address is no address", a.Name)
	}
	policy := s.Policy()
	with, err := policy.Policy.Mailer(a)
	if err != nil {
		return nil, Again, fmt.Errorf("alerts.%s.to.provider: %w", a.Name, err) // the policy is just being changed
	}
	p, err := s.Open(*with)
	if err != nil {
		return nil, Again, err
	}
	defer p.Close()
	timeout := time.Duration(with.Timeout)
	if timeout <= 0 {
		timeout = schemas.DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	subject, body := MailText(n)
	o := p.Send(ctx, &provider.Call{
		ID: n.ID, Attempt: n.Tries + 1, To: to.Key, Channel: schemas.ChannelEmail,
		Content: content.Content{Subject: subject, Body: body},
	})
	switch o.Kind {
	case provider.Accepted:
		return &outbound.Answer{Body: fmt.Sprintf("taken by provider %s (%s)", with.Name, with.Type)}, Taken, nil
	case provider.Unknown:
		return nil, Unsure, fmt.Errorf("provider %s: %s: %s", with.Name, o.Code, o.Text)
	case provider.Permanent:
		return nil, Refused, fmt.Errorf("provider %s: %s: %s", with.Name, o.Code, o.Text)
	case provider.Throttled, provider.Transient:
		verdict := Again
		if o.MayBeReceived {
			verdict = Unsure
		}
		return nil, verdict, fmt.Errorf("provider %s: %s: %s", with.Name, o.Code, o.Text)
	}
	return nil, Again, errors.New("provider " + with.Name + ": an outcome of no kind")
}
