// Package warehouse opens Weir's database in ClickHouse, brings its tables to
// this version, and checks that it can hold what is loaded exactly once.
//
// It speaks ClickHouse's HTTP interface only. It inserts and queries nothing of
// Weir's data: the sink and ingest do.
package warehouse

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/pressly/goose/v3"

	schema "github.com/weirhq/weir/schemas/clickhouse"
)

// DefaultDatabase is used where the URL names none.
const DefaultDatabase = "weir"

// Parse reads http://[user[:password]@]host[:port][/database][?setting=value…].
// The port is 8123, or 8443 for https; the user is default. The settings user and password
// are the same as those before the host. An error never contains the password.
func Parse(raw string) (*clickhouse.Options, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("the ClickHouse URL cannot be read: it looks like http://user:password@127.0.0.1:8123/weir")
	}
	o := &clickhouse.Options{
		Protocol:    clickhouse.HTTP,
		Auth:        clickhouse.Auth{Database: DefaultDatabase, Username: "default"},
		Compression: &clickhouse.Compression{Method: clickhouse.CompressionLZ4},
		Settings:    clickhouse.Settings{},
		DialTimeout: 5 * time.Second,
		// No answer for so long means that the connection is dead, or the
		// server overwhelmed; either way it is asked again.
		ReadTimeout:     2 * time.Minute,
		MaxOpenConns:    16,
		MaxIdleConns:    8,
		ConnMaxLifetime: 10 * time.Minute,
		ClientInfo: clickhouse.ClientInfo{Products: []struct{ Name, Version string }{
			{Name: "weir", Version: "1"},
		}},
	}
	port := "8123"
	switch u.Scheme {
	case "http":
	case "https":
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
		port = "8443"
	default:
		return nil, fmt.Errorf("the ClickHouse URL begins with %q: Weir speaks the HTTP interface, such as http://127.0.0.1:8123", u.Scheme+"://")
	}
	if u.Hostname() == "" {
		return nil, errors.New("the ClickHouse URL names no host")
	}
	if p := u.Port(); p != "" {
		port = p
	}
	o.Addr = []string{net.JoinHostPort(u.Hostname(), port)}
	if db := strings.Trim(u.Path, "/"); db != "" {
		if strings.ContainsAny(db, "/`'\"\\") {
			return nil, fmt.Errorf("the ClickHouse URL's path %q is not one database name", u.Path)
		}
		o.Auth.Database = db
	}
	if u.User != nil {
		if name := u.User.Username(); name != "" {
			o.Auth.Username = name
		}
		o.Auth.Password, _ = u.User.Password()
	}
	for k, v := range u.Query() {
		switch last := v[len(v)-1]; k {
		case "user": // as ClickHouse's HTTP interface takes them; as settings they would be in the URL of each error
			o.Auth.Username = last
		case "password":
			o.Auth.Password = last
		default:
			o.Settings[k] = last
		}
	}
	return o, nil
}

// Open returns connections to the database that the URL names and asks the
// server for its version once. The database need not exist yet.
func Open(ctx context.Context, rawURL string) (driver.Conn, error) {
	o, err := Parse(rawURL)
	if err != nil {
		return nil, err
	}
	return open(ctx, o)
}

// OpenLater is Open without a question to the server, which may be away: each query
// connects where there is no connection. Its error is that of a URL that can never be
// right.
func OpenLater(rawURL string) (driver.Conn, error) {
	o, err := Parse(rawURL)
	if err != nil {
		return nil, err
	}
	conn, err := clickhouse.Open(o)
	if err != nil {
		return nil, fmt.Errorf("open ClickHouse at %s: %w", o.Addr[0], err)
	}
	return conn, nil
}

// OpenPatient is Open for statements whose answer may take hours.
func OpenPatient(ctx context.Context, rawURL string) (driver.Conn, error) {
	o, err := Parse(rawURL)
	if err != nil {
		return nil, err
	}
	o.ReadTimeout = stepWithin
	return open(ctx, o)
}

