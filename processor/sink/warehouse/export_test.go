package warehouse

import (
	"context"

	"github.com/pressly/goose/v3"
)

// MigrateTo brings a database up or down to a version.
func MigrateTo(ctx context.Context, rawURL string, version int64) error {
	return migrate(ctx, rawURL, "", func(ctx context.Context, p *goose.Provider) error {
		at, err := p.GetDBVersion(ctx)
		if err != nil {
			return err
		}
		if at > version {
			_, err = p.DownTo(ctx, version)
		} else {
			_, err = p.UpTo(ctx, version)
		}
		return err
	})
}

// TooOld says whether a server's version is refused.
var TooOld = tooOld

// Preparation is what MigrateOn runs before the migrations.
var Preparation = preparation

// Fit is fit for a table of which only that is known.
func Fit(name, engine, full string) error { return fit(table{name: name, engine: engine, full: full}) }

// Replicated is replicated for a table of which only that is known.
func Replicated(name, engine string) error { return replicated(table{name: name, engine: engine}) }

// Target is the target of a view with that statement.
func Target(create string) string { return target(table{create: create}) }
