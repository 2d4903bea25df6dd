package schemas

import "cmp"

// defaultRetries is DefaultRetries as a policy holds it.
var defaultRetries = func() []Duration {
	out := make([]Duration, len(DefaultRetries))
	for i, d := range DefaultRetries {
		out[i] = Duration(d)
	}
	return out
}()

// Class returns the rules for a class with every default filled in. A class
// that nobody declared has the rules of class "default", declared or built in,
// under its own name. The slices belong to the policy: do not write to them.
func (p *Policy) Class(name string) Class {
	c, ok := p.class(name)
	if !ok {
		c, _ = p.class(DefaultClass)
	}
	c.Name = name
	c.Priority = cmp.Or(c.Priority, DefaultPriority)
	c.ExpiresAfter = cmp.Or(c.ExpiresAfter, Duration(DefaultExpiresAfter))
	c.StaleAfter = cmp.Or(c.StaleAfter, Duration(DefaultStaleAfter))
	c.OnUnknown = cmp.Or(c.OnUnknown, DefaultOnUnknown)
	if c.Retries == nil {
		c.Retries = defaultRetries
	}
	return c
}

func (p *Policy) class(name string) (Class, bool) {
	for i := range p.Classes {
		if p.Classes[i].Name == name {
			return p.Classes[i], true
		}
	}
	return Class{}, false
}

// Provider returns a declared provider with every default filled in.
func (p *Policy) Provider(name string) (Provider, bool) {
	for i := range p.Providers {
		if p.Providers[i].Name == name {
			v := p.Providers[i]
			v.Concurrency = cmp.Or(v.Concurrency, DefaultConcurrency)
			v.Timeout = cmp.Or(v.Timeout, Duration(DefaultTimeout))
			v.Lanes = cmp.Or(v.Lanes, DefaultLanes)
			return v, true
		}
	}
	return Provider{}, false
}

// Template returns a declared template.
func (p *Policy) Template(name string) (Template, bool) {
	for i := range p.Templates {
		if p.Templates[i].Name == name {
			return p.Templates[i], true
		}
	}
	return Template{}, false
}

// SignsCallbacks reports whether a tenant's callbacks can be signed: without a
// secret there are none, and a request may not ask for them.
func (p *Policy) SignsCallbacks(tenant string) bool {
	t, _ := p.Tenant(tenant)
	return t.Callback != nil && t.Callback.Secret != ""
}

// Tenant returns a declared tenant. The tenant "default" is always there,
// without a region unless one is declared for it.
func (p *Policy) Tenant(name string) (Tenant, bool) {
	for i := range p.Tenants {
		if p.Tenants[i].Name == name {
			return p.Tenants[i], true
		}
	}
	if name == DefaultTenant {
		return Tenant{Name: DefaultTenant}, true
	}
	return Tenant{}, false
}
