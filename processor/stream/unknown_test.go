package stream

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/schemas"
)

// TestUnknownFieldsAreBounded: names are counted once a transaction commits, no more
// than so many have a series, and each is logged once an hour.
func TestUnknownFieldsAreBounded(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1_800_000_000, 0)
	reg := prometheus.NewRegistry()
	u := NewUnknownFields(reg, "admission", slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	one, two := u.Open(), u.Open()
	at := schemas.Source{Topic: "weir.requests", Partition: 3, Offset: 7}
	two.Met([]string{"lost"}, at)
	two.Ended(false)
	for range 3 {
		one.Met([]string{"clas"}, at)
		one.Ended(true)
	}
	if n := strings.Count(log.String(), "field=clas nearest=class topic=weir.requests partition=3 offset=7"); n != 1 || strings.Contains(log.String(), "lost") {
		t.Errorf("%d lines:\n%s", n, &log)
	}
	now = now.Add(time.Hour)
	one.Met([]string{"clas"}, at)
	one.Ended(true)
	if n := strings.Count(log.String(), "field=clas"); n != 2 {
		t.Errorf("%d lines", n)
	}
	for i := range 1000 {
		one.Met([]string{fmt.Sprintf("f%d", i)}, at)
		if i%7 == 0 {
			one.Ended(true)
		}
	}
	one.Ended(true)
	families, err := reg.Gather()
	if err != nil || len(families) != 1 {
		t.Fatal(families, err)
	}
	total, series := 0.0, families[0].GetMetric()
	for _, m := range series {
		total += m.GetCounter().GetValue()
	}
	if len(series) > maxUnknownNames+1 || total != 1004 {
		t.Errorf("%d series, %v in all", len(series), total)
	}
}
