package stream

import (
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	// fetchErrorGap is the least time between two lines of one kind of error.
	fetchErrorGap = 10 * time.Second
	// maxFetchErrors is how many kinds are told apart. What is in an error's text has
	// no bounds: the others are one kind.
	maxFetchErrors = 32
)

// FetchErrors keeps a log readable while fetches fail. An error that stays comes with
// every fetch, up to thousands of times a second: the first of its kind is logged, and
// then at most one in ten seconds, with how many were left out since the line before.
// It belongs to the goroutine that polls. Its zero value is ready.
type FetchErrors struct {
	kinds map[string]*fetchErrors
}

// fetchErrors are those of one kind.
type fetchErrors struct {
	quiet   time.Time // no line before
	leftOut int
}

// Warn logs an error of a fetch, or counts it.
func (f *FetchErrors) Warn(l *slog.Logger, message, topic string, partition int32, err error) {
	leftOut, say := f.take(kindOf(topic, err), time.Now())
	if !say {
		return
	}
	args := []any{"topic", topic, "partition", partition, "error", err}
	if leftOut > 0 {
		args = append(args, "left_out", leftOut)
	}
	l.Warn(message, args...)
}

// take reports whether an error is to be told, and how many of its kind were not.
func (f *FetchErrors) take(kind string, now time.Time) (leftOut int, say bool) {
	k := f.kinds[kind]
	if k == nil && len(f.kinds) >= maxFetchErrors {
		for old, k := range f.kinds {
			if !now.Before(k.quiet) { // it has not come since, or it would have been told
				delete(f.kinds, old)
			}
		}
		if len(f.kinds) >= maxFetchErrors {
			kind = ""
			k = f.kinds[kind]
		}
	}
	if k == nil {
		if f.kinds == nil {
			f.kinds = make(map[string]*fetchErrors)
		}
		k = new(fetchErrors)
		f.kinds[kind] = k
	}
	if now.Before(k.quiet) {
		k.leftOut++
		return 0, false
	}
	leftOut, k.leftOut, k.quiet = k.leftOut, 0, now.Add(fetchErrorGap)
	return leftOut, true
}

// kindOf is what an error has in common with those that come of the same trouble:
// not the partition, and not the port of a connection, which is another each time.
func kindOf(topic string, err error) string {
	if broker, ok := errors.AsType[*kerr.Error](err); ok {
		err = broker
	}
	for within := errors.Unwrap(err); within != nil; within = errors.Unwrap(within) {
		err = within
	}
	return topic + "\x1f" + err.Error()
}
