package alert

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/secret"
	"github.com/weirhq/weir/schemas"
)

// Sender takes notices to their receivers.
type Sender struct {
	Client *outbound.Client
	Getenv func(string) string
	// Secrets are what an alert's receiver may refer to.
	Secrets secret.Bounds
	// Policy and Open are for e-mail, which goes by a provider of the policy.
	Policy func() *schemas.Revision
	Open   func(schemas.Provider) (provider.Provider, error)
}

// ErrUnsendable is an alert of a type that this version cannot send.
var ErrUnsendable = errors.New("alerts of this type are not sent by this version")

// Send makes one try. It returns what came back, and what that means for the
// notice; of an e-mail that was taken what came back has no code. No error holds a
// secret, or more of an address than its host.
func (s *Sender) Send(ctx context.Context, a *schemas.Alert, n *Notice) (*outbound.Answer, Verdict, error) {
	if a.To["type"] == "email" {
		return s.mail(ctx, a, n)
	}
	text := func(field string) (string, error) { return s.text(a, field) }
	address, err := text("url")
	if err != nil {
		return nil, Again, err // the environment may be put right
	}
	var (
		body   []byte
		header http.Header
	)
	switch a.To["type"] {
	case "slack":
		body = SlackBody(n)
	case "webhook":
		body = WebhookBody(n)
		key, err := text("secret")
		if err != nil {
			return nil, Again, err
		}
		if key != "" {
			if header, err = outbound.Sign(key, n.ID, time.Now(), body); err != nil {
				return nil, Refused, fmt.Errorf("alerts.%s.to.secret: %w", a.Name, err)
			}
		}
	default:
		return nil, Refused, ErrUnsendable
	}
	var connected atomic.Bool // before that nothing can have been sent
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	answer, err := s.Client.Post(ctx, address, "application/json", header, body)
	switch {
	case errors.Is(err, outbound.ErrRefused):
		return nil, Refused, err
	case err != nil && connected.Load():
		return nil, Unsure, err
	case err != nil:
		return nil, Again, err
	}
	return answer, verdictOf(answer.Code), nil
}

// text is a field of an alert's receiver, with what it takes from the environment.
func (s *Sender) text(a *schemas.Alert, field string) (string, error) {
	v, ok := a.To[field].(string)
	if !ok {
		return "", nil
	}
	return s.Secrets.Resolve("alerts."+a.Name+".to."+field, v, s.Getenv)
}

// verdictOf says what an answer means.
func verdictOf(code int) Verdict {
	switch {
	case code >= 200 && code < 300:
		return Taken
	case code == http.StatusBadGateway, code == http.StatusGatewayTimeout:
		return Unsure
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		return Again
	}
	return Refused // also a redirect: it is not followed
}

var token = regexp.MustCompile(`^[a-z_]{1,40}$`)

// said is the part of an answer that a log may have: one of the words by which
// Slack says what was wrong. Anything else may repeat the address.
func said(a *outbound.Answer) string {
	if token.MatchString(a.Body) {
		return a.Body
	}
	return ""
}

// TestNotice is one that tells of nothing, to see whether it arrives.
func TestNotice(alert string, at time.Time) *Notice {
	now := schemas.MillisOf(at)
	return &Notice{ID: fmt.Sprintf("alert_%s_%d_test", alert, now), Alert: alert, At: now, Test: true}
}
