package providertest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/weirhq/weir/processor/provider"
)

// Page compares docs/provider-NAME.md with the adapter: it has a row for every setting,
// and names no code that the table lacks. code is the codes' form, in one group.
func Page(t *testing.T, name string, settings []string, codes *provider.Codes, code *regexp.Regexp) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "provider-"+name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		if !regexp.MustCompile("(?m)^\\|.*`" + s + "`.*\\|$").Match(page) {
			t.Errorf("it has no row of the setting %s", s)
		}
	}
	found := code.FindAllSubmatch(page, -1)
	if len(found) < 4 {
		t.Errorf("it names %d codes", len(found))
	}
	for _, m := range found {
		c := string(m[1])
		send, _ := codes.Of(c)
		receipt, _ := codes.OfReceipt(c)
		if send.Code != c && receipt.Code != c {
			t.Errorf("the table has no %s", c)
		}
	}
}
