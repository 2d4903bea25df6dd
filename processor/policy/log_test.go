package policy

import (
	"encoding/json"
	"errors"
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
		if s.force != (err == nil) || !s.force && !errors.Is(err, schemas.ErrWrongParent) {
			t.Errorf("%s: %v", s.name, err)
		}
		if (got != nil) != s.force || l.Latest().By != s.want {
			t.Errorf("%s: in force %v, latest by %q; want %v, %q", s.name, got != nil, l.Latest().By, s.force, s.want)
		}
		if s.force && l.Offset(s.revision) != int64(i) {
			t.Errorf("%s: stands at %d, want %d", s.name, l.Offset(s.revision), i)
		}
	}
	// What is no revision changes nothing, and what follows it counts.
	for _, c := range []struct {
		name, value string
		want        error
	}{
		{"text", "torn", schemas.ErrNoRevision},
		{"nothing", "", schemas.ErrNoRevision},
		{"half of one", `{"revision":4,"parent":3,"policy":{"lim`, schemas.ErrNoRevision},
		{"without a policy", `{"revision":4,"parent":3}`, schemas.ErrNoRevision},
		{"with no policy", `{"revision":4,"parent":3,"policy":null}`, schemas.ErrNoRevision},
		{"of another make", `{"revision":4,"parent":3,"policy":{"limits":[{"allow":["often"]}]}}`, schemas.ErrNoRevision},
		{"newer, from another parent", `{"format":9,"revision":7,"parent":6,"policy":{}}`, schemas.ErrWrongParent},
		{"newer", `{"format":9,"revision":4,"parent":3,"policy":{"limits":"elsewhere"}}`, schemas.ErrNewerRevision},
		{"the next", `{"revision":4,"parent":3,"by":"g","policy":{}}`, nil},
	} {
		if _, err := l.Append([]byte(c.value), 9); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if l.Latest().By != "g" {
		t.Errorf("latest by %q", l.Latest().By)
	}
}
