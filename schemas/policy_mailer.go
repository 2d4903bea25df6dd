package schemas

import (
	"errors"
	"slices"
)

// ErrNoMailer is an alert by e-mail that no provider can send.
var ErrNoMailer = errors.New("no provider of the policy sends this e-mail")

// Mailer is the provider that sends an alert by e-mail: the one that the alert names,
// else the first of the policy that carries email and that Weir itself calls. The
// error is ErrNoMailer; beside it is the provider that was named, if there is one.
func (p *Policy) Mailer(a *Alert) (*Provider, error) {
	name, named := a.To["provider"].(string)
	for i := range p.Providers {
		v := &p.Providers[i]
		able := v.Type != ProviderExternal && v.Type != ProviderNone && slices.Contains(v.Channels, ChannelEmail)
		switch {
		case !named && able, named && v.Name == name && able:
			return v, nil
		case named && v.Name == name:
			return v, ErrNoMailer
		}
	}
	return nil, ErrNoMailer
}
