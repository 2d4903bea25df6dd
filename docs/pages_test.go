package docs

import (
	"slices"
	"testing"
)

func TestSettingsOfAPage(t *testing.T) {
	text, names := ofTable(" default | |\n|---|---|---|\n| `a`, `b` | – | [as](x.md) `c`: this \\| that |\n| `d` | | |\n\n| `e` | no | row |\n")
	if want := "settings:\n  a, b  –  as c: this \\| that\n  d        \n"; text != want || !slices.Equal(names, []string{"a", "b", "d"}) {
		t.Errorf("%q, %q", text, names)
	}
	text, names = ofBlock("      a: 1   # required\n      b:\n        - c: 2\n      # d: 3\n\nafter: 4\n")
	if want := "settings:\n  a: 1   # required\n  b:\n    - c: 2\n  # d: 3\n"; text != want || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("%q, %q", text, names)
	}
	if text, names := ProviderSettings("nobody"); text != "" || names != nil {
		t.Errorf("%q, %q", text, names)
	}
}
