//go:build !unix

package engine

import "context"

func lockFile(context.Context, string) (func(), error) { return nil, ErrUnsupported }
