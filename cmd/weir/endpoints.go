package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// endpoints is where a running weir dev listens. It is written to the
// directory of weir dev, and the other commands read it there, so that they
// need no flags.
type endpoints struct {
	PID        int    `json:"pid"`
	HTTP       string `json:"http"`
	Kafka      string `json:"kafka"`
	ClickHouse string `json:"clickhouse,omitempty"` // URL
	Prefix     string `json:"prefix"`
	Partitions int    `json:"partitions"`
}

const (
	defaultDir    = ".weir"
	endpointsFile = "endpoints"
)

func (e *endpoints) write(dir string) error {
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return fmt.Errorf("encode endpoints: %w", err)
	}
	// For this user alone: the URL of a ClickHouse may have its password. By rename: another command never reads half of it.
	tmp := filepath.Join(dir, endpointsFile+".new")
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write endpoints: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, endpointsFile)); err != nil {
		return fmt.Errorf("write endpoints: %w", err)
	}
	return nil
}

// readEndpoints returns nil when no weir dev has written them.
func readEndpoints(dir string) (*endpoints, error) {
	b, err := os.ReadFile(filepath.Join(dir, endpointsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read endpoints: %w", err)
	}
	e := new(endpoints)
	if err := json.Unmarshal(b, e); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, endpointsFile), err)
	}
	return e, nil
}

// errDevStopped: what was meant is a weir dev, and not whatever has its default ports.
var errDevStopped = errors.New("weir dev of this directory is not running")

// answers is whether the weir dev that wrote this still runs: one that was killed left it.
func (e *endpoints) answers() bool {
	conn, err := net.DialTimeout("tcp", e.HTTP, 2*time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// hasRun is whether a weir dev has its data in a directory.
func hasRun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "broker"))
	return err == nil
}

// clientFlags are the settings flags of commands that talk to a running Weir:
// what a weir dev in the directory says are their defaults.
func clientFlags(fset *flag.FlagSet, getenv func(string) string) func() (*Settings, error) {
	dir := fset.String("dir", cmp.Or(getenv("WEIR_DIR"), defaultDir), "directory of a weir dev to talk to (environment WEIR_DIR)")
	base := defaultSettings()
	load := settingsFlags(fset, base, getenv)
	return func() (*Settings, error) {
		l, err := load()
		if err != nil {
			return nil, &usageError{err.Error()}
		}
		e, err := readEndpoints(*dir)
		if err != nil {
			return nil, err
		}
		if e == nil || !e.answers() {
			named := ""
			if getenv("WEIR_DIR") != "" {
				named = "WEIR_DIR"
			}
			fset.Visit(func(f *flag.Flag) {
				if f.Name == "dir" {
					named = "--dir"
				}
			})
			switch ran := e != nil || hasRun(*dir); {
			case l.from["kafka.brokers"] != "default" || l.from["http.listen"] != "default":
			case ran:
				return nil, fmt.Errorf("%w: directory %s; start it, or name a cluster with --kafka-brokers (kafka.brokers), for a command that speaks HTTP with --http-listen (http.listen)", errDevStopped, *dir)
			case named != "":
				return nil, &usageError{fmt.Sprintf("%s %s: no weir dev has run there", named, *dir)}
			}
			return &l.Settings, nil
		}
		fill := map[string]func(){
			"kafka.brokers":    func() { l.Brokers, l.Dev = []string{e.Kafka}, true },
			"kafka.prefix":     func() { l.Prefix = e.Prefix },
			"kafka.partitions": func() { l.Partitions = e.Partitions },
			"clickhouse.url":   func() { l.ClickHouse = e.ClickHouse },
			"http.listen":      func() { l.HTTP = e.HTTP },

			"callback.allow_private": func() { l.Private = devNetworks }, // as the weir dev does
			"provider.allow_private": func() { l.Providers = devNetworks },
		}
		for key, take := range fill {
			if l.from[key] == "default" {
				take()
			}
		}
		return &l.Settings, nil
	}
}
