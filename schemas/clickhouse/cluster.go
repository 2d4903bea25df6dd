package clickhouse

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// Render returns the migrations as goose reads them, in a directory migrations:
// as they are for the empty cluster, and else with OnCluster.
func Render(cluster string) (fs.FS, error) {
	if cluster == "" {
		return files, nil
	}
	entries, err := files.ReadDir("migrations")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	// An archive in memory is a file system.
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		name := "migrations/" + e.Name()
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		rendered, err := OnCluster(string(text), cluster)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(rendered))
		}
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", name, err)
		}
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("render migrations: %w", err)
	}
	return zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
}

// ErrClusterName means that a name cannot be one of a cluster.
var ErrClusterName = errors.New("a ClickHouse cluster's name has letters, digits, _ . - and {macros}, at most 128")

var (
	clusterName = regexp.MustCompile(`^[A-Za-z0-9_.{}-]{1,128}$`)
	made        = regexp.MustCompile("(?m)^((?:CREATE (?:TABLE|VIEW|MATERIALIZED VIEW) IF NOT EXISTS|CREATE OR REPLACE VIEW|DROP (?:TABLE|VIEW) IF EXISTS|ALTER TABLE) (?:\\w+|`[^`]+`))")
	mergeTree   = regexp.MustCompile(`(?m)^(\) ENGINE = )(\w*MergeTree)\b`)
	window      = regexp.MustCompile(`\bnon_replicated_deduplication_window = (\d+)`)
	// What is carried out where it stands: data is copied by the tables themselves.
	asIs = regexp.MustCompile(`^(INSERT INTO|SELECT) `)
)

// ReplicatedSeconds is for how long replicated tables remember tokens. Their
// default was an hour in 25.10; a plan's life is minutes.
const ReplicatedSeconds = 7 * 24 * 60 * 60

// OnCluster renders a migration for a cluster: every object is made, altered and
// dropped ON CLUSTER, tables of the MergeTree family are Replicated (where the
// server's default_replica_path says), and remember as many tokens as they would
// without. A statement that it does not know is an error.
func OnCluster(sql, cluster string) (string, error) {
	if err := ValidCluster(cluster); err != nil {
		return "", err
	}
	for _, s := range Statements(sql) {
		if !made.MatchString(s) && !asIs.MatchString(s) {
			first, _, _ := strings.Cut(s, "\n")
			return "", fmt.Errorf("it is not known how this is done on a cluster: %s", first)
		}
	}
	sql = made.ReplaceAllString(sql, "$1 ON CLUSTER '"+cluster+"'")
	sql = mergeTree.ReplaceAllString(sql, "${1}Replicated$2")
	return window.ReplaceAllString(sql, fmt.Sprintf("replicated_deduplication_window = $1, replicated_deduplication_window_seconds = %d", ReplicatedSeconds)), nil
}

// ValidCluster says whether a cluster may be called so.
func ValidCluster(name string) error {
	if !clusterName.MatchString(name) {
		return fmt.Errorf("%w: %.200q", ErrClusterName, name)
	}
	return nil
}

// Statements are the statements of a migration, up and down, without comments.
func Statements(sql string) (all []string) {
	var lines []string
	for line := range strings.Lines(sql) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			lines = append(lines, line)
		}
	}
	for s := range strings.SplitSeq(strings.Join(lines, ""), ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all
}
