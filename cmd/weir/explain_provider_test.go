package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/docs"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// TestExplainProvider: every type has what it prints, and what it prints is whole.
func TestExplainProvider(t *testing.T) {
	code, list, errs := weir(t, "explain", "provider")
	if code != exitOK {
		t.Fatalf("%d %s", code, errs)
	}
	for typ, of := range providerTypes {
		t.Run(typ, func(t *testing.T) {
			code, out, errs := weir(t, "explain", "provider", typ)
			if code != exitOK || !strings.HasPrefix(out, typ+" carries "+string(schemas.ProviderTypes[typ][0])) {
				t.Fatalf("%d %s %s", code, out, errs)
			}
			if !strings.Contains(list, "\n"+typ+" ") {
				t.Errorf("the list lacks it:\n%s", list)
			}
			if typ != "simulated" && !strings.Contains(out, "\nsettings:\n  ") { // docs/simulated.md has its only one
				t.Errorf("no settings: docs/provider-%s.md needs a block that begins with settings:, or a table that begins with | setting |\n%s", typ, out)
			}
			if _, err := os.Stat("../../docs/provider-" + typ + ".md"); err != nil && typ != "simulated" {
				t.Error(err)
			}
			if of.Codes == nil {
				return
			}
			for _, c := range slices.Concat(of.Codes.Send, of.Codes.Receipt) {
				if !strings.Contains(out, "\n"+c.Code+" ") || !strings.Contains(out, c.Means) || c.Means == "" {
					t.Errorf("code %q is not whole", c.Code)
				}
			}
			if len(of.Codes.Sources) == 0 {
				t.Error("no source")
			}
			for _, s := range of.Codes.Sources {
				if !strings.HasPrefix(s.URL, "https://") || s.Title == "" {
					t.Errorf("source %+v", s)
				}
				if !strings.Contains(out, "  "+s.Title+"\n  "+s.URL+"\n") {
					t.Errorf("source %s is not printed", s.Title)
				}
			}
		})
	}
}

// TestSettingsOnThePage: the settings that a type's page shows are those that it
// has, and all of them.
func TestSettingsOnThePage(t *testing.T) {
	for typ, of := range providerTypes {
		if typ == "simulated" {
			continue
		}
		t.Run(typ, func(t *testing.T) {
			_, shown := docs.ProviderSettings(typ)
			for _, name := range shown {
				for what, err := range openings(of, typ, map[string]any{name: "x"}) {
					if err != nil && strings.Contains(err.Error(), "settings."+name+" is not a setting") {
						t.Errorf("%s: %v", what, err)
					}
				}
			}
			// What an unknown one is answered with is all that it has.
			for what, err := range openings(of, typ, map[string]any{"no_such_setting": "x"}) {
				if err == nil {
					t.Errorf("%s takes anything", what)
					continue
				}
				_, has, ok := strings.Cut(err.Error(), "is not a setting of this type: it has ")
				if !ok {
					t.Errorf("%s does not name a setting that nobody knows before what is missing: %v", what, err)
					continue
				}
				for name := range strings.SplitSeq(has, ", ") {
					if !slices.Contains(shown, name) {
						t.Errorf("the page does not show %s", name)
					}
				}
			}
		})
	}
}

// TestSettingsOnThePageCanBeApplied: what a type's page shows is a policy that is taken,
// and a type that is in the table of adapters is judged.
func TestSettingsOnThePageCanBeApplied(t *testing.T) {
	whole := regexp.MustCompile(`(?m)^    providers:\n(?:      .*\n)+`)
	for typ, of := range providerTypes {
		t.Run(typ, func(t *testing.T) {
			if of.Check == nil {
				t.Fatal("nothing judges its settings when a policy is applied")
			}
			if typ == "simulated" || typ == "none" { // no page of its own
				return
			}
			page, err := os.ReadFile("../../docs/provider-" + typ + ".md")
			if err != nil {
				t.Fatal(err)
			}
			policy := strings.ReplaceAll(whole.FindString(string(page)), "\n    ", "\n")
			if policy = strings.TrimPrefix(policy, "    "); policy == "" {
				text, _ := docs.ProviderSettings(typ)
				channels, _ := json.Marshal(schemas.ProviderTypes[typ])
				policy = fmt.Sprintf("providers:\n  - name: p\n    type: %s\n    channels: %s\n    %s", typ, channels, strings.ReplaceAll(text, "\n", "\n    "))
			}
			if doc, err := readPolicy("page.yaml", []byte(policy), nil); err != nil || len(doc.Policy.Providers) != 1 {
				t.Errorf("%v\n%s", err, policy)
			}
		})
	}
}

func openings(of provider.Type, typ string, settings map[string]any) map[string]error {
	p := schemas.Provider{Name: "p", Type: typ, Channels: schemas.ProviderTypes[typ], Settings: settings}
	out := map[string]error{}
	if of.Open != nil {
		pr, err := provider.Types{typ: of}.Open(p, provider.Deps{Private: outbound.Loopback})
		if err == nil {
			_ = pr.Close()
		}
		out["Open"] = err
	}
	if of.Listen != nil {
		_, out["Listen"] = provider.Types{typ: of}.Listen(p, provider.Deps{Private: outbound.Loopback})
	}
	return out
}

func TestExplainProviderIsUsedWrongly(t *testing.T) {
	for _, args := range [][]string{{"pigeon"}, {"twilio", "sms"}} {
		if code, _, errs := weir(t, append([]string{"explain", "provider"}, args...)...); code != exitUsage || errs == "" {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
}

func TestExplainProviderShows(t *testing.T) {
	codes := provider.Codes{
		Sources: []provider.Source{{Title: "A page", URL: "https://a.example/"}},
		Send: []provider.Code{
			{Code: "1", Kind: provider.Permanent, Suppress: schemas.SuppressInvalid, Means: "nobody"}, {Code: "2*", Kind: provider.Transient, MayBeReceived: true, Means: "later"},
			{Code: "3", Kind: provider.Accepted, Means: "again"},
		},
		Else:    provider.Code{Kind: provider.Unknown, Means: "who knows"},
		Receipt: []provider.Code{{Code: "OK", Kind: provider.Accepted, Means: "there"}, {Code: "GO", Means: "on"}, {Code: "NO", Kind: provider.Permanent, Means: "not there"}},
	}
	var out bytes.Buffer
	if err := explainType(&out, provider.Types{"fcm": {Codes: &codes}}, "fcm"); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(out.String(), "\nANSWER")
	want := `     OUTCOME    RECEIVED  SUPPRESSED AS  MEANS
1          permanent  no        invalid        nobody (the recipient's own)
2*         transient  perhaps   –              later
3          accepted   –         –              again
any other  unknown    perhaps   –              who knows

RECEIPT  STATUS       SUPPRESSED AS  MEANS
OK       delivered    –              there
GO       on its way   –              on
NO       undelivered  –              not there

Read in
  A page
  https://a.example/
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !strings.HasPrefix(out.String(), "fcm carries push. Weir does not call it.\n") {
		t.Errorf("%s", out.String())
	}
}
