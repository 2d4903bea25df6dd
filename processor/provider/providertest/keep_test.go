package providertest

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestRows are written in order, once each, whoever else writes.
func TestRows(t *testing.T) {
	page := filepath.Join(t.TempDir(), "providers.md")
	old := "| [b](provider-b.md) | old |\n"
	if err := os.WriteFile(page, []byte("# Head\n\n"+tableHead+"| [z](provider-z.md) |\n"+old+old+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, name := range []string{"b", "a", "c", "aa"} {
		wg.Go(func() {
			if err := writeRow(page, name, "| "+rowMark(name)+" | new |\n"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	row := func(name string) string { return "| " + rowMark(name) + " | new |\n" }
	if want := "# Head\n\n" + tableHead + row("a") + row("aa") + row("b") + row("c") + "| [z](provider-z.md) |\n\nafter\n"; string(got) != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if err := writeRow(page+"x", "a", ""); err == nil {
		t.Error("a page that is not there is written")
	}
}

// TestStable: a transcript has nothing that differs from run to run, and no secret.
func TestStable(t *testing.T) {
	a := Adapter{Env: map[string]string{"KEY": "s3cret/of mine"}}
	for in, want := range map[string]string{
		"> Authorization: AWS4-HMAC-SHA256 Credential=AKID/20261122, Signature=ab": "> Authorization: AWS4-HMAC-SHA256 ***",
		"> Authorization: opaque":                                      "> Authorization: ***",
		"Proxy-Authorization: Basic QQ==":                              "Proxy-Authorization: Basic ***",
		"C: AUTH PLAIN AHVzZXIAcGFzcw==":                               "C: AUTH PLAIN ***",
		"> Webhook-Signature: v1,abc":                                  "> Webhook-Signature: ***",
		"token=s3cret%2Fof+mine&x":                                     "token=${KEY}&x",
		"s3cret/of mine":                                               "${KEY}",
		"Host: 127.0.0.1:40123":                                        "Host: HOST",
		"Date: Sun, 22 Nov 2026 01:00:00 GMT":                          "Date: DATE",
		`"at":"2026-11-22T01:00:00.123Z"`:                              `"at":"DATE"`,
		"X-Amz-Date: 20261122T010000Z":                                 "X-Amz-Date: DATE",
		"t=1795309200 and 1795309200123":                               "t=UNIX and UNIX",
		"to +8613800000000 and +15005550009":                           "to +8613800000000 and +15005550009",
		"id f47ac10b-58cc-4372-a567-0e02b2c3d479":                      "id UUID",
		"id 0199b2a0-5c00-7000-8000-0123456789ab":                      "id 0199b2a0-5c00-7000-8000-0123456789ab",
		"sum e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b": "sum HEX",
		"bearer eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.c2lnbmF0dXJl":     "bearer JWT",
		"trailing  \r\nlines\t":                                        "trailing\nlines",
	} {
		if got := a.stable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	a.Stable = func(s string) string { return strings.ReplaceAll(s, "boundary", "B") }
	if got := a.stable("boundary"); got != "B" {
		t.Error(got)
	}
}
