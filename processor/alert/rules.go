package alert

import (
	"cmp"

	"github.com/weirhq/weir/schemas"
)

// RuleOf returns what an alert of a valid policy asks for. What a newer version
// may have written there counts as the default.
func RuleOf(a *schemas.Alert) Rule {
	w, err := schemas.ParseWindow(cmp.Or(a.AtMost, schemas.DefaultAtMost))
	if err != nil || w.Kind != schemas.WindowRolling || w.N < 1 || w.N > schemas.MaxAlerts {
		w, _ = schemas.ParseWindow(schemas.DefaultAtMost)
	}
	return Rule{Name: a.Name, When: a.When, N: int(w.N), Window: w.Length}
}
