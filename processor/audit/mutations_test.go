//go:build mutations

package audit

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryCheckIsNeeded takes one check out of the audit at a time, and a test
// must fail for it. It takes some minutes:
//
//	go test -tags mutations -run EveryCheckIsNeeded -v -timeout 30m ./processor/audit
func TestEveryCheckIsNeeded(t *testing.T) {
	const handmade = "Clean|CallsAreJudged|EveryViolation|Lawful|Gone|Suppress|RememberedFor|Bucket|Tanks|Dens|Join|Places|Tall|Budget|Cancel|Since|History|Details|Redrives|Countries|QuietHours|Duplicates|TurnedAway|Declared|ProvidersAreNotJudged|ReceiptsBefore|Outcomes|Overdue"
	whole := make(map[string]string)
	for _, m := range checks {
		t.Run(m.name, func(t *testing.T) {
			if whole[m.file] == "" {
				b, err := os.ReadFile(m.file)
				if err != nil {
					t.Fatal(err)
				}
				whole[m.file] = string(b)
			}
			if n := strings.Count(whole[m.file], m.old); n != 1 {
				t.Fatalf("%s has %d times %q: mend this table", m.file, n, m.old)
			}
			dir := t.TempDir()
			broken := filepath.Join(dir, m.file)
			if err := os.WriteFile(broken, []byte(strings.Replace(whole[m.file], m.old, m.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			here, err := filepath.Abs(m.file)
			if err != nil {
				t.Fatal(err)
			}
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{here: broken}})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(file, overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"test", "-vet=off", "-count=1", "-failfast", "-overlay", file, "-run", handmade}
			if args = append(args, handmadeFiles(t)...); m.run != "" { // it takes a broker
				args = []string{"test", "-vet=off", "-count=1", "-failfast", "-overlay", file, "-run", m.run, "."}
			}
			out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
			switch {
			case strings.Contains(string(out), "[build failed]"):
				t.Fatalf("it does not compile:\n%s", out)
			case err == nil:
				t.Fatal("no test fails without it")
			}
			for line := range strings.Lines(string(out)) {
				if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok && strings.Contains(name, "/") {
					t.Logf("caught by %s", name)
					return
				}
			}
			t.Log("caught")
		})
	}
}

// handmadeFiles are the package without the tests that need the whole of Weir:
// they are built in a tenth of the time.
func handmadeFiles(t *testing.T) (names []string) {
	t.Helper()
	all, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(b), "package audit\n") || strings.Contains(string(b), "\npackage audit\n") && name != "mutations_test.go" {
			names = append(names, name)
		}
	}
	return names
}
