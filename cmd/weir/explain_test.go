package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

func TestExplainRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 0, 0, 500, time.FixedZone("CST", 8*3600))
	for value, want := range map[string]string{
		"120": `local    2026-11-22 09:02:00 CST
UTC      2026-11-22 01:02:00
wait     2 minutes (120 s)
comment  // Retry-After: 120 means: wait 2 minutes after this answer came, then try again.
`,
		"Sun, 22 Nov 2026 00:59:00 GMT": `local    2026-11-22 08:59:00 CST
UTC      2026-11-22 00:59:00
wait     no time: it is over
comment  // Retry-After: Sun, 22 Nov 2026 00:59:00 GMT means: try again at once, since 2026-11-22 00:59:00 UTC has passed.
`,
		"1795309200": `local    2083-10-13 10:00:00 CST
UTC      2083-10-13 02:00:00
wait     20779 days 1 hour (1795309200 s)
note     It looks like a Unix time, but the header takes seconds from now.
comment  // Retry-After: 1795309200 means: wait 20779 days 1 hour after this answer came, then try again.
`,
	} {
		var out bytes.Buffer
		if err := explainRetryAfter(&out, value, now); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", value, err, out.String(), want)
		}
	}
	// The page shows what it prints.
	page, err := os.ReadFile("../../docs/retry-after.md")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := explainRetryAfter(&out, "120", now); err != nil {
		t.Fatal(err)
	}
	if block := "    $ weir explain retry-after 120\n    " + strings.TrimSuffix(strings.ReplaceAll(out.String(), "\n", "\n    "), "    "); !strings.Contains(string(page), block) {
		t.Errorf("docs/retry-after.md has not\n%s", block)
	}
	for _, c := range []struct {
		args []string
		want int
		says string
	}{
		{[]string{"120"}, exitOK, "wait     2 minutes (120 s)"},
		{[]string{"Sun,", "22", "Nov", "2099", "01:00:00", "GMT"}, exitOK, "2099-11-22 01:00:00"}, // a shell has split it
		{[]string{"-5"}, exitUsage, "a delay has no sign"},
		{[]string{"soon"}, exitUsage, `"soon" is no value of Retry-After: it is neither whole seconds`},
		{[]string{""}, exitUsage, "it is empty"},
		{nil, exitUsage, "name the header's value"},
	} {
		code, out, errs := weir(t, append([]string{"explain", "retry-after"}, c.args...)...)
		if code != c.want || !strings.Contains(out+errs, c.says) {
			t.Errorf("%q: exit %d, want %d: %s%s", c.args, code, c.want, out, errs)
		}
	}
}
