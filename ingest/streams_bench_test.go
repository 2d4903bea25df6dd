//go:build unix

package ingest

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// BenchmarkStreams is what a second of traffic, 5,000 statuses in a hundred pieces,
// costs a server with so many streams open, from the feed to the connections'
// buffers: cpu-ms/s is milliseconds of a core for each such second.
func BenchmarkStreams(b *testing.B) {
	const second, piece = 5000, 50
	e := event(numbered(1), schemas.StatusSent, 1)
	e.Channel, e.Class, e.Provider, e.ProviderMessageID, e.To = "sms", "verify", "p", "0123456789", "+8613800000000"
	e.Decision = &schemas.Decision{Verdict: schemas.VerdictAdmit, Partition: 3, Seq: 17, T: t0, Revision: 4, Charges: []schemas.Charge{{Limit: "verify", Scope: e.To, T: t0, Cost: 1}}}
	value := schemas.AppendEvent(nil, e)
	for _, c := range []struct {
		name    string
		streams int
		query   string
		events  int // that each stream writes of a second; 0 where it sums them up
	}{{"1 stream", 1, "", second}, {"16 streams", 16, "", second}, {"16 streams summed up", 16, "?summary=1s", 0}} {
		b.Run(c.name, func(b *testing.B) {
			s := &Server{feed: newFeed(1, feedEvents, feedBytes), streams: streams{beat: time.Hour, within: streamWrite, byKey: make(map[string]int), byTenant: make(map[string]int)}}
			all := make([]discarding, c.streams)
			var wg sync.WaitGroup
			for i := range all {
				all[i].header = make(http.Header)
				wg.Go(func() {
					s.getEvents(&all[i], httptest.NewRequest("GET", "/v1/events"+c.query, nil), &caller{tenant: schemas.DefaultTenant})
				})
			}
			await := func(n int) {
				for i := range all {
					for all[i].events.Load() < int64(n) {
						time.Sleep(100 * time.Microsecond)
					}
				}
			}
			await(1) // each has said that it is there
			offset, seconds := int64(0), 0
			before := cpu()
			for b.Loop() {
				for range second / piece {
					for range piece {
						s.feed.add(0, offset, e, value)
						offset++
					}
					s.feed.wake()
				}
				seconds++
				await(1 + seconds*c.events)
			}
			s.feed.close()
			wg.Wait()
			b.ReportMetric(float64((cpu()-before).Microseconds())/1000/float64(seconds), "cpu-ms/s")
		})
	}
}

// cpu is the time that this process has had of all cores.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// discarding is a connection that takes everything, and counts what ends in a blank
// line.
type discarding struct {
	header http.Header
	events atomic.Int64
}

func (d *discarding) Header() http.Header { return d.header }
func (d *discarding) WriteHeader(int)     {}
func (d *discarding) Flush()              {}
func (d *discarding) Write(p []byte) (int, error) {
	d.events.Add(int64(bytes.Count(p, []byte("\n\n"))))
	return len(p), nil
}
