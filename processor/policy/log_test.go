package policy

import (
	"encoding/json"
	"testing"

	"github.com/weirhq/weir/schemas"
)

func TestLogJudgesByParent(t *testing.T) {
	steps := []struct {
		name             string
		parent, revision int64
		by               string
		want             string // by of the latest afterwards
		force            bool
	}{
		{"first", 0, 1, "a", "a", true},
		{"concurrent edit of the same parent is void", 0, 1, "b", "a", false},
		{"next", 1, 2, "c", "c", true},
		{"a number that does not follow its parent is void", 2, 4, "d", "c", false},
		{"a parent from the future is void", 7, 8, "e", "c", false},
		{"the void ones did not count", 2, 3, "f", "f", true},
	}
	l := NewLog()
	for i, s := range steps {
		v, err := json.Marshal(schemas.Revision{Revision: s.revision, Parent: s.parent, By: s.by})
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Append(v, int64(i))
		if err != nil {
			t.Fatal(err)
		}
		if (got != nil) != s.force || l.Latest().By != s.want {
			t.Errorf("%s: in force %v, latest by %q; want %v, %q", s.name, got != nil, l.Latest().By, s.force, s.want)
		}
		if s.force && l.Offset(s.revision) != int64(i) {
			t.Errorf("%s: stands at %d, want %d", s.name, l.Offset(s.revision), i)
		}
	}
	if _, err := l.Append([]byte("torn"), 9); err == nil {
		t.Error("a torn record was accepted")
	}
}
