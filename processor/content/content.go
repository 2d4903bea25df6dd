// Package content makes what is sent: a request's own content, or a template
// with its variables filled in.
//
// It is pure. It does not judge whether a channel needs a subject or a body
// (schemas does), and it does not make a provider's own template parameters (the
// adapter does).
package content

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// Reason is why there is no content: stable text for status events.
type Reason string

const (
	ReasonUnknownTemplate      Reason = "unknown_template"       // the policy has no template of that name
	ReasonTemplateWrongChannel Reason = "template_wrong_channel" // the template is for another channel
	ReasonMissingVariable      Reason = "missing_variable"       // the request lacks variables of the template
	ReasonMalformedTemplate    Reason = "malformed_template"     // the template's braces do not match; apply refuses such
	ReasonContentAndTemplate   Reason = "content_and_template"   // the request has both: it is not said which to send
	ReasonTooLong              Reason = "too_long"               // over what its channel takes (schemas.TooLong): see Fits
)

// Error says why there is no content.
type Error struct {
	Reason  Reason
	Missing []string // ReasonMissingVariable: every name that is missing, sorted
	Pointer string   // ReasonTooLong: which field of the request it would be
	Detail  string   // for people; holds no values of variables
}

func (e *Error) Error() string { return e.Detail }

// Code returns the reason as it stands in a status event.
func (e *Error) Code() string { return string(e.Reason) }

// Content is what is sent, with nothing left to fill in.
type Content struct {
	Subject string
	Body    string
	HTML    string
	Title   string
}

// Hash is the content's name for limits that count by it: the first half of
// SHA-256 over its fields, each after its length, in hex.
func (c Content) Hash() string {
	var b []byte
	for _, field := range []string{c.Subject, c.Body, c.HTML, c.Title} {
		b = binary.AppendUvarint(b, uint64(len(field)))
		b = append(b, field...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// render fills in a template's variables. A variable that vars does not have is
// an error that names all of them; an empty value is a value. Values in HTML are
// escaped for text and quoted attributes. Variables within values stay as they
// are, and values that no variable asks for are left out.
//
// The error is always an [*Error].
func render(t *schemas.Template, vars map[string]string) (Content, error) {
	var (
		c       Content
		missing []string
	)
	for _, f := range []struct {
		name, text string
		into       *string
		escape     func(string) string
	}{
		{"subject", t.Subject, &c.Subject, nil},
		{"body", t.Body, &c.Body, nil},
		{"html", t.HTML, &c.HTML, html.EscapeString},
		{"title", t.Title, &c.Title, nil},
	} {
		if !strings.Contains(f.text, "{{") && !strings.Contains(f.text, "}}") {
			*f.into = f.text
			continue
		}
		parts, err := schemas.TemplateParts(f.text)
		if err != nil {
			return Content{}, &Error{Reason: ReasonMalformedTemplate, Detail: fmt.Sprintf("template %q, %s: %v", t.Name, f.name, err)}
		}
		var b strings.Builder
		for _, p := range parts {
			if p.Var == "" {
				b.WriteString(p.Text)
				continue
			}
			v, ok := vars[p.Var]
			switch {
			case !ok:
				missing = append(missing, p.Var)
			case f.escape != nil:
				b.WriteString(f.escape(v))
			default:
				b.WriteString(v)
			}
		}
		*f.into = b.String()
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		missing = slices.Compact(missing)
		return Content{}, &Error{Reason: ReasonMissingVariable, Missing: missing,
			Detail: fmt.Sprintf("template %q needs variables that the request lacks: %s", t.Name, strings.Join(missing, ", "))}
	}
	return c, nil
}

// Fits refuses content that is over its channel's limit. The error is an [*Error].
func (c Content) Fits(r *schemas.Request) error {
	if pointer, why := schemas.TooLong(r.Channel, c.Subject, c.Body, c.HTML, c.Title, r.Data); pointer != "" {
		return &Error{Reason: ReasonTooLong, Pointer: pointer, Detail: strings.TrimPrefix(pointer, "/") + " " + why}
	}
	return nil
}

// Of returns what a request sends: its template from the policy rendered with
// its variables, or its own content as it is.
//
// The error is always an [*Error].
func Of(r *schemas.Request, p *schemas.Policy) (Content, error) {
	own := Content{Subject: r.Subject, Body: r.Body, HTML: r.HTML, Title: r.Title}
	if r.Template == "" {
		return own, nil
	}
	if own != (Content{}) {
		return Content{}, &Error{Reason: ReasonContentAndTemplate, Detail: "the request has both a template and content of its own"}
	}
	for i := range p.Templates {
		t := &p.Templates[i]
		if t.Name != r.Template {
			continue
		}
		if t.Channel != r.Channel {
			return Content{}, &Error{Reason: ReasonTemplateWrongChannel, Detail: fmt.Sprintf("template %q is for %s, the request for %s", t.Name, t.Channel, r.Channel)}
		}
		return render(t, r.Vars)
	}
	return Content{}, &Error{Reason: ReasonUnknownTemplate, Detail: fmt.Sprintf("template %q is not in the policy", r.Template)}
}
