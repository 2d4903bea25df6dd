package grafana

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write dashboards/ and testdata/ anew")

// dashboards/ is what the definitions say, and nothing else.
func TestFiles(t *testing.T) {
	want := make(map[string]bool)
	for _, d := range Dashboards() {
		if err := d.valid(); err != nil {
			t.Error(err)
		}
		text, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("dashboards", d.File()), string(text))
		want[d.File()] = true
	}
	files, err := os.ReadDir("dashboards")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !want[f.Name()] {
			t.Errorf("dashboards/%s belongs to no definition", f.Name())
		}
	}
}

// golden compares a text to a file, or writes it with -rewrite.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s is not what the definitions say (-rewrite writes it anew):\n%s", name, diff)
	}
}

// Panels lie beside and below each other, and every one says whom it asks by a
// variable that the dashboard has.
func TestLayout(t *testing.T) {
	type panel struct {
		ID         int
		Type       string
		Title      string
		Datasource struct{ UID string }
		GridPos    struct{ X, Y, W, H int }
	}
	uids := make(map[string]bool)
	for _, d := range Dashboards() {
		text, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			UID        string
			Panels     []panel
			Templating struct{ List []struct{ Name string } }
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if uids[got.UID] || got.UID == "" {
			t.Errorf("uid %q is not the dashboard's own", got.UID)
		}
		uids[got.UID] = true
		vars := make(map[string]bool)
		for _, v := range got.Templating.List {
			if vars[v.Name] {
				t.Errorf("%s: variable %s twice", d.UID, v.Name)
			}
			vars[v.Name] = true
		}
		taken := make(map[[2]int]string)
		ids := make(map[int]bool)
		for _, p := range got.Panels {
			if ids[p.ID] {
				t.Errorf("%s: two panels have id %d", d.UID, p.ID)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if on := taken[[2]int{x, y}]; on != "" || x >= 24 {
						t.Fatalf("%s: %q lies on %q, or beyond the edge", d.UID, p.Title, on)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if name := strings.Trim(p.Datasource.UID, "${}"); p.Type != "row" && !vars[name] {
				t.Errorf("%s: %q asks %q, which is no variable", d.UID, p.Title, p.Datasource.UID)
			}
		}
	}
}
