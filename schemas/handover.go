package schemas

import "fmt"

// Types of providers that Weir does not call.
const (
	ProviderExternal = "external" // a consumer of yours reads its dispatch topics
	ProviderNone     = "none"     // nobody sends: the decision is all
)

// HasLane reports whether Weir itself calls the provider. Of the other types a
// message has its end when it is admitted.
func (p *Provider) HasLane() bool { return p.Type != ProviderExternal && p.Type != ProviderNone }

// KeepsQueues reports, as an error, a provider of p whose dispatch topics had
// other readers under before, an earlier policy: lanes would call again what a
// consumer took from them, or a consumer would find what lanes had sent.
func (p *Policy) KeepsQueues(before *Policy) error {
	for i := range p.Providers {
		v := &p.Providers[i]
		for j := range before.Providers {
			w := &before.Providers[j]
			if w.Name != v.Name || w.Type == ProviderNone || v.Type == ProviderNone || (w.Type == ProviderExternal) == (v.Type == ProviderExternal) {
				continue
			}
			return fmt.Errorf("provider %s was of type %s and cannot become %s: its dispatch topics still hold what others read; give the new one another name", v.Name, w.Type, v.Type)
		}
	}
	return nil
}
