package providertest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/secret"
	"github.com/weirhq/weir/schemas"
)

// settings are the adapter's own, without some.
func (e *env) settings(without ...string) map[string]any {
	s := e.a.Settings(e.server.Endpoint())
	for _, k := range without {
		delete(s, k)
	}
	return s
}

// openings are what reads the settings.
func (e *env) openings() map[string]func(map[string]any, provider.Deps) error {
	out := map[string]func(map[string]any, provider.Deps) error{"Open": func(s map[string]any, deps provider.Deps) error {
		p, err := e.open(s, deps)
		if err == nil {
			_ = p.Close()
		}
		return err
	}}
	out["Check"] = func(s map[string]any, _ provider.Deps) error { return e.check(s) }
	if e.a.Type.Listen != nil {
		out["Listen"] = func(s map[string]any, deps provider.Deps) error {
			_, err := provider.Types{e.a.Name: e.a.Type}.Listen(e.policy(s), deps)
			if err != nil {
				if what := e.watch.inText(err.Error()); what != "" {
					e.Errorf("the error of Listen tells %s: %v", what, err)
				}
			}
			return err
		}
	}
	return out
}

// check judges settings as they are when a policy is applied.
func (e *env) check(s map[string]any) error {
	return provider.Types{e.a.Name: e.a.Type}.Check(&schemas.Policy{Providers: []schemas.Provider{e.policy(s)}})
}

// checked: whatever is wrong with the settings beside what secrets hold, Check finds, and
// it finds nothing wrong with what can be opened.
func (e *env) checked() {
	own := e.settings()
	// agrees compares Check with what opens, in an environment that has this too under
	// any name that it lacks.
	agrees := func(what string, s map[string]any, any string, by ...string) {
		deps := e.deps
		deps.Getenv = func(name string) string { return cmp.Or(e.deps.Getenv(name), any) }
		var refused error
		for _, name := range by {
			if open := e.openings()[name]; open != nil {
				if err := open(s, deps); err != nil && !errors.Is(err, provider.ErrNoListener) {
					refused = err
				}
			}
		}
		switch err := e.check(s); {
		case err == nil && refused != nil:
			e.Errorf("%s: Check passes what is refused later: %v", what, refused)
		case err != nil && refused == nil:
			e.Errorf("%s: Check refuses what can be opened: %v", what, err)
		}
	}
	for k, v := range own {
		text, ok := v.(string)
		if ok {
			text, _ = secret.Resolve(k, text, e.deps.Getenv)
			s := maps.Clone(own)
			s[k] = "${WEIR_PROVIDERTEST}"
			agrees(k+" from the environment", s, text, "Open", "Listen")
		}
		agrees("without "+k, e.settings(k), text, "Open") // who wants no receipts needs nothing for them
	}
	for _, k := range e.names() {
		for _, v := range []any{float64(17), true, "\x00 \u2603", []any{}, map[string]any{"no_such_name": "x"}} {
			s := maps.Clone(own)
			s[k] = v
			agrees(fmt.Sprintf("%s is %#v", k, v), s, "", "Open", "Listen")
		}
	}
}

// names are those of the type's settings, as the refusal of another tells them.
func (e *env) names() []string {
	_, names, ok := strings.Cut(fmt.Sprint(e.openings()["Open"](map[string]any{"no_such_setting": "x"}, e.deps)), "it has ")
	if !ok {
		e.Fatalf("Open does not say which settings there are")
	}
	return strings.Split(names, ", ")
}

func (e *env) unknownSetting() {
	for name, open := range e.openings() {
		s := e.settings()
		s["no_such_setting"] = "x"
		if err := open(s, e.deps); err == nil || !strings.Contains(err.Error(), "no_such_setting") {
			e.Errorf("%s: %v, want an error that names the setting", name, err)
		}
		if err := open(e.settings(), e.deps); err != nil {
			e.Errorf("%s without it: %v", name, err)
		}
	}
}

func (e *env) missingSettings() {
	tried := 0
	for k := range e.settings() {
		if k == "endpoint" {
			continue
		}
		err := e.openings()["Open"](e.settings(k), e.deps)
		switch optional := slices.Contains(e.a.Optional, k); {
		case optional && err != nil:
			e.Errorf("without the optional %s: %v", k, err)
		case !optional && (err == nil || !strings.Contains(err.Error(), "settings."+k)):
			e.Errorf("without %s: %v, want an error that names settings.%s", k, err, k)
		}
		tried++
	}
	if tried == 0 && len(e.a.Env) > 0 {
		e.Errorf("no setting but the endpoint")
	}
}

func (e *env) missingSecret() {
	if len(e.a.Env) == 0 {
		e.Errorf("Env has no secret: every provider has one")
	}
	deps := e.deps
	for k := range e.a.Env {
		deps.Getenv = func(name string) string {
			if name == k {
				return ""
			}
			return e.a.Env[name]
		}
		var said []string
		for _, open := range e.openings() {
			if err := open(e.settings(), deps); err != nil {
				said = append(said, err.Error())
			}
		}
		if len(said) == 0 || !strings.Contains(strings.Join(said, "\n"), k) {
			e.Errorf("without %s in the environment: %q, want an error that names it", k, said)
		}
	}
}
