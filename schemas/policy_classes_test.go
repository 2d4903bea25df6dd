package schemas

import (
	"slices"
	"strings"
	"testing"
)

const classesPolicy = `
classes:
  - {name: default, unknown: reject}
  - {name: verify}
  - {name: marketing}
limits:
  - {name: codes, match: {class: [verify, verfy]}, per: [recipient], allow: [1/60s]}
  - {name: other, match: {class: zzz}, per: [recipient], allow: [1/60s]}
routes:
  - {name: ads, match: {class: markteing}, to: [{provider: one}]}
providers:
  - {name: one, type: simulated, channels: [sms]}
`

func TestUnknownClasses(t *testing.T) {
	doc, err := ParsePolicy("p.yaml", []byte(classesPolicy))
	if err != nil {
		t.Fatal(err)
	}
	p := &doc.Policy
	for class, want := range map[string]string{
		"": "", "default": "", "verify": "",
		"verfy":    `the policy declares no class "verfy": did you mean verify?`,
		"vreify":   `the policy declares no class "vreify": did you mean verify?`,
		"VERIFY":   `the policy declares no class "VERIFY"`,
		"payments": `the policy declares no class "payments"`,
	} {
		if got := p.RejectsClass(class); got != want {
			t.Errorf("%q: %q, want %q", class, got, want)
		}
	}
	want := []string{
		`limit codes matches the class "verfy", which the policy does not declare: did you mean verify?`,
		`limit other matches the class "zzz", which the policy does not declare`,
		`route ads matches the class "markteing", which the policy does not declare: did you mean marketing?`,
	}
	if got := p.UndeclaredClasses(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for rules, n := range map[string]int{"": 1, "mailboxes: [{domains: [gmail.com], ignore: [dots]}]": 0} {
		if got := parsed(t, "limits: [{name: boxes, per: [mailbox], allow: [1/60s]}]\n"+rules).Warnings(); len(got) != n || n > 0 && !strings.Contains(got[0], "limit boxes counts per mailbox") {
			t.Errorf("%q: %q", rules, got)
		}
	}
	for text, open := range map[string]int{"": 1, ", unknown: default": 0, ", unknown: reject": 0} {
		p := parsed(t, strings.Replace(classesPolicy, ", unknown: reject", text, 1))
		if got := p.Warnings(); len(got) != len(want)+open || open > 0 && !strings.Contains(got[len(want)], "write - {name: default, unknown: reject}") {
			t.Errorf("default%s: %q", text, got)
		}
	}
	for _, text := range []string{"", "classes: [{name: default, priority: bulk}]"} { // nothing to misspell
		if got := parsed(t, text).Warnings(); len(got) > 0 {
			t.Errorf("%s: %q", text, got)
		}
	}
	for _, text := range []string{"", ", unknown: default"} {
		doc, err := ParsePolicy("p.yaml", []byte(strings.Replace(classesPolicy, ", unknown: reject", text, 1)))
		if err != nil || doc.Policy.RejectsClass("verfy") != "" {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ParsePolicy("p.yaml", []byte(strings.Replace(classesPolicy, "{name: verify}", "{name: verify, unknown: reject}", 1))); err == nil || !strings.Contains(err.Error(), "of the class default alone") {
		t.Errorf("%v", err)
	}
}

// A provider of type none takes its part of what no route matches, and sends none of it.
func TestNoneWithoutARoute(t *testing.T) {
	const policy = "providers: [{name: gate, type: none, channels: [sms]}, {name: sim, type: simulated, channels: [sms, voice]}]\n"
	for rules, n := range map[string]int{
		"":                  1,
		"routes_only: true": 0,
		"routes: [{name: codes, match: {class: [default]}, to: [{provider: gate}]}]":                                      1,
		"routes: [{name: codes, match: {class: [default]}, to: [{provider: gate}]}, {name: rest, to: [{provider: sim}]}]": 0,
		"routes: [{name: rest, match: {channel: [sms]}, to: [{provider: sim}]}]":                                          0,
		"routes: [{name: rest, match: {channel: [voice]}, to: [{provider: sim}]}]":                                        1,
		"routes: [{name: rest, match: {channel: [sms], country: [CN]}, to: [{provider: sim}]}]":                           1,
		"routes: [{name: rest, match: {channel: [sms], metadata.kind: [code]}, to: [{provider: sim}]}]":                   1,
	} {
		if got := parsed(t, policy+rules).Warnings(); len(got) != n || n > 0 && !strings.Contains(got[0], "provider gate of type none sends nothing") {
			t.Errorf("%s: %q", rules, got)
		}
	}
	if got := parsed(t, "providers: [{name: gate, type: none, channels: [sms]}]").Warnings(); len(got) != 0 {
		t.Errorf("alone: %q", got)
	}
}
