package schemas

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"sync"
	"time"
)

// zoneinfo is the time zone database as Go distributes it (lib/time/zoneinfo.zip).
//
//go:embed zoneinfo.zip
var zoneinfo []byte

// ZonesVersion is the release of the IANA time zone database that Zone reads. Calendar
// windows and quiet hours depend on it, so it is part of a partition's state.
const ZonesVersion = "2025c"

var zoneFiles = sync.OnceValues(func() (*zip.Reader, error) {
	return zip.NewReader(bytes.NewReader(zoneinfo), int64(len(zoneinfo)))
})

var zones sync.Map // *time.Location by name

// Zone returns a time zone by its IANA name; "" is UTC. It reads the embedded database
// only, where time.LoadLocation prefers the files of the machine, which differ between
// machines and change while a process runs.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location), nil
	}
	files, err := zoneFiles()
	if err != nil {
		return nil, fmt.Errorf("the embedded time zones: %w", err)
	}
	f, err := files.Open(name)
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %q", name)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil { // a directory, such as "America"
		return nil, fmt.Errorf("unknown time zone %q", name)
	}
	zone, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: %w", name, err)
	}
	known, _ := zones.LoadOrStore(name, zone)
	return known.(*time.Location), nil
}
