package http

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// request is what is sent: settings.request, or Weir's own body.
type request struct {
	method  string
	json    any // strings are templates; nil without
	form    map[string]template
	headers map[string]template
}

// template is text with variables of a call.
type template []schemas.TemplatePart

// single are the variables that are one text, and whole those that keep their own
// form where a string of JSON is nothing but one of them.
var (
	single = map[string]func(*provider.Call) string{
		"id": func(c *provider.Call) string { return c.ID }, "to": func(c *provider.Call) string { return c.To },
		"from": func(c *provider.Call) string { return c.From }, "channel": func(c *provider.Call) string { return string(c.Channel) },
		"subject": func(c *provider.Call) string { return c.Content.Subject }, "body": func(c *provider.Call) string { return c.Content.Body },
		"html": func(c *provider.Call) string { return c.Content.HTML }, "title": func(c *provider.Call) string { return c.Content.Title },
		"reply_to": func(c *provider.Call) string { return c.ReplyTo }, "template": func(c *provider.Call) string { return c.Template },
		"tenant": func(c *provider.Call) string { return c.Tenant }, "class": func(c *provider.Call) string { return c.Class },
		"attempt":   func(c *provider.Call) string { return strconv.Itoa(c.Attempt) },
		"reference": func(c *provider.Call) string { return c.Reference().String() },
	}
	whole = map[string]func(*provider.Call) any{
		"attempt": func(c *provider.Call) any { return c.Attempt },
		"vars":    func(c *provider.Call) any { return object(c.Vars) },
		"data":    func(c *provider.Call) any { return object(c.Data) },
	}
)

// object is never null.
func object(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// errMissing is a variable of the message's that a request asks for and the message
// does not have.
var errMissing = errors.New("a variable is missing")

// value is a variable's text.
func value(name string, c *provider.Call) (string, error) {
	if fn := single[name]; fn != nil {
		return fn(c), nil
	}
	for prefix, of := range map[string]map[string]string{"vars.": c.Vars, "data.": c.Data} {
		if key, ok := strings.CutPrefix(name, prefix); ok {
			v, has := of[key]
			if !has {
				return "", errMissing
			}
			return v, nil
		}
	}
	return "", errMissing
}

func (t template) render(c *provider.Call) (string, error) {
	var b strings.Builder
	for _, p := range t {
		if p.Var == "" {
			b.WriteString(p.Text)
			continue
		}
		v, err := value(p.Var, c)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
	}
	return b.String(), nil
}

// body is the bytes of a request and their type.
func (r *request) body(c *provider.Call) ([]byte, string, error) {
	switch {
	case r.form != nil:
		form := make(url.Values)
		for name, t := range r.form {
			v, err := t.render(c)
			if err != nil {
				return nil, "", err
			}
			form.Set(name, v)
		}
		return []byte(form.Encode()), "application/x-www-form-urlencoded", nil
	case r.json != nil:
		v, err := fill(r.json, c)
		if err != nil {
			return nil, "", err
		}
		b, err := encodeJSON(v)
		return b, "application/json", err
	}
	b, err := encode(c)
	return b, "application/json", err
}

// fill renders every string of a tree. A string's value becomes a string of JSON,
// whatever it holds.
func fill(v any, c *provider.Call) (any, error) {
	var err error
	switch v := v.(type) {
	case template:
		if len(v) == 1 && whole[v[0].Var] != nil {
			return whole[v[0].Var](c), nil
		}
		return v.render(c)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			if out[k], err = fill(v[k], c); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i := range v {
			if out[i], err = fill(v[i], c); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// encodeJSON writes without what HTML needs. The last byte is the one that makes
// the body whole: see httpcall.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// readRequest reads settings.request.
func readRequest(in *provider.Settings) request {
	r := request{method: http.MethodPost}
	all := in.Under("request", "{method: PUT, json: {text: \"{{body}}\"}}")
	if all == nil {
		return r
	}
	r.method = all.OneOf("method", http.MethodPost, http.MethodPut)
	if all.Any("json") != nil && all.Any("form") != nil {
		all.Fail("form", "stands beside json: a body is one of them")
	}
	if v := all.Any("json"); v != nil {
		r.json = readTree(all, "json", v)
	}
	r.form = readTemplates(all.Under("form", `{text: "{{body}}"}`))
	headers := all.Under("headers", `{X-Message: "{{id}}"}`)
	r.headers = readTemplates(headers)
	for name := range r.headers {
		if !httpguts.ValidHeaderFieldName(name) || ofWeir(name) {
			headers.Fail(name, "is no header's name, or is set by Weir")
		}
	}
	return r
}

// readTemplates reads a template of each setting; nil of nil.
func readTemplates(in *provider.Settings) map[string]template {
	if in == nil {
		return nil
	}
	out := make(map[string]template)
	for _, k := range in.Names() {
		text, ok := in.Any(k).(string)
		if !ok {
			in.Fail(k, "must be text")
		}
		out[k] = readTemplate(in, k, text, false)
	}
	return out
}

// readTree reads the templates of a tree of JSON, which stands at a name.
func readTree(in *provider.Settings, at string, v any) any {
	switch v := v.(type) {
	case string:
		return readTemplate(in, at, v, true)
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out[k] = readTree(in, at+"."+k, v[k])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = readTree(in, fmt.Sprintf("%s[%d]", at, i), v[i])
		}
		return out
	}
	return v
}

// readTemplate reads text with variables. Its fixed parts may hold ${NAME}; without
// variables it may be file:PATH. tree is for JSON, where a text that is only {{vars}}
// or {{data}} is an object.
func readTemplate(in *provider.Settings, at, text string, tree bool) template {
	parts, err := schemas.TemplateParts(text)
	if err != nil {
		in.Fail(at, "is no template: %w", err)
	}
	for i, p := range parts {
		switch {
		case p.Var != "":
			inside := strings.HasPrefix(p.Var, "vars.") || strings.HasPrefix(p.Var, "data.")
			if alone := tree && len(parts) == 1 && whole[p.Var] != nil; single[p.Var] == nil && !inside && !alone {
				in.Fail(at, "asks for {{%s}}, which is none of %s, vars.NAME and data.NAME; in JSON a text that is only {{vars}} or {{data}} becomes an object", p.Var, strings.Join(slices.Sorted(maps.Keys(single)), ", "))
			}
		case len(parts) == 1 || strings.Contains(p.Text, "${"):
			parts[i].Text = in.Resolve(at, p.Text)
		}
	}
	return parts
}
