package main

import (
	"fmt"
	"strings"
	"time"
)

// limit is one of the two that every system here is to keep: so many sendings in
// every rolling window, for all together or for each tenant.
type limit struct {
	name    string
	tenant  bool // a scope a tenant; else one scope for all
	windows []window
}

type window struct {
	n      int64
	length time.Duration
}

// limits are sized so that at 1,200 requests a second each refuses a share.
var limits = []limit{
	{"tenant", true, []window{{300, 5 * time.Second}, {900, 30 * time.Second}}},
	{"everyone", false, []window{{7_000, 5 * time.Second}, {24_000, 30 * time.Second}}},
}

// scope names what a tenant's message counts in.
func (l *limit) scope(tenant string) string {
	if l.tenant {
		return "tenant=" + tenant
	}
	return ""
}

func (w window) String() string { return fmt.Sprintf("%d/%ds", w.n, int(w.length.Seconds())) }

// allow is the windows as a policy writes them.
func (l *limit) allow() string {
	var all []string
	for _, w := range l.windows {
		all = append(all, w.String())
	}
	return strings.Join(all, ", ")
}
