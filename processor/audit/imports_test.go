package audit

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The audit is a second opinion: nothing that decides may be part of it, not
// even through others.
func TestSharesNothingWithWhatItJudges(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{.ImportPath}}", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	const module = "github.com/weirhq/weir/"
	var own []string
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), module); ok {
			own = append(own, name)
		}
	}
	slices.Sort(own)
	// recipient and content say what a message is: its recipient's country and
	// zones, and the text that is sent. schemas is the contract, topics the names.
	// quiet decides, and is no part of it.
	want := []string{"processor/audit", "processor/content", "processor/recipient", "schemas", "schemas/weirpb", "topics"}
	if !slices.Equal(own, want) {
		t.Errorf("the audit is made of %v, and may be of %v", own, want)
	}
}
