package ingest

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/processor/secret"
	"github.com/weirhq/weir/schemas"
)

// share is what a caller may do with an entry of the policy.
type share int

const (
	hidden   share = iota // another tenant's, or the operator's: there is none
	readable              // of several tenants: may be read
	owned                 // may be changed
)

// bound reports whether the caller acts on its own tenant only. The tenant default is
// the operator's: its keys, and callers who need none, act on all.
func (c *caller) bound() bool { return c.key != nil && c.tenant != schemas.DefaultTenant }

// has reports whether the caller may use a scope. How Weir and its providers are is
// about every tenant, so the scope operate is the operator's.
func (c *caller) has(s string) bool {
	return c.key == nil || c.key.May(s) && !(c.bound() && (s == string(scopeOperate) || s == "admin"))
}

// share judges the entry of a policy that has this name.
func (c *caller) share(p *schemas.Policy, k schemas.ResourceKind, name string) share {
	if !c.bound() {
		return owned
	}
	of := func(tenants ...string) share {
		switch {
		case len(tenants) == 0:
			return readable
		case !slices.Contains(tenants, c.tenant):
			return hidden
		case len(tenants) > 1:
			return readable
		}
		return owned
	}
	switch k {
	case schemas.ResourceTenant:
		return of(name)
	case schemas.ResourceKey:
		for i := range p.Keys {
			if p.Keys[i].Name == name {
				return of(p.Keys[i].Tenant)
			}
		}
	case schemas.ResourceLimit:
		for i := range p.Limits {
			if p.Limits[i].Name == name {
				return of(p.Limits[i].Match.Tenant...)
			}
		}
	case schemas.ResourceRoute:
		for i := range p.Routes {
			if p.Routes[i].Name == name {
				return of(p.Routes[i].Match.Tenant...)
			}
		}
	case schemas.ResourceInput:
		for i := range p.Inputs {
			if p.Inputs[i].Topic == name {
				// A binding makes Weir read a topic, whoever writes to it: only the
				// operator may decide that.
				return min(of(p.Inputs[i].Tenant), readable)
			}
		}
	case schemas.ResourceClass, schemas.ResourceProvider, schemas.ResourceTemplate:
		return readable
	case schemas.ResourceAlert, schemas.SettingsKind: // the operator's
	}
	return hidden
}

// mayMake judges an edit by all that it changes, whatever was asked for. For a tenant's
// caller, what is not its tenant's alone is the same before and after, in the same
// order. For every caller, a key that was made or changed may do no more than the
// caller's. Revoking one grants nothing.
func (c *caller) mayMake(have, next *schemas.Policy) *client.Problem {
	if c.key == nil {
		return nil
	}
	if c.bound() {
		for _, k := range schemas.ResourceKinds {
			if !slices.Equal(c.others(have, k), c.others(next, k)) {
				return forbiddenTenant.problem("A key of this tenant changes what is of its own tenant alone, such as a " + string(k) + " that matches no other. Nothing was changed.")
			}
		}
	}
	// What all keys of a tenant may do together, and how much of the policy they may take,
	// are the operator's bounds on the tenant.
	if was, is := c.entry(have), c.entry(next); c.bound() && !(maps.Equal(was.TotalRates, is.TotalRates) && was.PolicyBytes == is.PolicyBytes) {
		field := "policy_bytes"
		if !maps.Equal(was.TotalRates, is.TotalRates) {
			field = "total_rates"
		}
		return forbiddenTenant.problem("total_rates and policy_bytes of a tenant are the operator's to change: the entry has to keep them as they are. Nothing was changed.",
			client.FieldError{Pointer: "/" + field, Code: forbiddenTenant.code, Detail: "is not the caller's"})
	}
	// A reference is to what the operator holds, and a callback sends it to an address
	// that the tenant chooses.
	if c.bound() && (secret.Bounds{}).Judge(c.own(have), c.own(next)) != nil {
		return forbiddenReference.problem("A key of this tenant refers to no file and to no variable that its tenant did not refer to before. Nothing was changed.")
	}
	for i := range next.Keys {
		key := &next.Keys[i]
		now, _ := next.Resource(schemas.ResourceKey, key.Name)
		if was, there := have.Resource(schemas.ResourceKey, key.Name); there && was.Tag == now.Tag {
			continue
		}
		if more := c.lacks(key); more != "" {
			return forbiddenScope.problem("No key grants more than it has. Nothing was changed.",
				client.FieldError{Code: forbiddenScope.code, Detail: "key " + key.Name + " " + more})
		}
	}
	return nil
}

