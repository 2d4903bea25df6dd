package schemas

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// ChangeOp says what becomes of a resource.
type ChangeOp string

const (
	ChangeAdd    ChangeOp = "add"
	ChangeEdit   ChangeOp = "change"
	ChangeRemove ChangeOp = "remove"
)

// Change is one resource that differs between two policies.
type Change struct {
	Op     ChangeOp      `json:"op"`
	Kind   ResourceKind  `json:"kind"`
	Name   string        `json:"name"`
	Fields []FieldChange `json:"fields,omitempty"` // what ChangeEdit changes
}

// FieldChange is one field of a resource, dotted within it: settings.sign_name.
// Old and New are as encoding/json reads them, nil where the field is not set,
// and both nil for the hash of a key, which is nobody's to see.
type FieldChange struct {
	Field string `json:"field"`
	Old   any    `json:"old,omitempty"`
	New   any    `json:"new,omitempty"`
}

// fieldPosition is the field of a FieldChange that says that a resource moved
// among its like, counting from 1.
const fieldPosition = "position"

// ordered are the kinds whose order means something: the first route that
// matches wins, and the first limit that refuses is named.
var ordered = []ResourceKind{ResourceLimit, ResourceRoute}

// SettingsKind is the kind of a change of what is no resource, by its field's name.
const SettingsKind ResourceKind = "setting"

// DiffPolicy returns what makes next of prev: by kind as in ResourceKinds, in each first
// what next has in its order, then what it lacks, and at the end what is no resource. A default that is written out
// differs from one that is not. Where order means something, as few resources
// as possible are said to have moved.
func DiffPolicy(prev, next *Policy) []Change {
	var out []Change
	for _, k := range ResourceKinds {
		before, after := prev.section(k), next.section(k)
		old := make(map[string]int, before.Len())
		for i, name := range prev.Names(k) {
			old[name] = i
		}
		moved := map[string]bool{}
		if slices.Contains(ordered, k) {
			moved = movedNames(prev.Names(k), next.Names(k))
		}
		has := map[string]bool{}
		for i, name := range next.Names(k) {
			has[name] = true
			j, ok := old[name]
			if !ok {
				out = append(out, Change{Op: ChangeAdd, Kind: k, Name: name})
				continue
			}
			fields := diffFields(before.Index(j), after.Index(i))
			if k == ResourceKey {
				hideHashes(fields)
			}
			if moved[name] {
				fields = append(fields, FieldChange{Field: fieldPosition, Old: j + 1, New: i + 1})
			}
			if len(fields) > 0 {
				out = append(out, Change{Op: ChangeEdit, Kind: k, Name: name, Fields: fields})
			}
		}
		for _, name := range prev.Names(k) {
			if !has[name] {
				out = append(out, Change{Op: ChangeRemove, Kind: k, Name: name})
			}
		}
	}
	if before, after := prev.routesOnly(), next.routesOnly(); before != after {
		out = append(out, Change{Op: ChangeEdit, Kind: SettingsKind, Name: "routes_only", Fields: []FieldChange{{Field: "routes_only", Old: before, New: after}}})
	}
	if len(prev.Mailboxes)+len(next.Mailboxes) > 0 {
		type setting struct {
			Mailboxes []Mailbox `json:"mailboxes,omitempty"`
		}
		before, after := setting{prev.Mailboxes}, setting{next.Mailboxes}
		if fields := diffFields(reflect.ValueOf(before), reflect.ValueOf(after)); len(fields) > 0 {
			out = append(out, Change{Op: ChangeEdit, Kind: SettingsKind, Name: "mailboxes", Fields: fields})
		}
	}
	return out
}

func (p *Policy) routesOnly() bool { return p.RoutesOnly != nil && *p.RoutesOnly }

