package warehouse

import (
	"context"

	"github.com/pressly/goose/v3"

	"github.com/weirhq/weir/processor/history"
	"github.com/weirhq/weir/schemas"
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

// Windows are the beginnings of the first n steps of a search, 0 where there is no
// bound; quick says of each whether the next looks further back.
func Windows(q history.Search, now schemas.Millis, quick ...bool) (out []schemas.Millis) {
	w := windowOf(q, now)
	for _, quick := range quick {
		out = append(out, w.from)
		w.back(quick)
	}
	return out
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
