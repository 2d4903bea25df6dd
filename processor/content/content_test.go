package content

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
	"pgregory.net/rapid"
)

func TestRender(t *testing.T) {
	for _, tt := range []struct {
		name    string
		t       schemas.Template
		vars    map[string]string
		want    Content
		reason  Reason
		missing []string
	}{
		{"body", schemas.Template{Body: "Your code is {{code}}"}, map[string]string{"code": "123456"}, Content{Body: "Your code is 123456"}, "", nil},
		{"spaces, twice, adjacent", schemas.Template{Body: "{{ a }}{{a}}{{b}}."}, map[string]string{"a": "1", "b": "二"}, Content{Body: "11二."}, "", nil},
		{"every field", schemas.Template{Subject: "s {{x}}", Body: "b {{x}}", HTML: "<p>{{x}}</p>", Title: "t {{x}}"}, map[string]string{"x": "v"},
			Content{Subject: "s v", Body: "b v", HTML: "<p>v</p>", Title: "t v"}, "", nil},
		{"only HTML escapes", schemas.Template{Body: "{{x}}", HTML: `<a title="{{x}}">{{x}}</a>`}, map[string]string{"x": `"<b>&'`},
			Content{Body: `"<b>&'`, HTML: `<a title="&#34;&lt;b&gt;&amp;&#39;">&#34;&lt;b&gt;&amp;&#39;</a>`}, "", nil},
		{"a value is not a template", schemas.Template{Body: "{{x}}"}, map[string]string{"x": "{{code}}", "code": "1"}, Content{Body: "{{code}}"}, "", nil},
		{"an empty value is a value", schemas.Template{Body: "[{{x}}]"}, map[string]string{"x": ""}, Content{Body: "[]"}, "", nil},
		{"unused is fine", schemas.Template{Body: "hi"}, map[string]string{"x": "1"}, Content{Body: "hi"}, "", nil},
		{"no variables", schemas.Template{Body: "hi { } there"}, nil, Content{Body: "hi { } there"}, "", nil},
		{"all the missing, once each", schemas.Template{Subject: "{{z}}", Body: "{{b}} {{a}} {{b}} {{have}}"}, map[string]string{"have": "1"}, Content{}, ReasonMissingVariable, []string{"a", "b", "z"}},
		{"never closed", schemas.Template{Body: "hi {{name"}, map[string]string{"name": "x"}, Content{}, ReasonMalformedTemplate, nil},
		{"never opened", schemas.Template{Body: "hi name}}"}, map[string]string{"name": "x"}, Content{}, ReasonMalformedTemplate, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.t.Name = "login-code"
			got, err := render(&tt.t, tt.vars)
			if tt.reason == "" {
				if err != nil || got != tt.want {
					t.Errorf("got %+v, %v\nwant %+v", got, err, tt.want)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || e.Reason != tt.reason || !slices.Equal(e.Missing, tt.missing) || got != (Content{}) {
				t.Fatalf("got %+v, %#v", got, err)
			}
			if !strings.Contains(err.Error(), "login-code") {
				t.Errorf("%q does not name the template", err)
			}
			for _, m := range tt.missing {
				if !strings.Contains(err.Error(), m) {
					t.Errorf("%q does not name %s", err, m)
				}
			}
		})
	}
}

// What is sent is the template's text with the values in their places, and
// nothing of HTML's grammar can come out of a value.
func TestRenderProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[^{}]{0,10}`), 1, 5).Draw(t, "texts")
		value := rapid.String().Draw(t, "value")
		tpl := schemas.Template{Body: strings.Join(texts, "{{v}}"), HTML: strings.Repeat("{{v}}", 3)}
		got, err := render(&tpl, map[string]string{"v": value})
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.Join(texts, value); got.Body != want {
			t.Fatalf("body %q, want %q", got.Body, want)
		}
		if strings.ContainsAny(got.HTML, `<>"'`) {
			t.Fatalf("html %q", got.HTML)
		}
	})
}

func TestOf(t *testing.T) {
	p := &schemas.Policy{Templates: []schemas.Template{{Name: "login-code", Channel: "sms", Body: "Your code is {{code}}"}}}
	for _, tt := range []struct {
		name   string
		r      schemas.Request
		want   Content
		reason Reason
	}{
		{"own", schemas.Request{Channel: "email", Subject: "s", Body: "b {{x}}", HTML: "<b>", Title: "t"}, Content{"s", "b {{x}}", "<b>", "t"}, ""},
		{"template", schemas.Request{Channel: "sms", Template: "login-code", Vars: map[string]string{"code": "1"}}, Content{Body: "Your code is 1"}, ""},
		{"unknown", schemas.Request{Channel: "sms", Template: "nope"}, Content{}, ReasonUnknownTemplate},
		{"another channel's", schemas.Request{Channel: "email", Template: "login-code", Vars: map[string]string{"code": "1"}}, Content{}, ReasonTemplateWrongChannel},
		{"missing", schemas.Request{Channel: "sms", Template: "login-code"}, Content{}, ReasonMissingVariable},
		{"both", schemas.Request{Channel: "sms", Template: "login-code", Body: "x", Vars: map[string]string{"code": "1"}}, Content{}, ReasonContentAndTemplate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Of(&tt.r, p)
			var e *Error
			if tt.reason == "" && err != nil || got != tt.want || tt.reason != "" && (!errors.As(err, &e) || e.Reason != tt.reason) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestHashTellsFieldsApart(t *testing.T) {
	seen := map[string]Content{}
	for _, c := range []Content{{}, {Subject: "ab"}, {Body: "ab"}, {HTML: "ab"}, {Title: "ab"}, {Subject: "a", Body: "b"}, {Body: "a", HTML: "b"}, {Body: "a"}, {Body: "ab "}} {
		h := c.Hash()
		if len(h) != 32 || h != c.Hash() {
			t.Errorf("%+v: %q", c, h)
		}
		if other, ok := seen[h]; ok {
			t.Errorf("%+v and %+v are one", c, other)
		}
		seen[h] = c
	}
}
