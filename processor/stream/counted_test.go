package stream

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestForeignIsLoggedNowAndThen: a flood of foreign records is one line in ten seconds, and
// each of them counts.
func TestForeignIsLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		f := ForeignRecords(reg, "delay")
		for i := range 1000 {
			f.Met(log, "foreign", "offset", i)
		}
		time.Sleep(foreignGap - time.Millisecond)
		f.Met(log, "foreign", "offset", 1000)
		if got := strings.Count(out.String(), "msg=foreign"); got != 1 || !strings.Contains(out.String(), "offset=0") {
			t.Fatalf("%d lines: %s", got, out.String())
		}
		time.Sleep(time.Millisecond)
		f.Met(log, "foreign", "offset", 1001)
		if got := strings.Count(out.String(), "msg=foreign"); got != 2 || !strings.Contains(out.String(), "offset=1001 left_out=1000") {
			t.Errorf("%d lines: %s", got, out.String())
		}
		all, err := reg.Gather()
		if err != nil || len(all) != 1 || all[0].GetMetric()[0].GetCounter().GetValue() != 1002 {
			t.Errorf("%v, %v", all, err)
		}
	})
}