// movedNames returns the names in both lists that are not part of a longest
// sequence that both have in common.
func movedNames(old, now []string) map[string]bool {
	old = slices.DeleteFunc(slices.Clone(old), func(n string) bool { return !slices.Contains(now, n) })
	now = slices.DeleteFunc(slices.Clone(now), func(n string) bool { return !slices.Contains(old, n) })
	at := make(map[string]int, len(old))
	for i, n := range old {
		at[n] = i
	}
	// The longest rising sequence of old positions that ends at each of now.
	length, before := make([]int, len(now)), make([]int, len(now))
	last := -1
	for i := range now {
		length[i], before[i] = 1, -1
		for j := range i {
			if at[now[j]] < at[now[i]] && length[j] >= length[i] {
				length[i], before[i] = length[j]+1, j
			}
		}
		if last < 0 || length[i] > length[last] {
			last = i
		}
	}
	moved := make(map[string]bool, len(now))
	for _, n := range now {
		moved[n] = true
	}
	for ; last >= 0; last = before[last] {
		delete(moved, now[last])
	}
	return moved
}

// diffFields compares two resources of one type as JSON has them.
func diffFields(before, after reflect.Value) []FieldChange {
	old, now := flatten(before), flatten(after)
	all := map[string]bool{}
	for f := range old {
		all[f] = true
	}
	for f := range now {
		all[f] = true
	}
	var out []FieldChange
	for _, f := range slices.Sorted(maps.Keys(all)) {
		if !reflect.DeepEqual(old[f], now[f]) {
			out = append(out, FieldChange{Field: f, Old: old[f], New: now[f]})
		}
	}
	return out
}

func hideHashes(fields []FieldChange) {
	for i := range fields {
		if f := &fields[i]; f.Field == "hash" || f.Field == "previous.hash" {
			f.Old, f.New = nil, nil
		}
	}
}

// flatten returns a resource's fields, mappings within it dotted.
func flatten(v reflect.Value) map[string]any {
	b, err := json.Marshal(v.Interface())
	if err != nil {
		// Only an impossible window or duration, which Validate refuses.
		return map[string]any{"": err.Error()}
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		panic("schemas: a policy's own JSON cannot be read: " + err.Error())
	}
	out := map[string]any{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if m, ok := v.(map[string]any); ok && (len(m) > 0 || path == "") {
			for k, v := range m {
				walk(childPath(path, k), v)
			}
			return
		}
		out[path] = v
	}
	walk("", fields)
	return out
}

// String is one line: "+ limit verify", "- class bulk", or
// "~ limit verify  allow: 1/60s → 2/60s".
func (c Change) String() string {
	sign := map[ChangeOp]string{ChangeAdd: "+", ChangeEdit: "~", ChangeRemove: "-"}[c.Op]
	fields := make([]string, len(c.Fields))
	for i, f := range c.Fields {
		fields[i] = f.String()
	}
	line := fmt.Sprintf("%s %s %s", sign, c.Kind, c.Name)
	if len(fields) > 0 {
		line += "  " + strings.Join(fields, ", ")
	}
	return line
}

// String shows both values on one line, long ones cut.
func (f FieldChange) String() string {
	if f.Old == nil && f.New == nil {
		return f.Field + ": another"
	}
	return f.Field + ": " + brief(f.Old) + " → " + brief(f.New)
}

func brief(v any) string {
	switch v := v.(type) {
	case nil:
		return "unset"
	case string:
		if bareWord(v) {
			return v
		}
		return quote(v)
	case []any:
		if len(v) == 1 {
			if s, ok := v[0].(string); ok && bareWord(s) {
				return s
			}
		}
		items := make([]string, len(v))
		for i, e := range v {
			items[i] = brief(e)
		}
		return cut("[" + strings.Join(items, ", ") + "]")
	case map[string]any:
		items := make([]string, 0, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			items = append(items, k+": "+brief(v[k]))
		}
		return cut("{" + strings.Join(items, ", ") + "}")
	}
	b, _ := json.Marshal(v) // a number or a boolean: never an error
	return string(b)
}

// bareWord reports whether s needs no quotes to be told from what is around it.
func bareWord(s string) bool {
	return s != "" && s != "unset" && len(s) <= 60 && !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' || r > '~' || strings.ContainsRune(`,[]{}"'`, r)
	})
}

func cut(s string) string {
	const most = 200
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
