package main

import (
	"bytes"
	"testing"
	"time"
)

func TestAuditSaysWhatItCannotTell(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"audit", "--kafka-brokers", "127.0.0.1:1", "--dir", t.TempDir()}, exitUntold},
		{[]string{"audit", "--since", "yesterday"}, exitUsage},
	} {
		var out, errs bytes.Buffer
		if got := run(t.Context(), c.args, func(string) string { return "" }, &out, &errs); got != c.want || errs.Len() == 0 {
			t.Errorf("weir %v: exit %d, want %d: %s", c.args, got, c.want, errs.String())
		}
	}
}

func TestMoment(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000).UTC()
	for text, want := range map[string]time.Time{
		"7d": now.Add(-7 * 24 * time.Hour), "90m": now.Add(-90 * time.Minute), "2026-11-22T01:00:00Z": time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC),
	} {
		if got, err := moment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}
