package receipt

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/processor/history"
)

// Store knows which messages were handed to which provider (warehouse.History).
type Store interface {
	// Handed returns what it has of those asked for, of which there are at most
	// MostAsked.
	Handed(ctx context.Context, asked []history.Handed) (map[history.Handed][]history.Carried, error)
	// Ready reports whether it answers.
	Ready(ctx context.Context) error
}

// MostAsked is how many messages one question asks for.
const MostAsked = 1000

const (
	lookWithin = 2 * time.Second // for all questions of one transaction
	probeEvery = time.Second
)

// finder asks the store, while it answers. Once it did not, only the probe asks,
// beside the stage, until it does again: so an outage holds the stage up once, and
// for lookWithin at most.
type finder struct {
	store  Store // nil is none
	logger *slog.Logger
	away   atomic.Bool
}

// find returns what the store has of those asked for. answered has those that it
// was asked for and answered: of the others nothing is known.
func (f *finder) find(ctx context.Context, asked []history.Handed) (found map[history.Handed][]history.Carried, answered map[history.Handed]bool) {
	found, answered = make(map[history.Handed][]history.Carried), make(map[history.Handed]bool)
	if f.away.Load() {
		return found, answered
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	for len(asked) > 0 {
		now := asked[:min(MostAsked, len(asked))]
		asked = asked[len(now):]
		has, err := f.store.Handed(ctx, now)
		if err != nil {
			f.away.Store(true)
			f.logger.Warn("the store does not say whose receipts these are; those that need it wait, and none is lost", "error", brief(err))
			return found, answered
		}
		for _, h := range now {
			answered[h] = true
			if c, ok := has[h]; ok {
				found[h] = c
			}
		}
	}
	return found, answered
}

// brief is the beginning of an error's text: ClickHouse repeats the whole question in
// it, with a thousand ids.
func brief(err error) string {
	const most = 250
	text := err.Error()
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// probe asks a store that is away whether it is back, until ctx ends.
func (f *finder) probe(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !f.away.Load() {
			continue
		}
		askCtx, cancel := context.WithTimeout(ctx, lookWithin)
		err := f.store.Ready(askCtx)
		cancel()
		if err == nil && f.away.CompareAndSwap(true, false) {
			f.logger.Info("the store answers again: receipts are looked up")
		}
	}
}
