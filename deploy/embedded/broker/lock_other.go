//go:build !unix

package broker

import (
	"context"
	"errors"
	"time"
)

func lock(context.Context, string, time.Duration) (func() error, error) {
	return nil, errors.New("the embedded broker needs a Unix system")
}
