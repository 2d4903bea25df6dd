package grafana

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The data sources of provisioning/ are those that the dashboards choose first,
// and whoever mounts the folder is told of every variable that it takes.
func TestProvisioning(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	sources := read("provisioning/datasources/weir.yaml")
	var f struct {
		Datasources []struct{ Name, UID, Type string }
	}
	if err := yaml.Unmarshal([]byte(sources), &f); err != nil || len(f.Datasources) != 2 {
		t.Fatal(f, err)
	}
	overviewJSON, err := overview().JSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Datasources {
		for _, part := range []string{`"text": "` + d.Name + `"`, `"value": "` + d.UID + `"`, `"query": "` + d.Type + `"`} {
			if !strings.Contains(string(overviewJSON), part) {
				t.Errorf("no variable of the dashboards says %s", part)
			}
		}
	}
	readme := read("README.md")
	for _, m := range regexp.MustCompile(`\$\{([A-Z_]+)\}`).FindAllStringSubmatch(sources+read("provisioning/dashboards/weir.yaml"), -1) {
		if !strings.Contains(readme, "-e "+m[1]) {
			t.Errorf("README.md does not say %s", m[1])
		}
	}
}
