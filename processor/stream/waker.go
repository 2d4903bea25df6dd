package stream

import (
	"context"
	"sync"
	"time"
)

// Waker lets other goroutines end a worker's wait for records.
type Waker struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	woken  bool
}

// Wake makes the next Step run at once. It never blocks.
func (k *Waker) Wake() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.woken = true
	if k.cancel != nil {
		k.cancel()
	}
}

// arm returns a context that ends at Wake, or at once if Wake was called since
// the last arm.
func (k *Waker) arm(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cancel = cancel
	if k.woken {
		k.woken = false
		cancel()
	}
	return ctx, cancel
}

func (k *Waker) disarm() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cancel = nil
	k.woken = false
}
