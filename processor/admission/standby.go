package admission

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/weirhq/weir/processor/stream"
)

// standby follows the partitions that this worker does not own, into the same
// states that a restore builds, by the same code. One goroutine owns the states;
// the stage gets those it needs, and gives them back, through exchange.
//
// It reads committed records only and belongs to no group, so it needs no
// generation and cannot be fenced: what it has is always a part of the log. It
// never decides, and what it has is checked when it is taken.
type standby struct {
	cfg    Config
	env    environment
	reader *stream.Reader
	parts  map[int32]*partition
	taken  map[int32]bool // by the stage
	spoilt map[int32]bool // with a record that cannot be read: the owner will say so
	said   bool           // that it has caught up, since the last exchange

	asks   chan ask
	cancel context.CancelFunc
	ended  chan struct{}
}

type ask struct {
	back  map[int32]*partition
	take  map[int32]bool
	reply chan map[int32]*partition
}

const (
	// standbyEvery is how far a standby may be behind, beside what a read takes.
	standbyEvery = 500 * time.Millisecond
	// standbyStall is how long it waits for one transaction: the others go on.
	standbyStall = 2 * time.Second
)

func startStandby(ctx context.Context, cfg Config, env environment) (*standby, error) {
	read := cfg.Read
	read.ClientID += "-standby"
	read.Stall = standbyStall
	reader, err := stream.OpenReader(read)
	if err != nil {
		return nil, err
	}
	b := &standby{
		cfg: cfg, env: env, reader: reader,
		parts: make(map[int32]*partition), taken: make(map[int32]bool), spoilt: make(map[int32]bool),
		asks: make(chan ask), ended: make(chan struct{}),
	}
	ctx, b.cancel = context.WithCancel(ctx)
	go b.run(ctx)
	return b, nil
}

// close ends following and drops the states.
func (b *standby) close() {
	b.cancel()
	<-b.ended
	b.reader.Close()
	for _, p := range b.parts {
		p.close()
	}
}

// exchange gives back states, none of which may have an open transaction, and
// takes those of the partitions in take, as far as they have come. From here
// those are not followed, and all others are. After the end it returns back.
func (b *standby) exchange(back map[int32]*partition, take map[int32]bool) map[int32]*partition {
	a := ask{back: back, take: take, reply: make(chan map[int32]*partition, 1)}
	select {
	case b.asks <- a:
		return <-a.reply
	case <-b.ended:
		return back
	}
}

func (b *standby) run(ctx context.Context) {
	defer close(b.ended)
	for ctx.Err() == nil {
		roundCtx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.round(roundCtx)
			select {
			case <-time.After(standbyEvery):
			case <-roundCtx.Done():
			}
		}()
		select {
		case <-done:
		case a := <-b.asks:
			cancel()
			<-done
			a.reply <- b.swap(a)
		}
		cancel()
	}
}

func (b *standby) swap(a ask) map[int32]*partition {
	b.taken = maps.Clone(a.take)
	clear(b.spoilt)
	b.said = false
	for n, p := range a.back {
		if old := b.parts[n]; old != nil {
			old.close() // the stage's own is ahead of what was read beside it
		}
		b.parts[n] = p
	}
	out := make(map[int32]*partition)
	for n := range a.take {
		if p := b.parts[n]; p != nil {
			out[n] = p
			delete(b.parts, n)
		}
	}
	return out
}

// round brings all followed states to where the logs are.
func (b *standby) round(ctx context.Context) {
	follow := make(map[int32]*partition)
	for n := range b.env.partitions {
		if b.taken[n] || b.spoilt[n] {
			continue
		}
		p := b.parts[n]
		if p != nil && p.log.tooOld(time.Now()) {
			p.close()
			p = nil
		}
		if p == nil {
			var err error
			if p, err = newPartition(n, b.env); err != nil {
				b.cfg.Logger.Error("standby cannot follow", "partition", n, "error", err)
				continue
			}
			b.parts[n] = p
		}
		follow[n] = p
	}
	records, anew, err := catchUpOrAnew(ctx, b.reader, follow)
	maps.Copy(b.parts, follow) // some may have begun anew
	for _, err := range anew {
		b.cfg.Logger.Warn("standby began anew", "error", err)
	}
	for n := range follow {
		if p := b.parts[n]; len(p.damaged) > 0 {
			p.close()
			delete(b.parts, n)
			b.spoilt[n] = true
		}
	}
	switch {
	case err == nil && !b.said && len(follow) > 0:
		b.said = true
		b.cfg.Logger.Info("standby has caught up", "partitions", len(follow), "records", records)
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, stream.ErrStalled): // the owner's transaction is long, or the owner died in it
		b.cfg.Logger.Debug("standby waits", "error", err)
	default:
		b.cfg.Logger.Warn("standby is behind", "error", err)
	}
}
