package schemas

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// ResourceKind is one of the kinds of resource that a policy holds, each under its
// own section and with names of its own.
type ResourceKind string

// The kinds, each by its singular.
const (
	ResourceLimit    ResourceKind = "limit"
	ResourceClass    ResourceKind = "class"
	ResourceProvider ResourceKind = "provider"
	ResourceRoute    ResourceKind = "route"
	ResourceTemplate ResourceKind = "template"
	ResourceTenant   ResourceKind = "tenant"
	ResourceKey      ResourceKind = "key"
	ResourceAlert    ResourceKind = "alert"
	ResourceInput    ResourceKind = "input" // its name is its topic
)

// ResourceKinds lists them as Policy's fields stand.
var ResourceKinds = []ResourceKind{ResourceLimit, ResourceClass, ResourceProvider, ResourceRoute, ResourceTemplate, ResourceTenant, ResourceKey, ResourceAlert, ResourceInput}

// ParseResourceKind reads the singular or the plural of a kind.
func ParseResourceKind(s string) (ResourceKind, bool) {
	for _, k := range ResourceKinds {
		if s == string(k) || s == k.Plural() {
			return k, true
		}
	}
	return "", false
}

// Plural is the name of the kind's section in a file.
func (k ResourceKind) Plural() string {
	if k == ResourceClass {
		return "classes"
	}
	return string(k) + "s"
}

// section returns the list of k in p, which is settable. Policy's fields stand
// in the order of ResourceKinds, and the first field of each resource is its name.
func (p *Policy) section(k ResourceKind) reflect.Value {
	return reflect.ValueOf(p).Elem().Field(slices.Index(ResourceKinds, k))
}

func resourceName(v reflect.Value) string { return v.Field(0).String() }

// Names returns the names of k's resources in the policy's order.
func (p *Policy) Names(k ResourceKind) []string {
	list := p.section(k)
	names := make([]string, list.Len())
	for i := range names {
		names[i] = resourceName(list.Index(i))
	}
	return names
}

// Merge returns over with those resources of p that over does not have. In each
// section over's come first, in over's order, and then the kept ones in theirs:
// for routes, of which the first match wins, over's decide first. Neither
// policy is changed; the result shares its resources with both. So it is with
// what is no resource: over's if it says anything.
func (p *Policy) Merge(over *Policy) *Policy {
	out := new(Policy)
	for _, k := range ResourceKinds {
		mine, to := over.section(k), out.section(k)
		has := over.Names(k)
		to.Set(reflect.AppendSlice(reflect.Zero(to.Type()), mine))
		for i, list := 0, p.section(k); i < list.Len(); i++ {
			if !slices.Contains(has, resourceName(list.Index(i))) {
				to.Set(reflect.Append(to, list.Index(i)))
			}
		}
	}
	if out.RoutesOnly = over.RoutesOnly; out.RoutesOnly == nil {
		out.RoutesOnly = p.RoutesOnly
	}
	if out.Mailboxes = over.Mailboxes; out.Mailboxes == nil {
		out.Mailboxes = p.Mailboxes
	}
	return out
}

// Only returns a policy that holds nothing but p's resources of one kind, or
// the one of them that has the name; an empty name means all. Names refer to
// what it lacks, so it need not be valid.
func (p *Policy) Only(k ResourceKind, name string) *Policy {
	out := new(Policy)
	keepResources(out.section(k), p.section(k), func(n string) bool { return name == "" || n == name })
	return out
}

// Of returns a policy with those resources of p that a key of the tenant may change: the
// tenant, its keys, and limits and routes that match it alone. Mailboxes are p's, since
// they belong to what the limits count. It need not be valid.
func (p *Policy) Of(tenant string) *Policy {
	alone := func(m *Match) bool { return len(m.Tenant) == 1 && m.Tenant[0] == tenant }
	out := &Policy{Mailboxes: p.Mailboxes}
	for i := range p.Limits {
		if alone(&p.Limits[i].Match) {
			out.Limits = append(out.Limits, p.Limits[i])
		}
	}
	for i := range p.Routes {
		if alone(&p.Routes[i].Match) {
			out.Routes = append(out.Routes, p.Routes[i])
		}
	}
	for i := range p.Tenants {
		if p.Tenants[i].Name == tenant {
			out.Tenants = append(out.Tenants, p.Tenants[i])
		}
	}
	for i := range p.Keys {
		if p.Keys[i].Tenant == tenant {
			out.Keys = append(out.Keys, p.Keys[i])
		}
	}
	return out
}

// Without returns p without one resource, and whether there was one. The result
// need not be valid: Validate says who refers to what is gone.
func (p *Policy) Without(k ResourceKind, name string) (*Policy, bool) {
	out := *p
	list := out.section(k)
	list.SetZero()
	keepResources(list, p.section(k), func(n string) bool { return n != name })
	return &out, list.Len() < p.section(k).Len()
}

func keepResources(to, from reflect.Value, keep func(name string) bool) {
	for i := range from.Len() {
		if keep(resourceName(from.Index(i))) {
			to.Set(reflect.Append(to, from.Index(i)))
		}
	}
}

// Named returns the errors with paths that name resources of p instead of
// counting them, "route china: to[0].provider" for "routes[2].to[0].provider":
// for a policy that stands in no file.
func (e PolicyErrors) Named(p *Policy) PolicyErrors {
	out := slices.Clone(e)
	for i := range out {
		if k, item, rest, ok := p.splitPath(out[i].Path); ok {
			out[i].Path = string(k) + " " + p.Names(k)[item]
			if rest != "" {
				out[i].Path += ": " + rest
			}
		}
	}
	return out
}

// splitPath takes a path apart into the resource that it is within and where
// within that.
func (p *Policy) splitPath(path string) (k ResourceKind, item int, rest string, ok bool) {
	section, after, indexed := strings.Cut(path, "[")
	index, rest, closed := strings.Cut(after, "]")
	item, err := strconv.Atoi(index)
	k, known := ParseResourceKind(section)
	if !indexed || !closed || err != nil || !known || item < 0 || item >= p.section(k).Len() {
		return "", 0, "", false
	}
	return k, item, strings.TrimPrefix(rest, "."), true
}

// List returns p's resources of one kind, as the slice of their type; never a
// nil one.
func (p *Policy) List(k ResourceKind) any {
	list := p.section(k)
	if list.IsNil() {
		list = reflect.MakeSlice(list.Type(), 0, 0)
	}
	return list.Interface()
}

// Has reports whether the file has a section for k, be it empty.
func (d *Document) Has(k ResourceKind) bool {
	_, ok := d.positions[k.Plural()]
	return ok
}

// Kept returns what the policy has from the base that the file was read over,
// as "limit verify".
func (d *Document) Kept() []string {
	var out []string
	for _, k := range ResourceKinds {
		if own, ok := d.own[k]; ok {
			for _, name := range d.Policy.Names(k)[own:] {
				out = append(out, string(k)+" "+name)
			}
		}
	}
	return out
}
