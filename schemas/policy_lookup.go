package schemas

import (
	"cmp"
	"slices"
)

// defaultRetries is DefaultRetries as a policy holds it.
var defaultRetries = func() []Duration {
	out := make([]Duration, len(DefaultRetries))
	for i, d := range DefaultRetries {
		out[i] = Duration(d)
	}
	return out
}()

// Class returns the rules for a class with every default filled in but
// stale_after, which is of the limits (limit.Rules.CallWithin) where it is 0. A class
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
	c.OnUnknown = cmp.Or(c.OnUnknown, DefaultOnUnknown)
	if c.Retries == nil {
		c.Retries = defaultRetries
	}
	return c
}

// ReasonUnknownClass is why a message ends whose class the policy does not
// declare, where the class "default" says unknown: reject.
const ReasonUnknownClass = "unknown_class"

// RejectsClass says why a message of the class name is rejected; "" when it is
// not. The class "default" is always known.
func (p *Policy) RejectsClass(name string) string {
	if fallback, _ := p.class(DefaultClass); fallback.Unknown != UnknownReject || name == "" || name == DefaultClass {
		return ""
	}
	if p.HasClass(name) {
		return ""
	}
	return "the policy declares no class " + quote(name) + p.nearestClass(name)
}

// HasClass reports whether the policy declares a class. It always has "default".
func (p *Policy) HasClass(name string) bool {
	_, declared := p.class(name)
	return declared || name == DefaultClass
}

// ClassOf is the class of a message over HTTP that names none: its template's, or else
// its key's; "" where neither has one. key is nil without a key.
func (p *Policy) ClassOf(template string, key *Key) string {
	if t, _ := p.Template(template); t.Class != "" {
		return t.Class
	}
	if key != nil {
		return key.Class
	}
	return ""
}

// nearestClass asks for the declared class that name may be a misspelling of; ""
// when there is none.
func (p *Policy) nearestClass(name string) string {
	classes := make([]string, len(p.Classes))
	for i := range p.Classes {
		classes[i] = p.Classes[i].Name
	}
	if n := nearest(name, classes); n != "" {
		return ": did you mean " + n + "?"
	}
	return ""
}

// Warnings says what the policy says that is hardly meant.
func (p *Policy) Warnings() []string {
	out := p.UndeclaredClasses()
	open, _ := p.class(DefaultClass)
	if open.Unknown == "" && slices.ContainsFunc(p.Classes, func(c Class) bool { return c.Name != DefaultClass }) {
		out = append(out, "a message of a class that the policy does not declare, such as a misspelt one, is sent by the rules of the class default, and no limit of another class counts it: under classes write - {name: default, unknown: reject}, or unknown: default if that is meant")
	}
	for i := range p.Limits {
		if l := &p.Limits[i]; len(p.Mailboxes) == 0 && slices.Contains(l.Per, "mailbox") {
			out = append(out, "limit "+l.Name+" counts per mailbox, and the policy has no mailboxes, so each address is a mailbox of its own: write mailboxes: [{domains: [gmail.com, googlemail.com], ignore: [dots, tag]}]")
		}
	}
	return append(out, p.unrouted()...)
}

// unrouted says which providers that send nothing get messages that no route matches.
func (p *Policy) unrouted() (out []string) {
	for i := range p.Providers {
		v := &p.Providers[i]
		if v.Type != ProviderNone || p.routesOnly() {
			continue
		}
		for _, channel := range v.Channels {
			others := slices.ContainsFunc(p.Providers, func(o Provider) bool { return o.Type != ProviderNone && slices.Contains(o.Channels, channel) })
			routed := slices.ContainsFunc(p.Routes, func(r Route) bool {
				for _, f := range r.Match.matchFields() {
					if len(*f.values) > 0 && (f.name != "channel" || !slices.Contains(*f.values, string(channel))) {
						return false
					}
				}
				return len(r.Match.Metadata) == 0
			})
			if others && !routed {
				out = append(out, "provider "+v.Name+" of type none sends nothing, and gets a part of all "+string(channel)+" that no route matches: end the routes with one that matches all "+string(channel)+" and names other providers, or write routes_only: true")
			}
		}
	}
	return out
}

// UndeclaredClasses says which limits and routes match a class that the policy does
// not declare: such a match is mostly a misspelling, and applies to nothing.
func (p *Policy) UndeclaredClasses() (out []string) {
	look := func(kind ResourceKind, name string, m *Match) {
		for _, class := range m.Class {
			if _, known := p.class(class); !known && class != DefaultClass && len(p.Classes) > 0 {
				out = append(out, string(kind)+" "+name+" matches the class "+quote(class)+", which the policy does not declare"+p.nearestClass(class))
			}
		}
	}
	for i := range p.Limits {
		look(ResourceLimit, p.Limits[i].Name, &p.Limits[i].Match)
	}
	for i := range p.Routes {
		look(ResourceRoute, p.Routes[i].Name, &p.Routes[i].Match)
	}
	return out
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