// others are the entries of a kind that the caller does not own, by name and tag.
func (c *caller) others(p *schemas.Policy, k schemas.ResourceKind) (out []string) {
	for _, v := range p.Resources(k) {
		if c.share(p, k, v.Name) != owned {
			out = append(out, v.Name+" "+v.Tag)
		}
	}
	return out
}

// own is the tenant's entry of a policy, which alone of what it may change has references.
func (c *caller) own(p *schemas.Policy) *schemas.Policy {
	return &schemas.Policy{Tenants: slices.DeleteFunc(slices.Clone(p.Tenants), func(t schemas.Tenant) bool { return t.Name != c.tenant })}
}

// entry is the caller's tenant.
func (c *caller) entry(p *schemas.Policy) schemas.Tenant {
	t, _ := p.Tenant(c.tenant)
	return t
}

// lacks says what another key has that the caller's has not; "" is nothing.
func (c *caller) lacks(other *schemas.Key) string {
	for _, s := range other.Scopes {
		if !c.key.May(s) {
			return "has the scope " + s
		}
	}
	switch {
	case c.bound() && other.Tenant != c.tenant:
		return "is another tenant's"
	case c.test && !other.Test:
		return "is not a test key"
	case c.key.ExpiresAt != 0 && (other.ExpiresAt == 0 || other.ExpiresAt > c.key.ExpiresAt):
		return "expires later"
	case c.bound() && other.OnUnavailable != "" && c.key.OnUnavailable == "":
		return "has on_unavailable"
	}
	return ""
}

// about is the tenant whose messages a question is about, or history.AllTenants.
func (c *caller) about() string { return cmp.Or(c.named, c.tenant) }

// asking is a route that reads messages: those of the caller's tenant, or those of the
// tenant that the parameter tenant of an operator's query names.
func asking(h handler) handler { return naming(h, false) }

// counting is asking, which may also be of history.AllTenants.
func counting(h handler) handler { return naming(h, true) }

func naming(h handler, all bool) handler {
	return func(w http.ResponseWriter, r *http.Request, c *caller) {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil || !query.Has("tenant") { // what cannot be read is the handler's to refuse
			h(w, r, c)
			return
		}
		name, wrong := readName(query.Get("tenant"))
		switch {
		case wrong != nil:
		case len(query["tenant"]) > 1:
			wrong = errRepeated
		case name == history.AllTenants && !all:
			wrong = errors.New("is one tenant here")
		case name != c.tenant && !c.has(string(scopeOperate)):
			refuse(w, r, forbiddenTenant.problem("Only an operator's key names another tenant: one of the tenant "+schemas.DefaultTenant+" with the scope operate.",
				client.FieldError{Pointer: "/tenant", Code: forbiddenTenant.code, Detail: "is not the caller's"}))
			return
		}
		if wrong != nil {
			refuse(w, r, invalidParameters([]client.FieldError{wrongParameter("tenant", wrong)}))
			return
		}
		of := *c
		of.named = name
		query.Del("tenant")
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
		h(w, r, &of)
	}
}

// operators is a route that shows or changes what is every tenant's.
func operators(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request, c *caller) {
		if c.bound() {
			refuse(w, r, everyTenants())
			return
		}
		h(w, r, c)
	}
}

func everyTenants() *client.Problem {
	return forbiddenTenant.problem("This is about every tenant, and the key acts on its own tenant only. Use a key of the tenant " + schemas.DefaultTenant + ".")
}
