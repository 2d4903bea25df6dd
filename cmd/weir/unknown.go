package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/report"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// unknownEvery is how often a process looks whether it met more unknown fields.
const unknownEvery = 10 * time.Second

// reportUnknown writes to weir.reports which fields of requests over Kafka this process
// has met and does not know, when there are more, until ctx ends.
func reportUnknown(ctx context.Context, cl *kgo.Client, topic, slot string, reg prometheus.Registerer, logger *slog.Logger) error {
	tick := time.NewTicker(unknownEvery)
	defer tick.Stop()
	since := schemas.MillisOf(time.Now())
	var last map[string]int64
	for {
		if counts := stream.UnknownCounts(reg); !maps.Equal(counts, last) {
			within, cancel := context.WithTimeout(ctx, 5*time.Second)
			err := report.Write(within, cl, topic, schemas.ReportKeyUnknown(slot), schemas.Report{
				At: schemas.MillisOf(time.Now()), By: "slot " + slot, Unknown: &schemas.UnknownReport{Since: since, Fields: mostUnknown(counts)},
			})
			cancel()
			switch {
			case err == nil:
				last = counts
			case ctx.Err() == nil:
				logger.Warn("which fields of requests are unknown was not reported; trying again in 10 s", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// mostUnknown returns the fields of the most requests.
func mostUnknown(counts map[string]int64) []schemas.UnknownField {
	fields := make([]schemas.UnknownField, 0, len(counts))
	for name, n := range counts {
		fields = append(fields, schemas.UnknownField{Name: name, Requests: n, Nearest: schemas.NearestField(name)})
	}
	slices.SortFunc(fields, func(a, b schemas.UnknownField) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name))
	})
	return fields[:min(len(fields), schemas.MaxUnknownReported)]
}

// unknownOf returns the reports of unknown fields that count, by process.
func unknownOf(said map[string]schemas.Report, now schemas.Millis) []schemas.Report {
	out := []schemas.Report{}
	for _, r := range said {
		if len(r.UnknownAt(now)) > 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b schemas.Report) int {
		return cmp.Or(cmp.Compare(len(a.By), len(b.By)), cmp.Compare(a.By, b.By))
	})
	return out
}

// printUnknown prints names quoted: producers choose them.
func printUnknown(w io.Writer, all []schemas.Report) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w, "\nUNKNOWN FIELD\tREQUESTS\tPERHAPS\tPROCESS, SINCE")
	for _, r := range all {
		for _, f := range r.Unknown.Fields {
			nearest := "–"
			if f.Nearest != "" {
				nearest = strconv.QuoteToASCII(f.Nearest)
			}
			fmt.Fprintf(w, "%s\t%d\t%s\t%s, %s\n", strconv.QuoteToASCII(f.Name), f.Requests, nearest, strconv.QuoteToASCII(r.By), r.Unknown.Since.Time().UTC().Format("2006-01-02 15:04Z"))
		}
	}
}