func open(ctx context.Context, o *clickhouse.Options) (driver.Conn, error) {
	conn, err := clickhouse.Open(o)
	if err != nil {
		return nil, fmt.Errorf("open ClickHouse at %s: %w", o.Addr[0], err)
	}
	if err := ping(ctx, o); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// ping asks without naming the database, which may be missing.
func ping(ctx context.Context, o *clickhouse.Options) error {
	plain := *o
	plain.Auth.Database = "default"
	conn, err := clickhouse.Open(&plain)
	if err != nil {
		return fmt.Errorf("open ClickHouse at %s: %w", o.Addr[0], err)
	}
	defer conn.Close()
	if err := conn.Ping(ctx); err != nil {
		return fmt.Errorf("ClickHouse at %s does not answer: %w", o.Addr[0], err)
	}
	return nil
}

// Migrate makes the database and brings its tables to this version. It may be
// called again at any time, also after it was interrupted, by several at once,
// and while rows are inserted, by a sink of a former version too.
func Migrate(ctx context.Context, rawURL string) error { return MigrateOn(ctx, rawURL, "") }

// MigrateOn is Migrate for a cluster of replicas, as schema.OnCluster renders it;
// the empty name is none.
func MigrateOn(ctx context.Context, rawURL, cluster string) error {
	return migrate(ctx, rawURL, cluster, func(ctx context.Context, p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	})
}

func migrate(ctx context.Context, rawURL, cluster string, step func(context.Context, *goose.Provider) error) error {
	o, err := Parse(rawURL)
	if err != nil {
		return err
	}
	plain := *o
	plain.Auth.Database = "default"
	conn, err := clickhouse.Open(&plain)
	if err != nil {
		return fmt.Errorf("open ClickHouse at %s: %w", o.Addr[0], err)
	}
	defer conn.Close()
	on := ""
	if cluster != "" {
		if err := schema.ValidCluster(cluster); err != nil {
			return err
		}
		on = " ON CLUSTER '" + cluster + "'"
	}
	if ready, err := prepared(ctx, conn, o.Auth.Database, cluster); err != nil {
		return err
	} else if !ready {
		for _, q := range preparation(o.Auth.Database, on) {
			if err := conn.Exec(ctx, q); err != nil {
				return fmt.Errorf("create database %s: %w", o.Auth.Database, err)
			}
		}
	}
	if cluster != "" {
		if o.Settings, err = onEveryReplica(ctx, conn, o); err != nil {
			return err
		}
	}
	provider, err := provider(o, cluster)
	if err != nil {
		return err
	}
	defer provider.Close()
	if err := step(ctx, provider); err != nil {
		return fmt.Errorf("migrate database %s: %w", o.Auth.Database, err)
	}
	return nil
}

// preparation is what is there before the first migration. On a cluster goose's
// own table is one for all replicas too: it would make one for each.
func preparation(database, on string) []string {
	q := []string{"CREATE DATABASE IF NOT EXISTS `" + database + "`" + on}
	if on != "" {
		q = append(q, "CREATE TABLE IF NOT EXISTS `"+database+"`."+versions+on+
			" (version_id Int64, is_applied UInt8, date Date DEFAULT now(), tstamp DateTime DEFAULT now()) ENGINE = ReplicatedMergeTree ORDER BY version_id")
	}
	return q
}

// prepared says whether preparation was carried out on a cluster already. What runs ON
// CLUSTER waits for every replica, and a sink must start while one is down.
func prepared(ctx context.Context, conn driver.Conn, database, cluster string) (bool, error) {
	if cluster == "" {
		return false, nil // it costs nothing, and who may not see others' tables may do without
	}
	var n uint64
	if err := conn.QueryRow(ctx, "SELECT count() FROM system.tables WHERE database = $1 AND name = $2", database, versions).Scan(&n); err != nil {
		return false, fmt.Errorf("look for database %s: %w", database, err)
	}
	return n > 0, nil
}

// onEveryReplica are the settings with which migrations insert: on a cluster a row of
// goose's table is there when every replica has it, since the next question may go to
// any, and a replica that does not know what was carried out would do it again.
func onEveryReplica(ctx context.Context, conn driver.Conn, o *clickhouse.Options) (clickhouse.Settings, error) {
	settings := maps.Clone(o.Settings)
	var replicas uint64
	if err := conn.QueryRow(ctx, "SELECT max(toUInt64(total_replicas)) FROM system.replicas WHERE database = $1 AND table = $2", o.Auth.Database, versions).Scan(&replicas); err != nil {
		return nil, fmt.Errorf("count the replicas of %s: %w", versions, err)
	}
	if replicas > 1 {
		settings["insert_quorum"] = replicas
		settings["insert_quorum_parallel"] = 1
	}
	return settings, nil
}

// stepWithin is for one statement of a migration: one that fills a table from
// another takes a while.
const stepWithin = 6 * time.Hour

func provider(o *clickhouse.Options, cluster string) (*goose.Provider, error) {
	all, err := schema.Render(cluster)
	if err != nil {
		return nil, err
	}
	dir, err := fs.Sub(all, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectClickHouse, clickhouse.OpenDB(&clickhouse.Options{
		Protocol: o.Protocol, Addr: o.Addr, Auth: o.Auth, TLS: o.TLS, Settings: o.Settings, Compression: o.Compression,
		DialTimeout: o.DialTimeout, ReadTimeout: stepWithin,
	}), dir)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, nil
}
