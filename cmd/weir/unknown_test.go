package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/report"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
)

// TestUnknownFieldsAreReported: the fields of all stages of a process are reported, those
// of the most requests first, when there are more and at most every ten seconds.
func TestUnknownFieldsAreReported(t *testing.T) {
	streamtest.Simulated(t, func(t *testing.T, _ *kfake.Cluster, broker []kgo.Opt) {
		const topic = "weir.reports"
		cl := streamtest.Client(t, broker...)
		streamtest.Create(t, cl, topic)
		quiet := slog.New(slog.DiscardHandler)
		w, err := report.Watch(t.Context(), topic, quiet, broker...)
		if err != nil {
			t.Fatal(err)
		}
		streamtest.Run(t, w)
		reg := prometheus.NewRegistry()
		met := func(stage string, names ...string) {
			open := stream.NewUnknownFields(reg, stage, quiet, time.Now).Open()
			open.Met(names, schemas.Source{})
			open.Ended(true)
		}
		ended := make(chan error)
		go func() { ended <- reportUnknown(t.Context(), cl, topic, "3", reg, quiet) }()
		t.Cleanup(func() {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		last := func() schemas.Report { return w.Now()[schemas.ReportKeyUnknown("3")] }

		time.Sleep(time.Minute + 500*time.Millisecond) // between two looks
		if len(w.Now()) != 0 {
			t.Fatalf("reported though none was met: %+v", w.Now())
		}
		met("admission", "clas", "x")
		met("inputs", "clas")
		time.Sleep(13 * time.Second)
		first := last()
		if got, err := json.Marshal(first.Unknown); err != nil || !strings.HasSuffix(string(got), `"fields":[{"name":"clas","requests":2,"nearest":"class"},{"name":"x","requests":1}]}`) {
			t.Fatalf("%s, %v", got, err)
		}
		time.Sleep(time.Minute)
		if last().At != first.At {
			t.Error("reported again though no more were met")
		}
		for i := range 30 {
			met("admission", fmt.Sprintf("f%d", i))
			time.Sleep(time.Second)
		}
		time.Sleep(13 * time.Second)
		if got := last().Unknown.Fields; len(got) != schemas.MaxUnknownReported || got[0].Name != "clas" {
			t.Errorf("%+v", got)
		}
		extent, err := stream.Extents(t.Context(), stream.ReadConfig{Options: broker}, []stream.Partition{{Topic: topic}})
		if n := extent[stream.Partition{Topic: topic}].End; err != nil || n > 5 {
			t.Errorf("%d reports in 43 s and one before, %v", n, err)
		}
	})
}

// TestUnknownFieldsInATerminal: a report counts for a day, and what a name holds is shown
// and not carried out.
func TestUnknownFieldsInATerminal(t *testing.T) {
	at := func(at schemas.Millis, by, name string) schemas.Report {
		return schemas.Report{At: at, By: by, Unknown: &schemas.UnknownReport{Since: 1, Fields: []schemas.UnknownField{{Name: name, Requests: 7, Nearest: "class"}}}}
	}
	const now = schemas.Millis(86_400_000 + 2)
	all := unknownOf(map[string]schemas.Report{"unknown/10": at(now, "slot 10", "\x1b[2J\tclas"), "unknown/9": at(2, "slot 9", "clas"), "unknown/8": at(1, "slot 8", "old")}, now)
	var out strings.Builder
	printUnknown(&out, all)
	want := "\nUNKNOWN FIELD\tREQUESTS\tPERHAPS\tPROCESS, SINCE\n" +
		"\"clas\"\t7\t\"class\"\t\"slot 9\", 1970-01-01 00:00Z\n" +
		`"\x1b[2J\tclas"` + "\t7\t\"class\"\t\"slot 10\", 1970-01-01 00:00Z\n"
	if out.String() != want {
		t.Errorf("%s", &out)
	}
}
